/* gpus.h - all GPUs of this machine: NVIDIA's by their driver (nvml.h), AMD's by what the driver
 * amdgpu shows below /sys; of others it is known only that they are there. Uses hw, nvml, err. */
#ifndef RNP_COMMON_HW_GPUS_H
#define RNP_COMMON_HW_GPUS_H

#include "common/hw/nvml.h"

#define HW_GPUS_MAX NVML_GPUS_MAX

/* Lists them, NVIDIA's first. Returns how many (0: there surely is none), or -1: not known, the
 * cause noted under "gpus". One that cannot be read is left out and noted under "gpus" as well; the
 * picture that a processor or a server's controller makes is no GPU. */
int hw_gpus_read(struct nvml_gpu *out, int max, struct hw_causes *why);

#endif
