/* cpu.c - the table of ops.h on the CPU: the team of threads shares each operation; long because it
 * is one table, whose operations share the kernels of a level. */
#include "kernels/lm/cpu/cpu.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "kernels/dev/dev_cpu.h"
#include "kernels/lm/cpu/fast.h"
#include "kernels/lm/cpu/x86.h"

struct lm_cpu {
	struct lm_kernels kernels;
	struct lm_scratch scratch;
};

#define FAST(set)                                                \
	((struct lm_kernels){ .embed = lm_embed_##set,           \
		.embed_back = lm_embed_back_##set,               \
		.norm = lm_norm_##set,                           \
		.norm_back_rows = lm_norm_back_rows_##set,       \
		.norm_back_columns = lm_norm_back_columns_##set, \
		.rotate = lm_rotate_##set,                       \
		.swiglu = lm_swiglu_##set,                       \
		.swiglu_back = lm_swiglu_back_##set,             \
		.bias_back = lm_bias_back_##set,                 \
		.softcap = lm_softcap_##set,                     \
		.narrow = lm_narrow_##set,                       \
		.squares = lm_squares_##set,                     \
		.adamw = lm_adamw_##set,                         \
		.project = lm_project_##set,                     \
		.project_quantized = lm_project_quantized_avx2,  \
		.quantize = lm_quantize_avx2,                    \
		.paged_put = lm_paged_put_##set,                 \
		.paged_attend = lm_paged_attend_##set,           \
		.head_rows = lm_head_rows_##set,                 \
		.head_scale = lm_head_scale_##set,               \
		.attend = lm_attend_task_##set,                  \
		.attend_back_q = lm_attend_back_q_task_##set,    \
		.attend_back_kv = lm_attend_back_kv_task_##set })

/* Fills in the kernels to use at a level on this CPU. */
static void lm_cpu_kernels(struct lm_kernels *out, enum cpu_level level)
{
	*out = (struct lm_kernels){
		.embed = lm_embed_ref,
		.embed_back = lm_embed_back_ref,
		.norm = lm_norm_ref,
		.norm_back_rows = lm_norm_back_rows_ref,
		.norm_back_columns = lm_norm_back_columns_ref,
		.rotate = lm_rotate_ref,
		.swiglu = lm_swiglu_ref,
		.swiglu_back = lm_swiglu_back_ref,
		.bias_back = lm_bias_back_ref,
		.softcap = lm_softcap_ref,
		.narrow = lm_narrow_ref,
		.squares = lm_squares_ref,
		.adamw = lm_adamw_ref,
		.project = lm_project_ref,
		.project_quantized = lm_project_ref,
		.quantize = lm_quantize_ref,
		.paged_put = lm_paged_put_ref,
		.paged_attend = lm_paged_attend_ref,
	};
	(void)level; /* only of x86 are there several */
#ifdef __x86_64__
	if (level >= CPU_AVX2)
		*out = FAST(avx2);
	if (level >= CPU_AVX512)
		*out = cpu_features(level).bf16 ? FAST(avx512bf16) : FAST(avx512);
	if (cpu_features(level).vnni)
		out->project_quantized = lm_project_quantized_vnni;
#ifdef __linux__
	if (cpu_features(level).vnni && cpu_features(level).amx && cpu_amx_permitted())
		out->project_quantized = lm_project_quantized_amx;
#endif
	for (int dtype = 0; dtype < 2; dtype++)
		out->tiles[dtype] = lm_tiles_for(level, (enum lm_dtype)dtype);
#endif
}

#ifdef __x86_64__
const struct lm_tiles *lm_tiles_for(enum cpu_level level, enum lm_dtype dtype)
{
	struct cpu_features has = cpu_features(level);

	if (level == CPU_REF)
		return NULL;
	if (level == CPU_AVX2)
		return &lm_tiles_f32_avx2;
	if (dtype == LM_DTYPE_F32 || !has.bf16)
		return &lm_tiles_f32_avx512;
	return has.amx && cpu_amx_permitted() ? &lm_tiles_bf16_amx :
						&lm_tiles_bf16_avx512bf16;
}
#endif

/* Returns half of a core's level-2 cache, in bytes. */
static uint64_t block_bytes(void)
{
	long l2 = sysconf(_SC_LEVEL2_CACHE_SIZE);
	uint64_t half = l2 > 0 ? (uint64_t)l2 / 2 : 0;

	return half < LM_BLOCK_BYTES_MAX / 2 ? LM_BLOCK_BYTES_MAX / 2 :
		half < LM_BLOCK_BYTES_MAX    ? half :
					       LM_BLOCK_BYTES_MAX;
}

struct lm_cpu *lm_cpu_open(enum cpu_level level)
{
	struct lm_cpu *lm = calloc(1, sizeof *lm);

	if (lm)
		lm_cpu_kernels(&lm->kernels, level);
	return lm;
}

static int cpu_prepare(struct dev *d, uint64_t *bytes)
{
	struct lm_scratch *s = &cpu_of(d)->lm->scratch;
	int n = s->own ? s->threads : team_size();
	uint64_t all = LM_OWN_BYTES * (uint64_t)n;
	void *memory;

	if (bytes)
		*bytes = all;
	if (s->own)
		return 0;
	if (d->ops->alloc(d, &memory, all) < 0)
		return -1;
	*s = (struct lm_scratch){ .threads = n,
		.block_bytes = block_bytes(),
		.own = memory };
	return 0;
}

void lm_cpu_close(struct lm_cpu *lm)
{
	if (lm)
		free(lm->scratch.own);
	free(lm);
}

/* Pieces that a thread's range is split into: if a thread starts late, others take the pieces
 * that it has not begun. */
#define PIECES 4

static int share(struct dev *d, team_part_fn part, const void *work, size_t bytes,
	uint64_t n, uint64_t grain, uint32_t pieces)
{
	/* the team passes `work` on to `part`, which only reads it */
	const struct team_op op = { part, (void *)(uintptr_t)work, n, grain, pieces, 0 };

	return cpu_do(d, &op, bytes);
}

/* Runs an operation whose rows, columns or elements the team shares. */
#define SHARED(name, kernel, count, grain)                                          \
	struct name##_work {                                                        \
		const struct lm_kernels *kernels;                                   \
		struct lm_##name x;                                                 \
	};                                                                          \
	static void kernel##_part(void *work, uint64_t from, uint64_t to)           \
	{                                                                           \
		struct name##_work *w = work;                                       \
                                                                                    \
		w->kernels->kernel(&w->x, from, to);                                \
	}                                                                           \
	static int cpu_##name(struct dev *d, const struct lm_##name *x)             \
	{                                                                           \
		struct name##_work w = { &cpu_of(d)->lm->kernels, *x };             \
                                                                                    \
		return share(d, kernel##_part, &w, sizeof w, count, grain, PIECES); \
	}

/* Returns how many rows of this size make a piece worth giving to a thread. */
static uint64_t rows_grain(uint64_t width)
{
	return 1 + 4096 / (width + 1);
}

struct embed_work {
	const struct lm_kernels *kernels;
	struct lm_embed x;
	struct lm_norm norm;
};

static void embed_part(void *work, uint64_t from, uint64_t to)
{
	const struct embed_work *w = work;

	w->kernels->embed(&w->x, from, to);
	if (w->x.y)
		w->kernels->norm(&w->norm, from, to);
}

static int cpu_embed(struct dev *d, const struct lm_embed *x)
{
	struct embed_work w = { &cpu_of(d)->lm->kernels, *x, lm_embed_norm(x) };

	return share(d, embed_part, &w, sizeof w, x->rows, rows_grain(x->dim), PIECES);
}

SHARED(embed_back, embed_back, x->dim, 64)
SHARED(norm, norm, x->rows, rows_grain(x->dim))
SHARED(rotate, rotate, x->rows, rows_grain(x->heads * x->head_dim))
SHARED(bias_back, bias_back, x->n, 64)
SHARED(softcap, softcap, x->n, 4096)
SHARED(narrow, narrow, x->n, 4096)
SHARED(squares, squares, (x->n + LM_SQUARES_BLOCK - 1) / LM_SQUARES_BLOCK, 1)

struct adamw_work {
	const struct lm_kernels *kernels;
	struct lm_adamw x;
};

/* What is spared comes in runs: the kernels know one decay. */
static void adamw_part(void *work, uint64_t from, uint64_t to)
{
	const struct adamw_work *w = work;
	struct lm_adamw x = w->x;
	const uint8_t *spared = w->x.spared;
	uint64_t end;

	for (; spared && from < to; from = end) {
		uint64_t block = from / LM_SPARED;
		bool spares = spared[block];

		while (block * LM_SPARED < to && !spared[block] == !spares)
			block++;
		end = block * LM_SPARED < to ? block * LM_SPARED : to;
		x.decay = spares ? 0 : w->x.decay;
		w->kernels->adamw(&x, from, end);
	}
	if (!spared)
		w->kernels->adamw(&x, from, to);
}

static int cpu_adamw(struct dev *d, const struct lm_adamw *x)
{
	struct adamw_work w = { &cpu_of(d)->lm->kernels, *x };

	return share(d, adamw_part, &w, sizeof w, x->n, 4096, PIECES);
}

/* Multiplications that are worth waking a thread for, about 3 us of work, and those that make a
 * piece for one that is awake. */
#define WORTH_WAKING UINT64_C(65536)
#define WORTH_PIECE  UINT64_C(16384)

struct project_work {
	const struct lm_kernels *kernels;
	struct lm_project x;
};

static void project_range(const struct lm_kernels *k, const struct lm_project *p,
	uint64_t from, uint64_t to)
{
	if (lm_weight_is_quantized(p->type))
		k->project_quantized(p, from, to);
	else
		k->project(p, from, to);
}

static void project_part(void *work, uint64_t from, uint64_t to)
{
	struct project_work *w = work;

	project_range(w->kernels, &w->x, from, to);
}

/* Outputs that are computed together: the lanes of quantised products, and of many rows twice as
 * many. */
#define TOGETHER(rows) ((rows) > 1 ? 32 : 16)

uint32_t lm_pack_outputs(struct dev *d, enum lm_weight type)
{
	if (!d->is_host || !lm_weight_is_quantized(type))
		return 0;
#ifdef __x86_64__
	if (cpu_of(d)->lm->kernels.project_quantized == lm_project_quantized_avx2)
		return 8;
	if (cpu_of(d)->lm->kernels.project_quantized != lm_project_ref)
		return 16;
#endif
	return 0;
}

static int cpu_rotate_put(struct dev *d, const struct lm_rotate_put *x)
{
	(void)d, (void)x;
	return 1;
}

/* Products of n outputs, each of which takes `many` times as long as one of x. */
static struct team_op product_op(const struct lm_project *x, team_part_fn part,
	void *work, uint64_t n, uint64_t many)
{
	uint64_t each = many * x->rows * x->k + 1, together = TOGETHER(x->rows);

	return (struct team_op){ .part = part,
		.work = work,
		.n = n,
		.grain = (WORTH_PIECE / each + together) / together * together,
		.pieces = PIECES,
		.alone = WORTH_WAKING / each };
}

static int cpu_project(struct dev *d, const struct lm_project *x)
{
	struct project_work w = { &cpu_of(d)->lm->kernels, *x };
	const struct team_op op = product_op(x, project_part, &w, x->n, 1);

	return cpu_do(d, &op, sizeof w);
}

/* Rows up to which products that follow each other are one operation: where there are few, threads
 * would spend their time in waiting for each other, and for what others' caches hold. */
#define GROUP_ROWS 8
#define GATES      256 /* of a row, at a time */

struct group_work {
	const struct lm_kernels *kernels;
	struct lm_project_group g;
};

/* The room of a product among the outputs of all: no piece has outputs of a group of two
 * products. */
static uint64_t group_room(const struct lm_project *p)
{
	return (p->n + 31) / 32 * 32;
}

static void group_part(void *work, uint64_t from, uint64_t to)
{
	const struct group_work *w = work;
	uint64_t begin = 0;

	for (uint32_t i = 0; i < w->g.n; i++) {
		const struct lm_project *p = &w->g.p[i];
		uint64_t lo = from > begin ? from - begin : 0;
		uint64_t hi = to < begin ? 0 : to - begin;

		hi = hi < p->n ? hi : p->n;
		if (lo < hi)
			project_range(w->kernels, p, lo, hi);
		begin += group_room(p);
	}
}

static void gate(const struct group_work *w, uint64_t row, uint64_t from, uint64_t to)
{
	const struct lm_project *g = &w->g.p[0], *u = &w->g.p[1];
	float in[2 * GATES];

	for (uint64_t j = from, n; j < to; j += n) {
		n = to - j < GATES ? to - j : GATES;
		struct lm_swiglu s = { .dtype = LM_DTYPE_F32,
			.y = w->g.gated + row * g->n + j,
			.x = in,
			.rows = 1,
			.hidden = n,
			.gelu = w->g.gelu };

		memcpy(in, g->y + row * g->ldy + j, n * sizeof *in);
		memcpy(in + n, u->y + row * u->ldy + j, n * sizeof *in);
		w->kernels->swiglu(&s, 0, 1);
	}
}

static void gates_part(void *work, uint64_t from, uint64_t to)
{
	const struct group_work *w = work;
	const struct lm_project *p = w->g.p;
	const struct lm_quantize q = { .to = w->g.gated8,
		.x = w->g.gated,
		.rows = p->rows,
		.k = p->n,
		.ldx = p->n };
	uint64_t blocks = p->n / LM_WEIGHT_BLOCK;

	project_range(w->kernels, &p[0], from, to);
	project_range(w->kernels, &p[1], from, to);
	for (uint64_t r = 0; r < p->rows; r++) {
		gate(w, r, from, to);
		if (q.to)
			w->kernels->quantize(&q, r * blocks + from / LM_WEIGHT_BLOCK,
				r * blocks + to / LM_WEIGHT_BLOCK);
	}
}

static int cpu_project_group(struct dev *d, const struct lm_project_group *x)
{
	struct group_work w = { &cpu_of(d)->lm->kernels, *x };
	struct team_op op;
	uint64_t n = 0;

	if (x->norm || x->p->rows > GROUP_ROWS ||
		(lm_weight_is_quantized(x->p->type) && !x->p->x8))
		return 1;
	for (uint32_t i = 0; i < x->n; i++)
		n += group_room(&x->p[i]);
	op = x->gated ? product_op(x->p, gates_part, &w, x->p->n, 2) :
			product_op(x->p, group_part, &w, n, 1);
	/* the blocks of what is quantised */
	op.grain = (op.grain + 31) / 32 * 32;
	return cpu_do(d, &op, sizeof w);
}

SHARED(quantize, quantize, x->rows *(x->k / LM_WEIGHT_BLOCK), 256)
SHARED(paged_put, paged_put, x->rows, rows_grain(x->width))

/* Rows of one sequence that read their keys together, see paged_block.inc. */
#define PAGED_TOGETHER 32

struct paged_work {
	void (*attend)(const struct lm_paged_attend *, uint64_t, uint64_t);
	struct lm_paged_attend a;
};

static void paged_part(void *work, uint64_t from, uint64_t to)
{
	struct paged_work *w = work;

	w->attend(&w->a, from, to);
}

/* Returns how many pairs of a row and a head a thread takes at least. Rows of a prompt share their
 * keys, and heads of a row may: whole heads of keys stay together if there are enough of them, else
 * blocks of rows. */
static uint64_t paged_grain(const struct lm_paged_attend *a)
{
	uint64_t group = a->heads / a->kv_heads, whole = a->rows * group;

	if (a->rows <= 2 * PAGED_TOGETHER && a->kv_heads >= 2 * (uint64_t)team_size())
		return whole;
	if (a->rows >= PAGED_TOGETHER / 2)
		return PAGED_TOGETHER;
	return a->kv_heads * a->rows >= (uint64_t)team_size() ? group : 1;
}

/* Rows of one head are adjacent pairs, so that each thread gets as many long rows of a prompt
 * as short ones. A multiplication takes longer here than in a product. */
static int cpu_paged_attend(struct dev *d, const struct lm_paged_attend *a)
{
	struct paged_work w = { cpu_of(d)->lm->kernels.paged_attend, *a };
	uint64_t each = a->keys_max * a->head_dim + 1, grain = paged_grain(a);
	const struct team_op op = { .part = paged_part,
		.work = &w,
		.n = a->rows * a->heads,
		.grain = (grain + WORTH_PIECE / 2 / each) / grain * grain,
		.pieces = PIECES,
		.alone = WORTH_WAKING / 2 / each };

	if (a->head_dim > LM_ATTEND_DIM_MAX)
		w.attend = lm_paged_attend_ref;
	return cpu_do(d, &op, sizeof w);
}

struct norm_back_work {
	const struct lm_kernels *kernels;
	struct lm_norm_back x;
};

static void norm_back_rows_part(void *work, uint64_t from, uint64_t to)
{
	struct norm_back_work *w = work;

	w->kernels->norm_back_rows(&w->x, from, to);
}

static void norm_back_columns_part(void *work, uint64_t from, uint64_t to)
{
	struct norm_back_work *w = work;

	w->kernels->norm_back_columns(&w->x, from, to);
}

static int cpu_norm_back(struct dev *d, const struct lm_norm_back *x)
{
	struct norm_back_work w = { &cpu_of(d)->lm->kernels, *x };

	if (share(d, norm_back_columns_part, &w, sizeof w, x->dim, 64, PIECES) < 0)
		return -1;
	return share(d, norm_back_rows_part, &w, sizeof w, x->rows, rows_grain(x->dim),
		PIECES);
}

static void gemm_part(void *work, uint64_t from, uint64_t to)
{
	lm_gemm_ref(work, from, to);
}

static int cpu_gemm(struct dev *d, const struct lm_gemm *g)
{
	const struct lm_cpu *lm = cpu_of(d)->lm;
	const struct lm_tiles *t = lm->kernels.tiles[g->dtype];
	struct lm_product p = { .g = *g,
		.out = g->out == LM_DTYPE_F32 ? LM_OUT_F32 : LM_OUT_BF16 };

	if (t)
		return lm_product_fast(d, &lm->scratch, t, &p);
	return share(d, gemm_part, g, sizeof *g, g->m, 1, PIECES);
}

struct swiglu_work {
	const struct lm_kernels *kernels;
	struct lm_swiglu x;
};

static void swiglu_part(void *work, uint64_t from, uint64_t to)
{
	struct swiglu_work *w = work;

	w->kernels->swiglu(&w->x, from, to);
}

static int cpu_swiglu(struct dev *d, const struct lm_swiglu *x)
{
	struct swiglu_work w = { &cpu_of(d)->lm->kernels, *x };
	struct lm_gemm g = lm_swiglu_inputs(x);

	if (x->in && cpu_gemm(d, &g) < 0)
		return -1;
	if (!x->y)
		return 0;
	return share(d, swiglu_part, &w, sizeof w, x->rows, rows_grain(x->hidden),
		PIECES);
}

struct swiglu_back_work {
	const struct lm_kernels *kernels;
	struct lm_swiglu_back x;
};

static void swiglu_back_part(void *work, uint64_t from, uint64_t to)
{
	struct swiglu_back_work *w = work;

	w->kernels->swiglu_back(&w->x, from, to);
}

static int cpu_swiglu_back(struct dev *d, const struct lm_swiglu_back *x)
{
	struct swiglu_back_work w = { &cpu_of(d)->lm->kernels, *x };
	struct lm_gemm g = lm_swiglu_product(x);

	if (x->dout && cpu_gemm(d, &g) < 0)
		return -1;
	return share(d, swiglu_back_part, &w, sizeof w, x->rows, rows_grain(x->hidden),
		PIECES);
}

/* --- attention ----------------------------------------------------------------------------- */

static void attend_part(void *work, uint64_t from, uint64_t to)
{
	lm_attend_ref(work, from, to);
}

static uint64_t blocks_of(uint64_t n)
{
	return (n + LM_ATTEND_BLOCK - 1) / LM_ATTEND_BLOCK;
}

struct attend_work {
	const struct lm_cpu *lm;
	struct lm_attend a;
	uint64_t tasks;
};

/* Threads take tasks one by one, because under a causal mask they differ in length. The last
 * are the longest and go first. */
static void attend_tiles_part(void *work, uint64_t from, uint64_t to)
{
	struct attend_work *w = work;
	const struct lm_tiles *t = w->lm->kernels.tiles[w->a.dtype];

	t->begin();
	for (uint64_t n = from; n < to; n++)
		w->lm->kernels.attend(t, &w->a, lm_own(&w->lm->scratch),
			w->tasks - 1 - n);
	t->end();
}

static int cpu_attend(struct dev *d, const struct lm_attend *a)
{
	const struct lm_cpu *lm = cpu_of(d)->lm;
	struct attend_work w = { lm, *a, a->batch * a->heads * blocks_of(a->positions) };
	struct lm_rotate r = lm_attend_rotation(a);

	if (a->table && cpu_rotate(d, &r) < 0)
		return -1;
	if (lm->kernels.tiles[a->dtype] && a->head_dim <= LM_ATTEND_DIM_MAX)
		return share(d, attend_tiles_part, &w, sizeof w, w.tasks, 1, UINT32_MAX);
	return share(d, attend_part, a, sizeof *a, a->batch * a->heads * a->positions, 64,
		PIECES);
}

static void attend_back_q_part(void *work, uint64_t from, uint64_t to)
{
	lm_attend_back_q_ref(work, from, to);
}

static void attend_back_kv_part(void *work, uint64_t from, uint64_t to)
{
	lm_attend_back_kv_ref(work, from, to);
}

struct attend_back_work {
	const struct lm_cpu *lm;
	struct lm_attend_back a;
	uint64_t keys, queries;
};

/* Blocks of keys, then blocks of queries: neither depends on the other. */
static void attend_back_part(void *work, uint64_t from, uint64_t to)
{
	struct attend_back_work *w = work;
	const struct lm_kernels *k = &w->lm->kernels;
	const struct lm_tiles *t = k->tiles[w->a.forward.dtype];
	char *own = lm_own(&w->lm->scratch);

	t->begin();
	for (uint64_t n = from; n < to; n++)
		if (n < w->keys)
			k->attend_back_kv(t, &w->a, own, n);
		else
			k->attend_back_q(t, &w->a, own, w->queries - 1 - (n - w->keys));
	t->end();
}

static int attend_back(struct dev *d, const struct lm_attend_back *a)
{
	const struct lm_cpu *lm = cpu_of(d)->lm;
	const struct lm_attend *f = &a->forward;
	struct attend_back_work w = { lm, *a, f->batch * f->kv_heads * blocks_of(f->keys),
		f->batch * f->heads * blocks_of(f->positions) };

	if (lm->kernels.tiles[f->dtype] && f->head_dim <= LM_ATTEND_DIM_MAX)
		return share(d, attend_back_part, &w, sizeof w, w.keys + w.queries, 1,
			UINT32_MAX);
	if (share(d, attend_back_q_part, a, sizeof *a, f->batch * f->heads * f->positions,
		    64, PIECES) < 0)
		return -1;
	return share(d, attend_back_kv_part, a, sizeof *a,
		f->batch * f->kv_heads * f->keys, 64, PIECES);
}

static int cpu_attend_back(struct dev *d, const struct lm_attend_back *a)
{
	struct lm_rotate r[2];
	unsigned n = lm_attend_rotations(a, r);
	int rc = attend_back(d, a);

	for (unsigned i = 0; i < n && rc == 0; i++)
		rc = cpu_rotate(d, &r[i]);
	return rc;
}

/* --- output -------------------------------------------------------------------------------- */

/* The logits of at most this many bytes of rows are in memory at once, and of at least 32 rows:
 * enough that reading and writing dw again for every group of rows does not dominate the time. */
#define LOGITS_BYTES      (UINT64_C(64) << 20)
#define LOGITS_BYTES_EVAL (UINT64_C(8) << 20)

struct head_memory {
	uint64_t ld, rows;                   /* of logits */
	uint64_t sums, scaled, share, bytes; /* offsets */
};

static struct head_memory head_memory(const struct lm_head *h)
{
	struct head_memory r = { .ld = (h->vocab + 31) / 32 * 32 };
	uint64_t row_bytes = r.ld * lm_dtype_bytes(h->dtype);

	r.rows = (h->dh ? LOGITS_BYTES : LOGITS_BYTES_EVAL) / row_bytes / 32 * 32;
	r.rows = r.rows < 32 ? 32 : r.rows;
	r.rows = r.rows < h->rows ? r.rows : h->rows;
	r.sums = (r.rows * row_bytes + 63) / 64 * 64;
	r.scaled = r.sums + (h->dh ? r.rows * h->dim * 4 : 0);
	r.share = r.scaled + (h->dh ? r.rows * h->dim * lm_dtype_bytes(h->dtype) : 0);
	r.share = (r.share + 63) / 64 * 64;
	r.bytes = r.share + r.rows * 4;
	return r;
}

static int cpu_head_scratch(struct dev *d, const struct lm_head *h, uint64_t *bytes)
{
	const struct lm_cpu *lm = cpu_of(d)->lm;

	*bytes = lm->kernels.tiles[h->dtype] ? head_memory(h).bytes :
					       LM_HEAD_SCRATCH_REF(h->dim, h->vocab);
	return 0;
}

struct head_work {
	const struct lm_kernels *kernels;
	struct lm_head_rows rows;
	struct lm_head_scale scale;
};

static void head_rows_part(void *work, uint64_t from, uint64_t to)
{
	struct head_work *w = work;

	w->kernels->head_rows(&w->rows, from, to);
}

static void head_scale_part(void *work, uint64_t from, uint64_t to)
{
	struct head_work *w = work;

	w->kernels->head_scale(&w->scale, from, to);
}

static int head_scale(struct dev *d, const struct head_work *w, uint64_t rows)
{
	return share(d, head_scale_part, w, sizeof *w, rows, rows_grain(w->scale.dim),
		PIECES);
}

/* Computes dh and dw from e of the rows from `from` on: dh = diag(share) e w, dw = e^T
 * diag(share) h, so that scaling needs no second pass over e. */
static int head_back(struct dev *d, const struct lm_head *h, struct head_work *w,
	const struct head_memory *r, uint64_t from, uint64_t rows)
{
	const struct lm_cpu *lm = cpu_of(d)->lm;
	const struct lm_tiles *t = lm->kernels.tiles[h->dtype];
	uint64_t at = from * h->dim * lm_dtype_bytes(h->dtype);
	char *base = h->scratch;
	struct lm_product p = { .g = { .form = LM_XW,
					.dtype = h->dtype,
					.c = base + r->sums,
					.a = base,
					.b = h->w,
					.m = rows,
					.n = h->dim,
					.k = h->vocab,
					.lda = r->ld,
					.ldb = h->dim,
					.ldc = h->dim },
		.out = LM_OUT_F32,
		.a_padded = true };

	if (lm_product_fast(d, &lm->scratch, t, &p) < 0)
		return -1;
	w->scale = (struct lm_head_scale){ .dtype = h->dtype,
		.from_dtype = LM_DTYPE_F32,
		.to = (char *)h->dh + at,
		.from = base + r->sums,
		.share = w->rows.share,
		.dim = h->dim };
	if (head_scale(d, w, rows) < 0)
		return -1;
	if (!h->dw)
		return 0;
	w->scale.from_dtype = h->dtype;
	w->scale.to = base + r->scaled;
	w->scale.from = (const char *)h->h + at;
	if (head_scale(d, w, rows) < 0)
		return -1;
	p.g.form = LM_XTX;
	p.g.c = h->dw;
	p.g.from = h->fresh && from == 0 ? NULL : h->dw;
	p.g.b = base + r->scaled;
	p.g.m = h->vocab;
	p.g.k = rows;
	p.a_padded = false;
	return lm_product_fast(d, &lm->scratch, t, &p);
}

static void head_part(void *work, uint64_t from, uint64_t to)
{
	(void)from, (void)to;
	lm_head_ref(work);
}

static int cpu_head(struct dev *d, const struct lm_head *h)
{
	const struct lm_cpu *lm = cpu_of(d)->lm;
	const struct lm_tiles *t = lm->kernels.tiles[h->dtype];
	struct head_work w = { .kernels = &lm->kernels };
	struct head_memory r = head_memory(h);

	if (!t)
		return share(d, head_part, h, sizeof *h, 1, 1, 1);
	for (uint64_t from = 0; from < h->rows; from += r.rows) {
		uint64_t rows = h->rows - from < r.rows ? h->rows - from : r.rows;
		const void *x = (const char *)h->h +
			from * h->dim * lm_dtype_bytes(h->dtype);
		struct lm_product p = { .g = { .form = LM_XWT,
						.dtype = h->dtype,
						.c = h->scratch,
						.a = x,
						.b = h->w,
						.m = rows,
						.n = h->vocab,
						.k = h->dim,
						.lda = h->dim,
						.ldb = h->dim,
						.ldc = r.ld },
			.out = h->dtype == LM_DTYPE_F32 ? LM_OUT_F32 : LM_OUT_F16 };

		if (lm_product_fast(d, &lm->scratch, t, &p) < 0)
			return -1;
		w.rows = (struct lm_head_rows){ .dtype = h->dtype,
			.e = h->scratch,
			.loss = h->loss + from,
			.share = (float *)(void *)((char *)h->scratch + r.share),
			.h = x,
			.w = h->w,
			.target = h->target + from,
			.ld = r.ld,
			.dim = h->dim,
			.vocab = h->vocab,
			.scale = h->scale };
		if (share(d, head_rows_part, &w, sizeof w, rows, rows_grain(h->vocab),
			    PIECES) < 0 ||
			(h->dh && head_back(d, h, &w, &r, from, rows) < 0))
			return -1;
	}
	return 0;
}

static void clip_part(void *work, uint64_t from, uint64_t to)
{
	(void)from, (void)to;
	lm_clip_ref(work);
}

static int cpu_clip(struct dev *d, const struct lm_clip *c)
{
	return share(d, clip_part, c, sizeof *c, 1, 1, 1);
}

CPU_TABLE(lm, LM_OPS);
