/* cpu.c - measures matrix products on all cores, and a hash chain on one. */
#include <string.h>

#include "cmd/rnp-bench/suites/matrices.h"
#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/err.h"
#include "common/base/threads.h"
#include "common/hw/device.h"
#include "common/hw/hw.h"
#include "common/json/json.h"
#include "kernels/dev/dev.h"
#include "kernels/crypto/sha256_chain.h"
#include "kernels/bulk/peak.h"

#define N       2048 /* three matrices of f32 are 50 MB */
#define N_QUICK 768
/* portable C multiplies a thousand times slower: 768 would take 1.5 s a product */
#define N_REFERENCE 256
#define STEPS       2000     /* hashes: about 0.1 ms with SHA-NI */
#define PEAK_CYCLES 12000000 /* about 4 ms: long compared with starting the team */

static struct {
	struct dev dev;
	struct matrices matrices;
	const struct peak *peak;
	unsigned char state[32];
} cpu;

const char *suite_cpu_model(void)
{
	static struct hw_cpu found;
	static bool read;
	struct hw_causes why = { 0 };

	if (!read)
		hw_cpu_read(&found, &why);
	read = true;
	return found.model;
}

/* --- matrix products ----------------------------------------------------------------------- */

static void close_product(void)
{
	matrices_close(&cpu.matrices);
	dev_close(&cpu.dev);
}

static int open_product(const struct settings *s, enum product_type type)
{
	size_t n = s->quick ? N_QUICK : N;
	enum cpu_level level;

	cpu_level_chosen(&level);
	if (device_open(&cpu.dev, "cpu") < 0)
		return -1;
	if (level == CPU_REF)
		n = N_REFERENCE;
	if (matrices_open(&cpu.matrices, &cpu.dev, type, n) == 0)
		return 0;
	dev_close(&cpu.dev);
	return -1;
}

static int open_f32(const struct settings *s)
{
	return open_product(s, PRODUCT_F32);
}

static int open_bf16(const struct settings *s)
{
	return open_product(s, PRODUCT_BF16);
}

static int open_i8(const struct settings *s)
{
	return open_product(s, PRODUCT_I8);
}

static int step_product(double *work)
{
	*work = matrices_work(&cpu.matrices);
	return matrices_step(&cpu.matrices, 1);
}

static int check_product(void)
{
	return matrices_check(&cpu.matrices);
}

static void describe_product(json_t *params)
{
	const char *kernel = cpu.dev.kernel;

	json_set_i64(params, "n", (int64_t)cpu.matrices.product.n);
	json_set_text(params, "type", product_type_names[cpu.matrices.product.type]);
	json_set_i64(params, "threads", threads_max());
	json_set_text(params, "kernel",
		strcmp(kernel, "ref") == 0 ? "reference" : kernel);
}

/* --- nothing but multiply-add -------------------------------------------------------------- */

/* 1: this CPU has no instruction for the type, and the suite omits its peak */
static int open_peak(enum product_type type)
{
	enum cpu_level level;

	cpu_level_chosen(&level);
	cpu.peak = peak_of(type, level);
	if (cpu.peak)
		return 0;
	err_set(EX_UNAVAILABLE, "no instruction multiplies and adds %s here",
		product_type_names[type]);
	return 1;
}

static int open_peak_f32(const struct settings *s)
{
	(void)s;
	return open_peak(PRODUCT_F32);
}

static int open_peak_bf16(const struct settings *s)
{
	(void)s;
	return open_peak(PRODUCT_BF16);
}

static int open_peak_i8(const struct settings *s)
{
	(void)s;
	return open_peak(PRODUCT_I8);
}

static int step_peak(double *work)
{
	uint64_t steps = PEAK_CYCLES / cpu.peak->cycles;

#pragma omp parallel
	cpu.peak->run(steps);
	*work = (double)cpu.peak->operations * (double)steps * threads_max();
	return 0;
}

static void describe_peak(json_t *params)
{
	json_set_i64(params, "threads", threads_max());
	json_set_text(params, "kernel", cpu.peak->instruction);
}

/* --- hash chain ---------------------------------------------------------------------------- */

static int open_chain(const struct settings *s)
{
	(void)s;
	memset(cpu.state, 1, sizeof cpu.state);
	return 0;
}

static int step_chain(double *work)
{
	sha256_chain_fast()(cpu.state, 1, STEPS);
	*work = STEPS;
	return 0;
}

static int check_chain(void)
{
	unsigned char a[32], b[32];

	memcpy(a, cpu.state, sizeof a);
	memcpy(b, cpu.state, sizeof b);
	sha256_chain_fast()(a, 1, 100);
	sha256_chain_ref(b, 1, 100);
	if (memcmp(a, b, sizeof a) != 0)
		bug("the hash chain is wrong");
	return 0;
}

static void describe_chain(json_t *params)
{
	json_set_i64(params, "threads", 1);
	json_set_text(params, "kernel", sha256_chain_name());
}

static const struct test tests[] = {
	{ "matmul_f32", "FLOP/s", "matrix product, f32, all cores", false, open_f32,
		step_product, check_product, describe_product, close_product },
	{ "matmul_bf16", "FLOP/s", "matrix product, bf16 into f32, all cores", false,
		open_bf16, step_product, check_product, describe_product, close_product },
	{ "matmul_int8", "OP/s", "matrix product, int8 into int32, all cores", false,
		open_i8, step_product, check_product, describe_product, close_product },
	{ "peak_f32", "FLOP/s", "multiply-add in registers, f32, all cores", false,
		open_peak_f32, step_peak, NULL, describe_peak, NULL },
	{ "peak_bf16", "FLOP/s", "multiply-add in registers, bf16 into f32, all cores",
		false, open_peak_bf16, step_peak, NULL, describe_peak, NULL },
	{ "peak_int8", "OP/s", "multiply-add in registers, int8 into int32, all cores",
		false, open_peak_i8, step_peak, NULL, describe_peak, NULL },
	{ "hash_chain", "1/s", "SHA-256 of SHA-256 of ..., one thread", false, open_chain,
		step_chain, check_chain, describe_chain, NULL },
	{ 0 },
};

const struct suite suite_cpu = { "cpu", tests, suite_cpu_model, NULL, NULL, NULL };
