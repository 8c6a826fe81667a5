/* cpu.h - the language model's kernels of one CPU level, each for one thread; cpu.c runs them
 * on the team. */
#ifndef RNP_KERNELS_LM_CPU_CPU_H
#define RNP_KERNELS_LM_CPU_CPU_H

#include "kernels/dev/cpu.h"
#include "kernels/lm/ref.h"
#include "kernels/lm/cpu/tile.h"

/* Heads wider than this use the reference. */
#define LM_ATTEND_DIM_MAX 256
#define LM_ATTEND_BLOCK   256 /* queries, or keys, per task */

/* Turns rows of logits (for bf16 stored as f16), in place, into e^(l - the largest), less their
 * sum at the target; columns beyond vocab up to ld become zero. share = scale / sum: dl = e
 * share. The target's own logit is computed again in f32. */
struct lm_head_rows {
	enum lm_dtype dtype;
	void *e;
	float *loss, *share;
	const void *h, *w;
	const uint32_t *target;
	uint64_t ld, dim, vocab;
	float scale;
};

struct lm_head_scale {
	enum lm_dtype dtype, from_dtype;
	void *to;
	const void *from;
	const float *share;
	uint64_t dim;
};

#define LM_RANGE(name) void (*name)(const struct lm_##name *, uint64_t from, uint64_t to)

/* Ranges as in ref.h. */
struct lm_kernels {
	LM_RANGE(embed);
	LM_RANGE(embed_back);
	LM_RANGE(norm);
	void (*norm_back_rows)(const struct lm_norm_back *, uint64_t from, uint64_t to);
	void (*norm_back_columns)(const struct lm_norm_back *, uint64_t from,
		uint64_t to);
	LM_RANGE(rotate);
	LM_RANGE(swiglu);
	LM_RANGE(swiglu_back);
	LM_RANGE(bias_back);
	LM_RANGE(softcap);
	LM_RANGE(narrow);
	LM_RANGE(squares);
	LM_RANGE(adamw);
	/* by enum lm_dtype; NULL: products, attention and the output use the references, and
	 * the functions below are not set */
	const struct lm_tiles *tiles[2];
	LM_RANGE(head_rows);
	LM_RANGE(head_scale);
	void (*attend)(const struct lm_tiles *, const struct lm_attend *, char *own,
		uint64_t task);
	void (*attend_back_q)(const struct lm_tiles *, const struct lm_attend_back *,
		char *own, uint64_t task);
	void (*attend_back_kv)(const struct lm_tiles *, const struct lm_attend_back *,
		char *own, uint64_t task);
	LM_RANGE(project); /* plain weights */
	void (*project_quantized)(const struct lm_project *, uint64_t from, uint64_t to);
	LM_RANGE(quantize);
	LM_RANGE(paged_put);
	LM_RANGE(paged_attend); /* head_dim at most LM_ATTEND_DIM_MAX */
};

#endif
