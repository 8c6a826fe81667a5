/* team.h - the process's one team of threads, which share operations; waiting threads sleep.
 * pthreads and futexes.
 *
 * The team has a thread for each CPU that the process may use (mask and quota, cpus.h), or as
 * many as OMP_NUM_THREADS says; the calling thread is one of them, the others are started by the
 * first call that needs them. A thread without work looks for more for at most TEAM_SPIN_NS and
 * then sleeps in a futex, whatever OMP_WAIT_POLICY says, because programs run beside others.
 *
 * Threads that call at the same time take turns, in the order of their calls; so work of the
 * team must not wait for another thread that calls it. A call from inside the team's work runs
 * alone in its thread. A child of fork starts a team of its own.
 *
 * gomp.c runs the OpenMP pragmas, ours and those of oneDNN, on this team. */
#ifndef RNP_KERNELS_DEV_TEAM_H
#define RNP_KERNELS_DEV_TEAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/dev/hd.h"

#define TEAM_SPIN_NS 20000 /* longest time that a thread spins */
#define TEAM_MAX     1024  /* threads */

KERNELS_BEGIN

/* Returns the number of threads of the team, including the caller, and starts them. Fewer than
 * requested if the system refuses. */
int team_size(void);

/* Returns the number of CPUs that the process may use, see cpus.h. */
int team_cpus(void);

/* Ends the team's threads; the next call starts n, or with 0 the default number. Must not be
 * called from inside the team's work. */
void team_resize(int n);

/* From inside: return the number of this thread, below team_threads(), unique among threads
 * that work at the same time; and the number of threads. Elsewhere 0 and 1. */
int team_me(void);
int team_threads(void);
bool team_inside(void);

/* Does the work for from .. to - 1. */
typedef void (*team_part_fn)(void *work, uint64_t from, uint64_t to);

/* An operation on 0 .. n - 1, divided at multiples of grain (at least 1) into one range per
 * thread. A range is divided into `pieces` (0 means 1) if it has as many grains; a thread that
 * has finished its own takes pieces that others have not begun. Up to n = alone, which may be
 * more than a grain, one thread does all of it: sharing pays only for more work than a piece
 * holds. */
struct team_op {
	team_part_fn part;
	void *work;
	uint64_t n, grain;
	uint32_t pieces;
	uint64_t alone;
};

/* Runs the operations one after the other: each begins when the one before is done, on
 * whichever threads are awake. The team is woken once for all of them. Returns when all are
 * done. */
void team_run(const struct team_op *ops, size_t count);

/* Calls fn(data) once for each of `threads` numbers (0, or more than there are: the whole
 * team), which team_me() returns. Inside, team_barrier() waits for all of them. If it is not
 * used, one thread may run several numbers, one after the other. */
void team_each(int threads, void (*fn)(void *), void *data);
void team_barrier(void);

/* Counts since the process began: shared lists of team_run and team_each, operations in them,
 * and system calls that woke a thread. */
struct team_counts {
	uint64_t runs, ops, wakes;
};
void team_counts(struct team_counts *out);

/* Returns nanoseconds of the monotonic clock. */
int64_t team_now_ns(void);

KERNELS_END

#endif
