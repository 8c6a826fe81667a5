/* cpu.c - the operations of proof of compute on the CPU: the team shares each. */
#include "kernels/poc/cpu/cpu.h"

#include <stdlib.h>

#include "kernels/dev/dev_cpu.h"

void poc_cpu_choose(struct poc_cpu *out, enum cpu_level level)
{
	*out = (struct poc_cpu){ .sha256 = sha256_rows_choose(level),
		.memfill = memfill_ref,
		.balance = int8_balance_ref,
		.mix = int8_mix_ref };
#ifdef __x86_64__
	if (level >= CPU_AVX2)
		out->memfill = memfill_avx2;
	if (level >= CPU_AVX512) {
		out->memfill = memfill_avx512;
		out->mix = int8_mix_avx512;
	}
#endif
}

CPU_OPEN(poc)

struct sha256_work {
	sha256_rows_fn rows;
	unsigned char *out;
	const struct sha256_rows *in;
};

static void sha256_part(void *work, uint64_t from, uint64_t to)
{
	struct sha256_work *w = work;
	struct sha256_rows in = *w->in;

	in.rows = (const char *)in.rows + from * in.stride_bytes;
	in.first += from;
	in.count = to - from;
	w->rows(w->out + SHA256_BYTES * from, &in);
}

static int cpu_sha256(struct dev *d, unsigned char *out, const struct sha256_rows *in)
{
	struct sha256_work w = { cpu_of(d)->poc->sha256, out, in };

	return cpu_in_parts(d, in->count, 16, sha256_part, &w);
}

struct memfill_work {
	memfill_fn fill;
	const struct memfill *m;
};

static void memfill_part(void *work, uint64_t from, uint64_t to)
{
	struct memfill_work *w = work;

	w->fill(w->m, from, to);
}

static int cpu_memfill(struct dev *d, const struct memfill *m)
{
	struct memfill_work w = { cpu_of(d)->poc->memfill, m };

	return cpu_in_parts(d, m->lanes, 1, memfill_part, &w);
}

struct int8_work {
	const struct poc_cpu *kernels;
	int8_t *out;
	const struct int8_mix *mix;
};

static void balance_part(void *work, uint64_t from, uint64_t to)
{
	struct int8_work *w = work;

	w->kernels->balance(w->out + from, to - from);
}

static int cpu_balance(struct dev *d, int8_t *x, uint64_t count)
{
	struct int8_work w = { .kernels = cpu_of(d)->poc, .out = x };

	return cpu_in_parts(d, count, 1 << 14, balance_part, &w);
}

static void mix_part(void *work, uint64_t from, uint64_t to)
{
	struct int8_work *w = work;
	struct int8_mix m = *w->mix;

	m.c += from * m.n;
	m.row_salt += from;
	m.rows = to - from;
	w->kernels->mix(w->out + from * m.n, &m);
}

static int cpu_mix(struct dev *d, int8_t *out, const struct int8_mix *m)
{
	struct int8_work w = { .kernels = cpu_of(d)->poc, .out = out, .mix = m };

	return cpu_in_parts(d, m->rows, 16, mix_part, &w);
}

CPU_TABLE(poc, POC_OPS);
