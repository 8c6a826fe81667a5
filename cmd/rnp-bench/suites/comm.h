/* comm.h - shared by the files of the comm suite. */
#ifndef RNP_BENCH_SUITES_COMM_H
#define RNP_BENCH_SUITES_COMM_H

#include "cmd/rnp-bench/peer/peer.h"
#include "cmd/rnp-bench/suites/suite.h"

#define COMM_BYTES_MIN 1024
#define COMM_SIZES_MAX 17 /* 1 KiB to 64 MiB */

enum comm_op { COMM_PINGPONG, COMM_ALLREDUCE, COMM_OPS };

/* One way of sending messages. All functions return 0, or -1 with err_set. */
struct backend {
	const char *name;
	int (*open)(struct backend *b);
	/* repeats reps times and returns the ns of all, a round trip each for a ping-pong */
	int (*work)(struct backend *b, enum comm_op op, size_t bytes, uint32_t reps,
		int64_t *ns);
	int (*check)(struct backend *b,
		size_t bytes); /* checks a sum of that many bytes */
	void (*close)(struct backend *b);
	struct peer *peer;
	struct comm orders, data;
	void *buffer;
	size_t bytes_max;
	bool opened, local;
};

/* In this order; opened only while they are measured. */
extern struct backend comm_backends[];
enum { COMM_HTTP, COMM_TCP, COMM_MPI, COMM_NCCL, COMM_BACKENDS };

/* Runs a segment of the mpi part in a job of two processes on this machine, `mpirun -n 2` of
 * this program, and takes its records. Returns 0, or -1: 69 there is no MPI. */
int suite_comm_mpi(const struct settings *s, suite_emit take, void *ctx);

#endif
