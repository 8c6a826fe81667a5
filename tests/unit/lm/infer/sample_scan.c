/* sample_scan.c - shares are those of the C library's exp, and every version gives the same bits:
 * the program runs itself again at the other levels. */
#include "common/lm/infer/sample_scan.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "kernels/dev/cpu.h"
#include "tests/unit/test.h"

enum { COUNT = 200 * SCAN_BLOCK };

static float logits[COUNT];

static void draw_logits(void)
{
	struct rng r;

	rng_seed(&r, 11, 0);
	for (int i = 0; i < COUNT; i++)
		logits[i] = (float)(rng_f64(&r) * 60 - 40);
	logits[3] = logits[SCAN_BLOCK] = NAN;
	logits[5] = -INFINITY;
	logits[2 * SCAN_BLOCK - 1] = 20;
}

static void check_shares(double temperature)
{
	double share[SCAN_BLOCK];
	struct scan how;

	scan_init(&how, 20, temperature, 32);
	for (int i = 0; i < COUNT; i += SCAN_BLOCK) {
		uint32_t n = i / SCAN_BLOCK % SCAN_BLOCK + 1;
		double sum = scan_shares(share, logits + i, n, &how), all = 0;

		for (uint32_t j = 0; j < SCAN_BLOCK; j++) {
			double x = j < n ? logits[i + (int)j] : -INFINITY;
			double want = x >= how.min ? exp((x - 20) / temperature) : 0;

			CHECK(fabs(share[j] - want) <= 1e-12 * want);
			all += want;
		}
		CHECK(fabs(sum - all) <= 1e-12 * all);
	}
}

static void check_max(void)
{
	const float none[2] = { NAN, NAN };

	for (int i = 0; i < COUNT; i += SCAN_BLOCK)
		for (uint32_t n = 1; n <= SCAN_BLOCK; n++) {
			float max = -INFINITY;

			for (uint32_t j = 0; j < n; j++)
				max = fmaxf(max, logits[i + (int)j]);
			CHECK(scan_max(logits + i, n) == max);
		}
	CHECK(scan_max(none, 2) == -INFINITY);
}

static void check_exclude(void)
{
	const uint64_t allowed = UINT64_C(0x8123456789abcdef);
	float to[SCAN_BLOCK];

	for (uint32_t n = 1; n <= SCAN_BLOCK; n++) {
		for (uint32_t j = 0; j < SCAN_BLOCK; j++)
			to[j] = 77;
		scan_exclude(to, logits + 4 * SCAN_BLOCK, n, allowed);
		for (uint32_t j = 0; j < SCAN_BLOCK; j++)
			CHECK(to[j] ==
				(j >= n ? 77 :
						allowed >> j & 1 ?
					  logits[4 * SCAN_BLOCK + j] :
					  -INFINITY));
	}
	scan_exclude(to, logits, SCAN_BLOCK, UINT64_MAX << 3);
	scan_exclude(to, to, SCAN_BLOCK, ~UINT64_C(8)); /* in place, and a NaN goes */
	CHECK(to[3] == -INFINITY && to[4] == logits[4]);
}

/* What is kept is in order and at least min; a NaN is not, nor is -infinity. */
static void check_keep(void)
{
	float kept[2 * SCAN_BLOCK];
	uint32_t ids[2 * SCAN_BLOCK];

	for (int i = 0; i < COUNT; i += SCAN_BLOCK)
		for (uint32_t size = 1; size <= SCAN_BLOCK; size += 9) {
			float min = logits[i + (int)size - 1]; /* is kept, or a NaN */
			uint32_t n = scan_keep(kept + 3, ids + 3, logits + i, size, 1000,
				min);
			uint32_t at = 3;

			for (uint32_t j = 0; j < size; j++)
				if (logits[i + (int)j] >= min) {
					CHECK(kept[at] == logits[i + (int)j]);
					CHECK_I64(1000 + j, ids[at++]);
				}
			CHECK_I64(at - 3, n);
		}
	CHECK_I64(3,
		scan_keep(kept, ids, logits + 1, 5, 0,
			-FLT_MAX)); /* 3 is NaN, 5 -infinity */
}

/* The least float that is not below: what is between two floats excludes the lower one. */
static void check_raise(void)
{
	struct scan how;

	scan_init(&how, 3, 1, 1);
	CHECK(how.min == 2);
	scan_raise(&how, 2 + 1e-12);
	CHECK(how.min == nextafterf(2, 3));
	scan_raise(&how, 1);
	CHECK(how.min == nextafterf(2, 3));
	scan_init(&how, 3, 1e39, 32);
	CHECK(how.min == -FLT_MAX);
	scan_init(&how, 3, 1e-320, 32);
	CHECK(how.min == 3 && how.scale == DBL_MAX);
}

/* FNV-1a of all bits */
static uint64_t add_hash(uint64_t h, const void *x, size_t bytes)
{
	for (size_t j = 0; j < bytes; j++)
		h = (h ^ ((const unsigned char *)x)[j]) * UINT64_C(0x100000001b3);
	return h;
}

static uint64_t hash_of_blocks(void)
{
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	double share[SCAN_BLOCK + 1];
	float kept[SCAN_BLOCK];
	uint32_t ids[SCAN_BLOCK], n;
	struct scan how;

	for (int k = 0; k < 2; k++) {
		scan_init(&how, 20, k ? 1 : 1.7, 32);
		for (int i = 0; i < COUNT; i += SCAN_BLOCK) {
			share[SCAN_BLOCK] = scan_shares(share, logits + i,
				SCAN_BLOCK - i % 3, &how);
			h = add_hash(h, share, sizeof share);
			n = scan_keep(kept, ids, logits + i, SCAN_BLOCK - i % 3, 0,
				how.min);
			h = add_hash(h, kept, n * sizeof *kept);
			h = add_hash(h, ids, n * sizeof *ids);
		}
	}
	return h;
}

static void check_version(const char *self, const char *level)
{
	char command[512];
	unsigned long long there = 0;
	FILE *f;

	snprintf(command, sizeof command, "RNP_ISA=%s '%s' hash", level, self);
	f = popen(command, "r");
	CHECK(f && fscanf(f, "%llx", &there) == 1);
	if (f)
		CHECK_I64(0, pclose(f));
	CHECK(there == hash_of_blocks());
}

/* At the levels that this CPU has; this process has the best one. */
static void check_versions(const char *self)
{
	enum cpu_level best;

	CHECK(cpu_level_chosen(&best) == 0);
	for (int level = CPU_REF; level < (int)best; level++)
		check_version(self, cpu_level_names[level]);
}

int main(int argc, char **argv)
{
	draw_logits();
	if (argc > 1) {
		printf("%llx\n", (unsigned long long)hash_of_blocks());
		return 0;
	}
	check_shares(1);
	check_shares(0.3);
	check_shares(2);
	check_max();
	check_exclude();
	check_keep();
	check_raise();
	check_versions(argv[0]);
	TEST_END();
}
