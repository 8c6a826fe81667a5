/* cuda.cu - the tables `quant`, `huff` and `outer` of a GPU. */
#include "kernels/dev/cuda/cuda.cuh"
#include "kernels/grad/ops.h"

CUDA_TABLE(quant, QUANT_OPS);
CUDA_TABLE(huff, HUFF_OPS);
CUDA_TABLE(outer, OUTER_OPS);
