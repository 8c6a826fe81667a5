/* registry_verdict.h - answers to challenges are taken when they have arrived, and verified one
 * after the other. */
#ifndef RNP_CMD_REGISTER_REGISTRY_VERDICT_H
#define RNP_CMD_REGISTER_REGISTRY_VERDICT_H

#include "cmd/rnp-register/registry.h"
#include "common/net/httpd.h"

struct poc_challenge;

/* Starts the thread that verifies. Returns 0 or -1. */
int registry_verdicts_open(struct registry *g);

/* Verifies what waits, and stops. Nobody may wait for a verdict any more afterwards. */
void registry_verdicts_close(struct registry *g);

/* The monotonic clock, or when the oldest answer that is not verified yet arrived. */
int64_t registry_verdicts_now_ns(struct registry *g);

/* How many answers wait to be verified, the one that is being verified included. */
int registry_verdicts_waiting(struct registry *g);

/* The handler of POST /v1/answers. */
enum httpd_when registry_post_answer(void *registry, struct httpd_request *q,
	struct httpd_reply *r);

/* Stores the verdict on a node that did not answer in time: it has failed. reason: of its one
 * check. */
void registry_fail_unanswered(struct registry *g, const struct poc_challenge *c,
	int64_t elapsed_ns, const char *reason);

#endif
