/* join_deliver.c - a delta goes to the coordinator in pieces, each as often as it takes, and its record with
 * the last of them. */
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/join.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define REQUEST_BYTES ((uint64_t)256 << 10) /* worth a connection */
#define IN_FLIGHT \
	((uint64_t)16 << 20) /* of all requests: what the coordinator keeps in memory */
#define AGAIN_PART  32       /* of the pieces, one may be sent once more */
#define LAST_MS     20       /* for answers that came with the record's */
#define REFUSED_MAX 3 /* deltas in a row: this machine does not compute what others do */

/* No delta is left to be sent; where a kill keeps this from the disk, the coordinator says so again. */
static int end_delta(struct worker *w)
{
	if (worker_kept(w) < 0)
		return -1;
	w->state.pending = false;
	return worker_keep(w, NULL, 0);
}

/* Nobody wants the delta: said, and forgotten. One that is refused is made again, and again the same. */
static int forget(struct worker *w, const struct http_response *r)
{
	bool enough = r->status == 422 && ++w->refused >= REFUSED_MAX;
	struct err why;

	client_refused(r, EX_DATAERR, "the delta");
	err_save(&why);
	err_clear();
	w->forgotten = true;
	if (end_delta(w) < 0)
		return -1;
	if (enough)
		return worker_kept(w) < 0 ? -1 : err_restore(&why);
	prog_warn("%s", why.text);
	return 0;
}

/* Whether the coordinator has the delta already, of an upload whose last answer was lost. */
static bool has_taken(const json_t *answer)
{
	const char *state = json_string_value(json_object_get(answer, "state"));

	return state &&
		(strcmp(state, "delivered") == 0 || strcmp(state, "late") == 0 ||
			strcmp(state, "counted") == 0 || strcmp(state, "refused") == 0);
}

/* A delta on its way. */
struct upload {
	struct worker *w;
	struct delta d; /* what its pieces need of it: turn and bytes */
	struct buf file;
	bool begun; /* its connections are at work */
	uint64_t pieces;
	bool *there;        /* [pieces]: by the coordinator, or under way */
	bool found;         /* some were, sent by an earlier process */
	int n;              /* connections */
	uint64_t least;     /* pieces of a request, at least */
	struct uploader *c; /* [CLIENT_CONNECTIONS_MAX], of which n are used */
	struct http_abort taken_up,
		ended;          /* are set: by take_up, by the last connection */
	struct http_abort stop; /* of all connections */
	pthread_mutex_t lock;
	/* with the lock */
	uint64_t left;             /* pieces that nobody has taken up */
	uint64_t again;            /* that may be sent once more */
	int active;                /* connections */
	bool broken;               /* a connection met what ends the upload */
	int64_t took_ns, requests; /* of all that are answered */
};

/* One connection's part. */
struct uploader {
	struct upload *all;
	struct client *client; /* of an uplink */
	/* with the lock: what it sends since when, and how many of these pieces others have sent again */
	uint64_t first, n, again;
	int64_t since_ns;
	struct http_response refused; /* status 0: nothing was */
	struct err error;             /* code 0: none */
	pthread_t thread;
};

/* Which pieces are there, of u. Returns 0; 1: the turn is over; -1. */
static int ask_pieces(struct upload *u)
{
	struct worker *w = u->w;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "GET", .sign = true };
	json_t *answer = NULL, *list = NULL;
	int64_t max = (int64_t)w->run.piece_bytes;
	char path[256];
	int rc;

	snprintf(path, sizeof path, "/v1/delta/%s/%" PRIu64, w->key.address,
		w->state.delta.turn);
	q.path = path;
	rc = client_send(&w->client, &q, &r);
	if (rc == 0 && r.status != 200)
		rc = forget(w, &r) < 0 ? -1 : 1;
	if (rc == 0) {
		answer = json_parse_object(buf_text(&r.body), r.body.len, "pieces");
		rc = answer ? json_get_array(answer, "pieces", "pieces", &list) : -1;
	}
	/* one that does not say it takes a piece at a time */
	if (rc == 0 && json_object_get(answer, "bytes_max"))
		rc = json_get_i64(answer, "pieces", "bytes_max", 1, INT64_MAX, &max);
	if (rc == 0 && has_taken(answer))
		rc = end_delta(w) < 0 ? -1 : 1;
	w->body_bytes = (uint64_t)max;
	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		json_int_t n = json_integer_value(json_array_get(list, i));

		if (n >= 0 && (uint64_t)n < u->pieces && !u->there[n]) {
			u->there[n] = u->found = true;
			u->left--;
		}
	}
	json_decref(answer);
	http_response_release(&r);
	return rc;
}

/* How many pieces a request carries: fewer towards the end, so that the last requests end together. */
static uint64_t pieces_of_request(const struct upload *u)
{
	uint64_t n = (uint64_t)u->n, want = u->left / (2 * n);
	uint64_t max = u->w->body_bytes < IN_FLIGHT / n ? u->w->body_bytes :
							  IN_FLIGHT / n;

	max /= u->w->run.piece_bytes;
	want = want < u->least ? u->least : want;
	want = want > max ? max : want;
	return want ? want : 1;
}

/* Pieces that nobody has taken up yet. */
static void take_new(struct uploader *c)
{
	struct upload *u = c->all;
	uint64_t want = pieces_of_request(u);

	for (c->first = 0; u->there[c->first];)
		c->first++;
	while (c->first + c->n < u->pieces && !u->there[c->first + c->n] && c->n < want)
		u->there[c->first + c->n++] = true;
	u->left -= c->n;
	if (!u->left)
		http_abort(&u->taken_up);
}

/* At the end: a piece of the request that has been under way for longest, if that is twice as long as they
 * take. A connection that lost many packets recovers slowly, and all would wait for it. */
static void take_again(struct uploader *c, int64_t now_ns)
{
	struct upload *u = c->all;
	struct uploader *slow = NULL;

	for (int i = 0; i < u->n; i++) {
		struct uploader *o = &u->c[i];

		if (o->again < o->n &&
			now_ns - o->since_ns > 2 * u->took_ns / u->requests &&
			(!slow || o->since_ns < slow->since_ns))
			slow = o;
	}
	if (!slow)
		return;
	u->again--;
	c->first = slow->first + slow->n - ++slow->again;
	c->n = c->again = 1;
}

/* Decides what the connection's next request carries. Returns false where there is nothing left. */
static bool take_up(struct uploader *c)
{
	struct upload *u = c->all;
	int64_t now_ns = clock_mono_ns();

	pthread_mutex_lock(&u->lock);
	if (c->n) {
		u->took_ns += now_ns - c->since_ns;
		u->requests++;
	}
	c->n = c->again = 0;
	if (!u->broken && u->left)
		take_new(c);
	else if (!u->broken && u->again && u->requests)
		take_again(c, now_ns);
	c->since_ns = now_ns;
	pthread_mutex_unlock(&u->lock);
	return c->n > 0;
}

/* Returns 0, or -1 with c->refused or c->error. */
static int put_pieces(struct uploader *c)
{
	struct worker *w = c->all->w;
	const struct delta *d = &c->all->d;
	uint64_t piece_bytes = w->run.piece_bytes, from = c->first * piece_bytes;
	uint64_t to = from + c->n * piece_bytes;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "PUT",
		.content_type = "application/octet-stream",
		.body = c->all->file.data + from,
		.body_bytes = (to < d->bytes ? to : d->bytes) - from,
		.timeout_ms = 600000,
		.sign = true };
	char path[256];
	int rc;

	snprintf(path, sizeof path, "/v1/delta/%s/%" PRIu64 "/%" PRIu64, w->key.address,
		d->turn, c->first);
	q.path = path;
	rc = client_send(c->client, &q, &r);
	if (rc < 0) {
		err_save(&c->error);
	} else if (r.status != 200 && r.status != 201) {
		c->refused = r;
		return -1;
	}
	http_response_release(&r);
	return rc;
}

static void *upload(void *arg)
{
	struct uploader *c = arg;
	struct upload *u = c->all;

	while (take_up(c))
		if (put_pieces(c) < 0) {
			pthread_mutex_lock(&u->lock);
			u->broken = true;
			pthread_mutex_unlock(&u->lock);
			http_abort(&u->taken_up);
		}
	pthread_mutex_lock(&u->lock);
	if (--u->active == 0)
		http_abort(&u->ended);
	pthread_mutex_unlock(&u->lock);
	return NULL;
}

/* Bytes that connection i transferred count as the worker's. A few stay open: a turn's end waits for no
 * handshake then. */
static void end_uploader(struct uploader *c, int i)
{
	struct worker *w = c->all->w;
	struct uplink *l = &w->uplinks[i];

	client_count_bytes(&l->client, &l->counted, &w->client);
	if (i >= UPLINKS_KEPT) {
		http_release(&l->client.http);
		*l = (struct uplink){ 0 };
	}
	http_response_release(&c->refused);
}

/* Sends the record that makes a delta of the pieces. early: while the last of them are under way. Returns
 * 0: it is taken, or nobody wants it; 1: only early, it was not; 3: pieces of an earlier process are not its,
 * and none is there any more; -1. */
static int post_record(struct upload *u, bool early)
{
	struct worker *w = u->w;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct delta *d = &w->state.delta;
	json_t *record;
	char path[256];
	int rc;

	/* what it says has to outlive this process */
	if (worker_kept(w) < 0)
		return -1;
	memcpy(d->node, w->key.address, sizeof d->node);
	record = delta_write(d, &w->run, client_now_ms(&w->client));
	snprintf(path, sizeof path, "/v1/delta/%s/%" PRIu64, w->key.address, d->turn);
	rc = client_post(&w->client, path, record, &r);
	if (rc == 0 && r.status == 200) {
		w->refused = 0;
		rc = end_delta(w);
	} else if (rc == 0 && r.status == 422) {
		/* what was there has been looked at, and is there no more */
		rc = u->found ? 3 : forget(w, &r);
	} else if (rc == 0) {
		rc = early ? 1 : forget(w, &r);
	}
	json_decref(record);
	http_response_release(&r);
	return rc;
}

/* Waits until the last pieces are under way, and sends the record after them, on the connection that asked
 * for them. As post_record; a connection that broke says more than what came of it. */
static int post_early(struct upload *u)
{
	bool broken;
	int rc;

	client_wait(&u->w->client, &u->taken_up, &u->stop);
	pthread_mutex_lock(&u->lock);
	broken = u->broken;
	pthread_mutex_unlock(&u->lock);
	if (broken)
		return 1;
	worker_ask_ahead(u->w);
	rc = post_record(u, true);
	if (rc < 0 && u->w->state.pending) {
		err_clear();
		return 1;
	}
	/* what is still under way is there already, and its answer most often, too: who reads it may keep
	 * the connection */
	if (rc != 1 &&
		poll(&(struct pollfd){ .fd = u->ended.fd, .events = POLLIN }, 1,
			LAST_MS) < 1)
		http_abort(&u->stop);
	return rc;
}

/* Decides over how many connections, at most one for each REQUEST_BYTES, and the least of a request: where
 * each connection has but one or two, they are not made smaller. */
static void plan_upload(struct upload *u)
{
	uint64_t each = REQUEST_BYTES / u->w->run.piece_bytes;
	int n = client_connections(&u->w->client, u->w->client.up_max);

	each = each ? each : 1;
	while (n > 1 && (uint64_t)(n - 1) * each >= u->left)
		n--;
	u->n = n;
	u->again = u->left / AGAIN_PART;
	u->least = u->left <= 2 * each * (uint64_t)n ? each : 1;
}

/* Connection i, as it was left by the last delta. */
static struct client *uplink(struct worker *w, int i)
{
	struct client *c = &w->uplinks[i].client;
	struct http http = c->http;

	*c = w->client;
	c->http = http;
	return c;
}

/* Returns 0, or -1 with err_set(): none was started. */
static int start_uploaders(struct upload *u)
{
	struct worker *w = u->w;
	int i;

	if (!w->uplinks)
		w->uplinks = xcalloc(CLIENT_CONNECTIONS_MAX, sizeof *w->uplinks);
	plan_upload(u);
	/* of an earlier try */
	http_abort_reset(&u->taken_up);
	http_abort_reset(&u->ended);
	http_abort_reset(&u->stop);
	pthread_mutex_lock(&u->lock); /* so that none sees the others half made */
	for (i = 0; i < u->n; i++) {
		struct uploader *c = &u->c[i];

		*c = (struct uploader){ .all = u, .client = uplink(w, i) };
		c->client->abort = &u->stop;
		/* together they keep to the limit */
		c->client->up_max = w->client.up_max / u->n;
		if (pthread_create(&c->thread, NULL, upload, c) != 0)
			break;
	}
	u->n = u->active = i;
	pthread_mutex_unlock(&u->lock);
	u->begun = i;
	return i ? 0 : err_sys(EX_OSERR, "cannot start a thread");
}

/* Returns 0; 2: pieces are refused, and the record's answer decides; -1: a connection's error. */
static int join_uploaders(struct upload *u)
{
	int rc = 0;

	client_wait(&u->w->client, &u->ended, &u->stop);
	for (int i = 0; i < u->n; i++)
		pthread_join(u->c[i].thread, NULL);
	u->begun = false;
	for (int i = 0; i < u->n && rc == 0; i++) {
		/* of a delta that is taken already, too, where only the record's answer was lost */
		if (u->c[i].refused.status)
			rc = 2;
		else if (u->c[i].error.code)
			rc = err_restore(&u->c[i].error);
	}
	for (int i = 0; i < u->n; i++)
		end_uploader(&u->c[i], i);
	return rc;
}

/* All pieces that are not there, over several connections: one alone waits for each answer, and on a long
 * way its window grows slowly; and the record. Returns 0: the delta is taken, or nobody wants it; 2: the
 * record is left, whose answer decides; 3: as post_record; -1. */
static int put_all(struct upload *u)
{
	struct err failed;
	int taken, rc;

	if (!u->begun && start_uploaders(u) < 0)
		return -1;
	taken = post_early(u);
	err_save(&failed);
	rc = join_uploaders(u);
	if (taken == 1)
		return rc < 0 ? -1 : 2;
	return taken < 0 ? err_restore(&failed) : taken;
}

/* What is not there yet, and the record. ask: an earlier process may have sent some of it. As put_all. */
static int send_delta(struct upload *u, bool ask)
{
	int rc = 0;

	if (!u->begun) {
		memset(u->there, 0, u->pieces * sizeof *u->there);
		u->left = u->pieces;
		u->found = false;
		if (ask)
			rc = ask_pieces(u);
	}
	if (rc == 0)
		rc = u->begun || u->left ? put_all(u) : 2;
	return rc == 2 ? post_record(u, false) : rc;
}

/* --- all of it ---------------------------------------------------------------------------------- */

/* Ends what is under way. */
static void close_upload(struct upload *u)
{
	if (u->begun) {
		struct err ended;

		err_save(&ended);
		http_abort(&u->stop);
		join_uploaders(u);
		err_clear();
		if (ended.code)
			err_restore(&ended);
	}
	http_abort_close(&u->taken_up);
	http_abort_close(&u->ended);
	http_abort_close(&u->stop);
	pthread_mutex_destroy(&u->lock);
	buf_release(&u->file);
	free(u->there);
	free(u->c);
	free(u);
}

/* Returns NULL with err_set(). */
static struct upload *open_upload(struct worker *w, const struct delta *d)
{
	struct upload *u = xcalloc(1, sizeof *u);
	char *path = join_state_path(&w->state, "delta-%" PRIu64 ".rnpg", d->turn);
	uint64_t pieces = protocol_pieces(d->bytes, w->run.piece_bytes);
	int rc;

	*u = (struct upload){ .w = w,
		.d = *d,
		.file = BUF_INIT,
		.pieces = pieces,
		.left = pieces,
		.taken_up = HTTP_ABORT_INIT,
		.ended = HTTP_ABORT_INIT,
		.stop = HTTP_ABORT_INIT,
		.c = xcalloc(CLIENT_CONNECTIONS_MAX, sizeof *u->c),
		.there = xcalloc(pieces + 1, sizeof *u->there) };
	pthread_mutex_init(&u->lock, NULL);
	rc = io_read(&u->file, path, d->bytes);
	if (rc == 0 && u->file.len != d->bytes)
		rc = err_set(EX_DATAERR, "%s: is not as long as it was", path);
	if (rc == 0 &&
		(http_abort_open(&u->taken_up) < 0 || http_abort_open(&u->ended) < 0 ||
			http_abort_open(&u->stop) < 0))
		rc = -1;
	free(path);
	if (rc == 0)
		return u;
	close_upload(u);
	return NULL;
}

int worker_deliver_begin(struct worker *w, const struct delta *d)
{
	/* until the coordinator has said how it takes pieces it is asked that first, and which are there */
	if (!w->body_bytes)
		return 0;
	worker_deliver_drop(w);
	w->upload = open_upload(w, d);
	return w->upload ? start_uploaders(w->upload) : -1;
}

void worker_deliver_drop(struct worker *w)
{
	if (w->upload)
		close_upload(w->upload);
	w->upload = NULL;
}

int worker_deliver(struct worker *w)
{
	const struct delta *d = &w->state.delta;
	struct upload *u;
	bool ask = w->made != d->turn || !w->body_bytes;
	int rc;

	if (w->upload && w->upload->d.turn != d->turn)
		worker_deliver_drop(w);
	u = w->upload ? w->upload : open_upload(w, d);
	w->upload = NULL;
	w->forgotten = false;
	if (!u)
		return -1;
	w->made = 0;
	rc = send_delta(u, ask);
	if (rc == 3)
		rc = send_delta(u, false);
	close_upload(u);
	return rc < 0 ? -1 : 0;
}
