/* agent.c - the agent's own thread: asks for work, verifies it, gives it to leases, and ends
 * what is nobody's. */
#include "cmd/rnp-register/agent/agent.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/registry/client.h"

#define WAIT_S         25
#define ASK_MS         40000
#define AGAIN_MS       2000
#define RECONCILE_MS   10000
#define QUOTES_MS      10000
#define QUOTES_MAX     256
#define WORK_BYTES_MAX ((int64_t)64 << 20)
#define WORK_DEPTH_MAX 40
#define KEEP_BYTES     (INT64_C(1) << 30) /* of the disk, never sold */

static void say(const struct agent *a, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void say(const struct agent *a, const char *fmt, ...)
{
	char line[1400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(line, sizeof line, fmt, args);
	va_end(args);
	a->c->say(line);
}

/* --- leases ---------------------------------------------------------------------------------- */

static struct lease *find_lease(const struct agent *a, const char *id)
{
	for (size_t i = 0; i < a->nleases; i++)
		if (strcmp(a->leases[i]->row.id, id) == 0)
			return a->leases[i];
	return NULL;
}

/* Whoever asks heartbeat --state-from F reads it: "busy" while a lease is here. */
static void write_state(struct agent *a)
{
	int busy = a->nleases > 0;
	const char *text = busy ? "busy\n" : "idle\n";

	if (!a->c->state_to || busy == a->busy)
		return;
	if (io_replace(a->c->state_to, text, strlen(text), 0644) == 0)
		a->busy = busy;
	else
		say(a, "%s", err_get()->text);
	err_clear();
}

/* Frees leases that are over. */
static void bury(struct agent *a)
{
	for (size_t i = 0; i < a->nleases;) {
		if (!a->leases[i]->over) {
			i++;
			continue;
		}
		lease_join(a->leases[i]);
		a->leases[i] = a->leases[--a->nleases];
	}
	write_state(a);
}

/* --- quotes ---------------------------------------------------------------------------------- */

static int add_quote(void *ctx, const json_t *item)
{
	struct agent *a = ctx;
	struct assignment_quote q;
	const json_t *record = json_object_get(item, "record");

	if (assignment_quote_read(&q, record ? record : item, a->c->key->address) < 0) {
		err_clear();
		return 0;
	}
	a->quotes = xgrow(a->quotes, &a->quotes_cap, a->nquotes + 1, sizeof *a->quotes);
	a->quotes[a->nquotes++] = q;
	return a->nquotes >= QUOTES_MAX;
}

static bool has_quote(const struct agent *a, const char *sha256)
{
	for (size_t i = 0; i < a->nquotes; i++)
		if (strcmp(a->quotes[i].sha256, sha256) == 0)
			return true;
	return false;
}

/* Asks for the prices that this node has signed, where one is not known; whoever keeps them cannot
 * change them. */
static int learn_quotes(struct agent *a, struct http *http, const char *sha256)
{
	struct buf path = BUF_INIT;
	int rc;

	if (has_quote(a, sha256) ||
		(a->quotes_ns &&
			clock_mono_ns() - a->quotes_ns < QUOTES_MS * INT64_C(1000000)))
		return 0;
	a->quotes_ns = clock_mono_ns();
	a->nquotes = 0;
	buf_addf(&path, "/v1/records?kind=rnp.quote&node=%s&limit=100",
		a->c->key->address);
	rc = registry_each(http, a->c->registry, a->c->ca, buf_text(&path), "records",
		add_quote, a);
	buf_release(&path);
	return rc < 0 ? -1 : 0;
}

/* --- work ------------------------------------------------------------------------------------ */

static bool was_refused(struct agent *a, const char *id)
{
	for (size_t i = 0; i < AGENT_REFUSED; i++)
		if (strcmp(a->refused[i], id) == 0)
			return true;
	snprintf(a->refused[a->nrefused++ % AGENT_REFUSED], LEASE_ID_MAX, "%s", id);
	return false;
}

/* What is not taken on is said once, with its cause. */
static void refuse(struct agent *a, const struct assignment *as, enum lease_state to)
{
	char cause[ERR_TEXT_MAX];

	snprintf(cause, sizeof cause, "%s", err_get()->text);
	err_clear();
	if (was_refused(a, as->id))
		return;
	say(a, "lease %s refused: %s", as->id, cause);
	if (event_refuse(a, as, to, cause) < 0)
		say(a, "%s", err_get()->text);
	err_clear();
}

static int take_on(struct agent *a, const struct assignment *as, const char *text)
{
	const char *devices[LEASE_GPUS_MAX] = { "cpu" };
	struct lease_row row = { .rank = as->rank,
		.turn = as->turn,
		.state = LEASE_RESERVED,
		.seq = as->seq,
		.restarts = as->restarts,
		.exit = -1 };
	size_t n = as->ngpus ? as->ngpus : 1;
	struct lease *l;

	if (a->nleases >= AGENT_LEASES_MAX)
		return err_set(EX_TEMPFAIL, "this node has %d leases", AGENT_LEASES_MAX);
	for (size_t i = 0; i < as->ngpus; i++)
		devices[i] = as->gpus[i];
	snprintf(row.id, sizeof row.id, "%s", as->id);
	snprintf(row.cluster, sizeof row.cluster, "%s", as->cluster);
	snprintf(row.booking, sizeof row.booking, "%s", as->booking_sha256);
	if (journal_take(&a->journal, &row, text, devices, n) < 0 ||
		event_say(a, &row, LEASE_PROVING, "the booking is verified") < 0)
		return -1;
	l = lease_start(a, &row, text);
	if (!l)
		return -1;
	a->leases[a->nleases++] = l;
	say(a, "lease %s: %.300s", row.id, as->image);
	write_state(a);
	return 0;
}

/* Something that is new to us. */
static void consider(struct agent *a, struct http *http, const struct assignment *as,
	const char *text)
{
	struct assignment_node node = { .address = a->c->key->address,
		.gpus = a->c->gpus,
		.ngpus = a->c->ngpus,
		.now_ms = clock_now_ms() };

	/* it ended before we began, or our journal is lost: there is nothing here */
	if (as->release) {
		err_set(EX_UNAVAILABLE, "there was nothing here of it");
		refuse(a, as, LEASE_RELEASED);
		return;
	}
	if (as->state > LEASE_PROVING) {
		err_set(EX_UNAVAILABLE, "the agent has lost what it knew of it");
		refuse(a, as, LEASE_FAILED);
		return;
	}
	if (a->closed) {
		err_set(EX_UNAVAILABLE, "this node sells no more");
		refuse(a, as, LEASE_FAILED);
		return;
	}
	if (learn_quotes(a, http, as->quote) < 0) {
		say(a, "%s", err_get()->text);
		err_clear();
		return; /* the registry asks again */
	}
	node.quotes = a->quotes;
	node.nquotes = a->nquotes;
	if (assignment_verify(as, &node) < 0 || take_on(a, as, text) < 0)
		refuse(a, as, LEASE_FAILED);
}

static void take_entry(struct agent *a, struct http *http, const json_t *entry,
	bool *listed)
{
	struct buf text = BUF_INIT;
	struct assignment as;
	struct lease *l;

	if (assignment_parse(&as, entry) < 0) {
		say(a, "%s", err_get()->text);
		err_clear();
		return;
	}
	json_write(&text, entry);
	l = find_lease(a, as.id);
	if (l)
		lease_tell(l, buf_text(&text), !as.release);
	else
		consider(a, http, &as, buf_text(&text));
	for (size_t i = 0; i < a->nleases; i++)
		listed[i] |= strcmp(a->leases[i]->row.id, as.id) == 0;
	buf_release(&text);
}

static int take_list(struct agent *a, struct http *http, const struct http_response *r)
{
	json_t *reply = json_parse_object_to(buf_text(&r->body), r->body.len,
		WORK_DEPTH_MAX, "work");
	bool listed[AGENT_LEASES_MAX] = { false };
	json_t *list = NULL, *entry;
	int rc = -1;
	size_t i;

	if (!reply || json_get_array(reply, "work", "work", &list) < 0 ||
		json_get_i64(reply, "work", "after", 0, INT64_MAX, &a->after) < 0)
		goto out;
	bury(a);
	json_array_foreach(list, i, entry)
		take_entry(a, http, entry, listed);
	for (i = 0; i < a->nleases; i++)
		if (!listed[i])
			lease_tell(a->leases[i], NULL, false);
	rc = 0;
out:
	json_decref(reply);
	return rc;
}

static int ask_for_work(struct agent *a, struct http *http)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT, path = BUF_INIT;
	struct http_request q = { .ca_file = a->c->ca,
		.signer = a->c->key,
		.timeout_ms = ASK_MS,
		.tries = 1,
		.response_bytes_max = WORK_BYTES_MAX,
		.abort = &a->abort };
	int rc = -1;

	buf_addf(&path, "/v1/work?wait=%d",
		a->closed          ? 1 :
			a->nleases ? RECONCILE_MS / 1000 :
				     WAIT_S);
	if (a->after >= 0)
		buf_addf(&path, "&after=%" PRId64, a->after);
	if (http_url(&url, a->c->registry, buf_text(&path)) == 0) {
		q.url = buf_text(&url);
		rc = http_fetch(http, &q, &r);
	}
	if (rc == 0)
		rc = take_list(a, http, &r);
	buf_release(&url);
	buf_release(&path);
	http_response_release(&r);
	return rc;
}

/* --- what is nobody's ------------------------------------------------------------------------ */

#define STRAYS_MAX 64

struct strays {
	struct agent *a;
	char ids[STRAYS_MAX][VOLUME_ID_MAX + 1];
	size_t n;
};

static void note_stray(struct strays *s, const char *id)
{
	bool known = find_lease(s->a, id) != NULL;

	for (size_t i = 0; i < s->n; i++)
		known |= strcmp(s->ids[i], id) == 0;
	if (!known && s->n < STRAYS_MAX && strlen(id) <= VOLUME_ID_MAX)
		snprintf(s->ids[s->n++], sizeof s->ids[0], "%s", id);
}

static void note_volume(const char *id, enum volume_state state, int64_t size_bytes,
	void *ctx)
{
	(void)state, (void)size_bytes;
	note_stray(ctx, id);
}

static void note_network(const char *id, void *ctx)
{
	note_stray(ctx, id);
}

/* Ends a container, a disk and a network that belong to no lease of the journal. */
static void end_stray(struct agent *a, const char *id)
{
	struct engine *e = sandbox_open(&a->place, id);
	struct engine_list list = { 0 };

	if (e && e->ops->probe(e, AGENT_LABEL, &list) == 0)
		for (size_t i = 0; i < list.n; i++)
			e->ops->stop(e, list.items[i].id, 0);
	if (e && e->ops->remove(e, list.n ? list.items[0].id : "") < 0)
		say(a, "what is left of lease %s does not go: %s", id, err_get()->text);
	err_clear();
	engine_list_release(&list);
	sandbox_close(e);
}

static void reconcile(struct agent *a)
{
	struct strays s = { .a = a };

	if (a->cleaned_ns &&
		clock_mono_ns() - a->cleaned_ns < RECONCILE_MS * INT64_C(1000000))
		return;
	a->cleaned_ns = clock_mono_ns();
	volume_each(&a->place.volumes, note_volume, &s);
	network_each(&a->place.networks, note_network, &s);
	for (size_t i = 0; i < s.n && !agent_is_stopping(a); i++)
		end_stray(a, s.ids[i]);
	if (a->nleases && network_refresh(&a->place.networks) < 0)
		say(a, "%s", err_get()->text);
	err_clear();
}

/* --- life ------------------------------------------------------------------------------------ */

struct loading {
	struct agent *a;
	struct lease_row rows[AGENT_LEASES_MAX];
	char *texts[AGENT_LEASES_MAX];
	size_t n;
};

static int load_one(void *ctx, const struct lease_row *row, const char *assignment)
{
	struct loading *x = ctx;

	if (x->n < AGENT_LEASES_MAX) {
		x->rows[x->n] = *row;
		x->texts[x->n++] = xstrdup(assignment);
	}
	return 0;
}

/* Goes on with the leases that an earlier process had. */
static int load(struct agent *a)
{
	struct loading *x = xcalloc(1, sizeof *x);
	int rc;

	x->a = a;
	rc = journal_each(&a->journal, load_one, x);
	for (size_t i = 0; i < x->n; i++) {
		struct lease *l = rc < 0 ? NULL :
					   lease_start(a, &x->rows[i], x->texts[i]);

		if (l)
			a->leases[a->nleases++] = l;
		else
			rc = -1;
		free(x->texts[i]);
	}
	free(x);
	return rc;
}

static char *join(const char *dir, const char *name)
{
	struct buf b = BUF_INIT;

	buf_addf(&b, "%s/%s", dir, name);
	return buf_take(&b);
}

/* Paths that live as long as the agent. */
struct paths {
	char *images, *volumes, *networks, *leases, *store_run;
};

static int open_place(struct agent *a, struct paths *p)
{
	const struct agent_config *c = a->c;

	p->images = join(c->dir, "images");
	p->volumes = join(c->dir, "volumes");
	p->networks = join(c->run, "net");
	p->leases = join(c->run, "l");
	p->store_run = join(c->run, "images");
	a->place = (struct sandbox_place){
		.volumes = { .dir = p->volumes, .keep_bytes = KEEP_BYTES },
		.networks = { .dir = p->networks,
			.pool = NETWORK_POOL,
			.pool_bits = NETWORK_POOL_BITS,
			.resolvers = c->resolvers,
			.nresolvers = c->nresolvers },
		.run = p->leases,
	};
	if (io_make_dirs(c->dir, 0711) < 0 || io_make_dirs(p->leases, 0711) < 0 ||
		io_make_dirs(p->networks, 0711) < 0)
		return -1;
	return 0;
}

static void free_paths(struct paths *p)
{
	free(p->images);
	free(p->volumes);
	free(p->networks);
	free(p->leases);
	free(p->store_run);
}

static void pause_ms(const struct agent *a, int64_t ms)
{
	for (; ms > 0 && !agent_is_stopping(a); ms -= 50)
		nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

static void work(struct agent *a)
{
	struct http http = HTTP_INIT;
	bool away = false;

	while (!agent_is_stopping(a)) {
		bury(a);
		reconcile(a);
		listing_look_closed(a);
		listing_tell(a, &http);
		listing_tell_stand(a, away);
		if (ask_for_work(a, &http) == 0) {
			away = false;
			if (listing_is_over(a))
				a->ends = 1;
			continue;
		}
		if (!away && !agent_is_stopping(a))
			say(a, "%s", err_get()->text);
		away = true;
		err_clear();
		pause_ms(a, AGAIN_MS);
	}
	http_release(&http);
}

/* A signal must not wait for the registry. */
static void *watch_stop(void *ctx)
{
	struct agent *a = ctx;

	pause_ms(a, INT64_MAX);
	http_abort(&a->abort);
	return NULL;
}

static void init_agent(struct agent *a, const struct agent_config *c,
	const volatile int *stop)
{
	pthread_condattr_t mono;

	*a = (struct agent){ .c = c,
		.stop = stop,
		.journal = JOURNAL_INIT,
		.images_lock = PTHREAD_MUTEX_INITIALIZER,
		.mail_lock = PTHREAD_MUTEX_INITIALIZER,
		.abort = HTTP_ABORT_INIT,
		.after = -1,
		.busy = -1 };
	pthread_condattr_init(&mono);
	pthread_condattr_setclock(&mono, CLOCK_MONOTONIC);
	pthread_cond_init(&a->mail, &mono);
	pthread_condattr_destroy(&mono);
}

/* What lacks for SSH; leases run all the same. */
static void say_no_ssh(const struct agent *a)
{
	char line[1200];

	snprintf(line, sizeof line, "leases have no SSH here: %.700s%s%.250s",
		err_get()->text, err_get()->hint[0] ? ": " : "", err_get()->hint);
	a->c->say(line);
}

int agent_run(const struct agent_config *c, const volatile int *stop)
{
	struct agent *a = xcalloc(1, sizeof *a);
	struct paths paths = { 0 };
	pthread_t events, watcher;
	bool mails = false, watches = false;
	int rc = -1;

	init_agent(a, c, stop);
	if (http_abort_open(&a->abort) < 0 || open_place(a, &paths) < 0 ||
		volume_probe(&a->place.volumes) < 0 ||
		agent_open_images(a, paths.images, paths.store_run) < 0 ||
		network_probe(&a->place.networks) < 0 ||
		journal_open(&a->journal, c->dir) < 0)
		goto out;
	if (session_prepare(a) < 0) {
		say_no_ssh(a);
		err_clear();
	}
	mails = pthread_create(&events, NULL, events_thread, a) == 0;
	watches = pthread_create(&watcher, NULL, watch_stop, a) == 0;
	rc = mails && watches ? load(a) : err_set(EX_OSERR, "cannot start a thread");
	write_state(a);
	if (rc == 0)
		work(a);
	for (size_t i = 0; i < a->nleases; i++)
		lease_join(a->leases[i]);
	if (mails)
		pthread_join(events, NULL);
	if (watches)
		pthread_join(watcher, NULL);
out:
	images_close(&a->images);
	journal_close(&a->journal);
	http_abort_close(&a->abort);
	pthread_cond_destroy(&a->mail);
	free(a->quotes);
	free(a);
	free_paths(&paths);
	return rc;
}
