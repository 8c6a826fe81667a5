/* huff_x86.h - the parts of the entropy coder for x86, by the instructions they need, defined
 * in huff_x86_count.c, huff_x86_put.c and huff_x86_get.c; huff_x86.c combines them into levels.
 * Described in huff_parts.h. */
#ifndef RNP_KERNELS_GRAD_CPU_HUFF_X86_H
#define RNP_KERNELS_GRAD_CPU_HUFF_X86_H

#include "kernels/grad/huff_parts.h"

#ifdef __x86_64__
#include <string.h>

#define BMI2 __attribute__((target("avx2,bmi,bmi2,lzcnt")))
#define AVX512 \
	__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,bmi,bmi2,lzcnt")))
#define VBMI            \
	__attribute__(( \
		target("avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi,bmi,bmi2,lzcnt")))

#define PLANES                 \
	__attribute__((target( \
		"avx512f,avx512bw,avx512dq,avx512vl,avx512vbmi2,avx512vpopcntdq,bmi,bmi2,lzcnt")))

static inline uint64_t load64(const void *p)
{
	uint64_t v;

	memcpy(&v, p, sizeof v);
	return v;
}

static inline void store64(void *p, uint64_t v)
{
	memcpy(p, &v, sizeof v);
}

void huff_count_bmi2(uint32_t counts[256], const unsigned char *in, uint64_t n,
	unsigned shift);
void huff_count_vbmi(uint32_t counts[256], const unsigned char *in, uint64_t n,
	unsigned shift);
void huff_sample_bmi2(uint32_t counts[256], const unsigned char *in, uint32_t n);
void huff_sample_vbmi(uint32_t counts[256], const unsigned char *in, uint32_t n);
unsigned huff_any_avx512(const unsigned char *in, uint32_t n);

uint32_t huff_gaps_bmi2(uint32_t *gaps, unsigned char *others, uint32_t *close,
	const unsigned char *in, uint32_t n, unsigned z);
uint32_t huff_gaps_vbmi(uint32_t *gaps, unsigned char *others, uint32_t *close,
	const unsigned char *in, uint32_t n, unsigned z);
void huff_pack_vbmi(unsigned char *out, const unsigned char *in, uint32_t n,
	const unsigned char place[256], unsigned width);
void huff_put_lows_bmi2(unsigned char *out, const unsigned char *in, uint32_t n,
	unsigned width);
void huff_put_lows_avx512(unsigned char *out, const unsigned char *in, uint32_t n,
	unsigned width);
void huff_put_streams_bmi2(unsigned char *out, uint32_t *end, const struct huff_plane *p,
	const unsigned char *in, uint32_t n);
void huff_put_streams_vbmi(unsigned char *out, uint32_t *end, const struct huff_plane *p,
	const unsigned char *in, uint32_t n);

void huff_add_lows_bmi2(unsigned char *symbols, const unsigned char *in, uint32_t n,
	unsigned width);
void huff_add_lows_avx512(unsigned char *symbols, const unsigned char *in, uint32_t n,
	unsigned width);
int huff_get_streams_bmi2(struct huff_work *w, unsigned char *out, uint32_t n,
	unsigned streams_log, const unsigned char *length, unsigned symbols,
	const unsigned char *in, const uint32_t *from);
int huff_get_streams_avx512(struct huff_work *w, unsigned char *out, uint32_t n,
	unsigned streams_log, const unsigned char *length, unsigned symbols,
	const unsigned char *in, const uint32_t *from);
#endif

#endif
