/* coordinate_delta.c - deltas arrive in pieces, are put together, and held against what their
 * record and the run say. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/container.h"
#include "cmd/rnp-train/coordinate_api.h"
#include "cmd/rnp-train/coordinate_db.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"

/* The turn in the path, of the member in the path. Returns false with r filled. */
static bool find_turn(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, struct turn *t)
{
	uint64_t number;
	int rc;

	if (!coordinate_parse_number(q->args[1], &number)) {
		httpd_error(r, 400, "turn: is not a number");
		return false;
	}
	pthread_mutex_lock(&g->lock);
	rc = coordinate_db_turn(g, number, t);
	pthread_mutex_unlock(&g->lock);
	if (rc == 1 && strcmp(t->node, q->args[0]) == 0)
		return true;
	if (rc < 0)
		httpd_error(r, 503, "%s", err_get()->text);
	else
		coordinate_refuse(g, r, 404, "turn: is not one of this member");
	return false;
}

/* Whether a turn's delta may still count: it is open, or late and that is taken. */
static bool is_wanted(const struct coordinator *g, const struct turn *t)
{
	return strcmp(t->state, "open") == 0 ||
		(g->run.late_count && strcmp(t->state, "absent") == 0);
}

static char *piece_path(struct coordinator *g, uint64_t turn, uint64_t piece)
{
	return coordinate_path(g, "delta-%" PRIu64 "-%" PRIu64, turn, piece);
}

static uint64_t delta_bytes_max(const struct coordinator *g)
{
	return container_bytes_max(g->run.method, g->run.parameters);
}

/* The same bytes again are fine, others are not. */
static enum httpd_when compare_piece(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, const char *path)
{
	struct buf there = BUF_INIT;
	bool same = io_read(&there, path, PROTOCOL_PIECE_MAX) == 0 &&
		there.len == q->body.len &&
		memcmp(there.data, q->body.data, there.len) == 0;

	buf_release(&there);
	if (!same)
		return coordinate_refuse(g, r, 409,
			"piece: other bytes are there already");
	buf_adds(&r->body, "{\"taken\":true}\n");
	return HTTPD_NOW;
}

enum httpd_when coordinate_put_piece(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	uint64_t piece, pieces = protocol_pieces(delta_bytes_max(g), g->run.piece_bytes);
	struct turn t;
	char *path;

	if (!coordinate_is_signed(g, q, r, true, q->args[0]) || !find_turn(g, q, r, &t))
		return HTTPD_NOW;
	if (!is_wanted(g, &t))
		return coordinate_refuse(g, r, 410, "turn: is over");
	if (!coordinate_parse_number(q->args[2], &piece) || piece >= pieces)
		return coordinate_refuse(g, r, 400,
			"piece: is beyond any container of this run");
	if (!q->body.len || q->body.len > g->run.piece_bytes)
		return coordinate_refuse(g, r, 413,
			"piece: is empty, or larger than piece_bytes");
	path = piece_path(g, t.turn, piece);
	if (access(path, F_OK) == 0) {
		compare_piece(g, q, r, path);
	} else if (io_create(path, q->body.data, q->body.len, 0666) == 0) {
		r->status = 201;
		buf_adds(&r->body, "{\"taken\":true}\n");
	} else if (err_get()->code == EX_CANTCREAT && access(path, F_OK) == 0) {
		compare_piece(g, q, r, path); /* two at once */
	} else {
		httpd_error(r, 507, "%s", err_get()->text);
	}
	free(path);
	return HTTPD_NOW;
}

enum httpd_when coordinate_get_pieces(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	uint64_t pieces = protocol_pieces(delta_bytes_max(g), g->run.piece_bytes), n = 0;
	struct turn t;

	if (!coordinate_is_signed(g, q, r, false, q->args[0]) || !find_turn(g, q, r, &t))
		return HTTPD_NOW;
	buf_addf(&r->body, "{\"turn\":%" PRIu64 ",\"state\":\"%s\",\"pieces\":[", t.turn,
		t.state);
	for (uint64_t i = 0; i < pieces && is_wanted(g, &t); i++) {
		char *path = piece_path(g, t.turn, i);

		if (access(path, F_OK) == 0)
			buf_addf(&r->body, "%s%" PRIu64, n++ ? "," : "", i);
		free(path);
	}
	buf_adds(&r->body, "]}\n");
	return HTTPD_NOW;
}

/* Puts the pieces together and holds them against what the record says. Returns 0, or -1 with
 * err_set(): 65 they are not it, 74. */
static int join_pieces(struct coordinator *g, const struct delta *d, const char *path)
{
	uint64_t pieces = protocol_pieces(d->bytes, g->run.piece_bytes);
	crypto_hash_sha256_state h;
	unsigned char hash[32];
	char hex[PROTOCOL_HEX];
	struct io_part out = { 0 };
	struct buf part = BUF_INIT;
	int rc = io_part_open(&out, path, 0666);

	crypto_hash_sha256_init(&h);
	for (uint64_t i = 0; rc == 0 && i < pieces; i++) {
		char *from = piece_path(g, d->turn, i);

		buf_reset(&part);
		rc = io_read(&part, from, PROTOCOL_PIECE_MAX);
		if (rc < 0)
			rc = err_set(EX_DATAERR, "piece %" PRIu64 " is missing", i);
		else if (part.len != protocol_piece(d->bytes, g->run.piece_bytes, i))
			rc = err_set(EX_DATAERR, "piece %" PRIu64 " has another length",
				i);
		else
			rc = io_part_write(&out, part.data, part.len);
		if (rc == 0)
			crypto_hash_sha256_update(&h, (void *)part.data, part.len);
		free(from);
	}
	crypto_hash_sha256_final(&h, hash);
	protocol_hex(hex, hash);
	if (rc == 0 && strcmp(hex, d->sha256) != 0)
		rc = err_set(EX_DATAERR, "sha256: is not that of the pieces");
	if (rc == 0)
		rc = io_part_close(&out);
	io_part_drop(&out);
	buf_release(&part);
	return rc;
}

static void drop_pieces(struct coordinator *g, uint64_t turn)
{
	uint64_t pieces = protocol_pieces(delta_bytes_max(g), g->run.piece_bytes);

	for (uint64_t i = 0; i < pieces; i++) {
		char *path = piece_path(g, turn, i);

		unlink(path);
		free(path);
	}
}

/* Reads the fields of a delta's record that describe its turn. Returns 0, or -1 with
 * err_set(EX_DATAERR). */
static int check_delta(const struct coordinator *g, const struct delta *d,
	const struct turn *t)
{
	if (strcmp(d->base, t->base) != 0)
		return err_set(EX_DATAERR, "base: is not that of the turn");
	if (d->steps != t->steps || d->tokens != t->sequences * g->run.length)
		return err_set(EX_DATAERR, "steps, tokens: are not those of the turn");
	if (!d->bytes || d->bytes > delta_bytes_max(g))
		return err_set(EX_DATAERR, "bytes: more than any container of this run");
	return 0;
}

static enum httpd_when delivered(struct httpd_reply *r, const struct turn *t)
{
	buf_addf(&r->body, "{\"turn\":%" PRIu64 ",\"sha256\":\"%s\"}\n", t->turn,
		t->sha256);
	return HTTPD_NOW;
}

/* Hands a delta to the round; with the lock. Returns 0, or -1 with err_set(): 66 if the round
 * does not want it. */
static int arrive(struct coordinator *g, struct turn *t)
{
	switch (round_deliver(&g->r, t->member, t->round - 1, t->steps,
		coordinate_now(g))) {
	case ROUND_COUNTED:
		strcpy(t->state, "delivered");
		return coordinate_db_set_turn(g, t, NULL);
	case ROUND_LATE:
		strcpy(t->state, "late");
		return coordinate_db_set_turn(g, t, NULL);
	case ROUND_DROPPED:
		return err_set(EX_NOINPUT, "turn: its round is closed");
	default:
		return err_set(EX_NOINPUT, "turn: is over");
	}
}

/* The container is there and sound: the turn is delivered, or late. */
static enum httpd_when deliver(struct coordinator *g, struct httpd_reply *r,
	struct turn *t, const struct delta *d, double norm)
{
	struct turn now;
	int rc;

	memcpy(t->sha256, d->sha256, sizeof t->sha256);
	t->bytes = d->bytes;
	t->tokens = d->tokens;
	t->seconds = d->seconds;
	t->loss_first = d->loss_first_micronats;
	t->loss_last = d->loss_last_micronats;
	t->norm = norm;
	t->delivered_ms = clock_now_ms();
	pthread_mutex_lock(&g->lock);
	rc = coordinate_db_turn(g, t->turn, &now);
	if (rc == 1)
		rc = is_wanted(g, &now) ? arrive(g, t) :
					  err_set(EX_NOINPUT, "turn: is over");
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
	if (rc == 0)
		return delivered(r, t);
	return httpd_error(r, err_get()->code == EX_NOINPUT ? 410 : 503, "%s",
		err_get()->text);
}

/* Elements of a turn's delta: those that its round exchanges. */
static uint64_t delta_elements(const struct coordinator *g, const struct turn *t)
{
	struct update_range *ranges;
	uint64_t n;

	training_ranges(&g->run, t->round - 1, &ranges, &n);
	free(ranges);
	return n;
}

static enum httpd_when take_delta(struct coordinator *g, struct httpd_reply *r,
	struct turn *t, const struct delta *d)
{
	char *path = coordinate_path(g, "delta-%" PRIu64 ".rnpg", t->turn);
	double norm;
	int rc;

	if (!is_wanted(g, t)) {
		/* the same again has the same answer */
		free(path);
		return strcmp(t->sha256, d->sha256) == 0 ?
			delivered(r, t) :
			coordinate_refuse(g, r, t->sha256[0] ? 409 : 410,
				"turn: is over");
	}
	pthread_mutex_lock(&g->check_lock);
	rc = check_delta(g, d, t) < 0 || join_pieces(g, d, path) < 0 ||
			container_check(&g->check, path, g->run.method,
				delta_elements(g, t), &norm) < 0 ?
		-1 :
		0;
	if (rc < 0) {
		bool theirs = err_get()->code == EX_DATAERR;

		unlink(path);
		if (theirs)
			drop_pieces(g, t->turn);
		coordinate_refuse(g, r, theirs ? 422 : 503, err_get()->text);
	} else if (deliver(g, r, t, d, norm) == HTTPD_NOW && r->status < 300) {
		drop_pieces(g, t->turn);
	}
	pthread_mutex_unlock(&g->check_lock);
	free(path);
	return HTTPD_NOW;
}

enum httpd_when coordinate_post_delta(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	json_t *record = coordinate_take_record(g, q, r, "rnp.delta");
	struct delta d;
	struct turn t;

	if (!record)
		return HTTPD_NOW;
	if (delta_read(&d, record, &g->run, "body") < 0)
		coordinate_refuse(g, r, 400, err_get()->text);
	else if (strcmp(d.node, q->args[0]) != 0)
		coordinate_refuse(g, r, 403, "node: is not the member in the path");
	else if (find_turn(g, q, r, &t)) {
		if (t.turn != d.turn)
			coordinate_refuse(g, r, 400, "turn: is not the one in the path");
		else
			take_delta(g, r, &t, &d);
	}
	json_decref(record);
	return HTTPD_NOW;
}
