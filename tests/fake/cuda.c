/* cuda.c - a librnp_cuda.so for tests: the GPUs of nvml.c as CUDA would show them, the second
 * without its UUID, so that it is joined by its PCI address. FAKE_CUDA: none, fail. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/backend/cuda_probe.h"

#ifdef NEEDS
const int rnp_cuda_needs = NEEDS;
#endif

int rnp_cuda_probe(int version, struct cuda_probe_gpu *out, int max, char *why,
	int why_bytes)
{
	static const unsigned char uuid[16] = { 0x11, 0x11, 0x11, 0x11, 0x22, 0x22, 0x33,
		0x33, 0x44, 0x44, 0x55, 0x55, 0x55, 0x55, 0x55, 0x55 };
	const char *scene = getenv("FAKE_CUDA");

	if (version != CUDA_PROBE_VERSION || max < 2 ||
		(scene && strcmp(scene, "fail") == 0)) {
		snprintf(why, (size_t)why_bytes, "cudaErrorInsufficientDriver: too old");
		return -1;
	}
	if (scene && strcmp(scene, "none") == 0)
		return 0;
	memset(out, 0, 2 * sizeof *out);
	strcpy(out[0].model, "NVIDIA A100-SXM4-80GB");
#ifdef NEEDS
	snprintf(out[0].model, sizeof out[0].model, "for CUDA %d", NEEDS);
#endif
	strcpy(out[0].pci, "0000:41:00.0");
	out[0].sm_count = 108;
	out[0].memory_bytes = 85093777408;
	out[0].capability_major = 8;
	out[0].clock_max_mhz = 1410;
	out[0].ecc = 1;
	strcpy(out[1].model, "NVIDIA GeForce RTX 4090");
	memcpy(out[1].uuid, uuid, sizeof uuid);
	strcpy(out[1].pci, "0000:99:00.0");
	out[1].sm_count = 128;
	out[1].memory_bytes = 25250627584;
	out[1].capability_major = 8;
	out[1].capability_minor = 9;
	out[1].clock_max_mhz = 2520;
	return 2;
}
