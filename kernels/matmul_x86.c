#include "kernels/matmul.h"

#include "kernels/cpu.h"

#if defined(__x86_64__)
#include <immintrin.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

/* One blocked product serves all types. Panels are made of lanes of 32 bits that hold `group`
 * neighbours in k: 1 f32, 2 bf16 or int16, 4 int8. A panel of A is lanes x MR, one of B lanes x
 * NR, zero beyond the edges; the tile multiplies the two in registers. */

#define KC        256  /* lanes of one pass: a panel of B is 32 KB, two thirds of L1 */
#define NC        4096 /* columns of one pass: packed B is 4 MB, in L3 */
#define MC_PANELS 4    /* panels of A that a thread packs at a time: 48 KB, in L2 */
#define MR_MAX    12
#define NR_MAX    32

typedef void (*tile_fn)(int64_t lanes, const uint32_t *a, const uint32_t *b, void *out);

/* Fill a panel with count rows of A (columns of B) and kc values of k; stride: elements of a
 * row of A (of B). */
typedef void (*pack_fn)(uint32_t *out, const void *from, int64_t stride, int64_t count,
	int64_t kc, int width);

struct kind {
	tile_fn tile;
	pack_fn pack_a, pack_b;
	int mr, nr, group, element_bytes;
	bool whole; /* C is int32 */
};

/* --- packing ------------------------------------------------------------------------------ */

/* Lanes of A are what stands in its row, 4 bytes at a time. */
#define DEFINE_PACK_A(name, in, group, value)                                            \
	static void name(uint32_t *out, const void *from, int64_t stride, int64_t count, \
		int64_t kc, int width)                                                   \
	{                                                                                \
		int64_t lanes = (kc + (group)-1) / (group);                              \
		for (int64_t i = 0; i < width; i++) {                                    \
			const in *row = (const in *)from + i * stride;                   \
			for (int64_t p = 0; p < lanes; p++) {                            \
				in v[group] = { 0 };                                     \
				int64_t left = i < count ? kc - p * (group) : 0;         \
				if (left >= (group))                                     \
					memcpy(v, row + p * (group), sizeof v);          \
				else                                                     \
					for (int64_t g = 0; g < left; g++)               \
						v[g] = row[p * (group) + g];             \
				out[p * width + i] = value(v);                           \
			}                                                                \
		}                                                                        \
	}

#define DEFINE_PACK_B(name, in, group, value)                                            \
	static void name(uint32_t *out, const void *from, int64_t stride, int64_t count, \
		int64_t kc, int width)                                                   \
	{                                                                                \
		for (int64_t at = 0; at < kc; at += (group), out += width) {             \
			const in *row = (const in *)from + at * stride;                  \
			int64_t rows = kc - at < (group) ? kc - at : (group);            \
			for (int64_t j = 0; j < width; j++) {                            \
				in v[group] = { 0 };                                     \
				for (int64_t g = 0; g < rows && j < count; g++)          \
					v[g] = row[g * stride + j];                      \
				out[j] = value(v);                                       \
			}                                                                \
		}                                                                        \
	}

static inline uint32_t same_f32(const float v[1])
{
	uint32_t bits;

	memcpy(&bits, v, sizeof bits);
	return bits;
}

static inline uint32_t wider_bf16(const bf16 v[1])
{
	return (uint32_t)v[0] << 16;
}

static inline uint32_t pair_bf16(const bf16 v[2])
{
	return v[0] | (uint32_t)v[1] << 16;
}

static inline uint32_t pair_i16(const int8_t v[2])
{
	return (uint16_t)v[0] | (uint32_t)(uint16_t)v[1] << 16;
}

static inline uint32_t four_i8(const int8_t v[4])
{
	uint32_t bits;

	memcpy(&bits, v, sizeof bits);
	return bits;
}

/* VNNI multiplies unsigned by signed: A is packed as a + 128 */
static inline uint32_t four_u8(const int8_t v[4])
{
	return four_i8(v) ^ 0x80808080u;
}

DEFINE_PACK_A(pack_a_f32, float, 1, same_f32)
DEFINE_PACK_A(pack_a_wider, bf16, 1, wider_bf16)
DEFINE_PACK_A(pack_a_bf16, bf16, 2, pair_bf16)
DEFINE_PACK_A(pack_a_i16, int8_t, 2, pair_i16)
DEFINE_PACK_A(pack_a_u8, int8_t, 4, four_u8)
DEFINE_PACK_B(pack_b_f32, float, 1, same_f32)
DEFINE_PACK_B(pack_b_wider, bf16, 1, wider_bf16)
DEFINE_PACK_B(pack_b_bf16, bf16, 2, pair_bf16)
DEFINE_PACK_B(pack_b_i16, int8_t, 2, pair_i16)
DEFINE_PACK_B(pack_b_i8, int8_t, 4, four_i8)

/* --- tiles: rows are written out, so that every accumulator is a register ------------------ */

#define ROWS6(R, ...)     \
	R(0, __VA_ARGS__) \
	R(1, __VA_ARGS__) \
	R(2, __VA_ARGS__) R(3, __VA_ARGS__) R(4, __VA_ARGS__) R(5, __VA_ARGS__)
#define ROWS12(R, ...)        \
	ROWS6(R, __VA_ARGS__) \
	R(6, __VA_ARGS__)     \
	R(7, __VA_ARGS__)     \
	R(8, __VA_ARGS__) R(9, __VA_ARGS__) R(10, __VA_ARGS__) R(11, __VA_ARGS__)

#define ZERO(i, vector) vector x##i = { 0 }, y##i = { 0 };
#define STEP(i, spread, mac)                       \
	{                                          \
		__auto_type s = spread((int)a[i]); \
		x##i = mac(x##i, s, b0);           \
		y##i = mac(y##i, s, b1);           \
	}
#define STORE(i, vector, width)                                       \
	memcpy((char *)out + (i)*8 * (width), &x##i, sizeof(vector)); \
	memcpy((char *)out + (i)*8 * (width) + 4 * (width), &y##i, sizeof(vector));

#define DEFINE_TILE(name, isa, ROWS, mr, vector, width, load, spread, mac)              \
	__attribute__((target(isa))) static void name(int64_t lanes, const uint32_t *a, \
		const uint32_t *b, void *out)                                           \
	{                                                                               \
		ROWS(ZERO, vector)                                                      \
		for (int64_t p = 0; p < lanes; p++, a += (mr), b += 2 * (width)) {      \
			__auto_type b0 = load((const void *)b);                         \
			__auto_type b1 = load((const void *)(b + (width)));             \
			ROWS(STEP, spread, mac)                                         \
		}                                                                       \
		ROWS(STORE, vector, width)                                              \
	}

#define LOAD_512(p)         _mm512_loadu_si512(p)
#define LOAD_256(p)         _mm256_loadu_si256(p)
#define SPREAD_512(v)       _mm512_set1_epi32(v)
#define SPREAD_256(v)       _mm256_set1_epi32(v)
#define F32_512(acc, s, b)  _mm512_fmadd_ps((__m512)(s), (__m512)(b), acc)
#define F32_256(acc, s, b)  _mm256_fmadd_ps((__m256)(s), (__m256)(b), acc)
#define BF16_512(acc, s, b) _mm512_dpbf16_ps(acc, (__m512bh)(s), (__m512bh)(b))
#define U8_512(acc, s, b)   _mm512_dpbusd_epi32(acc, s, b)
#define I16_512(acc, s, b)  _mm512_add_epi32(acc, _mm512_madd_epi16(s, b))
#define I16_256(acc, s, b)  _mm256_add_epi32(acc, _mm256_madd_epi16(s, b))

DEFINE_TILE(tile_f32_512, "avx512f", ROWS12, 12, __m512, 16, LOAD_512, SPREAD_512,
	F32_512)
DEFINE_TILE(tile_f32_256, "avx2,fma", ROWS6, 6, __m256, 8, LOAD_256, SPREAD_256, F32_256)
DEFINE_TILE(tile_bf16, "avx512f,avx512bf16", ROWS12, 12, __m512, 16, LOAD_512, SPREAD_512,
	BF16_512)
DEFINE_TILE(tile_u8, "avx512f,avx512vnni", ROWS12, 12, __m512i, 16, LOAD_512, SPREAD_512,
	U8_512)
DEFINE_TILE(tile_i16_512, "avx512f,avx512bw", ROWS12, 12, __m512i, 16, LOAD_512,
	SPREAD_512, I16_512)
DEFINE_TILE(tile_i16_256, "avx2", ROWS6, 6, __m256i, 8, LOAD_256, SPREAD_256, I16_256)

static const struct kind f32_512 = { tile_f32_512, pack_a_f32, pack_b_f32, 12, 32, 1, 4,
	false };
static const struct kind f32_256 = { tile_f32_256, pack_a_f32, pack_b_f32, 6, 16, 1, 4,
	false };
static const struct kind wider_512 = { tile_f32_512, pack_a_wider, pack_b_wider, 12, 32,
	1, 2, false };
static const struct kind wider_256 = { tile_f32_256, pack_a_wider, pack_b_wider, 6, 16, 1,
	2, false };
static const struct kind bf16_512 = { tile_bf16, pack_a_bf16, pack_b_bf16, 12, 32, 2, 2,
	false };
static const struct kind u8_512 = { tile_u8, pack_a_u8, pack_b_i8, 12, 32, 4, 1, true };
static const struct kind i16_512 = { tile_i16_512, pack_a_i16, pack_b_i16, 12, 32, 2, 1,
	true };
static const struct kind i16_256 = { tile_i16_256, pack_a_i16, pack_b_i16, 6, 16, 2, 1,
	true };

/* --- the blocked product ------------------------------------------------------------------ */

struct product {
	const struct kind *kind;
	int64_t m, n, k;
	const char *a, *b;
	uint32_t *c; /* int32 or f32, by kind */
	uint32_t *packed_b;
};

static int64_t smaller(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

static void add_tile(const struct product *w, const uint32_t *tile, int64_t i, int64_t j)
{
	int64_t rows = smaller(w->kind->mr, w->m - i),
		columns = smaller(w->kind->nr, w->n - j);

	for (int64_t r = 0; r < rows; r++) {
		const uint32_t *from = tile + r * w->kind->nr;
		uint32_t *to = w->c + (i + r) * w->n + j;

		if (w->kind->whole)
			for (int64_t q = 0; q < columns; q++)
				to[q] += from[q];
		else
			for (int64_t q = 0; q < columns; q++)
				((float *)to)[q] += ((const float *)from)[q];
	}
}

/* Rows [i, i + MC_PANELS panels) times all of the packed B. */
static void multiply_block(const struct product *w, int64_t i, int64_t j0, int64_t nc,
	int64_t p, int64_t kc)
{
	const struct kind *t = w->kind;
	_Alignas(64) uint32_t panels[MC_PANELS * MR_MAX * KC];
	_Alignas(64) uint32_t tile[MR_MAX * NR_MAX];
	int64_t lanes = (kc + t->group - 1) / t->group, panel = lanes * t->mr;
	int64_t count = smaller(MC_PANELS, (w->m - i + t->mr - 1) / t->mr);

	for (int64_t q = 0; q < count; q++) {
		int64_t row = i + q * t->mr;

		t->pack_a(panels + q * panel, w->a + (row * w->k + p) * t->element_bytes,
			w->k, smaller(t->mr, w->m - row), kc, t->mr);
	}
	for (int64_t j = 0; j < nc; j += t->nr) {
		for (int64_t q = 0; q < count; q++) {
			t->tile(lanes, panels + q * panel, w->packed_b + j * lanes, tile);
			add_tile(w, tile, i + q * t->mr, j0 + j);
		}
	}
}

/* C before the first pass: zero, or what takes the 128 of each a + 128 off again. */
static void start_c(const struct product *w)
{
	uint32_t *sums = calloc((size_t)w->n + 1, sizeof *sums);

	if (!sums)
		abort();
	if (w->kind == &u8_512)
		for (int64_t p = 0; p < w->k; p++)
			for (int64_t j = 0; j < w->n; j++)
				sums[j] -= 128u *
					(uint32_t)(int32_t)((
						const int8_t *)w->b)[p * w->n + j];
#pragma omp parallel for schedule(static)
	for (int64_t i = 0; i < w->m; i++)
		memcpy(w->c + i * w->n, sums, (size_t)w->n * sizeof *sums);
	free(sums);
}

static void multiply(const struct kind *t, int64_t m, int64_t n, int64_t k, const void *a,
	const void *b, void *c)
{
	struct product w = { t, m, n, k, a, b, c, NULL };
	int64_t columns = (smaller(n, NC) + t->nr - 1) / t->nr * t->nr;
	int64_t kc_max = (int64_t)KC * t->group, step = (int64_t)MC_PANELS * t->mr;

	w.packed_b = aligned_alloc(64, (size_t)(columns + t->nr) * KC * sizeof(uint32_t));
	if (!w.packed_b)
		abort();
	start_c(&w);
	for (int64_t j0 = 0; j0 < n; j0 += NC) {
		int64_t nc = smaller(NC, n - j0);

		for (int64_t p = 0; p < k; p += kc_max) {
			int64_t kc = smaller(kc_max, k - p),
				lanes = (kc + t->group - 1) / t->group;

#pragma omp parallel
			{
#pragma omp for schedule(static)
				for (int64_t j = 0; j < nc; j += t->nr)
					t->pack_b(w.packed_b + j * lanes,
						w.b + (p * n + j0 + j) * t->element_bytes,
						n, smaller(t->nr, nc - j), kc, t->nr);
#pragma omp for schedule(dynamic)
				for (int64_t i = 0; i < m; i += step)
					multiply_block(&w, i, j0, nc, p, kc);
			}
		}
	}
	free(w.packed_b);
}

#define DEFINE(name, in, out, kind_)                                                \
	static void name(int64_t m, int64_t n, int64_t k, const in *a, const in *b, \
		out *c)                                                             \
	{                                                                           \
		multiply(&kind_, m, n, k, a, b, c);                                 \
	}

DEFINE(run_f32_512, float, float, f32_512)
DEFINE(run_f32_256, float, float, f32_256)
DEFINE(run_wider_512, bf16, float, wider_512)
DEFINE(run_wider_256, bf16, float, wider_256)
DEFINE(run_bf16_512, bf16, float, bf16_512)
DEFINE(run_u8_512, int8_t, int32_t, u8_512)
DEFINE(run_i16_512, int8_t, int32_t, i16_512)
DEFINE(run_i16_256, int8_t, int32_t, i16_256)

const struct matmul *matmul_fast(void)
{
	static const struct matmul avx2 = { "avx2", "avx2 in f32", "avx2 in int16",
		run_f32_256, run_wider_256, run_i16_256 };
	static const struct matmul avx512[2][2] = {
		{ { "avx512", "avx512 in f32", "avx512 in int16", run_f32_512,
			  run_wider_512, run_i16_512 },
			{ "avx512", "avx512_bf16", "avx512 in int16", run_f32_512,
				run_bf16_512, run_i16_512 } },
		{ { "avx512", "avx512 in f32", "avx512_vnni", run_f32_512, run_wider_512,
			  run_u8_512 },
			{ "avx512", "avx512_bf16", "avx512_vnni", run_f32_512,
				run_bf16_512, run_u8_512 } },
	};
	struct cpu_features has;
	enum cpu_level level;

	cpu_level_chosen(&level);
	has = cpu_features(level);
	if (level == CPU_AVX512)
		return &avx512[has.vnni][has.bf16];
	return level == CPU_AVX2 ? &avx2 : &matmul_reference;
}

#else

const struct matmul *matmul_fast(void)
{
	return &matmul_reference;
}

#endif
