/* hd.h - macros for functions that a CUDA kernel and its reference share, one text for both. */
#ifndef RNP_KERNELS_DEV_HD_H
#define RNP_KERNELS_DEV_HD_H

#ifdef __CUDACC__
#define HD static __host__ __device__ __forceinline__
#else
#define HD static inline
#endif

/* before a loop of few turns: a GPU does not unroll it */
#ifdef __CUDA_ARCH__
#define HD_FEW _Pragma("unroll 1")
#else
#define HD_FEW
#endif

#ifdef __cplusplus
#define KERNELS_BEGIN extern "C" {
#define KERNELS_END   }
#else
#define KERNELS_BEGIN
#define KERNELS_END
#endif

#endif
