/* cuda.cu - the table `poc` of a GPU. */
#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/poc/ops.h"

CUDA_TABLE(poc, POC_OPS);
