/* delta.c - deltas arrive in pieces, are put together, and held against what their
 * record and the run say. */
#include "cmd/rnp-train/coordinator/delta.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/coordinator/request.h"
#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/pieces.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"

/* With rounds.lock: whether a turn's delta may still count. The turn is open, or it is of the last
 * round and the run counts late deltas. Pieces of all other turns are refused: they would fill the
 * disk. */
static bool is_wanted(const struct coordinator *g, const struct turn *t)
{
	if (strcmp(t->state, "open") == 0)
		return true;
	return g->run.late_count && strcmp(t->state, "absent") == 0 &&
		t->round + 1 >= g->rounds.round && !turn_is_given_up(t);
}

/* The turn in the path, of the member in the path, and whether its delta may still count. Returns
 * false with r filled. */
static bool find_turn(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, struct turn *t, bool *wanted)
{
	uint64_t number;
	int rc;

	if (!coordinate_parse_number(q->args[1], &number)) {
		httpd_error(r, 400, "turn: is not a number");
		return false;
	}
	pthread_mutex_lock(&g->rounds.lock);
	rc = coordinate_db_turn(g, number, t);
	*wanted = rc == 1 && is_wanted(g, t);
	pthread_mutex_unlock(&g->rounds.lock);
	if (rc == 1 && strcmp(t->node, q->args[0]) == 0)
		return true;
	if (rc < 0)
		httpd_error(r, 503, "%s", err_get()->text);
	else
		coordinate_refuse(g, r, 404, "turn: is not one of this member");
	return false;
}

/* What was found in a container. */
struct measured {
	double norm;
	float sketch[SKETCH_N];
};

static uint64_t delta_bytes_max(const struct coordinator *g)
{
	return container_bytes_max(g->run.method, g->run.parameters);
}

/* --- pieces ------------------------------------------------------------------------------- */

static enum httpd_when put_piece(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, struct upload *u)
{
	uint64_t piece, pieces = protocol_pieces(delta_bytes_max(g), g->run.piece_bytes);

	if (!coordinate_parse_number(q->args[2], &piece) || piece >= pieces ||
		protocol_pieces(q->body.len, g->run.piece_bytes) > pieces - piece)
		return coordinate_refuse(g, r, 400,
			"piece: is beyond any container of this run");
	if (!q->body.len)
		return coordinate_refuse(g, r, 400, "piece: is empty");
	switch (pieces_put(g, u, piece, q->body.data, q->body.len)) {
	case 0:
		g->intake.full_ns = 0;
		r->status = 201;
		/* fall through */
	case 1:
		buf_adds(&r->body, "{\"taken\":true}\n");
		return HTTPD_NOW;
	case 2:
		return coordinate_refuse(g, r, 409,
			"piece: other bytes are there already");
	case 3:
		return coordinate_refuse(g, r, 409, "piece: the delta is being checked");
	default:
		g->intake.full_ns = clock_mono_ns();
		return httpd_error(r, 507, "%s", err_get()->text);
	}
}

/* Room for one more container beside those that are on their way and what the end of a round
 * writes: strangers' pieces must not be what keeps a round from being closed. */
static bool has_room(struct coordinator *g)
{
	uint64_t bytes = (uploads_count(g) + 1) * delta_bytes_max(g) +
		COORDINATE_ARRAYS * g->run.parameters * sizeof(float) +
		container_bytes_max(g->run.method_down, g->run.parameters);
	struct statvfs fs;

	return statvfs(g->dir, &fs) < 0 ||
		(uint64_t)fs.f_bavail * (uint64_t)fs.f_frsize > bytes;
}

/* The database is asked at an upload's first piece only. Returns false with r filled. */
static bool is_upload_wanted(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, struct upload *u)
{
	uint64_t forgotten;
	struct turn t;
	bool wanted;

	if (upload_is_of(g, u, q->args[0], &forgotten))
		return true;
	if (!find_turn(g, q, r, &t, &wanted))
		return false;
	if (!wanted) {
		coordinate_refuse(g, r, 410, "turn: is over");
		return false;
	}
	if (!has_room(g)) {
		g->intake.full_ns = clock_mono_ns();
		r->retry_after_s = 30;
		coordinate_refuse(g, r, 507, "the disk has no room for another change");
		return false;
	}
	upload_want(g, u, q->args[0], forgotten);
	return true;
}

enum httpd_when coordinate_put_piece(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	struct upload *u;
	uint64_t turn;

	if (!coordinate_is_signed(g, q, r, true, q->args[0]))
		return HTTPD_NOW;
	if (!coordinate_parse_number(q->args[1], &turn))
		return httpd_error(r, 400, "turn: is not a number");
	u = upload_open(g, turn);
	if (is_upload_wanted(g, q, r, u))
		put_piece(g, q, r, u);
	upload_close(g, u);
	return HTTPD_NOW;
}

enum httpd_when coordinate_get_pieces(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	uint64_t pieces = protocol_pieces(delta_bytes_max(g), g->run.piece_bytes);
	struct turn t;
	bool wanted;

	if (!coordinate_is_signed(g, q, r, false, q->args[0]) ||
		!find_turn(g, q, r, &t, &wanted))
		return HTTPD_NOW;
	buf_addf(&r->body,
		"{\"turn\":%" PRIu64 ",\"state\":\"%s\",\"bytes_max\":%" PRIu64
		",\"pieces\":[",
		t.turn, t.state, PROTOCOL_BODY_BYTES);
	if (wanted)
		pieces_list(g, t.turn, pieces, &r->body);
	buf_adds(&r->body, "]}\n");
	return HTTPD_NOW;
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
	switch (round_deliver(&g->rounds.r, t->member, t->round - 1, t->steps,
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
	struct turn *t, const struct delta *d, const struct measured *m)
{
	struct turn now;
	int rc;

	memcpy(t->sha256, d->sha256, sizeof t->sha256);
	t->bytes = d->bytes;
	t->tokens = d->tokens;
	t->seconds = d->seconds;
	t->loss_first = d->loss_first_micronats;
	t->loss_last = d->loss_last_micronats;
	t->norm = m->norm;
	t->sketch = m->sketch;
	t->delivered_ms = clock_now_ms();
	pthread_mutex_lock(&g->rounds.lock);
	rc = coordinate_db_turn(g, t->turn, &now);
	if (rc == 1)
		rc = is_wanted(g, &now) ? arrive(g, t) :
					  err_set(EX_NOINPUT, "turn: is over");
	if (rc == 0)
		coordinate_took(g, t);
	pthread_cond_signal(&g->rounds.wake);
	pthread_mutex_unlock(&g->rounds.lock);
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

/* A record that comes twice has the same answer twice; another one of that turn is refused. */
static enum httpd_when refuse_over(struct coordinator *g, struct httpd_reply *r,
	const struct turn *t, const struct delta *d)
{
	return strcmp(t->sha256, d->sha256) == 0 ?
		delivered(r, t) :
		coordinate_refuse(g, r, t->sha256[0] ? 409 : 410, "turn: is over");
}

/* No worker's steps make a delta so large; its square could overflow what is made of all. Nor do
 * they change nothing. */
static int check_norm(const struct coordinator *g, const struct turn *t, double norm)
{
	double max = training_norm_max(&g->run, delta_elements(g, t));

	if (norm == 0)
		return err_set(EX_DATAERR, "norm: is 0, and steps change something");
	if (norm <= max)
		return 0;
	return err_set(EX_DATAERR,
		"norm: %.3g, more than the %.3g that its steps can make", norm, max);
}

/* Refuses the bytes of an earlier delta: those of closed rounds can be fetched by anybody, and
 * would be paid for no work. */
static int check_new(struct coordinator *g, const struct delta *d)
{
	int rc;

	pthread_mutex_lock(&g->rounds.lock);
	rc = coordinate_db_was_sent(g, d->sha256, d->node, d->turn);
	pthread_mutex_unlock(&g->rounds.lock);
	return rc == 1 ?
		err_set(EX_DATAERR,
			"sha256: is that of an earlier delta of a closed round") :
		rc;
}

/* The same for a delta that is nearly a multiple of an earlier one. */
static int check_unlike(struct coordinator *g, const struct turn *t, const float *sketch)
{
	int rc;

	pthread_mutex_lock(&g->rounds.lock);
	rc = coordinate_db_resembles(g, t, sketch);
	pthread_mutex_unlock(&g->rounds.lock);
	return rc == 1 ?
		err_set(EX_DATAERR, "delta: is nearly a multiple of an earlier one") :
		rc;
}

/* Answers the member with the last error, and keeps it as the turn's reason: the round's record
 * shows it unless a sound delta follows. The round no longer waits for this member. */
static void refuse_delta(struct coordinator *g, struct httpd_reply *r,
	const struct turn *t)
{
	struct err why;

	err_save(&why);
	pthread_mutex_lock(&g->rounds.lock);
	if (coordinate_db_refuse(g, t->turn, why.text) < 0)
		err_clear();
	round_excuse(&g->rounds.r, t->member, t->round - 1);
	pthread_cond_signal(&g->rounds.wake);
	pthread_mutex_unlock(&g->rounds.lock);
	coordinate_refuse(g, r, 422, why.text);
}

/* As pieces_join. */
static int measure(struct coordinator *g, const struct turn *t, const struct delta *d,
	const char *path, struct measured *m)
{
	struct sketch s;
	int rc;

	sketch_begin(&s, g->intake.sketch_seed);
	rc = pieces_join(g, d, delta_elements(g, t), path, &m->norm, &s);
	sketch_end(&s, m->sketch);
	return rc;
}

/* With check_lock. */
static void check_and_deliver(struct coordinator *g, struct httpd_reply *r,
	struct turn *t, const struct delta *d)
{
	char *path = coordinate_path(g, "delta-%" PRIu64 ".rnpg", t->turn);
	bool theirs, taken, whole;
	struct measured m;
	int rc = check_delta(g, d, t) < 0 || check_new(g, d) < 0 ? -1 : 0;

	if (rc == 0)
		rc = measure(g, t, d, path, &m);
	if (rc == 1) {
		free(path);
		coordinate_refuse(g, r, 409, "pieces are missing");
		return;
	}
	whole = rc == 0;
	if (whole)
		rc = check_norm(g, t, m.norm);
	if (whole && rc == 0)
		rc = check_unlike(g, t, m.sketch);
	theirs = rc < 0 && err_get()->code == EX_DATAERR;
	if (theirs)
		refuse_delta(g, r, t);
	else if (rc < 0)
		coordinate_refuse(g, r, 503, err_get()->text);
	else
		deliver(g, r, t, d, &m);
	taken = rc == 0 && r->status < 300;
	if (whole && !taken)
		unlink(path);
	pieces_end(g, t->turn, theirs || taken);
	free(path);
}

static void accept_delta(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, const struct delta *d)
{
	struct turn t;
	bool wanted;

	/* a turn is found with the lock: the same record may have come twice at once */
	pthread_mutex_lock(&g->intake.check_lock);
	if (find_turn(g, q, r, &t, &wanted)) {
		if (t.turn != d->turn)
			coordinate_refuse(g, r, 400, "turn: is not the one in the path");
		else if (!wanted)
			refuse_over(g, r, &t, d);
		else
			check_and_deliver(g, r, &t, d);
	}
	pthread_mutex_unlock(&g->intake.check_lock);
}

enum httpd_when coordinate_post_delta(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	json_t *record = coordinate_read_record(g, q, r, "rnp.delta");
	struct delta d;

	if (!record)
		return HTTPD_NOW;
	if (delta_read(&d, record, &g->run, "body") < 0)
		coordinate_refuse(g, r, 400, err_get()->text);
	else if (strcmp(d.node, q->args[0]) != 0)
		coordinate_refuse(g, r, 403, "node: is not the member in the path");
	else
		accept_delta(g, q, r, &d);
	json_decref(record);
	return HTTPD_NOW;
}
