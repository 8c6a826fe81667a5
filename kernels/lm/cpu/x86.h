/* x86.h - the fast kernels of a language model by instruction set; ranges and tasks as in
 * ref.h. Private to kernels/lm. */
#ifndef RNP_KERNELS_LM_CPU_X86_H
#define RNP_KERNELS_LM_CPU_X86_H

#include "kernels/lm/cpu/cpu.h"
#include "kernels/lm/ref.h"
#include "kernels/lm/cpu/tile.h"

#define LM_X86(set)                                                                     \
	void lm_embed_##set(const struct lm_embed *, uint64_t, uint64_t);               \
	void lm_embed_back_##set(const struct lm_embed_back *, uint64_t, uint64_t);     \
	void lm_norm_##set(const struct lm_norm *, uint64_t, uint64_t);                 \
	void lm_norm_back_rows_##set(const struct lm_norm_back *, uint64_t, uint64_t);  \
	void lm_norm_back_columns_##set(const struct lm_norm_back *, uint64_t,          \
		uint64_t);                                                              \
	void lm_rotate_##set(const struct lm_rotate *, uint64_t, uint64_t);             \
	void lm_swiglu_##set(const struct lm_swiglu *, uint64_t, uint64_t);             \
	void lm_swiglu_back_##set(const struct lm_swiglu_back *, uint64_t, uint64_t);   \
	void lm_bias_back_##set(const struct lm_bias_back *, uint64_t, uint64_t);       \
	void lm_softcap_##set(const struct lm_softcap *, uint64_t, uint64_t);           \
	void lm_narrow_##set(const struct lm_narrow *, uint64_t, uint64_t);             \
	void lm_squares_##set(const struct lm_squares *, uint64_t, uint64_t);           \
	void lm_adamw_##set(const struct lm_adamw *, uint64_t, uint64_t);               \
	void lm_paged_put_##set(const struct lm_paged_put *, uint64_t, uint64_t);       \
	void lm_paged_attend_##set(const struct lm_paged_attend *, uint64_t, uint64_t); \
	void lm_project_##set(const struct lm_project *, uint64_t, uint64_t);           \
	void lm_head_rows_##set(const struct lm_head_rows *, uint64_t, uint64_t);       \
	void lm_head_scale_##set(const struct lm_head_scale *, uint64_t, uint64_t);     \
	void lm_attend_task_##set(const struct lm_tiles *, const struct lm_attend *,    \
		char *own, uint64_t n);                                                 \
	void lm_attend_back_q_task_##set(const struct lm_tiles *,                       \
		const struct lm_attend_back *, char *own, uint64_t n);                  \
	void lm_attend_back_kv_task_##set(const struct lm_tiles *,                      \
		const struct lm_attend_back *, char *own, uint64_t n);                  \
	extern const struct lm_tiles lm_tiles_f32_##set

LM_X86(avx2);
LM_X86(avx512);
LM_X86(avx512bf16);
extern const struct lm_tiles lm_tiles_bf16_avx512bf16, lm_tiles_bf16_amx;

/* Products with quantised weights; ranges as in project.h. */
void lm_project_quantized_avx2(const struct lm_project *, uint64_t, uint64_t);
void lm_project_quantized_vnni(const struct lm_project *, uint64_t, uint64_t);
/* on int8 tiles; usable once cpu_amx_permitted() */
void lm_project_quantized_amx(const struct lm_project *, uint64_t, uint64_t);
/* the same with tiles in memory: tests/kernels/amx_emu.c */
void lm_project_quantized_amx_emulated(const struct lm_project *, uint64_t, uint64_t);
bool lm_amx_emulated_released(void);
void lm_quantize_avx2(const struct lm_quantize *, uint64_t, uint64_t);

/* AMX block products, usable once cpu_amx_permitted(). */
void lm_amx_begin(void);
void lm_amx_end(void);
void lm_amx_mul(float *c, const void *a, uint64_t lda, uint64_t rows, const void *b,
	uint64_t panel_bytes, uint64_t panels, uint64_t k, bool add);

#endif
