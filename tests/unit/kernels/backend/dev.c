/* dev.c - tables are complete, names are understood, and operations are those of the
 * reference. */
#include "kernels/dev/dev.h"

#include <stddef.h>
#include <stdlib.h>
#include <sysexits.h>

#include "kernels/bulk/cpu/cpu.h"
#include "kernels/dev/dev_cpu.h"
#include "kernels/grad/cpu/cpu.h"
#include "kernels/lm/ops.h"
#include "kernels/poc/cpu/cpu.h"
#include "tests/unit/test.h"

/* A table of function pointers has no NULL in it. */
static void check_full(const void *table, size_t bytes, const char *name)
{
	const unsigned char *p = table;

	for (size_t i = 0; i < bytes; i += sizeof(void (*)(void))) {
		void *slot;

		memcpy(&slot, p + i, sizeof slot);
		CHECK(slot);
		if (!slot)
			fprintf(stderr, "%s: slot %zu is empty\n", name, i / sizeof slot);
	}
}

static void check_names(void)
{
	struct dev d;

	unsetenv("RNP_DEVICE");
	unsetenv("RNP_ISA");
	setenv("RNP_CUDA_PLUGIN", "tests/none/librnp_cuda.so", 1);
	CHECK(dev_open(&d, NULL) == 0);
	CHECK_TEXT("cpu", d.name);
	dev_close(&d);
	dev_close(&d); /* safe again */
	CHECK(dev_cuda_count(&d) == -1);
	CHECK_I64(EX_UNAVAILABLE, d.code);
	CHECK(dev_open(&d, "cuda") == -1);
	CHECK_I64(EX_UNAVAILABLE, d.code);
	CHECK(strncmp(d.error, "cuda:0: ", 8) == 0);
	setenv("RNP_DEVICE", "cuda:3", 1);
	CHECK(dev_open(&d, NULL) == -1);
	CHECK(strncmp(d.error, "cuda:3: ", 8) == 0);
	CHECK(dev_open(&d, "cpu") == 0);
	dev_close(&d);
	static const char *const bad[] = { "gpu", "cuda:", "cuda:x", "cuda:1x", "cuda:-1",
		"cuda:99999999999999999999", "CPU", "cpu " };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(dev_open(&d, bad[i]) == -1);
		CHECK_I64(EX_USAGE, d.code);
		dev_close(&d);
	}
	setenv("RNP_ISA", "mmx", 1);
	CHECK(dev_open(&d, "cpu") == -1);
	CHECK_I64(EX_UNAVAILABLE, d.code);
	setenv("RNP_ISA", "ref", 1);
	CHECK(dev_open(&d, "cpu") == 0);
	CHECK_TEXT("ref", d.isa);
	dev_close(&d);
	unsetenv("RNP_ISA");
	unsetenv("RNP_DEVICE");
}

static void check_memory(struct dev *d)
{
	unsigned char in[1000], out[1000] = { 0 };
	int64_t ns = -1;
	uint64_t free_bytes;
	void *p = in, *mark = NULL;

	for (size_t i = 0; i < sizeof in; i++)
		in[i] = (unsigned char)(i * 7);
	CHECK(d->ops->alloc(d, &p, UINT64_MAX / 4) == -1);
	CHECK(!p && d->code);
	CHECK(d->ops->alloc(d, &p, sizeof in) == 0);
	CHECK((uintptr_t)p % 256 == 0);
	CHECK(d->ops->timer_start(d) == 0);
	CHECK(d->ops->put(d, p, in, sizeof in) == 0);
	CHECK(d->ops->get(d, out, p, sizeof out) == 0);
	CHECK(d->ops->timer_stop(d, &ns) == 0);
	CHECK(ns >= 0);
	CHECK(memcmp(in, out, sizeof in) == 0);
	CHECK(d->ops->mem_free(d, &free_bytes) == 0);
	CHECK(free_bytes > 0 && free_bytes <= d->memory_bytes);
	CHECK(d->ops->sync(d) == 0);
	for (int i = 0; i < 2; i++) {
		CHECK(d->ops->event_record(d, &mark) == 0);
		CHECK(mark && d->ops->event_wait(d, mark) == 0);
	}
	d->ops->event_free(d, mark);
	d->ops->event_free(d, NULL);
	d->ops->free(d, p);
	d->ops->free(d, NULL);
}

/* The extremes of int8 in every length: oneDNN and VNNI both go through an offset. */
static void check_int8(struct dev *d)
{
	static int8_t a[8 * 200], b[24 * 200];
	int32_t want[8 * 24], got[8 * 24];
	struct product p = { .type = PRODUCT_I8,
		.a = a,
		.b = b,
		.m = 8,
		.n = 24,
		.ldc = 24 };

	for (size_t i = 0; i < sizeof a; i++)
		a[i] = i % 3 ? -128 : 127;
	for (size_t i = 0; i < sizeof b; i++)
		b[i] = i % 5 ? -128 : (int8_t)(i * 31);
	for (p.k = 0; p.k <= 200; p.k += p.k < 5 ? 1 : 13) {
		p.lda = p.ldb = p.k;
		p.c = want;
		product_ref(&p);
		p.c = got;
		memset(got, 0xee, sizeof got);
		CHECK(d->ops->bulk->product(d, &p) == 0);
		CHECK(memcmp(want, got, sizeof want) == 0);
	}
	p.k = PRODUCT_I8_K_MAX + 1;
	CHECK(d->ops->bulk->product(d, &p) == -1);
}

int main(void)
{
	struct dev d;

	check_names();
	for (int level = 0; level < CPU_LEVELS; level++) {
		struct mem_cpu mem;
		struct bulk_cpu bulk;
		struct poc_cpu poc;
		struct quant_cpu quant;
		struct huff_cpu huff;
		struct outer_cpu outer;

		mem_cpu_choose(&mem, (enum cpu_level)level);
		check_full(&mem, sizeof mem, "mem");
		bulk_cpu_choose(&bulk, (enum cpu_level)level);
		check_full(&bulk, offsetof(struct bulk_cpu, dnnl), "bulk");
		poc_cpu_choose(&poc, (enum cpu_level)level);
		check_full(&poc, sizeof poc, "poc");
		quant_cpu_choose(&quant, (enum cpu_level)level);
		check_full(&quant, sizeof quant, "quant");
		huff_cpu_choose(&huff, (enum cpu_level)level);
		check_full(&huff, sizeof huff, "huff");
		outer_cpu_choose(&outer, (enum cpu_level)level);
		check_full(&outer, sizeof outer, "outer");
		check_full(outer.kernels, sizeof *outer.kernels, "outer's kernels");
		if (dev_open_cpu(&d, (enum cpu_level)level) < 0) {
			fprintf(stderr, "SKIP %s\n", d.error);
			CHECK_I64(EX_UNAVAILABLE, d.code);
			continue;
		}
		check_full(d.ops, sizeof *d.ops, d.isa);
#define FULL(table, list) check_full(d.ops->table, sizeof *d.ops->table, #table);
		DEV_TABLES(FULL)
#undef FULL
		check_memory(&d);
		check_int8(&d);
		dev_close(&d);
		setenv("RNP_DNNL", "0", 1);
		CHECK(dev_open_cpu(&d, (enum cpu_level)level) == 0);
		check_int8(&d);
		dev_close(&d);
		unsetenv("RNP_DNNL");
	}
	TEST_END();
}
