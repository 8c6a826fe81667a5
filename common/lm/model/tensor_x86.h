/* tensor_x86.h - the fast part of tensor.c's conversions, for CPUs with AVX2 and F16C. For
 * tensor.c only.
 *
 * The results have the same bits as the definitions there; a NaN stays a NaN, but its payload
 * may differ. */
#ifndef RNP_COMMON_LM_MODEL_TENSOR_X86_H
#define RNP_COMMON_LM_MODEL_TENSOR_X86_H

#include "common/lm/model/tensor.h"

/* Convert the leading elements that fill whole vectors and return how many: 0 when this CPU (or
 * RNP_ISA) or the type has no fast version. */
uint64_t lm_to_f32_fast(float *to, const void *from, enum lm_type type, uint64_t count);
uint64_t lm_from_f32_fast(void *to, const float *from, enum lm_type type, uint64_t count);

#endif
