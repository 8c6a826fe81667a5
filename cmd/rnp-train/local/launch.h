/* launch.h - training on several GPUs of this machine: one process for each, and the one that
 * started them waits for them all.
 *
 * The processes are joined by socket pairs before CUDA is opened, which does not survive a fork. */
#ifndef RNP_TRAIN_LOCAL_LAUNCH_H
#define RNP_TRAIN_LOCAL_LAUNCH_H

#include <stdbool.h>
#include <stdint.h>

#include "common/comm/comm.h"

#define LAUNCH_MAX 16 /* GPUs of one machine */

/* A signal so soon after the first is the same one: timeout(1) sends each to the process and to its
 * group. */
#define LAUNCH_AGAIN_NS INT64_C(200000000)

struct launch {
	int n;                         /* devices that were named; 0: none, or one */
	const char *names[LAUNCH_MAX]; /* "cuda:0", owned */
	int rank;                      /* in a rank, else -1 */
	int fds[LAUNCH_MAX];           /* of a rank: to each other one */
	struct launch_shared *shared;
};

/* clang-format off */
#define LAUNCH_INIT { .rank = -1 }
/* clang-format on */

/* The devices of "cuda:0,cuda:1" or "cuda:all"; every: "cuda" and "auto" mean all GPUs, too. spec
 * NULL or "": $RNP_DEVICE. n is 0 for what dev_open understands by itself, else at least 1. CUDA is
 * asked in a process that has ended when this returns. Returns 0, or -1 with err_set(): 64
 * malformed, 69 no GPU, 71 no process. */
int launch_devices(struct launch *l, const char *spec, bool every);

/* Starts a rank for each device. Returns true in a rank, and false, when all ranks have ended, in
 * the process that started them: with the exit code, and what went wrong is said. There SIGTERM,
 * SIGINT and (unless ignored) SIGHUP are passed on to the ranks as SIGTERM, whose handler must be
 * set before; a second one, no sooner than LAUNCH_AGAIN_NS, ends them at once. Nothing may have
 * used a thread, OpenMP or CUDA before. */
bool launch_ranks(struct launch *l, int *code);

/* As comm_mpi_open, in a rank, once; arg is the struct launch. */
int launch_join(struct comm *c, void *arg);

/* Ends this rank: the process that started it says why, the pending error. */
__attribute__((noreturn)) void launch_leave(struct launch *l);

void launch_release(struct launch *l);

#endif
