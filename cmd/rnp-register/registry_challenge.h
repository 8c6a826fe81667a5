/* registry_challenge.h - challenges of the registry: when each node is asked, and what is open. */
#ifndef RNP_CMD_REGISTER_REGISTRY_CHALLENGE_H
#define RNP_CMD_REGISTER_REGISTRY_CHALLENGE_H

#include "cmd/rnp-register/registry.h"
#include "common/net/httpd.h"

struct poc_challenge;

/* Reads what was open when the registry stopped. To be called when the database is open and its
 * writer not yet started. Returns 0 or -1. */
int registry_challenger_open(struct registry *g);
void registry_challenger_close(struct registry *g);

/* The two hooks of the storage, with the registry as their context (registry_db.h): what the
 * node of a heartbeat has to answer, or when it has to ask for it, the caller's, or NULL; and
 * that the verdict on a challenge (hex) is stored. */
json_t *registry_challenge_for(void *registry, const struct registry_put *p);
int registry_challenge_closed(void *registry, const char *sha256);

/* To be called about once a second: who did not answer in time has failed. */
void registry_challenges_tick(struct registry *g);

/* Takes the open challenge that this answer is to, which the caller frees. j->elapsed_ns is
 * when the answer arrived on the monotonic clock, and then the time since its issue; the roots
 * that came before are set. NULL: r is filled. The answer has to be the node's own, so that
 * nobody else can use up its challenge. */
struct poc_conditions;
struct poc_challenge *registry_challenge_take(struct registry *g, const json_t *answer,
	struct httpd_reply *r, struct poc_conditions *j);

/* The handler of POST /v1/roots, and what goes before and after that of POST /v1/answers: only
 * who has a challenge open may send what is large. */
enum httpd_when registry_post_roots(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_begin_answer(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
void registry_done_answer(void *registry, struct httpd_request *q);

/* What the node of a challenge reached in the bandwidth test, which is over; 0: nothing. */
int64_t registry_challenge_bandwidth(struct registry *g, const struct poc_challenge *c);

/* The handlers of the bandwidth test, for requests that the challenged node has signed. Whether one
 * may be answered is decided before its body comes. */
enum httpd_when registry_get_bandwidth_test(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_begin_bandwidth_test(void *registry, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when registry_post_bandwidth_test(void *registry, struct httpd_request *q,
	struct httpd_reply *r);

#endif
