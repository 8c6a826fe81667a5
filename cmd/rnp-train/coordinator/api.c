/* api.c - what workers ask and say: the routes of a coordinator.
 *
 * long because all routes and who may ask stand in one place; deltas are in delta.c. */
#include "cmd/rnp-train/coordinator/delta.h"
#include "cmd/rnp-train/coordinator/request.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/page.h"
#include "cmd/rnp-train/coordinator/parent.h"
#include "cmd/rnp-train/coordinator/registry.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/httpd/parse.h"
#include "common/httpd/parts.h"
#include "common/record/signature.h"

#define RECORD_BODY_MAX ((size_t)64 << 10)
/* kept for each of NODES_MAX nodes; one has some hundred bytes */
#define JOIN_BODY_MAX ((size_t)4 << 10)
#define ROUNDS_MAX    100 /* records of one answer */
/* Requests for the update behind the open round that wait for it: ranges of it, over a connection
 * each */

static enum httpd_when reply_record(struct coordinator *g, struct httpd_reply *r,
	json_t *takes_record)
{
	int rc = signature_add(takes_record, &g->key, clock_now_ms());

	json_write(&r->body, takes_record);
	buf_addc(&r->body, '\n');
	json_decref(takes_record);
	return rc < 0 ? httpd_error(r, 503, "%s", err_get()->text) : HTTPD_NOW;
}

/* --- the run, joining, leaving ---------------------------------------------------------------- */

static enum httpd_when get_run(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct coordinator *g = ctx;

	(void)q;
	buf_addf(&r->body, "%s\n", g->run_text);
	snprintf(r->etag, sizeof r->etag, "\"%s\"", g->run.name);
	r->cache_control = "max-age=31536000, immutable";
	return HTTPD_NOW;
}

static bool is_allowed(const struct coordinator *g, const char *node)
{
	for (int i = 0; i < g->o.nallow; i++)
		if (strcmp(g->o.allow[i], node) == 0)
			return true;
	return !g->o.nallow;
}

static uint64_t speed_of(const json_t *record)
{
	json_int_t v = json_integer_value(json_object_get(record, "tokens_per_s"));

	return v > 0 ? (uint64_t)v : 0;
}

/* What costs nothing to see is seen before a signature is verified. Returns false with r filled. */
static bool may_come(struct coordinator *g, const struct httpd_request *q,
	struct httpd_reply *r, uint64_t from)
{
	json_t *record = json_parse_object(buf_text(&q->body), q->body.len, "body");
	const char *node = json_string_value(json_object_get(record, "node"));
	int rc = 0;

	if (!node) { /* what it lacks is said where it is read */
		err_clear();
	} else if (!is_allowed(g, node)) {
		coordinate_refuse(g, r, 403, "node: is not allowed in this run");
		rc = -1;
	} else {
		pthread_mutex_lock(&g->rounds.lock);
		rc = g->rounds.over ? 0 : coordinate_has_place(g, node, from);
		g->figures.refused += rc < 0;
		pthread_mutex_unlock(&g->rounds.lock);
		if (rc < 0) {
			r->retry_after_s = 30;
			httpd_error(r, 503, "%s", err_get()->text);
		}
	}
	json_decref(record);
	return rc == 0;
}

static enum httpd_when post_join(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	uint64_t from = httpd_client_group(q->client);
	json_t *record = NULL, *member = NULL;
	struct buf text = BUF_INIT, why = BUF_INIT;
	const char *node;
	int rc = -1;

	if (!may_come(g, q, r, from))
		return HTTPD_NOW;
	record = coordinate_read_record(g, q, r, "rnp.join");
	if (!record)
		return HTTPD_NOW;
	node = json_string_value(json_object_get(record, "node"));
	buf_adds(&why, "node: ");
	rc = coordinate_admits(g, node, &why);
	if (rc < 1) {
		coordinate_refuse(g, r, rc ? 503 : 403,
			rc ? "the registry cannot be asked at present" : why.data);
		goto out;
	}
	json_write(&text, record);
	pthread_mutex_lock(&g->rounds.lock);
	rc = g->rounds.over ?
		0 :
		coordinate_join(g, node, buf_text(&text), speed_of(record), from);
	if (rc == 0)
		member = coordinate_member_record(g, node);
	pthread_mutex_unlock(&g->rounds.lock);
	if (rc < 0) {
		r->retry_after_s = err_get()->code == EX_TEMPFAIL ? 30 : 1;
		httpd_error(r, 503, "%s", err_get()->text);
	} else
		reply_record(g, r, member);
out:
	buf_release(&why);
	buf_release(&text);
	json_decref(record);
	return HTTPD_NOW;
}

static enum httpd_when post_leave(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	const char *node = httpd_query(q, "member");
	int rc;

	if (!node || !coordinate_is_signed(g, q, r, false, node))
		return node ? HTTPD_NOW : httpd_error(r, 400, "member: is missing");
	pthread_mutex_lock(&g->rounds.lock);
	rc = coordinate_leave(g, node);
	if (rc == 0)
		rc = coordinate_receipts(g, node);
	pthread_cond_signal(&g->rounds.wake);
	pthread_mutex_unlock(&g->rounds.lock);
	if (rc < 0)
		return httpd_error(r, 503, "%s", err_get()->text);
	buf_adds(&r->body, "{\"left\":true}\n");
	return HTTPD_NOW;
}

/* --- work ------------------------------------------------------------------------------------- */

/* A worker asks for work once at a time: who asked before has lost its connection, or is another
 * worker. */
static void replace(struct coordinator *g, const char *node)
{
	for (struct waiter *w = g->waiting.first; w; w = w->next)
		w->replaced |= !w->round && strcmp(w->node, node) == 0;
}

/* Lets go of the lock: the round's thread answers, which at the end is no longer there. round: see
 * struct waiter. */
static enum httpd_when wait_for(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, const char *node, uint64_t round)
{
	struct waiter *w;

	if (g->rounds.stop) {
		pthread_mutex_unlock(&g->rounds.lock);
		r->retry_after_s = 1;
		return httpd_error(r, 503, "the coordinator is about to end");
	}
	w = xcalloc(1, sizeof *w);
	*w = (struct waiter){ .next = g->waiting.first,
		.q = q,
		.r = r,
		.round = round,
		.until_ns = clock_mono_ns() + PROTOCOL_POLL_MS * INT64_C(1000000) };
	snprintf(w->node, sizeof w->node, "%s", node);
	if (!round)
		replace(g, node);
	g->waiting.first = w;
	g->waiting.n++;
	pthread_cond_signal(&g->rounds.wake);
	pthread_mutex_unlock(&g->rounds.lock);
	return HTTPD_LATER;
}

/* Lets go of the lock. */
static enum httpd_when reply_ahead(struct coordinator *g, struct httpd_reply *r,
	const char *node)
{
	json_t *record;
	int rc = coordinate_assign_ahead(g, node, &record);

	pthread_mutex_unlock(&g->rounds.lock);
	if (rc < 0)
		return httpd_error(r, 503, "%s", err_get()->text);
	if (rc == 1)
		return httpd_error(r, 410, "not a member: join again");
	if (record) {
		json_write(&r->body, record);
		buf_addc(&r->body, '\n');
		json_decref(record);
	} else {
		r->status = 204;
	}
	return HTTPD_NOW;
}

static enum httpd_when get_work(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	const char *node = httpd_query(q, "member");
	int64_t score;

	if (!node || !coordinate_is_signed(g, q, r, false, node))
		return node ? HTTPD_NOW : httpd_error(r, 400, "member: is missing");
	pthread_mutex_lock(&g->rounds.lock);
	if (g->rounds.over || coordinate_member(g, node) < 0) {
		bool over = g->rounds.over;

		pthread_mutex_unlock(&g->rounds.lock);
		return httpd_error(r, 410, "%s",
			over ? "the run is over" : "not a member: join again");
	}
	if (coordinate_db_score(g, node, &score) == 0 &&
		(double)score < g->o.score_min * 1e6) {
		pthread_mutex_unlock(&g->rounds.lock);
		return coordinate_refuse(g, r, 403, "member: its deltas did not help");
	}
	if (httpd_query(q, "ahead"))
		return reply_ahead(g, r, node);
	return wait_for(g, q, r, node, 0);
}

/* The parameters after a round, for who goes on meanwhile. */
static enum httpd_when get_base(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	const char *node = httpd_query(q, "member"), *text = httpd_query(q, "round");
	uint64_t round;

	if (!node || !text || !coordinate_parse_number(text, &round) || !round)
		return httpd_error(r, 400, "member, round: are missing, or no number");
	if (!coordinate_is_signed(g, q, r, false, node))
		return HTTPD_NOW;
	pthread_mutex_lock(&g->rounds.lock);
	if (coordinate_member(g, node) < 0) {
		pthread_mutex_unlock(&g->rounds.lock);
		return httpd_error(r, 410, "not a member: join again");
	}
	return wait_for(g, q, r, node, round);
}

/* The client of a long poll has left: the round's thread must not answer it. */
static void on_disconnect(void *ctx, struct httpd_request *q)
{
	struct coordinator *g = ctx;

	(void)q;
	pthread_mutex_lock(&g->rounds.lock);
	pthread_cond_signal(&g->rounds.wake);
	pthread_mutex_unlock(&g->rounds.lock);
}

/* --- parameters and updates ------------------------------------------------------------------- */

static enum httpd_when reply_immutable(struct httpd_reply *r, const char *path,
	const char *hash)
{
	snprintf(r->etag, sizeof r->etag, "\"%s\"", hash);
	r->cache_control = "max-age=31536000, immutable";
	httpd_reply_path(r, path);
	if (r->status == 404) {
		r->etag[0] = '\0';
		r->cache_control = NULL;
	}
	return HTTPD_NOW;
}

/* Writes published as a container that restores its bits; the first request for it waits. */
static int make_params(struct coordinator *g, const char *hash, const char *path)
{
	struct flatfile published = FLATFILE_INIT;
	char name[64];
	uint64_t round;
	bool is_base;
	int rc;

	pthread_mutex_lock(&g->rounds.lock);
	is_base = strcmp(hash, g->rounds.params_hash) == 0;
	round = g->rounds.round;
	pthread_mutex_unlock(&g->rounds.lock);
	if (!is_base)
		return err_set(EX_NOINPUT, "no worker begins with these parameters now");
	snprintf(name, sizeof name, "pub-%" PRIu64 ".f32", round - 1);
	rc = flatfile_open(&published, g->dir, name, g->run.parameters);
	if (rc == 0)
		rc = container_write(&g->intake.check, "lossless", published.x, NULL,
			published.n, path, NULL);
	flatfile_close(&published);
	return rc;
}

static enum httpd_when get_params(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	char *path;
	int rc = 0;

	if (!protocol_is_hash(q->arg))
		return httpd_error(r, 400, "hash: is not 64 digits of hex");
	path = coordinate_path(g, "params-%s", q->arg);
	/* it is whole or not there: further ranges of it wait for no delta that is checked */
	if (access(path, F_OK) != 0) {
		pthread_mutex_lock(&g->intake.check_lock);
		if (access(path, F_OK) != 0)
			rc = make_params(g, q->arg, path);
		pthread_mutex_unlock(&g->intake.check_lock);
	}
	if (rc == 0)
		reply_immutable(r, path, q->arg);
	else
		httpd_error(r, err_get()->code == EX_NOINPUT ? 404 : 503, "%s",
			err_get()->text);
	free(path);
	return HTTPD_NOW;
}

/* --- text ------------------------------------------------------------------------------------- */

/* The bytes that a request for so many asks for. */
static uint64_t asked_bytes(const struct httpd_request *q, uint64_t all)
{
	const char *range = httpd_header(q, "Range");
	uint64_t first, count;

	switch (range ? httpd_parse_range(range, all, &first, &count) :
			HTTPD_RANGE_NONE) {
	case HTTPD_RANGE_ONE:
		return count;
	case HTTPD_RANGE_UNSATISFIABLE:
		return 0;
	default:
		return all;
	}
}

static enum httpd_when get_data(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	char hex[PROTOCOL_HEX];

	for (uint32_t i = 0; i < g->data.n; i++) {
		const struct lm_shard *s = &g->data.shards[i];

		protocol_hex(hex, s->digest);
		if (strcmp(hex, q->arg) != 0)
			continue;
		snprintf(r->etag, sizeof r->etag, "\"%s\"", hex);
		r->cache_control = "max-age=31536000, immutable";
		r->content_type = "application/octet-stream";
		r->ranges = true;
		g->figures.data_bytes += asked_bytes(q, s->bytes);
		return httpd_reply_memory(r, s->data, s->bytes);
	}
	return httpd_error(r, 404, "no shard of the run has this digest");
}

/* Sequences of the run's order, each with the token after it, as ids of 2 or 4 bytes. */
static enum httpd_when get_tokens(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	const char *from_text = httpd_query(q, "from"),
		   *count_text = httpd_query(q, "count");
	uint64_t from, count, ids = (uint64_t)g->run.length + 1;
	uint64_t max = PROTOCOL_PIECE_BYTES / (ids * 4);
	uint32_t *window;
	int rc = 0;

	if (!from_text || !count_text || !coordinate_parse_number(from_text, &from) ||
		!coordinate_parse_number(count_text, &count))
		return httpd_error(r, 400, "from, count: are not numbers");
	if (!count || count > (max ? max : 1))
		return httpd_error(r, 400, "count: 1 to %" PRIu64, max ? max : 1);
	window = xmalloc(ids * sizeof *window);
	for (uint64_t n = from; rc == 0 && n < from + count; n++) {
		rc = lm_shards_get(&g->data, shuffle_at(&g->shuffle, n), ids, window);
		if (rc == 0)
			protocol_pack(&r->body, window, ids, g->run.config.vocab);
	}
	free(window);
	if (rc < 0)
		return httpd_error(r, 503, "%s", err_get()->text);
	r->content_type = "application/octet-stream";
	g->figures.data_bytes += r->body.len;
	return HTTPD_NOW;
}

static enum httpd_when get_state(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	char *path;

	if (!g->run.state[0] || strcmp(q->arg, g->run.state) != 0)
		return httpd_error(r, 404, "the run has no such state");
	path = coordinate_path(g, "state.rnpg");
	reply_immutable(r, path, q->arg);
	free(path);
	return HTTPD_NOW;
}

/* Fills r with the update at path, under an entity tag that is its root's; 404 where there is none.
 */
static void reply_update(struct httpd_reply *r, const char *path)
{
	unsigned char root[GRAD_ROOT_BYTES];
	char hex[PROTOCOL_HEX];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size < CONTAINER_TAIL_BYTES ||
		pread(fd, root, sizeof root, st.st_size - CONTAINER_TAIL_BYTES) !=
			(ssize_t)sizeof root) {
		if (fd >= 0)
			close(fd);
		httpd_error(r, 404, "no update from these parameters is kept");
		return;
	}
	protocol_hex(hex, root);
	snprintf(r->etag, sizeof r->etag, "\"%s\"", hex);
	r->cache_control = "max-age=31536000, immutable";
	httpd_reply_file(r, fd, 0, st.st_size);
}

static enum httpd_when get_update(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	uint64_t bytes = 0;
	char *path;

	if (!protocol_is_hash(q->arg))
		return httpd_error(r, 400, "hash: is not 64 digits of hex");
	pthread_mutex_lock(&g->rounds.lock);
	coordinate_db_update(g, q->arg, &bytes);
	pthread_mutex_unlock(&g->rounds.lock);
	if (!bytes)
		return httpd_error(r, 404, "no update from these parameters is kept");
	path = coordinate_path(g, "update-%s", q->arg);
	reply_update(r, path);
	free(path);
	return HTTPD_NOW;
}

/* A delta of a closed round: before that, nobody but its worker has it, who would be copied. */
static enum httpd_when get_delta(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	int64_t turn = 0;
	char *path;
	int rc;

	if (!protocol_is_hash(q->arg))
		return httpd_error(r, 400, "sha256: is not 64 digits of hex");
	pthread_mutex_lock(&g->rounds.lock);
	rc = coordinate_db_find_delta(g, q->arg, &turn);
	pthread_mutex_unlock(&g->rounds.lock);
	if (rc < 1)
		return httpd_error(r, rc ? 503 : 404, "%s",
			rc ? err_get()->text : "no delta of a closed round that is kept");
	path = coordinate_path(g, "delta-%" PRId64 ".rnpg", turn);
	reply_immutable(r, path, q->arg);
	free(path);
	return HTTPD_NOW;
}

/* --- records ---------------------------------------------------------------------------------- */

/* Records that a statement gives, a line each. Returns how many, or -1. */
static int add_records(struct coordinator *g, struct buf *out, const char *sql,
	const char *letters, const char *text, int64_t number, int64_t limit)
{
	sqlite3_stmt *q = NULL;
	int n = 0, rc;

	pthread_mutex_lock(&g->rounds.lock);
	rc = store_prepare(&g->rounds.db, &q, sql);
	if (rc == 0) {
		if (*letters == 't')
			store_bind(q, "ti", text, limit);
		else
			store_bind(q, "ii", number, limit);
		while ((rc = store_step(&g->rounds.db, q)) == 1) {
			buf_addf(out, "%s\n", store_text(q, 0));
			n++;
		}
	}
	sqlite3_finalize(q);
	pthread_mutex_unlock(&g->rounds.lock);
	return rc < 0 ? -1 : n;
}

static enum httpd_when reply_lines(struct httpd_reply *r, int n, const char *none)
{
	if (n < 0)
		return httpd_error(r, 503, "%s", err_get()->text);
	if (n == 0 && none)
		return httpd_error(r, 404, "%s", none);
	r->content_type = "application/jsonl";
	return HTTPD_NOW;
}

static enum httpd_when get_round(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	uint64_t number;

	if (!coordinate_parse_number(q->arg, &number))
		return httpd_error(r, 400, "round: is not a number");
	return reply_lines(r,
		add_records(ctx, &r->body,
			"SELECT record FROM rounds WHERE round = ? AND record IS NOT NULL"
			" LIMIT ?",
			"ii", NULL, (int64_t)number, 1),
		"round: is not closed");
}

static enum httpd_when get_rounds(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	const char *from = httpd_query(q, "from");
	uint64_t number = 1;

	if (from && !coordinate_parse_number(from, &number))
		return httpd_error(r, 400, "from: is not a number");
	return reply_lines(r,
		add_records(ctx, &r->body,
			"SELECT record FROM rounds WHERE round >= ? AND record IS NOT NULL"
			" ORDER BY round LIMIT ?",
			"ii", NULL, (int64_t)number, ROUNDS_MAX),
		NULL);
}

static enum httpd_when get_receipts(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	return reply_lines(r,
		add_records(ctx, &r->body,
			"SELECT record FROM receipts WHERE node = ? ORDER BY id DESC LIMIT ?",
			"ti", q->arg, 0, ROUNDS_MAX),
		NULL);
}

static enum httpd_when get_health(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	int64_t full_ns = g->intake.full_ns;

	(void)q;
	if (store_failing(&g->rounds.db) ||
		(full_ns &&
			clock_mono_ns() - full_ns <
				STORE_FAILING_S * INT64_C(1000000000)))
		return httpd_error(r, 503, "the disk takes nothing at present");
	buf_adds(&r->body, "{\"status\":\"ok\"}\n");
	return HTTPD_NOW;
}

extern const char
	*const train_embedded_texts[]; /* cmd/rnp-train/coordinator/openapi.json */

static enum httpd_when get_openapi(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx, (void)q;
	return httpd_reply_memory(r, train_embedded_texts[0],
		strlen(train_embedded_texts[0]));
}

static void add_metric(struct buf *out, const char *name, const char *type,
	const char *help, double value)
{
	buf_addf(out,
		"# HELP rnp_train_%s %s\n# TYPE rnp_train_%s %s\nrnp_train_%s %.9g\n",
		name, help, name, type, name, value);
}

static void parent_metrics(const struct coordinator *g, struct buf *out)
{
	struct parent_facts f;

	coordinate_parent_facts(g, &f);
	add_metric(out, "parent_away", "gauge",
		"1 while nobody answers at the coordinator above.", f.away_ms != 0);
	add_metric(out, "parent_round", "gauge",
		"The round of the run above that the group's turn belongs to.",
		(double)f.round);
	add_metric(out, "parent_answered_timestamp_seconds", "gauge",
		"When the coordinator above answered last.", (double)f.answered_ms / 1e3);
	add_metric(out, "parent_bytes_sent_total", "counter",
		"Bytes at the sockets to the coordinator above.", (double)f.sent);
	add_metric(out, "parent_bytes_received_total", "counter",
		"Bytes at the sockets from the coordinator above.", (double)f.received);
}

void coordinate_metrics(void *ctx, struct buf *out)
{
	struct coordinator *g = ctx;

	pthread_mutex_lock(&g->rounds.lock);
	add_metric(out, "round", "gauge", "The round that is open.",
		(double)g->rounds.round);
	buf_addf(out,
		"# HELP rnp_train_tokens_total Tokens of counted deltas.\n"
		"# TYPE rnp_train_tokens_total counter\nrnp_train_tokens_total %" PRIu64
		"\n",
		g->rounds.tokens);
	add_metric(out, "waiting", "gauge", "Workers that wait for work.", g->waiting.n);
	add_metric(out, "members", "gauge", "Workers that take part.",
		(double)g->rounds.r.here);
	add_metric(out, "working", "gauge", "Workers that have a turn.",
		(double)g->rounds.r.working);
	add_metric(out, "delivered", "gauge", "Deltas that are there of the open round.",
		(double)g->rounds.r.ndeltas);
	add_metric(out, "counted_total", "counter",
		"Deltas that counted since the start.", (double)g->figures.counted_total);
	add_metric(out, "dropped_total", "counter",
		"Turns that did not count since the start.",
		(double)g->figures.dropped_total);
	add_metric(out, "judged_total", "counter",
		"Deltas that were judged since the start.",
		(double)g->figures.judged_total);
	add_metric(out, "judging_seconds_total", "counter",
		"Time that rounds waited for judging since the start.",
		(double)g->figures.judging_ns / 1e9);
	add_metric(out, "refused_total", "counter", "Requests refused since the start.",
		(double)g->figures.refused);
	if (g->figures.loss_micronats >= 0)
		add_metric(out, "loss", "gauge",
			"Training loss at the end of the last round, nats a token.",
			(double)g->figures.loss_micronats / 1e6);
	if (g->figures.valid_micronats >= 0)
		add_metric(out, "validation_loss", "gauge",
			"Loss on the held-out text behind the last round, nats a token.",
			(double)g->figures.valid_micronats / 1e6);
	if (g->parent)
		parent_metrics(g, out);
	pthread_mutex_unlock(&g->rounds.lock);
}

const struct httpd_route coordinate_routes[] = {
	HTTPD_GET("/v1/run", get_run),
	HTTPD_POST("/v1/join", post_join, JOIN_BODY_MAX, .slow = true),
	HTTPD_POST("/v1/leave", post_leave, 0, .slow = true),
	HTTPD_GET("/v1/work", get_work, .slow = true, .disconnected = on_disconnect),
	HTTPD_GET("/v1/base", get_base, .slow = true, .disconnected = on_disconnect),
	HTTPD_GET("/v1/params/{hash}", get_params, .slow = true),
	HTTPD_GET("/v1/state/{hash}", get_state, .slow = true),
	HTTPD_GET("/v1/update/{hash}", get_update, .slow = true),
	HTTPD_GET("/v1/data/{digest}", get_data),
	HTTPD_GET("/v1/tokens", get_tokens, .slow = true),
	HTTPD_PUT("/v1/delta/{member}/{turn}/{piece}", coordinate_put_piece,
		PROTOCOL_BODY_BYTES, .slow = true, .class = HTTPD_LARGE),
	HTTPD_GET("/v1/delta/{sha256}", get_delta, .slow = true),
	HTTPD_GET("/v1/delta/{member}/{turn}", coordinate_get_pieces, .slow = true),
	HTTPD_POST("/v1/delta/{member}/{turn}", coordinate_post_delta, RECORD_BODY_MAX,
		.slow = true),
	HTTPD_GET("/v1/round/{round}", get_round, .slow = true),
	HTTPD_GET("/v1/rounds", get_rounds, .slow = true),
	HTTPD_GET("/v1/receipts/{member}", get_receipts, .slow = true),
	HTTPD_GET("/", coordinate_get_page, .slow = true),
	HTTPD_GET("/status", coordinate_get_status),
	HTTPD_GET("/openapi.json", get_openapi),
	HTTPD_GET("/health", get_health),
	{ 0 },
};
