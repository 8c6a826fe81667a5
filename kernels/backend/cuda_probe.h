/* cuda_probe.h - the GPUs that CUDA sees: the first function of the plug-in librnp_cuda.so.
 *
 * Plain C on both sides; the plug-in is opened with dlopen (common/hw/cuda.h). */
#ifndef RNP_KERNELS_BACKEND_CUDA_PROBE_H
#define RNP_KERNELS_BACKEND_CUDA_PROBE_H

#include <stdint.h>

/* version of this struct; a plug-in of another version is refused */
#define CUDA_PROBE_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

struct cuda_probe_gpu {
	char model[256];
	unsigned char uuid[16];
	char pci[32]; /* "0000:01:00.0", hexadecimal, any case */
	int64_t memory_bytes;
	int32_t capability_major, capability_minor, sm_count, clock_max_mhz;
	int32_t ecc; /* 0 or 1 */
};

/* Writes at most max GPUs. Returns how many there are, or -1 with a sentence in why (no driver,
 * driver too old, no permission). version: CUDA_PROBE_VERSION of the caller. */
int rnp_cuda_probe(int version, struct cuda_probe_gpu *out, int max, char *why,
	int why_bytes);
typedef int (*cuda_probe_fn)(int, struct cuda_probe_gpu *, int, char *, int);

#ifdef __cplusplus
}
#endif

#endif
