/* cuda.h - the CUDA plug-in, found and opened on demand. Uses libc, err. */
#ifndef RNP_COMMON_HW_CUDA_H
#define RNP_COMMON_HW_CUDA_H

/* Returns a function of librnp_cuda.so, or NULL with err_set(EX_UNAVAILABLE). The plug-in is looked
 * for in $RNP_CUDA_PLUGIN (only there when it is set), then in ../lib and ../lib/rnp beside the
 * program; it stays open. */
void *cuda_symbol(const char *name);

#endif
