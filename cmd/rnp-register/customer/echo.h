/* echo.h - the lines that a job prints, on standard error while it runs: a thread of its own. Uses
 * follow, http. */
#ifndef RNP_REGISTER_CUSTOMER_ECHO_H
#define RNP_REGISTER_CUSTOMER_ECHO_H

#include <pthread.h>
#include <stdbool.h>

#include "cmd/rnp-register/customer/customer.h"
#include "cmd/rnp-register/customer/follow.h"

struct echo {
	struct follow follow;
	struct http http;
	struct http_abort stop;
	pthread_t thread;
	bool runs;
};

/* Begins to print the logs of all ranks, "[RANK] LINE" each. c and cluster are borrowed until the
 * end. Without a thread, or with -q, nothing is printed: that is no failure. */
void echo_start(struct echo *e, const struct customer *c, const char *cluster);

/* Ends it: at once, or where the cluster is over when all was printed, which is waited for some
 * seconds. */
void echo_end(struct echo *e, bool at_once);

#endif
