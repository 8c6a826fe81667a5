/* The nccl backend of comm.h, as librnp_nccl.so: one GPU a rank, memory of the GPU. */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/comm/comm_plugin.h"

_Static_assert(sizeof(ncclUniqueId) <= COMM_UNIQUE_BYTES, "unique id of NCCL");

struct state {
	ncclComm_t ranks;
	cudaStream_t stream;
	int gpu;
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

/* An NCCL operation has ended when its stream has. */
static int finish(struct state *s, ncclResult_t asked, char *why)
{
	cudaError_t waited;

	if (asked != ncclSuccess)
		return nccl_failed(asked, why);
	waited = cudaStreamSynchronize(s->stream);
	return waited == cudaSuccess ? 0 : cuda_failed(waited, why);
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

static void nccl_close(void *state)
{
	struct state *s = state;

	if (s->ranks)
		ncclCommDestroy(s->ranks);
	if (s->stream)
		cudaStreamDestroy(s->stream);
	free(s);
}

static int nccl_open(void **state, int *rank, int *size,
	const struct comm_plugin_start *start, char *why)
{
	struct state *s = calloc(1, sizeof *s);
	ncclUniqueId id;
	cudaError_t cuda;
	ncclResult_t nccl;

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
	nccl = ncclCommInitRank(&s->ranks, start->size, id, start->rank);
	if (nccl != ncclSuccess) {
		s->ranks = NULL;
		nccl_failed(nccl, why);
		nccl_close(s);
		return -1;
	}
	*rank = start->rank;
	*size = start->size;
	*state = s;
	return 0;
}

static int nccl_send(void *state, int to, const void *data, size_t bytes, char *why)
{
	struct state *s = state;

	return finish(s, ncclSend(data, bytes, ncclUint8, to, s->ranks, s->stream), why);
}

static int nccl_receive(void *state, int from, void *data, size_t bytes, char *why)
{
	struct state *s = state;

	return finish(s, ncclRecv(data, bytes, ncclUint8, from, s->ranks, s->stream),
		why);
}

static int nccl_sendrecv(void *state, const struct comm_sendrecv *w, char *why)
{
	struct state *s = state;
	ncclResult_t rc, ended;

	if (w->add) {
		snprintf(why, COMM_PLUGIN_WHY,
			"a swap that adds is not there: use the "
			"all-reduce");
		return -1;
	}
	rc = ncclGroupStart();
	if (rc == ncclSuccess)
		rc = ncclSend(w->out, w->out_bytes, ncclUint8, w->to, s->ranks,
			s->stream);
	if (rc == ncclSuccess)
		rc = ncclRecv(w->in, w->in_bytes, ncclUint8, w->from, s->ranks,
			s->stream);
	ended = ncclGroupEnd();
	return finish(s, rc != ncclSuccess ? rc : ended, why);
}

static int nccl_allreduce(void *state, float *data, size_t n, char *why)
{
	struct state *s = state;

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
		.swap = nccl_sendrecv,
		.allreduce = nccl_allreduce,
		.close = nccl_close,
		.alloc = nccl_alloc,
		.release = nccl_release,
		.put = nccl_put,
		.get = nccl_get };

	return &plugin;
}
