/* cuda.cu - the table `bulk` of a GPU. */
#include "kernels/bulk/ops.h"
#include "kernels/dev/cuda/cuda.cuh"

CUDA_TABLE(bulk, BULK_OPS);
