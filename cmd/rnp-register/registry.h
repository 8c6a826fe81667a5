/* registry.h - the registry behind `serve`: what is accepted, stored and answered.
 *
 * registry_db.c keeps records, registry_accept.c decides what is accepted, registry_api.c
 * answers requests, registry_challenge.c asks nodes for proof and registry_verify.c judges it. It knows nothing of sockets: a request is a struct httpd_request. */
#ifndef RNP_CMD_REGISTER_REGISTRY_H
#define RNP_CMD_REGISTER_REGISTRY_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/net/httpd.h"
#include "common/record/key.h"
#include "common/record/policy.h"
#include "common/record/pool.h"
#include "common/store/store.h"

#define REGISTRY_SKEW_MS       INT64_C(300000) /* how far `at` may be from our clock */
#define REGISTRY_BODY_MAX      ((size_t)256 << 10)
#define REGISTRY_BEAT_BODY_MAX ((size_t)8 << 10)
#define REGISTRY_ANSWER_MAX    ((size_t)96 << 20) /* a CPU and eight H200 */
#define REGISTRY_EXCHANGE_MAX  ((size_t)32 << 20) /* BANDWIDTH_TEST_BYTES_MAX */
#define REGISTRY_PAGE_MAX      1000
#define REGISTRY_READERS       8

/* One record that was accepted and waits to be stored; owned by the queue until answered. */
struct registry_put {
	struct registry_put *next;
	enum { PUT_NODE, PUT_HEARTBEAT, PUT_RECORD } what;
	char kind[32];
	char node[KEY_ADDRESS_MAX];   /* whom it is about */
	char signer[KEY_ADDRESS_MAX]; /* who said it */
	char sha256[65];              /* of the canonical record without its proof */
	int64_t at_ms, received_ms;
	/* PUT_HEARTBEAT: */
	int64_t interval_s;
	int state;
	bool compact; /* the text can be written again from these: */
	int64_t created_ms;
	unsigned char signature[KEY_SIGNATURE_BYTES];

	json_t *record;  /* PUT_NODE: for its columns */
	char closes[65]; /* PUT_RECORD: the challenge that it is the verdict on, or "" */
	struct httpd_request *q;
	struct httpd_reply *r;
};

struct registry_config {
	const char *
		db_path; /* ":memory:": nothing is kept, and everything runs in one thread */
	const char *const *trusted; /* addresses of verifiers and coordinators */
	int ntrusted;
	int64_t challenge_every_ms; /* on average, each node; 0: never */
	const struct key *key;      /* signs challenges and verdicts */
	const struct policy *policy;
};

struct registry_writer;     /* statements of the writing connection */
struct registry_challenger; /* open challenges */
struct registry_verify;     /* answers that wait to be judged */
struct poc_challenge;

struct registry {
	struct registry_config config;
	bool in_memory;
	struct store db; /* the writer's */
	struct registry_writer *writer;
	struct registry_challenger *challenger; /* NULL: none are issued */
	struct registry_verify *judge;          /* the same */

	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct registry_put *first, **last; /* the queue */
	bool stopping;

	pthread_mutex_t readers_lock;
	pthread_cond_t reader_free;
	struct store readers[REGISTRY_READERS];
	bool reader_taken[REGISTRY_READERS];

	/* raised with every commit that changed what nodes there are: the answers' entity tag */
	_Atomic int64_t version;
	_Atomic uint64_t stored, commits, refused;

	pthread_mutex_t
		pools_lock; /* the last answer of /v1/pools and the version it is of */
	char *pools;
	int64_t pools_version;
};

/* Open or create the database and start the writer. Returns 0 or -1 as store_open. */
int registry_open(struct registry *g, const struct registry_config *config);

/* Store what is queued, stop, close. */
void registry_close(struct registry *g);

/* Hand an accepted record to the writer (takes p). Its request is answered and finished when
 * the record is safe on disk: one commit serves all that came in the meantime. */
void registry_put(struct registry *g, struct registry_put *p);

/* A connection for reading, until given back. */
struct store *registry_reader(struct registry *g);
void registry_reader_done(struct registry *g, struct store *s);

/* Look at a posted body: parse, schema, signature, party, time. Returns what to store, or NULL
 * with the reply filled. kind: "rnp.node", "rnp.heartbeat", or NULL for the other kinds. */
struct registry_put *registry_accept(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind);

extern const struct httpd_route registry_routes[];
void registry_metrics(void *registry, struct buf *out);

/* Challenges (registry_challenge.c). challenge_for: what the node of a heartbeat has to answer, the
 * caller's, or NULL. tick, about once a second: who did not answer in time has failed. */
int registry_challenger_open(struct registry *g);
void registry_challenger_close(struct registry *g);
json_t *registry_challenge_for(struct registry *g, const char *node);
void registry_challenges_tick(void *registry);
/* Within the writer's transaction: the verdict on a challenge (hex) is stored. Returns 0 or -1. */
int registry_challenge_closed(struct registry *g, const char *sha256);
/* Take the open challenge that this answer is to, which the caller frees, and the time from its issue until
 * arrived_ns. NULL: r is filled. The answer has to be the node's own, so that nobody else can use up its challenge. */
struct poc_challenge *registry_challenge_take(struct registry *g, const json_t *answer,
	struct httpd_reply *r, int64_t arrived_ns, int64_t *elapsed_ns);
/* What the node of a challenge reached in the bandwidth test, which is over; 0: nothing. */
int64_t registry_challenge_bandwidth(struct registry *g, const struct poc_challenge *c);
/* Sign a verdict and hand it to the writer as the body of q, which is answered then. verdict stays the caller's. */
void registry_put_verdict(struct registry *g, json_t *verdict, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_bandwidth_test(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_post_bandwidth_test(void *registry, struct httpd_request *q,
	struct httpd_reply *r);

/* Answers (registry_verify.c): taken when they have arrived, judged one after the other. now_ns: the monotonic clock,
 * or when the oldest answer that is not judged yet arrived. close: nobody may wait for an answer any more. */
int registry_verify_open(struct registry *g);
void registry_verify_close(struct registry *g);
int64_t registry_verify_now_ns(struct registry *g);
enum httpd_when registry_post_answer(void *registry, struct httpd_request *q,
	struct httpd_reply *r);

/* The hash by which a record's content is known: of its canonical form without proof. */
void registry_hash_content(const json_t *record, char hex[65]);

/* Parts of the API that have their own file. */
enum httpd_when registry_get_pools(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_uptime(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_nodes(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_node(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_get_records(void *registry, struct httpd_request *q,
	struct httpd_reply *r);

/* Append the text of a heartbeat as rnp-register heartbeat makes it. */
void registry_beat_write(struct buf *out, const char *node, int64_t at_ms,
	int64_t interval_s, int state, int64_t created_ms,
	const unsigned char signature[KEY_SIGNATURE_BYTES]);

/* Is the body of p such a text? Sets p->compact, created_ms and signature. */
bool registry_beat_compact(struct registry_put *p, const json_t *record);

/* 503 for the pending error of the store, which goes to the log of the server. */
enum httpd_when registry_unavailable(struct httpd_reply *r);

/* Give a finished reply the entity tag of its body. */
void registry_etag(struct httpd_reply *r);

/* Refuse a query that has other fields than these (names with a space between), or one of them
 * twice: a filter that is misspelt must not list everything. Fills r and returns -1, or 0. */
int registry_query_known(const struct httpd_request *q, struct httpd_reply *r,
	const char *keys);

/* Query fields: absent leaves *out; malformed fills r with 400 and returns -1. */
int registry_query_address(const struct httpd_request *q, struct httpd_reply *r,
	const char *key);
int registry_query_i64(const struct httpd_request *q, struct httpd_reply *r,
	const char *key, int64_t min, int64_t max, int64_t *out);
int registry_query_time(const struct httpd_request *q, struct httpd_reply *r,
	const char *key, int64_t *ms);

extern const char *const registry_states[]; /* by number, ends with NULL */

#endif
