/* plugin.h - the interface of a backend of comm.h that lives in a plug-in: librnp_mpi.so,
 * librnp_nccl.so.
 *
 * No program of ours is linked with MPI or NCCL, and each plug-in is built against the headers
 * of its own library. It is plain C and uses no symbols of ours: errors are sentences. */
#ifndef RNP_COMMON_COMM_PLUGIN_H
#define RNP_COMMON_COMM_PLUGIN_H

#include <stddef.h>

#include "common/comm/comm.h"

#define COMM_PLUGIN_ABI   3
#define COMM_PLUGIN_WHY   400
#define COMM_PLUGIN_ENTRY "rnp_comm_plugin"
#define COMM_UNIQUE_BYTES 128
#define COMM_PLUGIN_LATE  (-2)

/* How ranks meet when the library itself does not start them (nccl). */
struct comm_plugin_start {
	int rank, size, gpu;
	int64_t timeout_ms; /* after which a rank that does not move is given up */
	unsigned char unique[COMM_UNIQUE_BYTES]; /* made by rank 0, equal everywhere */
};

/* All functions return 0, or -1 with at most COMM_PLUGIN_WHY bytes in why; COMM_PLUGIN_LATE
 * instead of -1 where another rank did not move in time. A member is NULL where struct comm_ops
 * may have NULL. */
struct comm_plugin {
	int abi;
	const char *name;
	int (*unique)(unsigned char *unique, char *why); /* NULL: not needed */
	int (*open)(void **state, int *rank, int *size,
		const struct comm_plugin_start *start, char *why);
	int (*send)(void *state, int to, const void *data, size_t bytes, char *why);
	int (*receive)(void *state, int from, void *data, size_t bytes, char *why);
	int (*sendrecv)(void *state, const struct comm_sendrecv *s, char *why);
	int (*allreduce)(void *state, float *data, size_t n, char *why);
	void (*be_patient)(void *state);
	void (*close)(void *state);
	void *(*alloc)(void *state, size_t bytes, char *why);
	void (*release)(void *state, void *data);
	int (*put)(void *state, void *data, const void *host, size_t bytes, char *why);
	int (*get)(void *state, void *host, const void *data, size_t bytes, char *why);
};

const struct comm_plugin *rnp_comm_plugin(void);

#endif
