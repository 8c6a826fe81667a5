/* cuda_probe.cu - lists the GPUs that CUDA sees, without opening one. */
#include "kernels/backend/cuda_probe.h"

#include <cuda_runtime.h>
#include <stdio.h>
#include <string.h>

static int fail(cudaError_t e, char *why, int why_bytes)
{
	snprintf(why, why_bytes, "%s: %s", cudaGetErrorName(e), cudaGetErrorString(e));
	return -1;
}

/* Uses attributes, since the fields of cudaDeviceProp change between toolkits. */
static cudaError_t read_gpu(int i, struct cuda_probe_gpu *g)
{
	cudaDeviceProp p;
	int khz = 0, ecc = 0;
	cudaError_t e = cudaGetDeviceProperties(&p, i);

	if (e == cudaSuccess)
		e = cudaDeviceGetPCIBusId(g->pci, sizeof g->pci, i);
	if (e == cudaSuccess)
		e = cudaDeviceGetAttribute(&khz, cudaDevAttrClockRate, i);
	if (e == cudaSuccess)
		e = cudaDeviceGetAttribute(&ecc, cudaDevAttrEccEnabled, i);
	if (e != cudaSuccess)
		return e;
	snprintf(g->model, sizeof g->model, "%s", p.name);
	memcpy(g->uuid, p.uuid.bytes, sizeof g->uuid);
	g->memory_bytes = (int64_t)p.totalGlobalMem;
	g->capability_major = p.major;
	g->capability_minor = p.minor;
	g->sm_count = p.multiProcessorCount;
	g->clock_max_mhz = khz / 1000;
	g->ecc = ecc != 0;
	return cudaSuccess;
}

extern "C" int rnp_cuda_probe(int version, struct cuda_probe_gpu *out, int max, char *why,
	int why_bytes)
{
	cudaError_t e;
	int n = 0;

	if (version != CUDA_PROBE_VERSION) {
		snprintf(why, why_bytes, "librnp_cuda.so is of another version");
		return -1;
	}
	e = cudaGetDeviceCount(&n);
	if (e == cudaErrorNoDevice)
		return 0;
	if (e != cudaSuccess)
		return fail(e, why, why_bytes);
	memset(out, 0, max * sizeof *out);
	for (int i = 0; i < n && i < max; i++) {
		e = read_gpu(i, &out[i]);
		if (e != cudaSuccess)
			return fail(e, why, why_bytes);
	}
	return n;
}
