/* verdict.h - queues answers to challenges when they have arrived, and verifies them
 * one after the other. */
#ifndef RNP_CMD_REGISTER_CHALLENGES_VERDICT_H
#define RNP_CMD_REGISTER_CHALLENGES_VERDICT_H

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

struct poc_challenge;

/* Starts the thread that verifies. Returns 0 or -1. */
int registry_verdicts_open(struct registry *g);

/* Verifies all queued answers, and stops. Nobody may wait for a verdict afterwards. */
void registry_verdicts_close(struct registry *g);

/* Returns the monotonic clock, or if answers wait, when the oldest unverified one arrived. */
int64_t registry_verdicts_now_ns(struct registry *g);

/* Returns how many answers wait to be verified, including the one being verified. */
int registry_verdicts_waiting(struct registry *g);

/* The handler of POST /v1/answers. */
enum httpd_when registry_post_answer(void *registry, struct httpd_request *q,
	struct httpd_reply *r);

/* Stores a failed verdict on a node that did not answer in time. reason: of its single check. */
void registry_fail_unanswered(struct registry *g, const struct poc_challenge *c,
	int64_t elapsed_ns, const char *reason);

#endif
