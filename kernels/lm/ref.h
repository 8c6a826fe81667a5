/* ref.h - the definitions of ops.h in plain C: each function computes a range of rows, blocks
 * or tasks, so that a team can share the work. For the CPU device and kcheck. */
#ifndef RNP_KERNELS_LM_REF_H
#define RNP_KERNELS_LM_REF_H

#include "kernels/dev/half.h"
#include "kernels/lm/ops.h"

KERNELS_BEGIN

static inline double lm_at(enum lm_dtype dtype, const void *p, uint64_t i)
{
	return dtype == LM_DTYPE_F32 ? ((const float *)p)[i] :
				       bf16_to_f32(((const uint16_t *)p)[i]);
}

static inline void lm_set(enum lm_dtype dtype, void *p, uint64_t i, double x)
{
	if (dtype == LM_DTYPE_F32)
		((float *)p)[i] = (float)x;
	else
		((uint16_t *)p)[i] = bf16_from_f32((float)x);
}

/* from, to: rows of C */
void lm_gemm_ref(const struct lm_gemm *g, uint64_t from, uint64_t to);
/* rows */
void lm_embed_ref(const struct lm_embed *e, uint64_t from, uint64_t to);
void lm_norm_ref(const struct lm_norm *n, uint64_t from, uint64_t to);
void lm_norm_back_rows_ref(const struct lm_norm_back *n, uint64_t from, uint64_t to);
void lm_rotate_ref(const struct lm_rotate *r, uint64_t from, uint64_t to);
void lm_swiglu_ref(const struct lm_swiglu *s, uint64_t from, uint64_t to);
void lm_swiglu_back_ref(const struct lm_swiglu_back *s, uint64_t from, uint64_t to);
/* columns of the sum over rows */
void lm_embed_back_ref(const struct lm_embed_back *e, uint64_t from, uint64_t to);
void lm_norm_back_columns_ref(const struct lm_norm_back *n, uint64_t from, uint64_t to);
void lm_bias_back_ref(const struct lm_bias_back *b, uint64_t from, uint64_t to);
/* (sequence, head, query) triples */
void lm_attend_ref(const struct lm_attend *a, uint64_t from, uint64_t to);
/* the same triples give dq; (sequence, kv head, key) triples give dk and dv */
void lm_attend_back_q_ref(const struct lm_attend_back *a, uint64_t from, uint64_t to);
void lm_attend_back_kv_ref(const struct lm_attend_back *a, uint64_t from, uint64_t to);
/* computes everything; scratch holds LM_HEAD_SCRATCH_REF */
#define LM_HEAD_SCRATCH_REF(dim, vocab) (((vocab) + (dim)) * sizeof(double))
void lm_head_ref(const struct lm_head *h);
/* rows; (head, row) pairs: n / rows, n mod rows */
void lm_paged_put_ref(const struct lm_paged_put *p, uint64_t from, uint64_t to);
void lm_paged_attend_ref(const struct lm_paged_attend *a, uint64_t from, uint64_t to);
/* elements */
void lm_softcap_ref(const struct lm_softcap *s, uint64_t from, uint64_t to);
void lm_narrow_ref(const struct lm_narrow *n, uint64_t from, uint64_t to);
void lm_adamw_ref(const struct lm_adamw *a, uint64_t from, uint64_t to);
/* blocks */
void lm_squares_ref(const struct lm_squares *s, uint64_t from, uint64_t to);
void lm_clip_ref(const struct lm_clip *c);

KERNELS_END

#endif
