/* nccl.c - stands for NCCL and CUDA's runtime under librnp_nccl.so's own source, for tests:
 * what a peer that dies or hangs looks like from here. FAKE_NCCL: "well", "hang" (the sum's
 * kernel never ends), "died" (NCCL notices that a peer has gone), "alone" (nobody else comes to
 * open it). */
#include <cuda_runtime_api.h>
#include <nccl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int asked, aborted;

static int scene(const char *name)
{
	const char *is = getenv("FAKE_NCCL");

	return is && strcmp(is, name) == 0;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	memset(id, 1, sizeof *id);
	return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t *c, int n, ncclUniqueId id, int rank,
	ncclConfig_t *config)
{
	(void)n, (void)id, (void)rank;
	*c = (ncclComm_t)&asked;
	return config->blocking ? ncclInvalidArgument : ncclInProgress;
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t c, ncclResult_t *state)
{
	static int calls;

	(void)c;
	*state = scene("alone") || ++calls < 3 ? ncclInProgress : ncclSuccess;
	if (scene("died") && asked)
		*state = ncclRemoteError;
	return ncclSuccess;
}

ncclResult_t ncclAllReduce(const void *in, void *out, size_t n, ncclDataType_t type,
	ncclRedOp_t op, ncclComm_t c, cudaStream_t stream)
{
	(void)in, (void)out, (void)n, (void)type, (void)op, (void)c, (void)stream;
	asked = 1;
	return ncclInProgress;
}

ncclResult_t ncclSend(const void *d, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
	cudaStream_t stream)
{
	(void)d, (void)n, (void)t, (void)peer, (void)c, (void)stream;
	return ncclSuccess;
}

ncclResult_t ncclRecv(void *d, size_t n, ncclDataType_t t, int peer, ncclComm_t c,
	cudaStream_t stream)
{
	return ncclSend(d, n, t, peer, c, stream);
}

ncclResult_t ncclGroupStart(void)
{
	return ncclSuccess;
}

ncclResult_t ncclGroupEnd(void)
{
	return ncclInProgress;
}

ncclResult_t ncclCommFinalize(ncclComm_t c)
{
	(void)c;
	return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t c)
{
	(void)c;
	return ncclSuccess;
}

ncclResult_t ncclCommAbort(ncclComm_t c)
{
	(void)c;
	aborted++;
	fprintf(stderr, "aborted\n");
	return ncclSuccess;
}

const char *ncclGetErrorString(ncclResult_t r)
{
	return r == ncclRemoteError ? "remote process exited" : "other";
}

cudaError_t cudaStreamQuery(cudaStream_t s)
{
	(void)s;
	return scene("hang") && !aborted ? cudaErrorNotReady : cudaSuccess;
}

cudaError_t cudaSetDevice(int n)
{
	(void)n;
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
	(void)flags;
	*s = (cudaStream_t)&asked;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	(void)s;
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	(void)s;
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t n)
{
	*p = malloc(n);
	return cudaSuccess;
}

cudaError_t cudaFree(void *p)
{
	free(p);
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n,
	enum cudaMemcpyKind kind, cudaStream_t s)
{
	(void)kind, (void)s;
	memcpy(to, from, n);
	return cudaSuccess;
}

const char *cudaGetErrorString(cudaError_t e)
{
	(void)e;
	return "error of CUDA";
}

/* --- the test: opens, sums once, closes; says what came back ------------------------------ */

#include "common/comm/plugin.h"

int main(void)
{
	const struct comm_plugin *p = rnp_comm_plugin();
	struct comm_plugin_start start = { .rank = 0, .size = 2, .timeout_ms = 200 };
	char why[COMM_PLUGIN_WHY] = "";
	float x = 1;
	void *state = NULL;
	int rank, size, rc;

	rc = p->open(&state, &rank, &size, &start, why);
	printf("open %d %s\n", rc, why);
	if (rc < 0)
		return 0;
	rc = p->allreduce(state, &x, 1, why);
	printf("allreduce %d %s\n", rc, why);
	if (rc < 0)
		printf("again %d %s\n", p->allreduce(state, &x, 1, why), why);
	p->close(state);
	return 0;
}
