/* coordinate_delta.c - deltas arrive in pieces, are put together, and held against what their
 * record and the run say. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/container.h"
#include "cmd/rnp-train/coordinate_api.h"
#include "cmd/rnp-train/coordinate_db.h"
#include "cmd/rnp-train/coordinate_pieces.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"

/* A record waits so long for the last pieces: less than a worker waits for an answer. */
#define HOLD_NS INT64_C(15000000000)

/* With the lock: whether a turn's delta may still count: it is open, or late and that is taken. Of one that was
 * given up, or of an older round, nothing is: its pieces would fill the disk. */
static bool is_wanted(const struct coordinator *g, const struct turn *t)
{
	if (strcmp(t->state, "open") == 0)
		return true;
	return g->run.late_count && strcmp(t->state, "absent") == 0 &&
		t->round + 1 >= g->round && !turn_is_given_up(t);
}

/* The turn in the path, of the member in the path, and whether its delta may still count. Returns false with r
 * filled. */
static bool find_turn(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, struct turn *t, bool *wanted)
{
	uint64_t number;
	int rc;

	if (!coordinate_parse_number(q->args[1], &number)) {
		httpd_error(r, 400, "turn: is not a number");
		return false;
	}
	pthread_mutex_lock(&g->lock);
	rc = coordinate_db_turn(g, number, t);
	*wanted = rc == 1 && is_wanted(g, t);
	pthread_mutex_unlock(&g->lock);
	if (rc == 1 && strcmp(t->node, q->args[0]) == 0)
		return true;
	if (rc < 0)
		httpd_error(r, 503, "%s", err_get()->text);
	else
		coordinate_refuse(g, r, 404, "turn: is not one of this member");
	return false;
}

static uint64_t delta_bytes_max(const struct coordinator *g)
{
	return container_bytes_max(g->run.method, g->run.parameters);
}

/* --- records that are held ---------------------------------------------------------------------- */

/* A record that came with its last pieces, not after them: they bring its answer. At most one a turn, of a
 * member who signed it. */
struct held {
	struct held *next;
	struct httpd_request *q;
	struct httpd_reply *r;
	struct delta d;
	int64_t until_ns;
};

/* With g->pieces_lock: no longer holds what *at is. */
static struct held *let_go(struct held **at)
{
	struct held *h = *at;

	if (h)
		*at = h->next;
	return h;
}

static struct held **held_of(struct coordinator *g, uint64_t turn)
{
	struct held **at = &g->held;

	while (*at && (*at)->d.turn != turn)
		at = &(*at)->next;
	return at;
}

static void refuse_held(struct held *h, int status, const char *text)
{
	if (!h)
		return;
	httpd_error(h->r, status, "%s", text);
	httpd_finish(h->q);
	free(h);
}

/* Returns false where the pieces have come meanwhile. */
static bool hold(struct coordinator *g, struct httpd_request *q, struct httpd_reply *r,
	const struct delta *d)
{
	struct held *h = xmalloc(sizeof *h), *before;
	bool there;

	*h = (struct held){ .q = q,
		.r = r,
		.d = *d,
		.until_ns = clock_mono_ns() + HOLD_NS };
	pthread_mutex_lock(&g->pieces_lock);
	before = let_go(held_of(g, d->turn));
	there = pieces_are_there(g, d->turn,
		protocol_pieces(d->bytes, g->run.piece_bytes));
	if (!there) {
		h->next = g->held;
		g->held = h;
	}
	pthread_mutex_unlock(&g->pieces_lock);
	refuse_held(before, 409, "the record has come again");
	if (there)
		free(h);
	return !there;
}

void coordinate_refuse_held(struct coordinator *g, int64_t now_ns, bool all)
{
	struct held *late = NULL;

	pthread_mutex_lock(&g->pieces_lock);
	for (struct held **at = &g->held; *at;) {
		if (all || now_ns >= (*at)->until_ns) {
			struct held *h = let_go(at);

			h->next = late;
			late = h;
		} else {
			at = &(*at)->next;
		}
	}
	pthread_mutex_unlock(&g->pieces_lock);
	while (late)
		refuse_held(let_go(&late), 409, "pieces are missing");
}

size_t coordinate_held(struct coordinator *g)
{
	size_t n = 0;

	pthread_mutex_lock(&g->pieces_lock);
	for (const struct held *h = g->held; h; h = h->next)
		n++;
	pthread_mutex_unlock(&g->pieces_lock);
	return n;
}

void coordinate_delta_gone(void *ctx, struct httpd_request *q)
{
	struct coordinator *g = ctx;
	struct held **at = &g->held, *h;

	pthread_mutex_lock(&g->pieces_lock);
	while (*at && (*at)->q != q)
		at = &(*at)->next;
	h = let_go(at);
	pthread_mutex_unlock(&g->pieces_lock);
	refuse_held(h, 409, "pieces are missing");
}

static enum httpd_when take_delta(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, const struct delta *d);

/* The record that waits for the pieces of a turn is answered, if they are there now, or (over) never will
 * be. */
static void answer_held(struct coordinator *g, uint64_t turn, bool over)
{
	struct held *h = NULL, **at;

	pthread_mutex_lock(&g->pieces_lock);
	at = held_of(g, turn);
	if (*at &&
		(over ||
			pieces_are_there(g, turn,
				protocol_pieces((*at)->d.bytes, g->run.piece_bytes))))
		h = let_go(at);
	pthread_mutex_unlock(&g->pieces_lock);
	if (h && take_delta(g, h->q, h->r, &h->d) == HTTPD_NOW)
		httpd_finish(h->q);
	free(h);
}

/* --- pieces ------------------------------------------------------------------------------------- */

enum httpd_when coordinate_put_piece(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	uint64_t piece, pieces = protocol_pieces(delta_bytes_max(g), g->run.piece_bytes);
	struct turn t;
	bool wanted;

	if (!coordinate_is_signed(g, q, r, true, q->args[0]) ||
		!find_turn(g, q, r, &t, &wanted))
		return HTTPD_NOW;
	if (!wanted) {
		answer_held(g, t.turn, true);
		return coordinate_refuse(g, r, 410, "turn: is over");
	}
	if (!coordinate_parse_number(q->args[2], &piece) || piece >= pieces ||
		protocol_pieces(q->body.len, g->run.piece_bytes) > pieces - piece)
		return coordinate_refuse(g, r, 400,
			"piece: is beyond any container of this run");
	if (!q->body.len)
		return coordinate_refuse(g, r, 400, "piece: is empty");
	switch (pieces_put(g, t.turn, piece, q->body.data, q->body.len)) {
	case 0:
		r->status = 201;
		/* fall through */
	case 1:
		buf_adds(&r->body, "{\"taken\":true}\n");
		answer_held(g, t.turn, false);
		return HTTPD_NOW;
	case 2:
		return coordinate_refuse(g, r, 409,
			"piece: other bytes are there already");
	case 3:
		return coordinate_refuse(g, r, 409, "piece: the delta is being checked");
	default:
		return httpd_error(r, 507, "%s", err_get()->text);
	}
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
	if (rc == 0)
		coordinate_took(g, t);
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

/* The same again has the same answer. */
static enum httpd_when refuse_over(struct coordinator *g, struct httpd_reply *r,
	const struct turn *t, const struct delta *d)
{
	return strcmp(t->sha256, d->sha256) == 0 ?
		delivered(r, t) :
		coordinate_refuse(g, r, t->sha256[0] ? 409 : 410, "turn: is over");
}

/* No worker's steps make a delta so large; its square could overflow what is made of all. */
static int check_norm(const struct coordinator *g, const struct turn *t, double norm)
{
	double max = training_norm_max(&g->run, delta_elements(g, t));

	if (norm <= max)
		return 0;
	return err_set(EX_DATAERR,
		"norm: %.3g, more than the %.3g that its steps can make", norm, max);
}

/* Whoever had nothing done could send what others did before. */
static int check_new(struct coordinator *g, const struct delta *d)
{
	int rc;

	pthread_mutex_lock(&g->lock);
	rc = coordinate_db_is_anothers(g, d->sha256, d->node);
	pthread_mutex_unlock(&g->lock);
	return rc == 1 ? err_set(EX_DATAERR,
				 "sha256: is that of another's delta of a closed round") :
			 rc;
}

/* Said to the member, and to everybody if nothing better comes, which others do not wait for. */
static void refuse_delta(struct coordinator *g, struct httpd_reply *r,
	const struct turn *t)
{
	struct err why;

	err_save(&why);
	pthread_mutex_lock(&g->lock);
	if (coordinate_db_refuse(g, t->turn, why.text) < 0)
		err_clear();
	round_excuse(&g->r, t->member, t->round - 1);
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
	coordinate_refuse(g, r, 422, why.text);
}

/* With check_lock. */
static enum httpd_when check_and_deliver(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, struct turn *t, const struct delta *d)
{
	char *path = coordinate_path(g, "delta-%" PRIu64 ".rnpg", t->turn);
	bool theirs, taken, whole;
	double norm;
	int rc = check_delta(g, d, t) < 0 || check_new(g, d) < 0 ? -1 : 0;

	if (rc == 0)
		rc = pieces_join(g, d, delta_elements(g, t), path, &norm);
	if (rc == 1) {
		free(path);
		/* once it is held, another thread may answer it */
		return hold(g, q, r, d) ? HTTPD_LATER : check_and_deliver(g, q, r, t, d);
	}
	whole = rc == 0;
	if (whole)
		rc = check_norm(g, t, norm);
	theirs = rc < 0 && err_get()->code == EX_DATAERR;
	if (theirs)
		refuse_delta(g, r, t);
	else if (rc < 0)
		coordinate_refuse(g, r, 503, err_get()->text);
	else
		deliver(g, r, t, d, norm);
	taken = rc == 0 && r->status < 300;
	if (whole && !taken)
		unlink(path);
	pieces_end(g, t->turn, theirs || taken);
	free(path);
	return HTTPD_NOW;
}

static enum httpd_when take_delta(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, const struct delta *d)
{
	enum httpd_when when = HTTPD_NOW;
	struct turn t;
	bool wanted;

	/* a turn is found with the lock: the same record may have come twice at once */
	pthread_mutex_lock(&g->check_lock);
	if (find_turn(g, q, r, &t, &wanted)) {
		if (t.turn != d->turn)
			coordinate_refuse(g, r, 400, "turn: is not the one in the path");
		else if (!wanted)
			refuse_over(g, r, &t, d);
		else
			when = check_and_deliver(g, q, r, &t, d);
	}
	pthread_mutex_unlock(&g->check_lock);
	return when;
}

enum httpd_when coordinate_post_delta(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct coordinator *g = ctx;
	json_t *record = coordinate_take_record(g, q, r, "rnp.delta");
	enum httpd_when when = HTTPD_NOW;
	struct delta d;

	if (!record)
		return HTTPD_NOW;
	if (delta_read(&d, record, &g->run, "body") < 0)
		coordinate_refuse(g, r, 400, err_get()->text);
	else if (strcmp(d.node, q->args[0]) != 0)
		coordinate_refuse(g, r, 403, "node: is not the member in the path");
	else
		when = take_delta(g, q, r, &d);
	json_decref(record);
	return when;
}
