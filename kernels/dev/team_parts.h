/* team_parts.h - what team.c and gomp.c share: regions, their loops, and waiting. Private to
 * the two. */
#ifndef RNP_KERNELS_DEV_TEAM_PARTS_H
#define RNP_KERNELS_DEV_TEAM_PARTS_H

#include <stdatomic.h>

#include "kernels/dev/team.h"

#define TEAM_LINE 64 /* cache-line size */
/* loops of a region in progress at once, if threads continue without a barrier */
#define TEAM_LOOPS 8

/* A word that threads wait on, and how many of them sleep. */
struct team_word {
	_Atomic uint32_t value;
	_Atomic int32_t asleep;
};

/* A loop whose iterations are handed out on demand: start, start + step ..., `total` of them. */
struct team_loop {
	uint64_t number; /* of the loop in the region, from 1 on; protected by the lock */
	uint64_t start, step, total, chunk;
	_Atomic uint64_t next;
	/* departures of threads from this loop and those before it in the slot */
	struct team_word left;
};

/* The state of a call of team_each. */
struct team_region {
	void (*fn)(void *);
	void *data;
	int threads;
	_Atomic uint32_t arrived;
	struct team_word round; /* number of barriers that all threads have passed */
	uint32_t lock;          /* taken to set up a loop */
	struct team_loop loops[TEAM_LOOPS];
};

/* The position of this thread. */
struct team_here {
	int me, threads;
	bool inside;
	struct team_region *region;
	uint64_t loop; /* number of its last loop */
};

extern __thread struct team_here team_here;

/* --- waiting (team_wait.c) ----------------------------------------------------------------- */

/* Number of system calls that woke threads. */
extern _Atomic uint64_t team_wakes;

/* Spins until the word is not `old`, at most to TEAM_SPIN_NS after `since`. Returns whether it
 * has changed. */
bool team_spin(_Atomic uint32_t *word, uint32_t old, int64_t since);

/* futex bits: which threads sleep, and which ones a wake-up is meant for */
enum { TEAM_WORKER = 1, TEAM_CALLER = 2 };

/* Sleeps while the word is `old`, until woken. The caller has counted itself in w->asleep
 * before. May return early. */
void team_sleep(struct team_word *w, uint32_t old, uint32_t bits);

/* Wakes up to n threads that sleep on a word that has been changed. */
void team_call(struct team_word *w, int n, uint32_t bits);

/* Combined: spins, then sleeps; and wakes all sleepers. May return early. */
void team_wait(struct team_word *w, uint32_t old, int64_t since);
void team_wake(struct team_word *w, int n);

/* The same for a word that does not count its sleepers. */
void team_wait_word(_Atomic uint32_t *word, uint32_t old);
void team_wake_one(_Atomic uint32_t *word);

/* Runs team_each, with loop as the region's first loop unless it is NULL. */
void team_each_loop(int threads, void (*fn)(void *), void *data,
	const struct team_loop *loop);

#endif
