/* client.h - requests of a worker to its coordinator: signed, tried again while the other side
 * is away, with a bound on every answer. Uses common/http/http.h, wire/protocol.h.
 *
 * One thread at a time uses a client. */
#ifndef RNP_TRAIN_WORKER_CLIENT_H
#define RNP_TRAIN_WORKER_CLIENT_H

#include <jansson.h>
#include <stdatomic.h>

#include "cmd/rnp-train/wire/protocol.h"
#include "common/http/http.h"

#define CLIENT_SKEWS 3 /* in ten minutes; more: the other side plays */

struct client {
	struct http http;
	const char *url, *ca, *proxy; /* borrowed */
	const struct key *key;
	char run[PROTOCOL_HEX]; /* "": not known yet */
	int64_t skew_ms;        /* the server's clock less ours */
	int64_t skews_ns
		[CLIENT_SKEWS]; /* when it was last taken over, from the latest on; 0: never */
	int64_t give_up_ms; /* without any answer */
	int64_t answer_ms;  /* for requests that do not say how long they wait; 0: 30 s */
	int64_t up_max, down_max; /* bytes a second; 0: no limit */
	const struct http_abort *abort;
	/* For other threads to read: the time of day of the last answer (0: none yet), and bytes at
	 * the sockets up to it. */
	_Atomic int64_t answered_ms;
	_Atomic uint64_t sent, received;
};

/* The time of day as the coordinator has it. */
int64_t client_now_ms(const struct client *c);

/* GET /v1/run: the text of the record, parsed. Takes over the coordinator's clock where ours is
 * wrong. Returns it, or NULL with err_set(). */
json_t *client_run(struct client *c);

/* Behind an answer that brought nothing: waits until a second after began_ns (monotonic), or the
 * program is to end. One who says so at once is not asked without a pause. */
void client_pace(const struct client *c, int64_t began_ns);

/* A request that is signed (signed_by_us) or carries a record. path: "/v1/work?member=...". body
 * may be NULL. Tries while nobody answers, for give_up_ms. Returns 0 with any status below 500 in
 * r->status, or -1 with err_set(): 75 nobody answers, or aborted (r->aborted), 65 no HTTP. */
struct client_request {
	const char *method, *path, *content_type;
	const void *body;
	size_t body_bytes;
	/* in place of body: bytes of a file, read as they are sent */
	const struct http_source *file;
	json_t *record; /* the body, signed for each try, or NULL */
	/* what the answer, an object, has at least: without it a 2xx is not the coordinator's
	 * word, and is tried again. NULL: bytes, or nothing that matters */
	const char *has;
	bool may_be_empty; /* with has: 204 is an answer, too */
	bool sign;
	int64_t timeout_ms; /* 0: the client's answer_ms */
};
int client_send(struct client *c, const struct client_request *q,
	struct http_response *r);

/* Posts a record, which gets `at` and a signature for each try; waits 30 s. As client_send. */
int client_post(struct client *c, const char *path, json_t *record, const char *has,
	struct http_response *r);

/* How many connections carry something large at once: each begins with ten packets a round trip
 * and doubles, so a long way takes more of them to be filled at once, and where packets are lost
 * each recovers by itself. rate: that they keep to together; 0: none. At least 1. */
#define CLIENT_CONNECTIONS_MAX 64
int client_connections(const struct client *c, int64_t rate);

/* Fetches path to a file that is not there yet, at most max bytes, over several connections where
 * it is large and the coordinator gives ranges; goes on where an earlier call, also of another
 * process, ended. *guess: about how large it is (0: not known), and then how large it was; or NULL.
 * Returns 0; 1: the coordinator has it not (404); -1 with err_set(). */
int client_fetch(struct client *c, const char *path, const char *to, uint64_t max,
	uint64_t *guess);
/* Waits for an event; aborts stop, and waits on, where the program is to end. */
void client_wait(const struct client *c, const struct http_abort *event,
	const struct http_abort *stop);

/* Bytes at c's sockets that *counted lacks become bytes of `to`. */
void client_count_bytes(struct client *c, struct net_bytes *counted, struct client *to);

/* Sets the error that the other side reported (its message, or its status) as an error of the
 * code; returns -1. */
int client_refused(const struct http_response *r, int code, const char *what);

#endif
