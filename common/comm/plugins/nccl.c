/* nccl.c - the nccl backend of comm.h, as librnp_nccl.so: one GPU per rank, with the GPU's
 * memory.
 *
 * Nothing waits forever: NCCL runs in non-blocking mode, and every wait polls the stream and
 * ncclCommGetAsyncError until the deadline; then the communicator is aborted, which ends the
 * kernels that wait for a peer. A rank that has died is an error (69), one that makes no
 * progress is late (75). The order in which NCCL adds is its own and may change with its
 * version and the shape of the machine: the same ranks get the same sum. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/comm/plugin.h"

_Static_assert(sizeof(ncclUniqueId) <= COMM_UNIQUE_BYTES, "unique id of NCCL");

#define SPIN_NS  200000 /* an all-reduce of a few MB; then threads have better to do */
#define SLEEP_NS 50000

struct state {
	ncclComm_t ranks; /* NULL: aborted */
	cudaStream_t stream;
	int gpu;
	int64_t timeout_ns;
};

static int nccl_failed(ncclResult_t code, char *why)
{
	snprintf(why, COMM_PLUGIN_WHY, "%.300s", ncclGetErrorString(code));
	return -1;
}

static int cuda_failed(cudaError_t code, char *why)
{
	snprintf(why, COMM_PLUGIN_WHY, "%.300s", cudaGetErrorString(code));
	return -1;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* Aborts the communicator, which ends kernels that wait for a peer. */
static void give_up(struct state *s)
{
	if (s->ranks)
		ncclCommAbort(s->ranks);
	s->ranks = NULL;
}

/* Waits until nothing is in progress: of the communicator alone, or of its stream, too. */
static int wait_for(struct state *s, bool stream, char *why)
{
	const struct timespec pause = { 0, SLEEP_NS };
	int64_t began = now_ns();

	for (;;) {
		ncclResult_t nccl = ncclSuccess, asked;
		cudaError_t cuda = cudaSuccess;
		int64_t waited;

		asked = ncclCommGetAsyncError(s->ranks, &nccl);
		if (asked != ncclSuccess)
			nccl = asked;
		if (nccl != ncclSuccess && nccl != ncclInProgress) {
			give_up(s);
			return nccl_failed(nccl, why);
		}
		if (nccl == ncclSuccess && stream)
			cuda = cudaStreamQuery(s->stream);
		if (cuda != cudaSuccess && cuda != cudaErrorNotReady) {
			give_up(s);
			return cuda_failed(cuda, why);
		}
		if (nccl == ncclSuccess && cuda == cudaSuccess)
			return 0;
		waited = now_ns() - began;
		if (waited > s->timeout_ns) {
			give_up(s);
			snprintf(why, COMM_PLUGIN_WHY,
				"another rank did not move for %lld ms",
				(long long)(s->timeout_ns / 1000000));
			return COMM_PLUGIN_LATE;
		}
		if (waited > SPIN_NS)
			nanosleep(&pause, NULL);
	}
}

/* An NCCL operation has ended when its stream has. */
static int finish(struct state *s, ncclResult_t asked, char *why)
{
	if (asked != ncclSuccess && asked != ncclInProgress)
		return nccl_failed(asked, why);
	return wait_for(s, true, why);
}

/* After an abort no further call is possible. */
static int usable(const struct state *s, char *why)
{
	if (s->ranks)
		return 0;
	snprintf(why, COMM_PLUGIN_WHY, "the ranks have given up before");
	return -1;
}

static int nccl_unique(unsigned char *unique, char *why)
{
	ncclUniqueId id;
	ncclResult_t rc = ncclGetUniqueId(&id);

	if (rc != ncclSuccess)
		return nccl_failed(rc, why);
	memcpy(unique, &id, sizeof id);
	return 0;
}

static bool finalized(struct state *s)
{
	ncclResult_t rc = ncclCommFinalize(s->ranks);

	return rc == ncclSuccess || rc == ncclInProgress;
}

static void nccl_close(void *state)
{
	struct state *s = state;

	char why[COMM_PLUGIN_WHY];

	if (s->ranks && finalized(s) && wait_for(s, false, why) == 0)
		ncclCommDestroy(s->ranks);
	else
		give_up(s);
	if (s->stream)
		cudaStreamDestroy(s->stream);
	free(s);
}

static int nccl_open(void **state, int *rank, int *size,
	const struct comm_plugin_start *start, char *why)
{
	struct state *s = calloc(1, sizeof *s);
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclUniqueId id;
	cudaError_t cuda;
	ncclResult_t nccl;
	int rc;

	if (!s) {
		snprintf(why, COMM_PLUGIN_WHY, "out of memory");
		return -1;
	}
	memcpy(&id, start->unique, sizeof id);
	s->gpu = start->gpu;
	if ((cuda = cudaSetDevice(s->gpu)) != cudaSuccess ||
		(cuda = cudaStreamCreateWithFlags(&s->stream, cudaStreamNonBlocking)) !=
			cudaSuccess) {
		cuda_failed(cuda, why);
		nccl_close(s);
		return -1;
	}
	s->timeout_ns = start->timeout_ms * 1000000;
	config.blocking = 0;
	nccl = ncclCommInitRankConfig(&s->ranks, start->size, id, start->rank, &config);
	if (nccl != ncclSuccess && nccl != ncclInProgress) {
		s->ranks = NULL;
		rc = nccl_failed(nccl, why);
	} else {
		rc = wait_for(s, false, why);
	}
	if (rc < 0) {
		nccl_close(s);
		return rc;
	}
	*rank = start->rank;
	*size = start->size;
	*state = s;
	return 0;
}

static int nccl_send(void *state, int to, const void *data, size_t bytes, char *why)
{
	struct state *s = state;

	if (usable(s, why) < 0)
		return -1;
	return finish(s, ncclSend(data, bytes, ncclUint8, to, s->ranks, s->stream), why);
}

static int nccl_receive(void *state, int from, void *data, size_t bytes, char *why)
{
	struct state *s = state;

	if (usable(s, why) < 0)
		return -1;
	return finish(s, ncclRecv(data, bytes, ncclUint8, from, s->ranks, s->stream),
		why);
}

static int nccl_sendrecv(void *state, const struct comm_sendrecv *w, char *why)
{
	struct state *s = state;
	ncclResult_t rc, ended;

	if (w->add) {
		snprintf(why, COMM_PLUGIN_WHY,
			"a sendrecv that adds is not there: use the "
			"all-reduce");
		return -1;
	}
	if (usable(s, why) < 0)
		return -1;
	rc = ncclGroupStart();
	if (rc == ncclSuccess)
		rc = ncclSend(w->out, w->out_bytes, ncclUint8, w->to, s->ranks,
			s->stream);
	if (rc == ncclSuccess || rc == ncclInProgress)
		rc = ncclRecv(w->in, w->in_bytes, ncclUint8, w->from, s->ranks,
			s->stream);
	ended = ncclGroupEnd();
	return finish(s, rc != ncclSuccess && rc != ncclInProgress ? rc : ended, why);
}

static int nccl_allreduce(void *state, float *data, size_t n, char *why)
{
	struct state *s = state;

	if (usable(s, why) < 0)
		return -1;
	return finish(s,
		ncclAllReduce(data, data, n, ncclFloat32, ncclSum, s->ranks, s->stream),
		why);
}

static void *nccl_alloc(void *state, size_t bytes, char *why)
{
	struct state *s = state;
	void *data = NULL;
	cudaError_t rc = cudaSetDevice(s->gpu);

	if (rc == cudaSuccess)
		rc = cudaMalloc(&data, bytes ? bytes : 1);
	if (rc != cudaSuccess) {
		cuda_failed(rc, why);
		return NULL;
	}
	return data;
}

static void nccl_release(void *state, void *data)
{
	(void)state;
	cudaFree(data);
}

static int copy(struct state *s, void *to, const void *from, size_t bytes,
	enum cudaMemcpyKind kind, char *why)
{
	cudaError_t rc = cudaMemcpyAsync(to, from, bytes, kind, s->stream);

	if (rc == cudaSuccess)
		rc = cudaStreamSynchronize(s->stream);
	return rc == cudaSuccess ? 0 : cuda_failed(rc, why);
}

static int nccl_put(void *state, void *data, const void *host, size_t bytes, char *why)
{
	return copy(state, data, host, bytes, cudaMemcpyHostToDevice, why);
}

static int nccl_get(void *state, void *host, const void *data, size_t bytes, char *why)
{
	return copy(state, host, data, bytes, cudaMemcpyDeviceToHost, why);
}

const struct comm_plugin *rnp_comm_plugin(void)
{
	static const struct comm_plugin plugin = { .abi = COMM_PLUGIN_ABI,
		.name = "nccl",
		.unique = nccl_unique,
		.open = nccl_open,
		.send = nccl_send,
		.receive = nccl_receive,
		.sendrecv = nccl_sendrecv,
		.allreduce = nccl_allreduce,
		.close = nccl_close,
		.alloc = nccl_alloc,
		.release = nccl_release,
		.put = nccl_put,
		.get = nccl_get };

	return &plugin;
}
