/* sample_scan.c - shares are those of the C library's exp, and every version gives the same bits:
 * the program runs itself again at the other levels. */
#include "common/lm/infer/sample_scan.h"

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
	const struct scan how = { .max = 20,
		.min = 20 - 32 * temperature,
		.temperature = temperature };
	double share[SCAN_BLOCK];

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

/* FNV-1a of all bits */
static uint64_t add_hash(uint64_t h, const double *x, size_t bytes)
{
	for (size_t j = 0; j < bytes; j++)
		h = (h ^ ((const unsigned char *)x)[j]) * UINT64_C(0x100000001b3);
	return h;
}

static uint64_t hash_of_shares(void)
{
	const struct scan hows[] = { { .max = 20, .min = -35, .temperature = 1.7 },
		{ .max = 20, .min = -12, .temperature = 1 } };
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	double share[SCAN_BLOCK + 1];

	for (int k = 0; k < 2; k++)
		for (int i = 0; i < COUNT; i += SCAN_BLOCK) {
			share[SCAN_BLOCK] = scan_shares(share, logits + i,
				SCAN_BLOCK - i % 3, &hows[k]);
			h = add_hash(h, share, sizeof share);
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
	CHECK(there == hash_of_shares());
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
		printf("%llx\n", (unsigned long long)hash_of_shares());
		return 0;
	}
	check_shares(1);
	check_shares(0.3);
	check_shares(2);
	check_max();
	check_exclude();
	check_versions(argv[0]);
	TEST_END();
}
