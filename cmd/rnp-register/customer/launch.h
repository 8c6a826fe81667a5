/* launch.h - books nodes for a job and follows it to its end. Uses jobfile, customer, offer, ship,
 * json. */
#ifndef RNP_REGISTER_CUSTOMER_LAUNCH_H
#define RNP_REGISTER_CUSTOMER_LAUNCH_H

#include <jansson.h>
#include <signal.h>
#include <stdint.h>

#include "cmd/rnp-register/customer/customer.h"
#include "cmd/rnp-register/customer/jobfile.h"

struct launch {
	struct customer *customer;
	const volatile sig_atomic_t *stop; /* set by Ctrl-C: nothing more is waited for */
	int64_t hours;                     /* 0: until the job's deadline, or 24 */
	const char *const *ssh_keys;       /* lines of authorized_keys */
	int nssh_keys;
};

/* Plans, sends what the job needs, and books. Writes the name of its cluster. Returns 0, or -1 with
 * err_set; nothing is booked then: 69 nothing fits, 65 what cannot be launched, 77 credit or
 * signature, 75 the offers were gone each time, and as http_fetch. */
int launch_book(const struct launch *l, const struct jobfile *job, char cluster[33]);

#endif
