/* deliver.c - a delta goes to the coordinator in pieces, each as often as it takes, and its record
 * behind them. */
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-train/worker/worker.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define REQUEST_BYTES ((uint64_t)256 << 10) /* worth a connection */
#define IN_FLIGHT \
	((uint64_t)16 << 20) /* of all requests: what the coordinator keeps in memory */
#define REFUSED_MAX 3 /* deltas in a row: this machine does not compute what others do */

/* Notes that no delta is left to be sent. Where a kill comes before that is on the disk, the
 * coordinator says so once more. */
static int end_delta(struct worker *w)
{
	if (worker_persisted(w) < 0)
		return -1;
	w->state.pending = false;
	return worker_persist(w, NULL, 0);
}

/* Drops a delta that the coordinator does not want, and warns. The same assignment, made again,
 * would give the same delta: a worker whose deltas are found wrong REFUSED_MAX times in a row ends.
 */
static int drop(struct worker *w, const struct http_response *r)
{
	bool enough = r->status == 422 && ++w->delivery.rejected >= REFUSED_MAX;
	struct err why;

	client_refused(r, EX_DATAERR, "the delta");
	err_save(&why);
	err_clear();
	w->delivery.dropped = true;
	if (end_delta(w) < 0)
		return -1;
	if (enough)
		return worker_persisted(w) < 0 ? -1 : err_restore(&why);
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
	int fd; /* of the container, which a piece is read from when it is sent; -1: not open */
	bool begun; /* its connections are at work */
	uint64_t pieces;
	bool *there;             /* [pieces]: by the coordinator, or under way */
	bool found;              /* some were, sent by an earlier process */
	int n;                   /* connections */
	uint64_t least;          /* pieces of a request, at least */
	struct uploader *c;      /* [CLIENT_CONNECTIONS_MAX], of which n are used */
	struct http_abort ended; /* set by the last connection */
	struct http_abort stop;  /* of all connections */
	pthread_mutex_t lock;
	/* with the lock */
	uint64_t left; /* pieces that nobody has taken up */
	int active;    /* connections */
	bool broken;   /* a connection met what ends the upload */
};

/* One connection's part. */
struct uploader {
	struct upload *all;
	struct client *client;        /* of an uplink */
	uint64_t first, n;            /* with the lock: the pieces that it sends */
	struct http_response refused; /* status 0: nothing was */
	struct err error;             /* code 0: none */
	pthread_t thread;
};

/* Which pieces are there, of u. Returns 0; 1: the turn is over; -1. */
static int ask_pieces(struct upload *u)
{
	struct worker *w = u->w;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "GET", .sign = true, .has = "pieces" };
	json_t *answer = NULL, *list = NULL;
	int64_t max = (int64_t)w->run.piece_bytes;
	char path[256];
	int rc;

	snprintf(path, sizeof path, "/v1/delta/%s/%" PRIu64, w->key.address,
		w->state.delta.turn);
	q.path = path;
	rc = client_send(&w->client, &q, &r);
	if (rc == 0 && r.status != 200)
		rc = drop(w, &r) < 0 ? -1 : 1;
	if (rc == 0) {
		answer = json_parse_object(buf_text(&r.body), r.body.len, "pieces");
		rc = answer ? json_get_array(answer, "pieces", "pieces", &list) : -1;
	}
	/* one that does not say it takes a piece at a time */
	if (rc == 0 && json_object_get(answer, "bytes_max"))
		rc = json_get_i64(answer, "pieces", "bytes_max", 1, INT64_MAX, &max);
	if (rc == 0 && has_taken(answer))
		rc = end_delta(w) < 0 ? -1 : 1;
	w->delivery.body_bytes = (uint64_t)max;
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

/* How many pieces a request carries: fewer towards the end, so that the last requests end together.
 */
static uint64_t pieces_of_request(const struct upload *u)
{
	uint64_t n = (uint64_t)u->n, want = u->left / (2 * n);
	uint64_t max = u->w->delivery.body_bytes < IN_FLIGHT / n ?
		u->w->delivery.body_bytes :
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
}

/* Decides what the connection's next request carries. Returns false where there is nothing left. */
static bool take_up(struct uploader *c)
{
	struct upload *u = c->all;

	pthread_mutex_lock(&u->lock);
	c->n = 0;
	if (!u->broken && u->left)
		take_new(c);
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
	const struct http_source part = { .fd = c->all->fd,
		.offset = (int64_t)from,
		.bytes = (int64_t)((to < d->bytes ? to : d->bytes) - from) };
	struct client_request q = { .method = "PUT",
		.content_type = "application/octet-stream",
		.file = &part,
		.timeout_ms = 600000,
		.has = "taken",
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
		}
	pthread_mutex_lock(&u->lock);
	if (--u->active == 0)
		http_abort(&u->ended);
	pthread_mutex_unlock(&u->lock);
	return NULL;
}

/* Bytes that connection i transferred count as the worker's. A few stay open: a turn's end waits
 * for no handshake then. */
static void end_uploader(struct uploader *c, int i)
{
	struct worker *w = c->all->w;
	struct uplink *l = &w->delivery.uplinks[i];

	client_count_bytes(&l->client, &l->counted, &w->client);
	if (i >= UPLINKS_KEPT) {
		http_release(&l->client.http);
		*l = (struct uplink){ 0 };
	}
	http_response_release(&c->refused);
}

/* Sends the record that makes a delta of the pieces. Returns 0: it is taken, or nobody wants it;
 * 1: pieces of an earlier process are not its, and none is there any more; -1. */
static int post_record(struct upload *u)
{
	struct worker *w = u->w;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct delta *d = &w->state.delta;
	json_t *record;
	char path[256];
	int rc;

	/* what it says has to outlive this process */
	if (worker_persisted(w) < 0)
		return -1;
	memcpy(d->node, w->key.address, sizeof d->node);
	record = delta_write(d, &w->run, client_now_ms(&w->client));
	snprintf(path, sizeof path, "/v1/delta/%s/%" PRIu64, w->key.address, d->turn);
	rc = client_post(&w->client, path, record, "turn", &r);
	if (rc == 0 && r.status == 200) {
		w->delivery.rejected = 0;
		rc = end_delta(w);
	} else if (rc == 0 && r.status == 422) {
		/* what was there has been looked at, and is there no more */
		rc = u->found ? 1 : drop(w, &r);
	} else if (rc == 0) {
		rc = drop(w, &r);
	}
	json_decref(record);
	http_response_release(&r);
	return rc;
}

/* Decides over how many connections, at most one for each REQUEST_BYTES, and the least of a
 * request: where each connection has but one or two, they are not made smaller. */
static void plan_upload(struct upload *u)
{
	uint64_t each = REQUEST_BYTES / u->w->run.piece_bytes;
	int n = client_connections(&u->w->client, u->w->client.up_max);

	each = each ? each : 1;
	while (n > 1 && (uint64_t)(n - 1) * each >= u->left)
		n--;
	u->n = n;
	u->least = u->left <= 2 * each * (uint64_t)n ? each : 1;
}

/* Connection i, as it was left by the last delta. */
static struct client *uplink(struct worker *w, int i)
{
	struct client *c = &w->delivery.uplinks[i].client;
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

	if (!w->delivery.uplinks)
		w->delivery.uplinks = xcalloc(CLIENT_CONNECTIONS_MAX,
			sizeof *w->delivery.uplinks);
	plan_upload(u);
	/* of an earlier try */
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

/* Returns 0, also where pieces are refused: the record's answer decides then; -1: a connection's
 * error. */
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
			break;
		if (u->c[i].error.code)
			rc = err_restore(&u->c[i].error);
	}
	for (int i = 0; i < u->n; i++)
		end_uploader(&u->c[i], i);
	return rc;
}

/* Sends all pieces that are not there, over several connections: one alone waits for each answer,
 * and on a long way its window grows slowly. Returns 0, or -1. */
static int put_all(struct upload *u)
{
	if (!u->begun && start_uploaders(u) < 0)
		return -1;
	return join_uploaders(u);
}

/* Sends what is not there yet, and the record. ask: an earlier process may have sent some of it.
 * As post_record. */
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
	if (rc) /* the turn is over, or an error */
		return rc < 0 ? -1 : 0;
	if ((u->begun || u->left) && put_all(u) < 0)
		return -1;
	return post_record(u);
}

/* --- all of it ------------------------------------------------------------------------------ */

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
	http_abort_close(&u->ended);
	http_abort_close(&u->stop);
	pthread_mutex_destroy(&u->lock);
	if (u->fd >= 0)
		close(u->fd);
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
	struct stat st;
	int rc = 0;

	*u = (struct upload){ .w = w,
		.d = *d,
		.fd = open(path, O_RDONLY | O_CLOEXEC),
		.pieces = pieces,
		.left = pieces,
		.ended = HTTP_ABORT_INIT,
		.stop = HTTP_ABORT_INIT,
		.c = xcalloc(CLIENT_CONNECTIONS_MAX, sizeof *u->c),
		.there = xcalloc(pieces + 1, sizeof *u->there) };
	pthread_mutex_init(&u->lock, NULL);
	if (u->fd < 0 || fstat(u->fd, &st) < 0)
		rc = err_sys(0, "cannot open '%s'", path);
	else if ((uint64_t)st.st_size != d->bytes)
		rc = err_set(EX_DATAERR, "%s: is not as long as it was", path);
	if (rc == 0 && (http_abort_open(&u->ended) < 0 || http_abort_open(&u->stop) < 0))
		rc = -1;
	free(path);
	if (rc == 0)
		return u;
	close_upload(u);
	return NULL;
}

int worker_deliver_begin(struct worker *w, const struct delta *d)
{
	/* until the coordinator has said how it takes pieces it is asked that first, and which are
	 * there */
	if (!w->delivery.body_bytes)
		return 0;
	worker_deliver_drop(w);
	w->delivery.upload = open_upload(w, d);
	return w->delivery.upload ? start_uploaders(w->delivery.upload) : -1;
}

void worker_deliver_drop(struct worker *w)
{
	if (w->delivery.upload)
		close_upload(w->delivery.upload);
	w->delivery.upload = NULL;
}

int worker_deliver(struct worker *w)
{
	const struct delta *d = &w->state.delta;
	struct upload *u;
	bool ask = w->delivery.made != d->turn || !w->delivery.body_bytes;
	int rc;

	if (w->delivery.upload && w->delivery.upload->d.turn != d->turn)
		worker_deliver_drop(w);
	u = w->delivery.upload ? w->delivery.upload : open_upload(w, d);
	w->delivery.upload = NULL;
	w->delivery.dropped = false;
	if (!u)
		return -1;
	w->delivery.made = 0;
	rc = send_delta(u, ask);
	if (rc == 1)
		rc = send_delta(u, false);
	close_upload(u);
	return rc < 0 ? -1 : 0;
}
