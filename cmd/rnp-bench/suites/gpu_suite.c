/* gpu_suite.c - measures a GPU's arithmetic and memory, through the device table. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/gpu.h"
#include "cmd/rnp-bench/suites/matrices.h"
#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/base/mem.h"

#define N          8192
#define N_QUICK    4096
#define N_EMULATED 64
#define EMULATED   "sm_00"             /* what the emulation says it is */
#define ARRAY      (UINT64_C(1) << 30) /* beyond all caches that GPUs have, 256 MB at most */
#define ARRAY_MIN  (UINT64_C(1) << 22)
#define TABLE_MAX  (UINT64_C(4) << 30)
#define READS      (UINT64_C(1) << 24) /* at once, when the table is large */
#define LAUNCHES   20
#define STEP_NS    5000000 /* of work between two waits: a wait takes a few microseconds */

static struct {
	struct dev *dev;
	struct matrices matrices;
	void *area[3];
	uint64_t bytes;       /* of one area */
	int times;            /* operations between two waits */
	uint64_t reads, each; /* random reads done, and of one step */
} gpu;

static int failed(void)
{
	return device_failed(gpu.dev);
}

static void close_areas(void)
{
	for (int i = 0; i < 3; i++) {
		if (gpu.dev && gpu.dev->ops)
			gpu.dev->ops->free(gpu.dev, gpu.area[i]);
		gpu.area[i] = NULL;
	}
	matrices_close(&gpu.matrices);
}

/* Finds how often op has to run for STEP_NS; this also warms up. */
static int calibrate(int (*op)(void))
{
	int64_t ns;

	for (gpu.times = 1; gpu.times < 1 << 20; gpu.times *= 2) {
		int64_t from = clock_mono_ns();

		for (int i = 0; i < gpu.times; i++)
			if (op() < 0)
				return failed();
		if (gpu.dev->ops->sync(gpu.dev) < 0)
			return failed();
		ns = clock_mono_ns() - from;
		if (ns >= STEP_NS)
			break;
	}
	return 0;
}

static int repeat(int (*op)(void))
{
	for (int i = 0; i < gpu.times; i++)
		if (op() < 0)
			return failed();
	return gpu.dev->ops->sync(gpu.dev) < 0 ? failed() : 0;
}

/* --- products ------------------------------------------------------------------------------ */

static int op_product(void)
{
	return gpu.dev->ops->bulk->product(gpu.dev, &gpu.matrices.product);
}

/* The side is the same for every GPU, so that figures compare; only the emulation that the
 * tests run gets a smaller one. The first product, which loads libraries, is small. */
static int open_product(const struct settings *s, enum product_type type)
{
	gpu.dev = gpu_open(s);
	if (!gpu.dev || matrices_open(&gpu.matrices, gpu.dev, type, N_EMULATED) < 0)
		return -1;
	if (matrices_step(&gpu.matrices, 1) < 0)
		goto fail;
	if (strcmp(gpu.dev->isa, EMULATED) != 0) {
		matrices_close(&gpu.matrices);
		if (matrices_open(&gpu.matrices, gpu.dev, type, s->quick ? N_QUICK : N) <
			0)
			return -1;
	}
	if (calibrate(op_product) == 0)
		return 0;
fail:
	matrices_close(&gpu.matrices);
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

static int open_f16(const struct settings *s)
{
	return open_product(s, PRODUCT_F16);
}

static int open_f8(const struct settings *s)
{
	return open_product(s, PRODUCT_F8);
}

static int open_i8(const struct settings *s)
{
	return open_product(s, PRODUCT_I8);
}

static int step_product(double *work)
{
	*work = matrices_work(&gpu.matrices) * gpu.times;
	return matrices_step(&gpu.matrices, gpu.times);
}

static int check_product(void)
{
	return matrices_check(&gpu.matrices);
}

static void describe_product(json_t *params)
{
	json_set_i64(params, "n", (int64_t)gpu.matrices.product.n);
	json_set_text(params, "type", product_type_names[gpu.matrices.product.type]);
	json_set_text(params, "kernel", gpu.dev->kernel);
}

/* --- memory -------------------------------------------------------------------------------- */

/* Allocates `count` areas of at most `max` bytes, each the largest power of two with which
 * they fit into half of the free memory. */
static int open_areas(const struct settings *s, int count, uint64_t max)
{
	uint64_t available;

	gpu.dev = gpu_open(s);
	if (!gpu.dev)
		return -1;
	if (gpu.dev->ops->mem_free(gpu.dev, &available) < 0)
		return failed();
	for (gpu.bytes = max;
		gpu.bytes > ARRAY_MIN && gpu.bytes > available / 2 / (uint64_t)count;)
		gpu.bytes /= 2;
	for (int i = 0; i < count; i++) {
		if (gpu.dev->ops->alloc(gpu.dev, &gpu.area[i], gpu.bytes) < 0 ||
			gpu.dev->ops->fill(gpu.dev, gpu.area[i],
				0x3ff00000u + (uint32_t)i, gpu.bytes / 4) < 0) {
			failed();
			close_areas();
			return -1;
		}
	}
	return 0;
}

static int op_copy(void)
{
	return gpu.dev->ops->copy(gpu.dev, gpu.area[0], gpu.area[1], gpu.bytes);
}

static int op_triad(void)
{
	return gpu.dev->ops->bulk->triad(gpu.dev, gpu.area[0], gpu.area[1], gpu.area[2],
		3, gpu.bytes / 8);
}

static int open_for(const struct settings *s, int count, int (*op)(void))
{
	if (open_areas(s, count, s->quick ? ARRAY / 4 : ARRAY) < 0)
		return -1;
	if (calibrate(op) == 0)
		return 0;
	close_areas();
	return -1;
}

static int open_copy(const struct settings *s)
{
	return open_for(s, 2, op_copy);
}

static int open_triad(const struct settings *s)
{
	return open_for(s, 3, op_triad);
}

static int step_copy(double *work)
{
	*work = 2.0 * (double)gpu.bytes * gpu.times;
	return repeat(op_copy);
}

static int step_triad(double *work)
{
	*work = 3.0 * (double)gpu.bytes * gpu.times;
	return repeat(op_triad);
}

/* Checks a word of the last page: a copy or triad that ended early has not written it. */
static int check_last(double want)
{
	double got;

	if (gpu.dev->ops->get(gpu.dev, &got,
		    (const char *)gpu.area[0] + gpu.bytes - sizeof got, sizeof got) < 0)
		return failed();
	return got == want ?
		0 :
		gpu_wrong(gpu.dev, "the last element is %g, not %g", got, want);
}

/* the f64 that two words of area i make */
static double element(uint32_t i)
{
	uint32_t words[2] = { 0x3ff00000u + i, 0x3ff00000u + i };
	double v;

	memcpy(&v, words, sizeof v);
	return v;
}

static int check_copy(void)
{
	return check_last(element(1));
}

static int check_triad(void)
{
	return check_last(element(1) + 3 * element(2));
}

static void describe_area(json_t *params)
{
	json_set_i64(params, "array_bytes", (int64_t)gpu.bytes);
}

static int open_random(const struct settings *s)
{
	if (open_areas(s, 1, s->quick ? ARRAY : TABLE_MAX) < 0)
		return -1;
	if (gpu.dev->ops->alloc(gpu.dev, &gpu.area[1], sizeof(uint64_t)) < 0) {
		failed();
		close_areas();
		return -1;
	}
	/* as many reads as the table has words, and at most some milliseconds of work */
	gpu.each = gpu.bytes / 8 < READS ? gpu.bytes / 8 : READS;
	gpu.reads = 0;
	return 0;
}

/* The sum is a word of the device's memory. Waits for it, and reads it to out unless that is
 * NULL. */
static int random_sum(struct bulk_random *r, uint64_t *out)
{
	uint64_t *sum = gpu.area[1];

	if (gpu.dev->ops->bulk->random(gpu.dev, sum, r) < 0 ||
		(out ? gpu.dev->ops->get(gpu.dev, out, sum, sizeof *out) :
		       gpu.dev->ops->sync(gpu.dev)) < 0)
		return failed();
	return 0;
}

static int step_random(double *work)
{
	struct bulk_random r = { gpu.area[0], gpu.bytes / 8, 1, gpu.reads, gpu.each };

	gpu.reads += gpu.each;
	*work = (double)gpu.each;
	return random_sum(&r, NULL);
}

/* All words are the same, so that the sum is known. */
static int check_random(void)
{
	struct bulk_random r = { gpu.area[0], gpu.bytes / 8, 1, 0, 1000 };
	uint64_t sum, word = UINT64_C(0x3ff000003ff00000);

	if (random_sum(&r, &sum) < 0)
		return -1;
	return sum == word * 1000 ?
		0 :
		gpu_wrong(gpu.dev, "the sum of random reads is wrong");
}

/* --- launches ------------------------------------------------------------------------------ */

static int open_launch(const struct settings *s)
{
	return open_areas(s, 1, ARRAY_MIN);
}

static int op_launch(void)
{
	return gpu.dev->ops->fill(gpu.dev, gpu.area[0], 7, 1);
}

static int step_launch(double *work)
{
	*work = LAUNCHES;
	for (int i = 0; i < LAUNCHES; i++)
		if (op_launch() < 0 || gpu.dev->ops->sync(gpu.dev) < 0)
			return failed();
	return 0;
}

static int step_queue(double *work)
{
	*work = 10 * LAUNCHES;
	for (int i = 0; i < 10 * LAUNCHES; i++)
		if (op_launch() < 0)
			return failed();
	return gpu.dev->ops->sync(gpu.dev) < 0 ? failed() : 0;
}

static void describe_nothing(json_t *params)
{
	(void)params;
}

#define PRODUCT(name, unit, summary, open)                                     \
	{                                                                      \
		name, unit, summary, false, open, step_product, check_product, \
			describe_product, close_areas                          \
	}

static const struct test tests[] = {
	PRODUCT("matmul_f32", "FLOP/s", "matrix product, f32", open_f32),
	PRODUCT("matmul_bf16", "FLOP/s", "matrix product, bf16 into f32", open_bf16),
	PRODUCT("matmul_f16", "FLOP/s", "matrix product, f16 into f32", open_f16),
	PRODUCT("matmul_f8", "FLOP/s", "matrix product, f8 (E4M3) into f32", open_f8),
	PRODUCT("matmul_int8", "OP/s", "matrix product, int8 into int32", open_i8),
	{ "copy", "B/s", "copy within the GPU's memory, read and written bytes", false,
		open_copy, step_copy, check_copy, describe_area, close_areas },
	{ "triad", "B/s", "a = b + s c in f64, read and written bytes", false, open_triad,
		step_triad, check_triad, describe_area, close_areas },
	{ "random_read", "1/s", "reads of 8 bytes anywhere, many at once", false,
		open_random, step_random, check_random, describe_area, close_areas },
	{ "launch", "ns", "start one kernel and wait for it", true, open_launch,
		step_launch, NULL, describe_nothing, close_areas },
	{ "launch_queued", "ns", "one kernel of many that are started without waiting",
		true, open_launch, step_queue, NULL, describe_nothing, close_areas },
	{ 0 },
};

const struct suite suite_gpu = { "gpu", tests, gpu_model, gpu_close, &gpu_watch, NULL };
