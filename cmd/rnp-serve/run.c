/* run.c - rnp-serve run: the server. */
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/rnp-serve/server/access.h"
#include "cmd/rnp-serve/request/error.h"
#include "cmd/rnp-serve/commands.h"
#include "cmd/rnp-serve/server/ending.h"
#include "cmd/rnp-serve/options.h"
#include "cmd/rnp-serve/server/server.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/httpd/parts.h"
#include "common/lm/infer/chat.h"

#define QUEUE_DEFAULT 128
/* of memory, so that one request alone fails when there is none */
#define RESERVE_BYTES ((size_t)64 << 20)

#define CLIENT_CONNECTIONS_MAX  65536
#define CLIENT_CONNECTIONS_ROOM 2048 /* for other addresses */

static struct opt_list models, adapters, drafts;
static const char *listen_on = "127.0.0.1:8080", *port_file, *cert_file, *key_file,
		  *log_file;
static const char *tokenizer, *device, *chat_template, *cache_type, *type;
static int64_t threads, context, cache_bytes,
	streams = OPT_STREAMS_DEFAULT, queue = QUEUE_DEFAULT, speculate = LM_PROPOSED_MAX;
static int64_t drain_ms = 30000, idle_ms, memory_bytes;
static int64_t client_connections;
static const char *api_keys;
static const char *external_url, *proxy_header;
static struct opt_list hosts, origins, proxies;
static bool open_to_all, cache_shared;
static const char *pooling, *pack = "auto";

static const struct opt opts[] = {
	OPT(LIST, "model", &models, "[NAME=]M",
		"GGUF file, directory with safetensors, or llama2.c .bin; several"),
	OPT(TEXT, "listen", &listen_on, "ADDR",
		"HOST:PORT; port 0 is any free one (default 127.0.0.1:8080)"),
	OPT_PORT_FILE(&port_file),
	OPT_TOKENIZER(&tokenizer),
	OPT_DEVICE(&device),
	OPT_THREADS(&threads),
	OPT_TYPE(&type),
	OPT(TEXT, "chat-template", &chat_template, "F|NAME",
		"a Jinja file, or a format's name, instead of the models' own",
		.words = LM_CHAT_NAMES),
	OPT(LIST, "lora", &adapters, "[MODEL/]NAME=DIR",
		"a LoRA adapter of a model, of the first without MODEL; several"),
	OPT(LIST, "draft", &drafts, "[MODEL=]M",
		"a small model with the same tokens, which proposes them"),
	OPT_ENGINE(&context, &cache_bytes, &cache_type, &streams, &speculate, &pack),
	OPT_IN(I64, "queue", &queue, "N", 0, 100000,
		"answers that may wait; further requests get 429 (default 128)"),
	OPT(TEXT, "api-keys", &api_keys, "F",
		"the API keys, as lines that `rnp-serve key` makes"),
	OPT_SWITCH("open", &open_to_all, "without keys, be reached from other machines"),
	OPT(LIST, "host", &hosts, "NAME",
		"on loopback: another name that clients may call this host by"),
	OPT(LIST, "origin", &origins, "URL", "pages of this origin may ask (CORS)"),
	OPT_SWITCH("cache-shared", &cache_shared,
		"let all keys share one prefix cache; by its speed a key can guess what others asked"),
	OPT(CHOICE, "embeddings", &pooling, "last|mean",
		"of which rows embeddings are made (default: as the model says, else last)",
		.choices = "last|mean"),
	OPT(SIZE, "memory", &memory_bytes, "SIZE",
		"what all models may take together; idle ones make room for others",
		.min = 1),
	OPT(DURATION, "idle-unload", &idle_ms, "D",
		"unload a model that nobody used for so long; requests load it again"),
	OPT_IN(I64, "client-connections", &client_connections, "N", 1,
		CLIENT_CONNECTIONS_MAX,
		"connections of one address, such as a proxy's (default 512)"),
	OPT(DURATION, "drain", &drain_ms, "D",
		"after SIGTERM: how long answers may go on (default 30s)"),
	OPT_CERT(&cert_file),
	OPT_CERT_KEY(&key_file),
	OPT_LOG_FILE(&log_file),
	OPTS_PROXIED(&external_url, &proxies, &proxy_header),
	{ 0 },
};

/* --- models ------------------------------------------------------------------------------- */

static int check_name(struct server *s, const char *name)
{
	uint32_t found = 0;

	for (uint32_t i = 0; i < s->pool.count; i++) {
		const struct model_slot *m = &s->pool.at[i];

		found += strcmp(m->name, name) == 0;
		for (uint32_t k = 0; k < m->adapter_count; k++)
			found += strcmp(m->adapters[k].name, name) == 0;
	}
	return found < 2 ? 0 : err_set(EX_USAGE, "'%s' is named twice", name);
}

/* Finds the model that the first n bytes of an option name. */
static struct model_slot *find_model(struct server *s, const char *option, size_t n)
{
	for (uint32_t i = 0; i < s->pool.count; i++)
		if (strlen(s->pool.at[i].name) == n &&
			strncmp(s->pool.at[i].name, option, n) == 0)
			return &s->pool.at[i];
	return NULL;
}

/* Takes "[MODEL/]NAME=DIR". */
static int name_adapter(struct server *s, const char *option)
{
	const char *equals = strchr(option, '='), *name = option, *slash;
	struct model_slot *m = &s->pool.at[0];

	if (!equals)
		return err_set(EX_USAGE, "--lora: '%s' is not NAME=DIR", option);
	slash = memchr(option, '/', (size_t)(equals - option));
	if (slash) {
		name = slash + 1;
		m = find_model(s, option, (size_t)(slash - option));
		if (!m)
			return err_set(EX_USAGE, "--lora: there is no model '%.*s'",
				(int)(slash - option), option);
	}
	if (model_slot_adapt(m, name, (size_t)(equals - name), equals + 1) < 0)
		return -1;
	return check_name(s, m->adapters[m->adapter_count - 1].name);
}

/* Takes "[MODEL=]M"; a path may have an equals sign, too. */
static int name_draft(struct server *s, const char *option)
{
	const char *equals = strchr(option, '='), *path = option;
	struct model_slot *m = NULL;

	if (equals)
		m = find_model(s, option, (size_t)(equals - option));
	if (m)
		path = equals + 1;
	else
		m = &s->pool.at[0];
	if (m->draft_path)
		return err_set(EX_USAGE, "--draft: '%s' has two", m->name);
	m->draft_path = xstrdup(path);
	return 0;
}

/* Loads a model for the first time, so that a bad file is told at the start; it may be unloaded
 * at once to make room for the next one. */
static int open_model(struct server *s, struct model_slot *m)
{
	struct buf advice = BUF_INIT;
	json_t *plan;
	int rc;

	if (model_pool_load(&s->pool, m) < 0)
		return -1;
	plan = model_slot_plan(m);
	rc = out_record(plan);
	json_decref(plan);
	if (model_slot_advice(m, &advice))
		prog_warn("model '%s': %s", m->name, buf_text(&advice));
	buf_release(&advice);
	return rc;
}

/* Names the models, their adapters and drafts. */
static int name_models(struct server *s)
{
	struct model_slot_options o = { .tokenizer = tokenizer,
		.device = device,
		.type = type,
		.template = chat_template,
		.context = (uint32_t)context,
		.streams = (uint32_t)streams,
		.queue = (uint32_t)queue,
		.speculate = (uint32_t)speculate,
		.packs = strcmp(pack, "auto") == 0,
		.cache_bytes = cache_bytes,
		.outbox = s->outbox,
		.pooling = !pooling                  ? LM_POOLING_UNSAID :
			strcmp(pooling, "mean") == 0 ? LM_POOLING_MEAN :
						       LM_POOLING_LAST };

	if (cache_type && lm_cache_type_find(&o.cache, cache_type) < 0)
		return -1;
	model_pool_init(&s->pool, (uint32_t)models.n, &o, idle_ms * 1000000,
		(uint64_t)memory_bytes);
	for (int i = 0; i < models.n; i++) {
		struct model_slot *m = &s->pool.at[i];

		s->pool.count = (uint32_t)i + 1;
		if (model_slot_name(m, models.items[i]) < 0 || check_name(s, m->name) < 0)
			return -1;
	}
	for (int i = 0; i < adapters.n; i++)
		if (name_adapter(s, adapters.items[i]) < 0)
			return -1;
	if (drafts.n && !speculate)
		return err_set(EX_USAGE, "--draft has no use with --speculate 0");
	for (int i = 0; i < drafts.n; i++)
		if (name_draft(s, drafts.items[i]) < 0)
			return -1;
	return 0;
}

static int open_models(struct server *s)
{
	for (uint32_t i = 0; i < s->pool.count; i++)
		if (open_model(s, &s->pool.at[i]) < 0)
			return -1;
	return out_flush();
}

/* --- who may ask -------------------------------------------------------------------------- */

static int open_access(struct server *s)
{
	s->loopback = httpd_listens_alone(listen_on);
	s->hosts = hosts.items;
	s->host_count = hosts.n;
	s->origins = origins.items;
	s->origin_count = origins.n;
	s->cache_shared = cache_shared;
	if (access_check_names(s) < 0)
		return -1;
	if (api_keys)
		return keys_open(&s->keys, api_keys);
	if (s->loopback || open_to_all)
		return 0;
	err_set(EX_USAGE, "--listen %s is reached from other machines: who may ask?",
		listen_on);
	return err_hint("name a file of keys with --api-keys, or say --open");
}

static void tick(void *ctx)
{
	struct server *s = ctx;

	(void)mem_is_short(); /* fills the reserve up */
	model_pool_unload_idle(&s->pool);
	if (s->keys.path && keys_refresh(&s->keys) < 0) {
		prog_error("%s: the keys stay as they are", err_get()->text);
		err_clear();
	}
}

/* --- the server --------------------------------------------------------------------------- */

/* Lets requests in progress continue for a while. */
static void drain(struct server *s)
{
	int64_t until = clock_mono_ns() + drain_ms * 1000000;

	atomic_store(&s->draining, true);
	for (;;) {
		if (!writer_live(s->writer) || clock_mono_ns() >= until)
			return;
		nanosleep(&(struct timespec){ .tv_nsec = 20000000 }, NULL);
	}
}

static int serve(struct server *s)
{
	const struct httpd_config config = {
		.listen = listen_on,
		.cert_file = cert_file,
		.key_file = key_file,
		.log_file = log_file,
		.external_url = external_url,
		.trusted_proxies = proxies.items,
		.ntrusted = proxies.n,
		.proxy_header = proxy_header,
		.per_client_max = (int)client_connections,
		/* 0 where the server's own limit, 4096, leaves room for others */
		.connections_max = client_connections > CLIENT_CONNECTIONS_ROOM ?
			(int)client_connections + CLIENT_CONNECTIONS_ROOM :
			0,
		.log_off = prog_quiet() && !log_file,
		.routes = server_routes,
		.ctx = s,
		.metrics = server_metrics,
		.error = api_error_render,
		.no_such_path =
			"there is nothing at this path: the API begins with /v1, and GET /openapi.json describes it",
	};
	struct err why;
	struct buf url = BUF_INIT;
	struct httpd *h;
	int rc;

	/* it listens while models are loaded, and says so to who asks; the port's file is there
	 * when they are */
	atomic_store(&s->loading, true);
	h = httpd_start(&config);
	if (!h)
		return -1;
	rc = ending_watch(h);
	if (rc == 0)
		rc = open_models(s);
	ending_loaded();
	if (rc == 0) {
		/* before: whoever sees the file asks at once, while a slow disk still flushes its
		 * folder */
		atomic_store(&s->loading, false);
		rc = httpd_write_port(port_file, httpd_port(h));
	}
	err_save(&why);
	if (rc == 0) {
		httpd_url(&url, h);
		prog_info("%s is the chat page, %sv1 OpenAI's API", url.data, url.data);
		buf_release(&url);
		httpd_wait(h, tick);
		drain(s);
		ending_limit();
	}
	httpd_stop(h);
	if (rc < 0)
		err_restore(&why);
	return rc;
}

static int run(int n, char **args)
{
	struct server s = { .started_s = clock_now_ms() / 1000 };
	int rc = -1;

	for (int i = 0; i < n; i++)
		opt_list_add(&models, args[i]);
	if (!models.n)
		return err_set(EX_USAGE, "a model is needed: rnp-serve run MODEL"),
		       err_report();
	/* before any thread is started, so that all threads inherit the mask */
	httpd_block_signals();
	team_resize((int)threads);
	mem_reserve(RESERVE_BYTES);
	json_set_alloc_funcs(xmalloc, free);
	/* what is large, such as a body, goes back to the system at once; else the C library raises
	 * this with each of them, and each thread keeps one */
	mallopt(M_MMAP_THRESHOLD, 1 << 20);
	s.outbox = lm_events_new();
	if (open_access(&s) == 0 && name_models(&s) == 0) {
		s.writer = writer_open(s.outbox);
		rc = s.writer ? serve(&s) : -1;
	}
	/* stop the engines first: afterwards there are no more events */
	writer_hold(s.writer);
	for (uint32_t i = 0; i < s.pool.count; i++)
		lm_service_close(s.pool.at[i].service), s.pool.at[i].service = NULL;
	writer_close(s.writer);
	model_pool_release(&s.pool);
	lm_events_free(s.outbox);
	keys_release(&s.keys);
	opt_list_release(&models);
	opt_list_release(&adapters);
	opt_list_release(&drafts);
	opt_list_release(&hosts);
	opt_list_release(&origins);
	opt_list_release(&proxies);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_run = {
	.name = "run",
	.arguments = "[[NAME=]MODEL ...]",
	.args_max = -1,
	.summary = "Serve models over HTTP as OpenAI's API.",
	.details =
		"Writes one rnp.plan record for each model, then answers until SIGTERM or SIGINT: no new\n"
		"requests are taken then, and those in progress may end.",
	.columns = "model,device,parameters,context,streams,total_bytes,fits",
	.opts = opts,
	.run = run,
};
