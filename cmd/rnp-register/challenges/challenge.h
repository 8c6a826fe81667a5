/* challenge.h - challenges of the registry: when each node is challenged, and what is open. */
#ifndef RNP_CMD_REGISTER_CHALLENGES_CHALLENGE_H
#define RNP_CMD_REGISTER_CHALLENGES_CHALLENGE_H

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

struct poc_challenge;

/* Restores the challenges that were open when the registry stopped. Call it when the database
 * is open and its writer not yet started. Returns 0 or -1. */
int registry_challenger_open(struct registry *g);
void registry_challenger_close(struct registry *g);

/* The two hooks of the storage, with the registry as their context (storage/db.h). The first
 * returns what the node of a heartbeat has to answer, or when it has to ask for it, owned by
 * the caller, or NULL; the second is told that the verdict on a challenge (hex) is stored. */
json_t *registry_challenge_for(void *registry, const struct registry_put *p);
int registry_challenge_closed(void *registry, const char *sha256);

/* The next challenge of a node comes at a random moment within so many ms from now, if not
 * earlier; 0: with its next heartbeat. Does nothing where none are issued. From any thread. */
void registry_challenge_within(struct registry *g, const char *node, int64_t ms);

/* Call it about once a second: nodes that did not answer in time fail. */
void registry_challenges_tick(struct registry *g);

/* The handler of POST /v1/unanswered: a node says why it does not answer. */
enum httpd_when registry_post_unanswered(void *registry, struct httpd_request *q,
	struct httpd_reply *r);

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
