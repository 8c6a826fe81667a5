/* team.h - the process's one team of threads, which shares out operations: whoever waits sleeps.
 * pthreads and futexes.
 *
 * The team has a thread for each CPU that the process may use (sched_getaffinity), or as many as
 * OMP_NUM_THREADS says; the thread that calls is one of them, the others are started by the first
 * call that needs them. A thread without work looks for more for at most TEAM_SPIN_NS and then
 * sleeps in a futex, whatever OMP_WAIT_POLICY says: programs run beside others.
 *
 * Threads that call at the same time take turns, in the order in which they came; so work of the
 * team may not wait for another thread that calls it. A call from inside the team's work runs
 * alone in its thread. A child of fork starts a team of its own.
 *
 * gomp.c gives the pragmas of OpenMP, ours and those of oneDNN, to this team. */
#ifndef RNP_KERNELS_DEV_TEAM_H
#define RNP_KERNELS_DEV_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/dev/hd.h"

#define TEAM_SPIN_NS 20000 /* the longest that a thread spins */
#define TEAM_MAX     1024  /* threads */

KERNELS_BEGIN

/* The threads of the team, the caller among them; they are started. Fewer than asked for where
 * the system gives no more. */
int team_size(void);

/* CPUs that the process may use. */
int team_cpus(void);

/* Ends the team's threads; the next call starts n, or with 0 as many as at first. Not from
 * inside the team's work. */
void team_resize(int n);

/* From inside: the number of this thread, below team_threads(); no two that work at the same
 * time have the same. Elsewhere 0 and 1. */
int team_me(void);
int team_threads(void);
bool team_inside(void);

/* Does what is to be done for from .. to - 1. */
typedef void (*team_part_fn)(void *work, uint64_t from, uint64_t to);

/* An operation on 0 .. n - 1, cut at multiples of grain (at least 1), of which each thread
 * gets one range. A range is cut in `pieces` (0 is 1) where it has as many grains; a thread
 * that has done its own takes those that others have not begun. Up to n = alone, which may be
 * more than a grain, one thread does all of it: what is worth sharing is more than what is
 * worth a piece. */
struct team_op {
	team_part_fn part;
	void *work;
	uint64_t n, grain;
	uint32_t pieces;
	uint64_t alone;
};

/* Does the operations one after the other: each begins when the one before is done, and
 * whichever threads are awake go on with it. The team is woken once for all of them. Returns
 * when all is done. */
void team_run(const struct team_op *ops, size_t count);

/* Calls fn(data) once for each of `threads` numbers (0, or more than there are: all of the
 * team), which team_me() tells. Inside, team_barrier() waits for all of them. Where it is not
 * used, one thread may have several numbers, one after the other. */
void team_each(int threads, void (*fn)(void *), void *data);
void team_barrier(void);

/* What the team has done since the process began: lists of team_run and team_each that were
 * shared, operations in them, and calls of the system that woke a thread. */
struct team_counts {
	uint64_t runs, ops, wakes;
};
void team_counts(struct team_counts *out);

KERNELS_END

#endif
