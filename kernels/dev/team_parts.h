/* team_parts.h - what team.c and gomp.c share: regions, their loops, and waiting. Private to
 * the two. */
#ifndef RNP_KERNELS_DEV_TEAM_PARTS_H
#define RNP_KERNELS_DEV_TEAM_PARTS_H

#include <stdatomic.h>

#include "kernels/dev/team.h"

#define TEAM_LINE  64 /* bytes that cores exchange at once */
#define TEAM_LOOPS 8  /* of a region at once, where threads go on without a barrier */

/* A word that threads wait on, and how many of them sleep. */
struct team_word {
	_Atomic uint32_t value;
	_Atomic int32_t asleep;
};

/* A loop whose iterations are taken as threads come: start, start + step ... `total` of them. */
struct team_loop {
	uint64_t number; /* of the loop in the region, from 1 on; under the lock */
	uint64_t start, step, total, chunk;
	_Atomic uint64_t next;
	struct team_word left; /* how often threads have left it or those before it */
};

/* What runs under team_each. */
struct team_region {
	void (*fn)(void *);
	void *data;
	int threads;
	_Atomic uint32_t arrived;
	struct team_word round; /* barriers that all have passed */
	uint32_t lock;          /* of loops that begin */
	struct team_loop loops[TEAM_LOOPS];
};

/* Where this thread is. */
struct team_here {
	int me, threads;
	bool inside;
	struct team_region *region;
	uint64_t loop; /* the number of its last loop */
};

extern __thread struct team_here team_here;

/* --- waiting (team_wait.c) ----------------------------------------------------------------- */

int64_t team_now_ns(void);

/* Calls of the system that woke threads. */
extern _Atomic uint64_t team_wakes;

/* Looks at the word until it is not `old`, at most to TEAM_SPIN_NS after `since`. Returns
 * whether it is another. */
bool team_spin(_Atomic uint32_t *word, uint32_t old, int64_t since);

enum { TEAM_WORKER = 1, TEAM_CALLER = 2 }; /* who sleeps, and whom a call is for */

/* Sleeps while the word is `old`, until it is called. w->asleep was counted up before. May
 * return early. */
void team_sleep(struct team_word *w, uint32_t old, uint32_t who);

/* Wakes up to n of those who sleep on a word that has been changed. */
void team_call(struct team_word *w, int n, uint32_t who);

/* The two together: spins, then sleeps; and wakes whoever sleeps. May return early. */
void team_wait(struct team_word *w, uint32_t old, int64_t since);
void team_wake(struct team_word *w, int n);

/* The same for a word that counts no sleepers. */
void team_wait_word(_Atomic uint32_t *word, uint32_t old);
void team_wake_one(_Atomic uint32_t *word);

/* team_each, with loop as the region's first loop unless it is NULL. */
void team_each_loop(int threads, void (*fn)(void *), void *data,
	const struct team_loop *loop);

#endif
