/* watch.h - keeps the work of a challenge within its time and this machine's share of an hour,
 * shows how far it is, and says why it ended. */
#ifndef RNP_BENCH_PROVE_WATCH_H
#define RNP_BENCH_PROVE_WATCH_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-bench/prove/prove.h"
#include "common/cli/progress.h"

struct watch {
	/* Set by the caller. */
	const struct poc_challenge *c;
	const char *where;
	int64_t came_ns;          /* when the challenge came, on the monotonic clock */
	int64_t per_hour_ms;      /* that all challenges of an hour may take */
	void (*begun)(void *ctx); /* see prove_hooks */
	void *ctx;
	/* The rest is its own. */
	struct prove_hooks hooks;
	pthread_mutex_t lock;
	struct progress bar;
	int64_t began_ns, cpu_ns, quota, spent_ms; /* at the start of the work */
	bool warned;
	struct watched {
		/* in seconds, by test: of all the work at least, and of what is done */
		double work_s[PROVE_TESTS], done_s[PROVE_TESTS];
	} devices[POC_DEVICES_MAX];
};

/* Prepares, and returns the hooks to work with. */
const struct prove_hooks *watch_start(struct watch *w);

/* Ends the bar. The pending error stays. */
void watch_end(struct watch *w);

/* Counts the time since the start, if there was one, into the hour. The pending error stays. */
void watch_count(const struct watch *w);

#endif
