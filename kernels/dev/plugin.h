/* plugin.h - finds and opens librnp_cuda.so and other plug-ins on demand. libc only. */
#ifndef RNP_KERNELS_DEV_PLUGIN_H
#define RNP_KERNELS_DEV_PLUGIN_H

#include "kernels/dev/hd.h"

KERNELS_BEGIN

/* Returns a function of the plug-in, or NULL with a sentence in why. The plug-in is searched in
 * $RNP_CUDA_PLUGIN (only there if that is set), in ../lib, lib and ../lib/rnp beside the
 * program; it stays open. Where the installed driver is too old for librnp_cuda.so, which states
 * in rnp_cuda_needs the version of CUDA that a driver must support, and not for librnp_cuda12.so
 * beside it, that is opened instead. Any thread. */
void *plugin_symbol(const char *name, char *why, int why_bytes);

/* Opens any plug-in, searched in the same way: file in those directories unless the environment
 * variable names a path. global: its symbols are visible to the libraries that it loads.
 * Returns dlopen's handle, or NULL with a sentence in why. */
void *plugin_open(const char *file, const char *variable, int global, char *why,
	int why_bytes);

KERNELS_END

#endif
