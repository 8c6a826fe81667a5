/* nvml.h - NVIDIA GPUs as the driver (NVML) and the CUDA plug-in see them. Uses hw, cuda, err.
 *
 * libnvidia-ml.so.1 is opened with dlopen, and its few prototypes are declared here: neither the
 * CUDA toolkit nor the driver is needed to build or to start. */
#ifndef RNP_COMMON_HW_NVML_H
#define RNP_COMMON_HW_NVML_H

#include <stdbool.h>
#include <stdint.h>

#include "common/hw/hw.h"

#define NVML_GPUS_MAX 64

/* 0 and "" mean unknown; the cause is recorded under gpus[INDEX].FIELD. */
struct nvml_gpu {
	char vendor[16], uuid[96], model[96], driver[80], pci[32], compute_capability[8];
	int64_t memory_bytes, power_limit_mw;
	int slot; /* the driver's number of it, from 0 */
	int sm_count, clock_max_mhz, pcie_gen, pcie_width;
	int ecc, mig; /* 1 on, 0 off (or the GPU has no such thing), -1 not known */
};

/* Lists all GPUs of this machine, by NVML, then by CUDA, joined by UUID or PCI address. Returns how
 * many (0: there is none), or -1: not known, the cause noted under "gpus". A GPU that does not
 * answer, or hangs for 5 s, is left out and noted under "gpus" as well. */
int nvml_read(struct nvml_gpu *out, int max, struct hw_causes *why);

#endif
