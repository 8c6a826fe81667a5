#include "kernels/dev/dev_cpu.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

#ifdef _OPENMP
#include <omp.h>
#endif

#define HUGE_BYTES (UINT64_C(2) << 20)
#define ALIGNMENT  256

void dev_cpu_kernels(struct cpu_kernels *out, enum cpu_level level)
{
	*out = (struct cpu_kernels){
		.copy = bulk_copy_ref,
		.fill = bulk_fill_ref,
		.triad = bulk_triad_ref,
		.random = bulk_random_ref,
		.philox = philox_fill_ref,
		.sha256 = sha256_rows_ref,
		.memfill = memfill_ref,
		.balance = int8_balance_ref,
		.mix = int8_mix_ref,
		.quant_encode = quant_encode_ref,
		.quant_decode = quant_decode_ref,
		.quant_spread = quant_spread_ref,
		.huff = huff_kernels(level),
	};
	for (int i = 0; i < PRODUCT_TYPES; i++)
		out->product[i] = product_ref;
#ifdef __x86_64__
	struct cpu_features has = cpu_features(level);

	if (level >= CPU_AVX2) {
		out->copy = bulk_copy_avx2;
		out->fill = bulk_fill_avx2;
		out->triad = bulk_triad_avx2;
		out->philox = philox_fill_avx2;
		out->memfill = memfill_avx2;
		out->sha256 = has.sha ? sha256_rows_shani : sha256_rows_avx2;
		out->quant_encode = quant_encode_avx2;
		out->quant_decode = quant_decode_avx2;
		out->quant_spread = quant_spread_tables;
		out->product[PRODUCT_F32] = product_f32_avx2;
		out->product[PRODUCT_BF16] = product_bf16_avx2;
		out->product[PRODUCT_F16] = product_f16_avx2;
		out->product[PRODUCT_F8] = product_f8_avx2;
		out->product[PRODUCT_I8] = product_i8_avx2;
	}
	if (level >= CPU_AVX512) {
		out->copy = bulk_copy_avx512;
		out->fill = bulk_fill_avx512;
		out->triad = bulk_triad_avx512;
		out->philox = philox_fill_avx512;
		out->sha256 = sha256_rows_avx512;
		out->memfill = memfill_avx512;
		out->mix = int8_mix_avx512;
		out->quant_encode = quant_encode_avx512;
		out->quant_decode = quant_decode_avx512;
		out->product[PRODUCT_F32] = product_f32_avx512;
		out->product[PRODUCT_BF16] = has.bf16 ? product_bf16_avx512bf16 :
							product_bf16_avx512;
		out->product[PRODUCT_F16] = product_f16_avx512;
		out->product[PRODUCT_F8] = product_f8_avx512;
		out->product[PRODUCT_I8] = has.vnni ? product_i8_avx512vnni :
						      product_i8_avx512;
	}
#endif
}

/* --- the team ---------------------------------------------------------------------------- */

void cpu_in_parts(uint64_t n, uint64_t grain, cpu_part_fn part, void *work)
{
#ifdef _OPENMP
	if (n > grain) {
#pragma omp parallel
		{
			uint64_t team = (uint64_t)omp_get_num_threads();
			uint64_t me = (uint64_t)omp_get_thread_num();
			uint64_t grains = (n + grain - 1) / grain;
			uint64_t from = grains * me / team * grain;
			uint64_t to = grains * (me + 1) / team * grain;

			if (to > n)
				to = n;
			if (from < to)
				part(work, from, to);
		}
		return;
	}
#endif
	(void)grain;
	if (n)
		part(work, 0, n);
}

/* --- memory, order, time ------------------------------------------------------------------ */

/* Large areas are backed by huge pages where the system has them: products and random reads gain. */
static int cpu_alloc(struct dev *d, void **out, uint64_t bytes)
{
	uint64_t align = bytes >= 2 * HUGE_BYTES ? HUGE_BYTES : ALIGNMENT;
	int failed = bytes > d->memory_bytes ?
		ENOMEM :
		posix_memalign(out, align, bytes ? bytes : 1);

	if (failed) {
		*out = NULL;
		return dev_fail(d, EX_OSERR, "cpu: no memory for %llu bytes",
			(unsigned long long)bytes);
	}
	if (align == HUGE_BYTES)
		madvise(*out, bytes & ~(HUGE_BYTES - 1), MADV_HUGEPAGE);
	return 0;
}

static void cpu_free(struct dev *d, void *p)
{
	(void)d;
	free(p);
}

/* There is no link: all host memory is as near as this. */
static int cpu_pin(struct dev *d, void **out, uint64_t bytes)
{
	return cpu_alloc(d, out, bytes);
}

struct copy {
	bulk_copy_fn copy;
	char *to;
	const char *from;
};

static void copy_part(void *work, uint64_t from, uint64_t to)
{
	struct copy *c = work;

	c->copy(c->to + from, c->from + from, to - from);
}

static int cpu_copy(struct dev *d, void *to, const void *from, uint64_t bytes)
{
	struct copy c = { cpu_of(d)->kernels.copy, to, from };

	cpu_in_parts(bytes, 1 << 18, copy_part, &c);
	return 0;
}

static int cpu_from_peer(struct dev *d, void *to, struct dev *other, const void *from,
	uint64_t bytes)
{
	(void)other;
	return cpu_copy(d, to, from, bytes);
}

/* Everything is done when its call returns: every place is behind all marks. */
static int cpu_event_record(struct dev *d, void **mark)
{
	*mark = d;
	return 0;
}

static int cpu_event_wait(struct dev *d, void *mark)
{
	(void)d, (void)mark;
	return 0;
}

static void cpu_event_free(struct dev *d, void *mark)
{
	(void)d, (void)mark;
}

/* There is nothing to gain: an operation begins with the call. */
static int cpu_graph_begin(struct dev *d)
{
	return dev_fail(d, EX_UNAVAILABLE, "cpu: operations are not captured");
}

static int cpu_graph_end(struct dev *d, void **graph)
{
	(void)graph;
	return cpu_graph_begin(d);
}

static int cpu_graph_launch(struct dev *d, void *graph)
{
	(void)graph;
	return cpu_graph_begin(d);
}

static void cpu_graph_free(struct dev *d, void *graph)
{
	(void)d, (void)graph;
}

static int cpu_mem_free(struct dev *d, uint64_t *bytes)
{
	FILE *f = fopen("/proc/meminfo", "r");
	char line[128];
	unsigned long long kib = 0;

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "MemAvailable: %llu kB", &kib) == 1)
			break;
	if (f)
		fclose(f);
	*bytes = kib ? (uint64_t)kib * 1024 : d->memory_bytes / 2;
	return 0;
}

static int cpu_sync(struct dev *d)
{
	(void)d;
	return 0;
}

static int64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

static int cpu_timer_start(struct dev *d)
{
	cpu_of(d)->started_ns = now_ns();
	return 0;
}

static int cpu_timer_stop(struct dev *d, int64_t *ns)
{
	*ns = now_ns() - cpu_of(d)->started_ns;
	return 0;
}

static void cpu_close(struct dev *d)
{
	lm_cpu_free(cpu_of(d)->lm);
	free(d->state);
}

/* --- operations --------------------------------------------------------------------------- */

struct fill {
	bulk_fill_fn fill;
	uint32_t *to, word;
};

static void fill_part(void *work, uint64_t from, uint64_t to)
{
	struct fill *f = work;

	f->fill(f->to + from, f->word, to - from);
}

static int cpu_fill(struct dev *d, uint32_t *to, uint32_t word, uint64_t words)
{
	struct fill f = { cpu_of(d)->kernels.fill, to, word };

	cpu_in_parts(words, 1 << 16, fill_part, &f);
	return 0;
}

struct triad {
	bulk_triad_fn triad;
	double *a;
	const double *b, *c;
	double s;
};

static void triad_part(void *work, uint64_t from, uint64_t to)
{
	struct triad *t = work;

	t->triad(t->a + from, t->b + from, t->c + from, t->s, to - from);
}

static int cpu_triad(struct dev *d, double *a, const double *b, const double *c, double s,
	uint64_t n)
{
	struct triad t = { cpu_of(d)->kernels.triad, a, b, c, s };

	cpu_in_parts(n, 1 << 15, triad_part, &t);
	return 0;
}

struct random {
	bulk_random_fn random;
	struct bulk_random all;
	uint64_t sum;
};

static void random_part(void *work, uint64_t from, uint64_t to)
{
	struct random *r = work;
	struct bulk_random mine = r->all;
	uint64_t sum;

	mine.from += from;
	mine.count = to - from;
	sum = r->random(&mine);
	__atomic_fetch_add(&r->sum, sum, __ATOMIC_RELAXED);
}

static int cpu_random(struct dev *d, uint64_t *sum, const struct bulk_random *r)
{
	struct random work = { cpu_of(d)->kernels.random, *r, 0 };

	cpu_in_parts(r->count, 1 << 12, random_part, &work);
	*sum = work.sum;
	return 0;
}

struct philox_work {
	philox_fill_fn fill;
	char *out;
	const struct philox *p;
};

static void philox_part(void *work, uint64_t from, uint64_t to)
{
	struct philox_work *w = work;
	struct philox p = *w->p;

	p.block += from / PHILOX_BLOCK_BYTES;
	w->fill(w->out + from, to - from, &p);
}

static int cpu_philox(struct dev *d, void *out, uint64_t bytes, const struct philox *p)
{
	struct philox_work w = { cpu_of(d)->kernels.philox, out, p };

	cpu_in_parts(bytes, 1 << 14, philox_part, &w);
	return 0;
}

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
	struct sha256_work w = { cpu_of(d)->kernels.sha256, out, in };

	cpu_in_parts(in->count, 16, sha256_part, &w);
	return 0;
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
	struct memfill_work w = { cpu_of(d)->kernels.memfill, m };

	cpu_in_parts(m->lanes, 1, memfill_part, &w);
	return 0;
}

struct int8_work {
	const struct cpu_kernels *kernels;
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
	struct int8_work w = { .kernels = &cpu_of(d)->kernels, .out = x };

	cpu_in_parts(count, 1 << 14, balance_part, &w);
	return 0;
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
	struct int8_work w = { .kernels = &cpu_of(d)->kernels, .out = out, .mix = m };

	cpu_in_parts(m->rows, 16, mix_part, &w);
	return 0;
}

struct product_work {
	product_fn product;
	const struct product *p;
};

static void rows_part(void *work, uint64_t from, uint64_t to)
{
	struct product_work *w = work;
	struct product p = *w->p;

	p.a = (const char *)p.a + from * p.lda * product_element_bytes(p.type);
	p.c = (char *)p.c + from * p.ldc * 4;
	p.m = to - from;
	w->product(&p);
}

static void columns_part(void *work, uint64_t from, uint64_t to)
{
	struct product_work *w = work;
	struct product p = *w->p;

	p.b = (const char *)p.b + from * p.ldb * product_element_bytes(p.type);
	p.c = (char *)p.c + from * 4;
	p.n = to - from;
	w->product(&p);
}

static int cpu_product(struct dev *d, const struct product *p)
{
	struct product_work w = { NULL, p };
	const char *by = NULL; /* who made it, if not a kernel of the table */

	if ((unsigned)p->type >= PRODUCT_TYPES)
		return dev_fail(d, EX_SOFTWARE, "cpu: product of type %d", (int)p->type);
	if (p->type == PRODUCT_I8 && p->k > PRODUCT_I8_K_MAX)
		return dev_fail(d, EX_SOFTWARE, "cpu: product of int8 with k = %llu",
			(unsigned long long)p->k);
	if (cpu_of(d)->amx && product_amx_large(p) && product_amx(p) == 0)
		by = "AMX";
	else if (cpu_of(d)->dnnl && product_dnnl(p) == 0)
		by = "oneDNN";
	else if (cpu_of(d)->amx && product_amx(p) == 0)
		by = "AMX";
	if (by) {
		snprintf(d->kernel, sizeof d->kernel, "%s", by);
		return 0;
	}
	memcpy(d->kernel, d->isa, sizeof d->kernel);
	w.product = cpu_of(d)->kernels.product[p->type];
	if (p->m >= p->n)
		cpu_in_parts(p->m, 16, rows_part, &w);
	else
		cpu_in_parts(p->n, 16, columns_part, &w);
	return 0;
}

const struct dev_ops dev_cpu_ops = {
	.alloc = cpu_alloc,
	.free = cpu_free,
	.put = cpu_copy,
	.get = cpu_copy,
	.mem_free = cpu_mem_free,
	.pin = cpu_pin,
	.unpin = cpu_free,
	.from_peer = cpu_from_peer,
	.sync = cpu_sync,
	.timer_start = cpu_timer_start,
	.timer_stop = cpu_timer_stop,
	.event_record = cpu_event_record,
	.event_wait = cpu_event_wait,
	.event_free = cpu_event_free,
	.graph_begin = cpu_graph_begin,
	.graph_end = cpu_graph_end,
	.graph_launch = cpu_graph_launch,
	.graph_free = cpu_graph_free,
	.close = cpu_close,
	.copy = cpu_copy,
	.fill = cpu_fill,
	.triad = cpu_triad,
	.random = cpu_random,
	.product = cpu_product,
	.philox = cpu_philox,
	.sha256 = cpu_sha256,
	.memfill = cpu_memfill,
	.balance = cpu_balance,
	.mix = cpu_mix,
	.lm = &lm_cpu_ops,
	.quant = &quant_cpu_ops,
	.huff = &huff_cpu_ops,
};

int dev_open_cpu(struct dev *d, enum cpu_level level)
{
	const char *dnnl = getenv("RNP_DNNL");
	struct cpu *c;

	*d = (struct dev)DEV_INIT;
	if (level > cpu_level_best())
		return dev_fail(d, EX_UNAVAILABLE, "cpu: this one has no %s",
			cpu_level_names[level]);
	c = calloc(1, sizeof *c);
	if (!c)
		return dev_fail(d, EX_OSERR, "cpu: no memory");
	dev_cpu_kernels(&c->kernels, level);
	c->dnnl = level > CPU_REF && !(dnnl && strcmp(dnnl, "0") == 0);
	c->amx = cpu_features(level).amx && cpu_amx_permitted();
	c->level = level;
	d->state = c;
	d->ops = &dev_cpu_ops;
	snprintf(d->name, sizeof d->name, "cpu");
	snprintf(d->isa, sizeof d->isa, "%s", cpu_level_names[level]);
	d->memory_bytes = (uint64_t)sysconf(_SC_PHYS_PAGES) *
		(uint64_t)sysconf(_SC_PAGESIZE);
	return 0;
}
