/* slot.c - loads the models of a server and sizes their caches. */
#include "cmd/rnp-serve/model/slot.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/human.h"
#include "common/hw/device.h"
#include "common/hw/hw.h"
#include "common/json/json.h"
#include "kernels/lm/ops.h"

#define NAME_MAX_BYTES 128
/* The longest that a step should take; 3/4 of it where other streams wait for it, since 80 ms still
 * made them pause for up to 167 ms beside a prompt of 8,000 tokens (tests/bench/serve_stall), and
 * three times as long where none does. */
#define STEP_NS  80000000
#define ROWS_CPU 256 /* rows of prompts in a step */
#define ROWS_GPU 2048

/* What is found of the cache's memory before it is needed: two long prompts, unless they are
 * large. */
#define AHEAD_TOKENS 4096
#define AHEAD_BYTES  (UINT64_C(256) << 20)

static bool is_name(const char *text, size_t len)
{
	if (!len || len > NAME_MAX_BYTES)
		return false;
	for (size_t i = 0; i < len; i++)
		if ((unsigned char)text[i] <= ' ' || (unsigned char)text[i] >= 0x7f ||
			strchr("\"\\/", text[i]))
			return false;
	return true;
}

int model_slot_name(struct model_slot *m, const char *option)
{
	const char *equals = strchr(option, '='), *slash, *dot;
	char *path;
	size_t len;

	*m = (struct model_slot){ .handles = MODEL_HANDLES_INIT,
		.lock = PTHREAD_MUTEX_INITIALIZER };
	if (equals && is_name(option, (size_t)(equals - option))) {
		m->name = xstrndup(option, (size_t)(equals - option));
		m->path = xstrdup(equals + 1);
		return 0;
	}
	path = m->path = xstrdup(option);
	len = strlen(path);
	while (len > 1 && path[len - 1] == '/')
		path[--len] = '\0';
	slash = strrchr(path, '/');
	slash = slash ? slash + 1 : path;
	dot = strrchr(slash, '.');
	len = dot && dot > slash ? (size_t)(dot - slash) : strlen(slash);
	if (!is_name(slash, len))
		return err_set(EX_USAGE, "--model: '%s' gives no name: use NAME=%s",
			option, option);
	m->name = xstrndup(slash, len);
	return 0;
}

int model_slot_adapt(struct model_slot *m, const char *name, size_t name_bytes,
	const char *dir)
{
	if (!is_name(name, name_bytes) || !*dir)
		return err_set(EX_USAGE, "--lora: '%.*s=%s' is not NAME=DIR",
			(int)name_bytes, name, dir);
	m->adapters = xrealloc(m->adapters,
		((size_t)m->adapter_count + 1) * sizeof *m->adapters);
	m->adapters[m->adapter_count++] = (struct model_slot_adapter){
		.name = xstrndup(name, name_bytes),
		.dir = xstrdup(dir)
	};
	return 0;
}

bool model_slot_is(const struct model_slot *m, const char *name, uint32_t *adapter)
{
	*adapter = 0;
	if (strcmp(m->name, name) == 0)
		return true;
	for (uint32_t i = 0; i < m->adapter_count; i++)
		if (strcmp(m->adapters[i].name, name) == 0) {
			*adapter = i + 1;
			return true;
		}
	return false;
}

int model_slot_check_names(const struct model_slot *m)
{
	uint32_t found;

	for (uint32_t i = 0; i < m->adapter_count; i++) {
		model_slot_is(m, m->adapters[i].name, &found);
		if (found != i + 1)
			return err_set(EX_USAGE, "'%s' is named twice",
				m->adapters[i].name);
	}
	return 0;
}

static int load_adapters(struct model_slot *m)
{
	for (uint32_t i = 0; i < m->adapter_count; i++)
		if (lm_weights_adapt(m->handles.weights, m->adapters[i].dir) < 0)
			return -1;
	m->adapters_bytes = lm_weights_adapter_bytes(m->handles.weights);
	return 0;
}

/* Whether the tokens of two models are the same, one by one. */
static bool same_tokens(const struct lm_token *a, const struct lm_token *b)
{
	struct buf x = BUF_INIT, y = BUF_INIT;
	uint32_t n = lm_token_count(a);
	bool same = n == lm_token_count(b);

	for (uint32_t id = 0; id < n && same; id++) {
		buf_reset(&x);
		buf_reset(&y);
		lm_token_piece(a, &x, id, false, true);
		lm_token_piece(b, &y, id, false, true);
		same = x.len == y.len && memcmp(buf_text(&x), buf_text(&y), x.len) == 0;
	}
	buf_release(&x);
	buf_release(&y);
	return same;
}

/* Opens the draft model, which must have the model's tokens. */
static int open_draft(struct model_slot *m, const struct model_slot_options *o)
{
	const struct lm_config *c = model_file_config(m->handles.model_file), *small;
	struct lm_token *token = NULL;
	const char *path;
	int rc = -1;

	if (!m->draft_path)
		return 0;
	if (model_file_open(&m->draft_file, m->draft_path) < 0)
		return -1;
	small = model_file_config(m->draft_file);
	path = model_file_tokenizer(m->draft_file);
	if (!path)
		path = o->tokenizer;
	if (path && lm_token_open(&token, path, small->vocab) < 0)
		return -1;
	if (small->vocab != c->vocab || !token || !same_tokens(token, m->handles.token))
		err_set(EX_DATAERR, "--draft: '%s' has other tokens than '%s'",
			m->draft_path, m->path);
	else
		rc = 0;
	lm_token_close(token);
	return rc;
}

static void unload_draft(struct model_slot *m)
{
	lm_weights_close(m->draft);
	m->draft = NULL;
	model_file_close(m->draft_file);
	m->draft_file = NULL;
	m->draft_bytes = 0;
}

static void find_ends(struct model_slot *m)
{
	uint32_t vocab = model_file_config(m->handles.model_file)->vocab;

	m->ends = xcalloc((size_t)vocab + 1, sizeof *m->ends);
	for (uint32_t id = 0; id < vocab; id++)
		if (model_handles_ends(&m->handles, id))
			m->ends[m->ends_count++] = id;
}

/* Returns what is free of the device's memory, before it has anything of the model. */
static uint64_t available(const struct model_slot *m)
{
	struct dev *d = (struct dev *)&m->handles.d;
	uint64_t bytes = 0;

	/* the copies of quantised weights are part of what the model takes */
	if (d->is_host)
		return (uint64_t)hw_available_read() +
			model_file_memory(m->handles.model_file);
	return d->ops->mem_free(d, &bytes) < 0 ? 0 : bytes;
}

struct lm_engine_limits model_slot_limits(const struct dev *d, uint32_t context,
	uint32_t streams, enum lm_cache_type cache)
{
	uint64_t pages = (uint64_t)lm_cache_pages(context) * streams;

	if (pages > UINT32_MAX / LM_PAGE)
		pages = UINT32_MAX / LM_PAGE;
	return (struct lm_engine_limits){ .pages = (uint32_t)pages,
		.streams = streams,
		.rows = d->is_host ? ROWS_CPU : ROWS_GPU,
		.context = context,
		.logits = d->is_host ? LM_LOGITS : LM_LOGITS_MAX,
		.cache = cache };
}

int model_slot_work(struct dev *d, uint64_t *bytes)
{
	*bytes = 0;
	if (d->is_host)
		return 0;
	return d->ops->lm->prepare(d, bytes) < 0 ? device_failed(d) : 0;
}

/* Adds the sizes of a model's tensors: matrices as in the file, vectors as f32. */
static void count_tensors(const struct model_file *f, uint64_t *matrices,
	uint64_t *vectors)
{
	for (uint32_t i = 0; i < lm_layout_count(model_file_config(f)); i++) {
		const struct lm_tensor *t = model_file_tensor(f, i);

		if (t->dims == 1)
			*vectors += 4 * t->count;
		else
			*matrices += t->bytes;
	}
}

uint64_t model_slot_bytes(const struct model_slot *m)
{
	return m->weights_bytes + m->adapters_bytes + m->draft_bytes + m->tables_bytes +
		m->cache_bytes + m->work_bytes;
}

/* Counts what the limits ask for, besides adapters. */
static int count_bytes(struct model_slot *m)
{
	const struct lm_config *c = model_file_config(m->handles.model_file);
	uint64_t rope, kernels;

	m->weights_bytes = m->tables_bytes = m->draft_bytes = 0;
	count_tensors(m->handles.model_file, &m->weights_bytes, &m->tables_bytes);
	lm_engine_bytes(c, &m->limits, &m->cache_bytes, &rope, &m->work_bytes);
	m->tables_bytes += rope;
	if (m->draft_file) {
		count_tensors(m->draft_file, &m->draft_bytes, &m->draft_bytes);
		m->draft_bytes += lm_engine_draft_bytes(model_file_config(m->draft_file),
			&m->limits);
	}
	if (model_slot_work(&m->handles.d, &kernels) < 0)
		return -1;
	m->work_bytes += kernels;
	return 0;
}

/* Returns the most that a cache takes of its own accord beside what else the model takes: half of
 * the free memory of a host, as others use it, too; of a GPU half of what is left, or nearly all of
 * it where there is no other model. */
static uint64_t cache_most(const struct model_slot *m, bool alone, uint64_t others)
{
	uint64_t rest = m->available_bytes > others ? m->available_bytes - others : 0;

	if (m->handles.d.is_host)
		return m->available_bytes / 2;
	return alone ? rest / 16 * 15 : rest / 2;
}

/* Returns the bytes of a page of the cache, and of that of the draft model, which has as many. */
static uint64_t page_bytes(const struct model_slot *m, enum lm_cache_type type)
{
	uint64_t bytes = lm_cache_page_bytes(model_file_config(m->handles.model_file),
		type);

	if (m->draft_file)
		bytes += lm_cache_page_bytes(model_file_config(m->draft_file), type);
	return bytes;
}

/* Sets the number of cache pages: as requested, else whole contexts for all streams, or as many as
 * there is room for. */
static int size_cache(struct model_slot *m, const struct model_slot_options *o)
{
	uint64_t own = lm_cache_page_bytes(model_file_config(m->handles.model_file),
		o->cache);
	uint64_t page = page_bytes(m, o->cache), pages;

	m->limits = model_slot_limits(&m->handles.d, m->context, o->streams, o->cache);
	m->limits.check = getenv("RNP_SERVE_CHECK") != NULL;
	if (count_bytes(m) < 0)
		return -1;
	pages = m->limits.pages;
	m->pages_cut = m->pages_q8 = 0;
	if (o->cache_bytes) {
		pages = (uint64_t)o->cache_bytes / own;
	} else if (m->available_bytes) {
		uint64_t most = cache_most(m, o->alone,
			model_slot_bytes(m) - pages * page);

		if (pages > most / page) {
			m->pages_cut = (uint32_t)pages;
			m->pages_q8 = most / page_bytes(m, LM_CACHE_Q8_0);
			pages = most / page;
		}
	}
	if (pages > UINT32_MAX / LM_PAGE)
		pages = UINT32_MAX / LM_PAGE;
	if (pages < 2 && o->cache_bytes)
		return err_set(EX_USAGE, "%s: a cache needs at least %llu bytes", m->path,
			(unsigned long long)(2 * own));
	if (pages < (o->others_idle ? lm_cache_pages(m->context) : 2) && m->pages_cut)
		return err_set(EX_TEMPFAIL,
			"%s: beside its weights too little is free for a cache: %llu of %llu bytes",
			m->path, (unsigned long long)m->available_bytes,
			(unsigned long long)model_slot_bytes(m));
	m->limits.pages = (uint32_t)pages;
	return count_bytes(m);
}

bool model_slot_advice(const struct model_slot *m, struct buf *out)
{
	if (!m->pages_cut || m->limits.cache == LM_CACHE_Q8_0 ||
		m->pages_q8 < m->pages_cut ||
		model_file_config(m->handles.model_file)->head_dim % 32)
		return false;
	buf_addf(out,
		"the cache has room for %llu tokens, not for %u texts of %u: --cache-type q8_0 has it for all",
		(unsigned long long)m->limits.pages * LM_PAGE, m->limits.streams,
		m->context);
	return true;
}

/* A model with an invalid template is not served. */
static int open_chat(struct model_slot *m, const char *template)
{
	if (model_handles_chat(&m->handles, m->path, template, &m->chat) < 0)
		return -1;
	call_format_learn(&m->calls, m->chat, m->handles.token);
	return 0;
}

static int check_room(const struct model_slot *m, const struct model_slot_options *o)
{
	struct buf needs = BUF_INIT, there = BUF_INIT;
	uint64_t room = o->room_bytes;

	if (m->available_bytes && m->available_bytes < room)
		room = m->available_bytes;
	if (model_slot_bytes(m) <= room)
		return 0;
	human_bytes(&needs, (double)model_slot_bytes(m));
	human_bytes(&there, (double)room);
	err_set(EX_TEMPFAIL,
		"%s: needs %s of memory, and %s is free; less --context, --streams or "
		"--cache, or --type q8_0, take less",
		m->path, needs.data, there.data);
	buf_release(&needs);
	buf_release(&there);
	return -1;
}

/* Pages of a file can be dropped where memory is short, packed weights cannot. */
static bool may_pack(const struct model_slot *m)
{
	return model_slot_bytes(m) <= m->available_bytes / 8 * 7;
}

/* Memory for the next prompts is found before they come, where there is enough. */
static uint32_t pages_ahead(const struct model_slot *m)
{
	uint64_t page = m->cache_bytes / m->limits.pages;
	uint64_t most = AHEAD_BYTES / page, pages = lm_cache_pages(AHEAD_TOKENS);

	if (!may_pack(m))
		return 0;
	return (uint32_t)(pages < most ? pages : most);
}

/* Opens the files and sizes the cache; nothing large is in memory yet. */
static int open_files(struct model_slot *m, const struct model_slot_options *o)
{
	enum lm_pooling pooling = o->pooling;
	uint32_t context;

	if (model_handles_open(&m->handles, m->path, o->tokenizer, o->device, o->type) <
			0 ||
		open_draft(m, o) < 0)
		return -1;
	m->available_bytes = available(m);
	if (o->pooling == LM_POOLING_UNSAID &&
		lm_pooling_read(&pooling, m->handles.model_file, m->path) < 0)
		return -1;
	m->pools_mean = pooling == LM_POOLING_MEAN;
	m->speculate = o->speculate;
	context = o->context ? o->context :
			       model_file_config(m->handles.model_file)->context;
	if (context < 2)
		return err_set(EX_USAGE, "%s: a context of %u tokens", m->path, context);
	model_handles_check_context(m->handles.model_file, m->path, context);
	find_ends(m);
	if (open_chat(m, o->template) < 0)
		return -1;
	lm_chat_limit(m->chat, context);
	/* others may read it while a model is loaded again */
	if (m->context != context)
		m->context = context;
	return size_cache(m, o);
}

/* A model that does not fit is refused before its weights are read, and after its adapters are,
 * whose size is not known before. */
static int load_weights(struct model_slot *m, const struct model_slot_options *o)
{
	if (o->must_fit && check_room(m, o) < 0)
		return -1;
	if (model_handles_weights(&m->handles) < 0 || load_adapters(m) < 0 ||
		(m->draft_file &&
			lm_weights_open(&m->draft, &m->handles.d, m->draft_file) < 0))
		return -1;
	return m->adapter_count && o->must_fit ? check_room(m, o) : 0;
}

static int load(struct model_slot *m, const struct model_slot_options *o)
{
	struct lm_service_config config;

	if (open_files(m, o) < 0 || load_weights(m, o) < 0)
		return -1;
	config = (struct lm_service_config){ .limits = m->limits,
		.queue = o->queue,
		.step_ns = STEP_NS,
		.pages_ahead = pages_ahead(m),
		.ends = m->ends,
		.ends_count = m->ends_count,
		.outbox = o->outbox,
		.draft = m->draft };
	m->queue = o->queue;
	if (o->packs && may_pack(m)) {
		lm_weights_pack(m->handles.weights);
		if (m->draft)
			lm_weights_pack(m->draft);
	}
	return lm_service_open(&m->service, m->handles.weights, &config);
}

int model_slot_load(struct model_slot *m, const struct model_slot_options *o)
{
	struct err why;

	if (load(m, o) == 0)
		return 0;
	err_save(&why);
	model_slot_unload(m);
	return err_restore(&why);
}

/* Adds the counters; what is a state of now stays that of now. */
static void add_counts(struct lm_service_counts *to, const struct lm_service_counts *c)
{
	to->step_ns += c->step_ns;
	to->engine.steps += c->engine.steps;
	to->engine.rows += c->engine.rows;
	to->engine.generated += c->engine.generated;
	to->engine.prompt += c->engine.prompt;
	to->engine.cached += c->engine.cached;
	to->engine.preempted += c->engine.preempted;
	to->engine.proposed += c->engine.proposed;
	to->engine.accepted += c->engine.accepted;
}

void model_slot_count(struct model_slot *m, struct lm_service_counts *out)
{
	*out = (struct lm_service_counts){ 0 };
	if (m->service)
		lm_service_count(m->service, out);
	add_counts(out, &m->past);
}

void model_slot_unload(struct model_slot *m)
{
	struct lm_service_counts counts;

	if (m->service) {
		lm_service_count(m->service, &counts);
		add_counts(&m->past, &counts);
	}
	lm_service_close(m->service);
	m->service = NULL;
	call_format_release(&m->calls);
	lm_chat_close(m->chat);
	m->chat = NULL;
	lm_vocabulary_free(m->vocabulary);
	m->vocabulary = NULL;
	unload_draft(m);
	model_handles_release(&m->handles);
	m->handles = (struct model_handles)MODEL_HANDLES_INIT;
	free(m->ends);
	m->ends = NULL;
	m->ends_count = 0;
	m->weights_bytes = m->tables_bytes = m->cache_bytes = m->work_bytes = 0;
	m->adapters_bytes = 0;
	m->state = MODEL_SLOT_UNLOADED;
}

void model_slot_release(struct model_slot *m)
{
	model_slot_unload(m);
	while (m->adapter_count) {
		struct model_slot_adapter *a = &m->adapters[--m->adapter_count];

		free(a->name);
		free(a->dir);
	}
	free(m->adapters);
	free(m->draft_path);
	free(m->name);
	free(m->path);
	*m = (struct model_slot){ .handles = MODEL_HANDLES_INIT };
}

static struct lm_vocabulary *make_vocabulary(const struct model_slot *m)
{
	uint32_t vocab = model_file_config(m->handles.model_file)->vocab;
	struct lm_vocabulary_token *tokens = xcalloc((size_t)vocab + 1, sizeof *tokens);
	size_t *at = xcalloc((size_t)vocab + 1, sizeof *at);
	struct buf texts = BUF_INIT;
	struct lm_vocabulary *v;

	for (uint32_t id = 0; id < vocab; id++) {
		at[id] = texts.len;
		if (id < lm_token_count(m->handles.token))
			lm_token_piece(m->handles.token, &texts, id, false, false);
		tokens[id].len = texts.len - at[id];
	}
	for (uint32_t id = 0; id < vocab; id++)
		tokens[id].text = buf_text(&texts) + at[id];
	for (uint32_t i = 0; i < m->ends_count; i++)
		tokens[m->ends[i]].ends = true;
	v = lm_vocabulary_new(tokens, vocab);
	free(tokens);
	free(at);
	buf_release(&texts);
	return v;
}

const struct lm_vocabulary *model_slot_vocabulary(struct model_slot *m)
{
	const struct lm_vocabulary *v;

	pthread_mutex_lock(&m->lock);
	if (!m->vocabulary)
		m->vocabulary = make_vocabulary(m);
	v = m->vocabulary;
	pthread_mutex_unlock(&m->lock);
	return v;
}

json_t *model_slot_plan(const struct model_slot *m)
{
	json_t *r = json_record("rnp.plan");
	uint64_t total = model_slot_bytes(m);
	struct buf advice = BUF_INIT;

	json_set_text(r, "model", m->name);
	json_set_text(r, "device", m->handles.d.name);
	json_set_i64(r, "parameters",
		(int64_t)lm_config_params(model_file_config(m->handles.model_file)));
	json_set_i64(r, "context", m->context);
	json_set_i64(r, "streams", m->limits.streams);
	json_set_i64(r, "weights_bytes", (int64_t)m->weights_bytes);
	if (m->adapter_count)
		json_set_i64(r, "adapters_bytes", (int64_t)m->adapters_bytes);
	if (m->draft)
		json_set_i64(r, "draft_bytes", (int64_t)m->draft_bytes);
	json_set_i64(r, "tables_bytes", (int64_t)m->tables_bytes);
	json_set_i64(r, "cache_bytes", (int64_t)m->cache_bytes);
	json_set_i64(r, "work_bytes", (int64_t)m->work_bytes);
	json_set_i64(r, "total_bytes", (int64_t)total);
	if (m->available_bytes) {
		json_set_i64(r, "available_bytes", (int64_t)m->available_bytes);
		json_set_bool(r, "fits", total <= m->available_bytes);
	}
	if (model_slot_advice(m, &advice))
		json_set(r, "proposals", json_pack("[s]", buf_text(&advice)));
	buf_release(&advice);
	return r;
}
