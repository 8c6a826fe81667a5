/* comm.h - messages and sums among the processes of one site: backends behind one table.
 *
 * Ranks 0 .. size - 1 know each other; rank is our own. Backends: tcp (tcp.c), mpi and
 * nccl (plug-ins, built where their headers are; common/comm/plugin.h). Messages are
 * neither encrypted nor signed, and all ranks have the same byte order: this is for machines
 * that trust each other. A struct comm belongs to one thread. Uses err, mem, net.
 *
 * All functions return 0, or -1 with err_set: 75 when a rank stalls, 69 when a rank is gone.
 * After one rank has failed the others fail, too, and may call nothing but comm_close. */
#ifndef RNP_COMMON_COMM_COMM_H
#define RNP_COMMON_COMM_COMM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define COMM_SIZE_MAX 1024

struct comm;

/* Sends and receives at the same time. out and in do not overlap. With add, in holds floats,
 * and arriving data is added to them piece by piece while the rest is in transit. */
struct comm_sendrecv {
	int to, from;
	const void *out;
	size_t out_bytes;
	void *in;
	size_t in_bytes;
	bool add;
};

struct comm_ops {
	const char *name;
	int (*send)(struct comm *c, int to, const void *data, size_t bytes);
	int (*receive)(struct comm *c, int from, void *data, size_t bytes);
	/* NULL: receive waits as long as it takes */
	int (*wait)(struct comm *c, int from, int64_t timeout_ms);
	int (*sendrecv)(struct comm *c, const struct comm_sendrecv *s);
	int (*allreduce)(struct comm *c, float *data,
		size_t n);                  /* NULL: made of sendrecv */
	void (*be_patient)(struct comm *c); /* NULL: the backend does not poll */
	void (*close)(struct comm *c);
	/* Memory that the backend works on; NULL: the host's memory. nccl uses the memory of
	 * its GPU; put and get copy between it and the host. */
	void *(*alloc)(struct comm *c, size_t bytes);
	void (*release)(struct comm *c, void *data);
	int (*put)(struct comm *c, void *data, const void *host, size_t bytes);
	int (*get)(struct comm *c, void *host, const void *data, size_t bytes);
};

struct comm {
	const struct comm_ops *ops; /* NULL: closed */
	int rank, size;
	void *state;
};
/* clang-format off */
#define COMM_INIT { NULL, 0, 1, NULL }
/* clang-format on */

/* Sends or receives one message. Messages between two ranks arrive whole and in order; the
 * receiver knows their length. */
int comm_send(struct comm *c, int to, const void *data, size_t bytes);
int comm_receive(struct comm *c, int from, void *data, size_t bytes);
int comm_sendrecv(struct comm *c, const struct comm_sendrecv *s);

/* Waits until a message of that rank begins, or the connection ends, for longer than a rank may
 * stall within one. Backends without time limits return at once. */
int comm_wait(struct comm *c, int from, int64_t timeout_ms);

/* Replaces data[i] by the sum of data[i] of all ranks, for n floats, with the same bits on
 * every rank.
 *
 * Backends without an all-reduce of their own use recursive doubling for up to COMM_SMALL_BYTES
 * where size is a power of two: log2(size) exchanges of everything. Otherwise they use a ring:
 * element i of chunk k of size chunks is ((x_k + x_k+1) + x_k+2) + ..., ranks modulo size, in 2
 * (size - 1) exchanges of 1/size, the least that any algorithm sends (Patarasuk and Yuan,
 * 2009). */
int comm_allreduce(struct comm *c, float *data, size_t n);
#define COMM_SMALL_BYTES ((size_t)32 << 10)

/* Copies rank 0's bytes to every other rank, in log2(size) steps (a binomial tree). Every rank
 * calls it with as many bytes. */
int comm_broadcast(struct comm *c, void *data, size_t bytes);

/* Lets large sums leave the core to other threads while they wait; they may take longer. For a
 * communication thread beside one that computes. A backend that polls then sleeps while it
 * receives, too. All ranks call it or none does: it may change the order of a sum of more than
 * two. */
void comm_be_patient(struct comm *c);

/* Returns when every rank has called it. */
int comm_barrier(struct comm *c);

/* Allocates and frees memory for messages and sums, and copies between it and the host's.
 * comm_alloc returns NULL with err_set. */
void *comm_alloc(struct comm *c, size_t bytes);
void comm_release(struct comm *c, void *data);
int comm_put(struct comm *c, void *data, const void *host, size_t bytes);
int comm_get(struct comm *c, void *host, const void *data, size_t bytes);

void comm_close(struct comm *c);

/* --- backends ----------------------------------------------------------------------------- */

/* Opens the tcp backend over sockets that are connected already: fds[i] leads to rank i,
 * fds[rank] is not used. Takes the sockets, also when it fails. */
int comm_tcp_from(struct comm *c, int rank, int size, const int *fds, int64_t timeout_ms);

/* Opens the ranks of the MPI job that mpirun or srun started this process in. MPI can be
 * started once in a process, and has no time limits. 69: there is no plug-in, or no MPI
 * library. */
int comm_mpi_open(struct comm *c);

/* Whether mpirun, srun or the like started this process as one of several. */
bool comm_mpi_started(void);

/* Opens NCCL on GPU number gpu of each rank; over (borrowed while opening) brings the ranks
 * together. When it fails (69) it fails on every rank, and over remains usable. */
int comm_nccl_open(struct comm *c, struct comm *over, int gpu);

#endif
