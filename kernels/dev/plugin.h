/* plugin.h - librnp_cuda.so and other plug-ins, found and opened when they are asked for. libc
 * only. */
#ifndef RNP_KERNELS_DEV_PLUGIN_H
#define RNP_KERNELS_DEV_PLUGIN_H

#include "kernels/dev/hd.h"

KERNELS_BEGIN

/* A function of the plug-in, or NULL with a sentence in why. It is looked for in
 * $RNP_CUDA_PLUGIN (only there when that is set), in ../lib, lib and ../lib/rnp beside the
 * program; it stays open. Any thread. */
void *plugin_symbol(const char *name, char *why, int why_bytes);

/* Any plug-in, looked for in the same way: file in those directories unless the environment's
 * variable names a path. global: its symbols serve the libraries that it loads. dlopen's
 * handle, or NULL with a sentence in why. */
void *plugin_open(const char *file, const char *variable, int global, char *why,
	int why_bytes);

KERNELS_END

#endif
