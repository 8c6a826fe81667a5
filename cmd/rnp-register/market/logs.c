/* logs.c - the routes of logs. A reader is a source of the server that pauses where nothing new is
 * there, and is woken by what nodes send. */
#include "cmd/rnp-register/market/logs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/log_files.h"
#include "cmd/rnp-register/market/member.h"
#include "cmd/rnp-register/market/parts.h"
#include "cmd/rnp-register/storage/caller.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define READERS_MAX 10000
#define READERS_ONE 64 /* of one customer */
#define ALIVE_NS    INT64_C(15000000000)
/* How often it is looked whether the cluster of a reader lives, and of how many in a second. */
#define LOOK_NS     INT64_C(1500000000)
#define LOOKS_MAX   2000
#define SWEEP_NS    INT64_C(60000000000)
#define FRAME_HEAD  64
#define FRAME_BYTES ((size_t)32 << 10)
#define KEEP_MS     INT64_C(86400000)

/* Where a reader is in the log of a rank. */
struct cursor {
	int rank;
	int64_t at;
};

/* One answer on its way. */
struct reader {
	struct reader *next;
	struct registry *g;
	struct httpd_request *q;
	char cluster[LOG_CLUSTER_CHARS + 1], customer[KEY_ADDRESS_MAX];
	bool follow, all, paused;
	_Atomic bool ended; /* nobody of the cluster prints any more */
	bool said_end;
	struct cursor *cursors;
	size_t ncursors, cursors_cap, turn; /* turn: whose is next */
	_Atomic int64_t wrote_ns;
	int64_t looked_ns;
};

struct logs {
	struct log_files files;
	int64_t keep_ms, swept_ns;
	pthread_mutex_t lock; /* of the list, and of paused */
	struct reader *readers;
	size_t nreaders;
	_Atomic uint64_t received_bytes;
};

/* --- what nodes print ------------------------------------------------------------------------- */

/* With the lock. */
static void wake(struct reader *d)
{
	if (d->paused) {
		d->paused = false;
		httpd_resume(d->q);
	}
}

/* Wakes those who read a cluster's logs. */
static void wake_readers(struct logs *l, const char *cluster)
{
	pthread_mutex_lock(&l->lock);
	for (struct reader *d = l->readers; d; d = d->next)
		if (strcmp(d->cluster, cluster) == 0)
			wake(d);
	pthread_mutex_unlock(&l->lock);
}

/* Parses cluster and rank of the path. Returns false with r filled. */
static bool read_path(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	int64_t *rank)
{
	if (!g->logs) {
		httpd_error(r, 404, "this registry keeps no logs");
		return false;
	}
	if (log_cluster_valid(q->args[0]) &&
		(q->nargs < 2 ||
			num_i64(q->args[1], "rank", 0, LOG_RANKS_MAX - 1, rank) == 0))
		return true;
	err_clear();
	market_refuse(g, r, 404, "unknown", "name a cluster of yours, and a rank of it",
		"there is no such cluster");
	return false;
}

static bool read_offset(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *field, int64_t *out)
{
	const char *text = httpd_query(q, field);

	if (!text || num_i64(text, field, 0, INT64_C(1) << 60, out) == 0)
		return true;
	err_clear();
	market_refuse(g, r, 400, "form", "give a number of bytes",
		"%s: '%.40s' is no offset", field, text);
	return false;
}

static enum httpd_when append_failed(struct registry *g, struct httpd_reply *r)
{
	bool full = err_get()->code == EX_TEMPFAIL;

	prog_warn("%s", err_get()->text);
	err_clear();
	r->retry_after_s = 10;
	return market_refuse(g, r, full ? 507 : 503, "storage", "try again later",
		full ? "the registry's disk is full" : "the registry cannot store logs");
}

static void write_have(struct httpd_reply *r, int64_t have)
{
	buf_addf(&r->body, "{\"have\":%lld}\n", (long long)have);
}

enum httpd_when logs_post(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct logs *l = g->logs;
	char node[KEY_ADDRESS_MAX];
	int64_t rank = 0, offset = 0, have = 0;
	int turn, rc;

	if (!read_path(g, q, r, &rank) || registry_query_known(q, r, "offset") < 0 ||
		!registry_caller(g, q, r, node) ||
		!read_offset(g, q, r, "offset", &offset))
		return HTTPD_NOW;
	turn = member_turn(g, r, q->args[0], (int)rank, node);
	if (turn < 0)
		return HTTPD_NOW;
	rc = log_append(&l->files, q->args[0], (int)rank, turn, offset,
		buf_text(&q->body), q->body.len, &have);
	if (rc < 0)
		return append_failed(g, r);
	l->received_bytes += q->body.len;
	wake_readers(l, q->args[0]);
	write_have(r, have);
	return HTTPD_NOW;
}

/* --- who reads -------------------------------------------------------------------------------- */

static struct cursor *cursor_of(struct reader *d, int rank)
{
	for (size_t i = 0; i < d->ncursors; i++)
		if (d->cursors[i].rank == rank)
			return &d->cursors[i];
	d->cursors = xgrow(d->cursors, &d->cursors_cap, d->ncursors + 1,
		sizeof *d->cursors);
	d->cursors[d->ncursors] = (struct cursor){ rank, 0 };
	return &d->cursors[d->ncursors++];
}

/* Ranks that have begun to print since. */
static void find_ranks(struct reader *d, struct logs *l)
{
	int *ranks = xcalloc(LOG_RANKS_MAX, sizeof *ranks);
	size_t n = log_ranks(&l->files, d->cluster, ranks, LOG_RANKS_MAX);

	for (size_t i = 0; i < n; i++)
		(void)cursor_of(d, ranks[i]);
	free(ranks);
}

/* Writes a frame of the next rank that has something. Returns its bytes, or 0. */
static long write_frame(struct reader *d, struct logs *l, char *to, size_t cap)
{
	char head[FRAME_HEAD];

	cap = cap - FRAME_HEAD < FRAME_BYTES ? cap - FRAME_HEAD : FRAME_BYTES;
	for (size_t i = 0; i < d->ncursors; i++) {
		struct cursor *c = &d->cursors[(d->turn + i) % d->ncursors];
		long n = log_read(&l->files, d->cluster, c->rank, &c->at, to + FRAME_HEAD,
			cap);
		int len;

		if (n < 0)
			return -1;
		if (n == 0)
			continue;
		len = snprintf(head, sizeof head, "%d %lld %ld\n", c->rank,
			(long long)c->at, n);
		memcpy(to, head, (size_t)len);
		memmove(to + len, to + FRAME_HEAD, (size_t)n);
		c->at += n;
		d->turn = (d->turn + i + 1) % d->ncursors;
		return len + n;
	}
	return 0;
}

/* Says the end, or that the answer goes on, or nothing: then it pauses. */
static long write_little(struct reader *d, struct logs *l, char *to, bool ended)
{
	int64_t now_ns = clock_mono_ns();
	int len;

	if (!d->follow || ended) {
		d->said_end = true;
		memcpy(to, "end\n", 4);
		return 4;
	}
	if (now_ns - d->wrote_ns > ALIVE_NS) {
		d->wrote_ns = now_ns;
		len = sprintf(to, "%d %lld 0\n", d->ncursors ? d->cursors[0].rank : 0,
			(long long)(d->ncursors ? d->cursors[0].at : 0));
		return len;
	}
	(void)l;
	return 0;
}

static long more(void *ctx, struct httpd_request *q, void *to, size_t cap)
{
	struct reader *d = q->state;
	struct logs *l = ((struct registry *)ctx)->logs;
	bool ended = d->ended;
	long n;

	if (d->said_end)
		return HTTPD_END;
	if (cap < 2 * FRAME_HEAD)
		return 0;
	/* what comes from here on wakes it */
	pthread_mutex_lock(&l->lock);
	d->paused = true;
	pthread_mutex_unlock(&l->lock);
	if (d->all)
		find_ranks(d, l);
	n = write_frame(d, l, to, cap);
	if (n < 0) {
		prog_warn("%s", err_get()->text);
		err_clear();
		return HTTPD_ABORT;
	}
	if (n == 0)
		n = write_little(d, l, to, ended);
	else
		d->wrote_ns = clock_mono_ns();
	return n;
}

static bool may_read(struct logs *l, const char *customer)
{
	size_t n = 0;

	for (struct reader *d = l->readers; d; d = d->next)
		n += strcmp(d->customer, customer) == 0;
	return l->nreaders < READERS_MAX && n < READERS_ONE;
}

/* Adds a reader to the list, where there is space. */
static bool add_reader(struct logs *l, struct reader *d)
{
	bool may;

	pthread_mutex_lock(&l->lock);
	may = may_read(l, d->customer);
	if (may) {
		d->next = l->readers;
		l->readers = d;
		l->nreaders++;
	}
	pthread_mutex_unlock(&l->lock);
	return may;
}

static void reader_free(struct reader *d)
{
	free(d->cursors);
	free(d);
}

/* Begins the answer of a reader; takes it. */
static enum httpd_when begin(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, struct reader *d)
{
	const char *follow = httpd_query(q, "follow");

	d->g = g;
	d->q = q;
	d->follow = follow && strcmp(follow, "1") == 0;
	d->wrote_ns = clock_mono_ns();
	d->ended = !member_cluster_live(g, d->cluster);
	if (!add_reader(g->logs, d)) {
		reader_free(d);
		r->retry_after_s = 5;
		return market_refuse(g, r, 429, "busy", "end some of them",
			"too many logs are being read");
	}
	q->state = d;
	r->content_type = "application/octet-stream";
	return httpd_reply_source(r, more, -1);
}

/* Checks who asks. Returns a new reader, or NULL with r filled. */
static struct reader *reader_new(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *fields, int64_t *rank)
{
	char caller[KEY_ADDRESS_MAX], customer[KEY_ADDRESS_MAX];
	struct reader *d;

	if (!read_path(g, q, r, rank) || registry_query_known(q, r, fields) < 0 ||
		!registry_caller(g, q, r, caller) ||
		!member_customer(g, r, q->args[0], caller, customer))
		return NULL;
	if (strcmp(caller, customer) != 0) {
		market_refuse(g, r, 404, "unknown", "ask as the customer",
			"the logs are for the customer");
		return NULL;
	}
	d = xcalloc(1, sizeof *d);
	snprintf(d->cluster, sizeof d->cluster, "%s", q->args[0]);
	snprintf(d->customer, sizeof d->customer, "%s", customer);
	return d;
}

enum httpd_when logs_get(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	int64_t rank = 0, from = 0;
	struct reader *d = reader_new(g, q, r, "from follow", &rank);

	if (!d)
		return HTTPD_NOW;
	if (!read_offset(g, q, r, "from", &from)) {
		reader_free(d);
		return HTTPD_NOW;
	}
	cursor_of(d, (int)rank)->at = from;
	return begin(g, q, r, d);
}

/* Reads "0:17,1:4096". Returns false where it is not that. */
static bool read_cursors(struct reader *d, const char *text)
{
	while (text && *text) {
		char *end;
		long long rank = strtoll(text, &end, 10), at;

		if (end == text || *end != ':' || rank < 0 || rank >= LOG_RANKS_MAX)
			return false;
		text = end + 1;
		at = strtoll(text, &end, 10);
		if (end == text || (*end && *end != ',') || at < 0 ||
			at > INT64_C(1) << 60)
			return false;
		cursor_of(d, (int)rank)->at = at;
		text = *end ? end + 1 : end;
	}
	return true;
}

enum httpd_when logs_get_all(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	int64_t rank = 0;
	struct reader *d = reader_new(g, q, r, "at follow", &rank);

	if (!d)
		return HTTPD_NOW;
	d->all = true;
	if (!read_cursors(d, httpd_query(q, "at"))) {
		reader_free(d);
		return market_refuse(g, r, 400, "form",
			"write RANK:OFFSET,RANK:OFFSET...",
			"at: '%.40s' names no ranks and offsets", httpd_query(q, "at"));
	}
	return begin(g, q, r, d);
}

void logs_done(void *ctx, struct httpd_request *q)
{
	struct logs *l = ((struct registry *)ctx)->logs;
	struct reader *d = q->state, **at;

	if (!d)
		return;
	pthread_mutex_lock(&l->lock);
	for (at = &l->readers; *at && *at != d; at = &(*at)->next)
		;
	if (*at) {
		*at = d->next;
		l->nreaders--;
	}
	pthread_mutex_unlock(&l->lock);
	reader_free(d);
	q->state = NULL;
}

/* --- once a second ---------------------------------------------------------------------------- */

struct sweep {
	struct registry *g;
};

static void sweep_one(void *ctx, const char *cluster, int64_t age_ms)
{
	struct registry *g = ((struct sweep *)ctx)->g;
	struct logs *l = g->logs;

	if (member_cluster_live(g, cluster))
		log_touch(&l->files, cluster);
	else if (age_ms > l->keep_ms && log_remove(&l->files, cluster) < 0)
		prog_warn("%s", err_get()->text);
	err_clear();
}

/* Ends the answers about clusters that have ended, after what is printed last, and says to the
 * others that they go on. */
static void look_after(struct registry *g)
{
	struct logs *l = g->logs;
	int64_t now_ns = clock_mono_ns();
	int left = LOOKS_MAX;

	pthread_mutex_lock(&l->lock);
	for (struct reader *d = l->readers; d; d = d->next) {
		if (d->follow && !d->ended && now_ns - d->looked_ns > LOOK_NS &&
			left-- > 0) {
			d->looked_ns = now_ns;
			d->ended = !member_cluster_live(g, d->cluster);
		}
		if (d->ended || now_ns - d->wrote_ns > ALIVE_NS)
			wake(d);
	}
	pthread_mutex_unlock(&l->lock);
}

void logs_tick(struct registry *g)
{
	struct logs *l = g->logs;
	struct sweep s = { g };
	int64_t now_ns = clock_mono_ns();

	if (!l)
		return;
	look_after(g);
	if (now_ns - l->swept_ns < SWEEP_NS)
		return;
	l->swept_ns = now_ns;
	if (log_each(&l->files, sweep_one, &s) < 0)
		prog_warn("%s", err_get()->text);
	err_clear();
}

int logs_open(struct registry *g)
{
	struct buf dir = BUF_INIT;
	struct logs *l;
	int rc;

	/* a registry in memory has no folder */
	if (!g->config.market || g->db.in_memory)
		return 0;
	l = xcalloc(1, sizeof *l);
	pthread_mutex_init(&l->lock, NULL);
	l->keep_ms = g->config.blob_keep_ms ? g->config.blob_keep_ms : KEEP_MS;
	g->logs = l;
	buf_addf(&dir, "%s.logs", g->config.db_path);
	rc = log_files_open(&l->files, dir.data);
	buf_release(&dir);
	return rc;
}

void logs_close(struct registry *g)
{
	struct logs *l = g->logs;

	if (!l)
		return;
	log_files_close(&l->files);
	pthread_mutex_destroy(&l->lock);
	free(l);
	g->logs = NULL;
}
