/* join_deliver.c - a delta goes to the coordinator in pieces, each as often as it takes. */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/join.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

/* Nobody wants the delta: said, and forgotten. */
static int forget(struct worker *w, const struct http_response *r)
{
	client_refused(r, EX_DATAERR, "the delta");
	prog_warn("%s", err_get()->text);
	err_clear();
	w->forgotten = true;
	w->state.pending = false;
	return join_state_save(&w->state);
}

/* Whether the coordinator has the delta already, of an upload whose last answer was lost. */
static bool has_taken(const json_t *answer)
{
	const char *state = json_string_value(json_object_get(answer, "state"));

	return state &&
		(strcmp(state, "delivered") == 0 || strcmp(state, "late") == 0 ||
			strcmp(state, "counted") == 0 || strcmp(state, "refused") == 0);
}

/* Which pieces are there: there[i]. Returns 0; 1: the turn is over; -1. */
static int ask_pieces(struct worker *w, bool *there, uint64_t pieces)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "GET", .sign = true };
	json_t *answer = NULL, *list = NULL;
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
	if (rc == 0 && has_taken(answer)) {
		w->state.pending = false;
		rc = join_state_save(&w->state) < 0 ? -1 : 1;
	}
	for (size_t i = 0; rc == 0 && i < json_array_size(list); i++) {
		json_int_t n = json_integer_value(json_array_get(list, i));

		if (n >= 0 && (uint64_t)n < pieces)
			there[n] = true;
	}
	json_decref(answer);
	http_response_release(&r);
	return rc;
}

/* One connection's part in an upload. */
struct uploader {
	struct worker *w;
	struct client client;
	const struct buf *file;
	const bool *there;
	_Atomic uint64_t *next; /* of all: the piece to take up */
	_Atomic bool *broken;   /* another connection met what ends the upload */
	uint64_t pieces;
	struct http_response refused; /* status 0: nothing was */
	struct err error;             /* code 0: none */
	pthread_t thread;
};

/* Returns 0, or -1 with u->refused or u->error. */
static int put_piece(struct uploader *u, uint64_t piece)
{
	const struct delta *d = &u->w->state.delta;
	uint64_t piece_bytes = u->w->run.piece_bytes;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct client_request q = { .method = "PUT",
		.content_type = "application/octet-stream",
		.body = u->file->data + piece * piece_bytes,
		.body_bytes = protocol_piece(d->bytes, piece_bytes, piece),
		.timeout_ms = 600000,
		.sign = true };
	char path[256];
	int rc;

	snprintf(path, sizeof path, "/v1/delta/%s/%" PRIu64 "/%" PRIu64,
		u->w->key.address, d->turn, piece);
	q.path = path;
	rc = client_send(&u->client, &q, &r);
	if (rc < 0) {
		err_save(&u->error);
	} else if (r.status != 200 && r.status != 201) {
		u->refused = r;
		return -1;
	}
	http_response_release(&r);
	return rc;
}

static void *upload(void *arg)
{
	struct uploader *u = arg;
	uint64_t i;

	while (!*u->broken && (i = (*u->next)++) < u->pieces)
		if (!u->there[i] && put_piece(u, i) < 0)
			*u->broken = true;
	return NULL;
}

/* Bytes that a connection transferred count as the worker's. */
static void end_uploader(struct uploader *u)
{
	struct net_bytes b;

	http_bytes(&u->client.http, &b);
	u->w->client.http.closed.sent += b.sent;
	u->w->client.http.closed.received += b.received;
	http_release(&u->client.http);
	http_response_release(&u->refused);
}

/* No more than pieces. */
static int connections(const struct worker *w, const bool *there, uint64_t pieces)
{
	int n = client_connections(&w->client, w->client.up_max), left = 0;

	for (uint64_t i = 0; i < pieces && left < n; i++)
		left += !there[i];
	return left ? left : 1;
}

/* All pieces that are not there, over several connections: one alone waits for each answer, and on a long
 * way its window grows slowly. Returns 0; 1: the turn is over; -1. */
static int put_pieces(struct worker *w, const struct buf *file, const bool *there,
	uint64_t pieces)
{
	struct uploader all[CLIENT_CONNECTIONS_MAX];
	_Atomic uint64_t next = 0;
	_Atomic bool broken = false;
	int n = connections(w, there, pieces), started, rc = 0;

	for (started = 0; started < n; started++) {
		struct uploader *u = &all[started];

		*u = (struct uploader){ .w = w,
			.client = w->client,
			.file = file,
			.there = there,
			.next = &next,
			.broken = &broken,
			.pieces = pieces };
		u->client.http = (struct http)HTTP_INIT;
		/* together they keep to the limit */
		u->client.up_max = w->client.up_max / n;
		if (pthread_create(&u->thread, NULL, upload, u) != 0)
			break;
	}
	if (!started)
		return err_sys(EX_OSERR, "cannot start a thread");
	for (int i = 0; i < started; i++)
		pthread_join(all[i].thread, NULL);
	for (int i = 0; i < started && rc == 0; i++) {
		if (all[i].refused.status)
			rc = forget(w, &all[i].refused) < 0 ? -1 : 1;
		else if (all[i].error.code)
			rc = err_restore(&all[i].error);
	}
	for (int i = 0; i < started; i++)
		end_uploader(&all[i]);
	return rc;
}

static int post_record(struct worker *w)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct delta *d = &w->state.delta;
	json_t *record;
	char path[256];
	int rc;

	memcpy(d->node, w->key.address, sizeof d->node);
	record = delta_write(d, &w->run, client_now_ms(&w->client));
	snprintf(path, sizeof path, "/v1/delta/%s/%" PRIu64, w->key.address, d->turn);
	rc = client_post(&w->client, path, record, &r);
	if (rc == 0 && r.status == 200) {
		w->state.pending = false;
		rc = join_state_save(&w->state);
	} else if (rc == 0) {
		rc = forget(w, &r);
	}
	json_decref(record);
	http_response_release(&r);
	return rc;
}

int worker_deliver(struct worker *w)
{
	const struct delta *d = &w->state.delta;
	uint64_t pieces = protocol_pieces(d->bytes, w->run.piece_bytes);
	char *path = join_state_path(&w->state, "delta-%" PRIu64 ".rnpg", d->turn);
	bool *there = xcalloc(pieces + 1, sizeof *there);
	struct buf file = BUF_INIT;
	int rc = io_read(&file, path, d->bytes);

	w->forgotten = false;
	if (rc == 0 && file.len != d->bytes)
		rc = err_set(EX_DATAERR, "%s: is not as long as it was", path);
	if (rc == 0)
		rc = ask_pieces(w, there, pieces);
	if (rc == 0)
		rc = put_pieces(w, &file, there, pieces);
	if (rc == 0)
		rc = post_record(w);
	free(there);
	free(path);
	buf_release(&file);
	return rc < 0 ? -1 : 0;
}
