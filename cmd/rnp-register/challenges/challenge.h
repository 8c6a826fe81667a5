/* registry_challenge.h - challenges of the registry: when each node is asked, and what is open. */
#ifndef RNP_CMD_REGISTER_REGISTRY_CHALLENGE_H
#define RNP_CMD_REGISTER_REGISTRY_CHALLENGE_H

#include "cmd/rnp-register/registry.h"
#include "common/net/httpd.h"

struct poc_challenge;

/* Restores the challenges that were open when the registry stopped. Call it when the database
 * is open and its writer not yet started. Returns 0 or -1. */
int registry_challenger_open(struct registry *g);
void registry_challenger_close(struct registry *g);

/* The two hooks of the storage, with the registry as their context (registry_db.h). The first
 * returns what the node of a heartbeat has to answer, or when it has to ask for it, owned by
 * the caller, or NULL; the second is told that the verdict on a challenge (hex) is stored. */
json_t *registry_challenge_for(void *registry, const struct registry_put *p);
int registry_challenge_closed(void *registry, const char *sha256);

/* The error of whoever answers, or exchanges for, a challenge to a node that is not open (any more). */
enum httpd_when registry_challenge_none(struct httpd_reply *r, const char *node);

/* Call it about once a second: nodes that did not answer in time fail. */
void registry_challenges_tick(struct registry *g);

/* Takes the open challenge of this answer; the caller frees it. j->elapsed_ns is when the
 * answer arrived on the monotonic clock, and becomes the time since its issue; the roots that
 * came before are set. NULL: r is filled. The answer must be the node's own, so that nobody
 * else can use up its challenge. */
struct poc_conditions;
struct poc_challenge *registry_challenge_take(struct registry *g, const json_t *answer,
	struct httpd_reply *r, struct poc_conditions *j);

/* After the verdict on a challenge that was taken: who does not pass is asked less often. proven:
 * a device was. */
void registry_challenge_verified(struct registry *g, const struct poc_challenge *c,
	bool passed, bool proven);

/* The handler of POST /v1/roots, and what precedes and follows that of POST /v1/answers: only a
 * node with an open challenge may send large bodies. */
enum httpd_when registry_post_roots(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_begin_answer(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
void registry_done_answer(void *registry, struct httpd_request *q);

/* Returns the bandwidth that the node of a challenge reached in the test, which is over; 0:
 * none. */
int64_t registry_challenge_bandwidth(struct registry *g, const struct poc_challenge *c);

/* The handlers of the bandwidth test, for requests that the challenged node has signed. Whether
 * a request is served is decided before its body arrives. */
enum httpd_when registry_get_bandwidth_test(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_begin_bandwidth_test(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_post_bandwidth_test(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
void registry_done_bandwidth_test(void *registry, struct httpd_request *q);

#endif
