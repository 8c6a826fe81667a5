/* cuda.cu - the tables `quant` and `huff` of a GPU. */
#include "kernels/dev/cuda.cuh"
#include "kernels/grad/ops.h"

CUDA_TABLE(quant, QUANT_OPS);
CUDA_TABLE(huff, HUFF_OPS);
