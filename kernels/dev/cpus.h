/* cpus.h - how many CPUs this process may compute on. libc only. */
#ifndef RNP_KERNELS_DEV_CPUS_H
#define RNP_KERNELS_DEV_CPUS_H

#include <stdint.h>

#include "kernels/dev/hd.h"

KERNELS_BEGIN

/* Returns the CPUs of the process's mask, or those that the quota of its control groups gives if
 * these are fewer (a container's --cpus leaves the mask alone): more threads would be stopped
 * together in the middle of their work. A quota of 1.5 CPUs counts as 2, one of 1.4 as 1. */
int cpus_usable(void);

/* The quota alone, in thousandths of a CPU; 0: there is none. RNP_SYSROOT, a directory, is put
 * before the paths that it is read from. */
int64_t cpus_quota_milli(void);

KERNELS_END

#endif
