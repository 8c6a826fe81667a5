/* course.h - watches a cluster until it ends, and says on standard error how it goes. Uses
 * customer, json, clock, err. */
#ifndef RNP_REGISTER_CUSTOMER_COURSE_H
#define RNP_REGISTER_CUSTOMER_COURSE_H

#include <jansson.h>
#include <signal.h>

#include "cmd/rnp-register/customer/customer.h"

enum course_end { COURSE_DETACHED, COURSE_DONE, COURSE_FAILED, COURSE_ENDED };

/* Follows a cluster until all its nodes have ended, or *stop is set, which also ends the requests
 * of c by its abort. *record: an rnp.launch of how it went, which the caller owns; *exit_code: that
 * of the first rank that did not end with 0. A registry that does not answer is waited for. Returns
 * COURSE_..., or -1 with err_set: the cluster is not this customer's. */
int course_follow(struct customer *c, const char *cluster,
	const volatile sig_atomic_t *stop, json_t **record, int *exit_code);

/* The rnp.launch of a cluster's last state. seconds: of each state, borrowed. Pure. */
json_t *course_record(const json_t *cluster, const json_t *seconds, enum course_end *end,
	int *exit_code);

#endif
