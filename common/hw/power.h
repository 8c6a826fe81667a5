/* power.h - how much power this machine's GPUs and CPUs draw, by their own meters. Uses hw,
 * nvml_lib, clock, err.
 *
 * GPUs: NVML's counter of energy, or its reading of power where a chip has no counter. CPUs: the
 * RAPL zones below /sys/class/powercap, which only root may read on most systems. Nothing meters
 * boards, fans, disks, and what the power supply loses. */
#ifndef RNP_COMMON_HW_POWER_H
#define RNP_COMMON_HW_POWER_H

#include <stdint.h>

#include "common/hw/hw.h"

struct power_reading {
	int64_t gpu_mw, cpu_mw; /* mean over the time; -1: not known, or there is none */
	int64_t ms;             /* how long was measured */
	int gpus,
		cpus; /* how many GPUs, and packages and memory controllers, are in it */
};

/* Returns the energy between two readings of a counter that begins anew after `range` (0: never),
 * in its own unit. Pure. */
int64_t power_since(int64_t before, int64_t now, int64_t range);

/* Measures for ms milliseconds, during which it sleeps. What is not metered is in why, under "gpus"
 * and "cpu". Returns 0, or -1 with err_set (69): a GPU of this machine cannot be metered, so that
 * the sum would be too low, or there is no meter at all. */
int power_measure(int64_t ms, struct power_reading *out, struct hw_causes *why);

#endif
