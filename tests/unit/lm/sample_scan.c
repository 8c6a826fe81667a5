/* sample_scan.c - shares are those of the C library's exp, and every version gives the same bits:
 * the program runs itself again without vectors. */
#include "common/lm/infer/sample_scan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "common/base/rng.h"
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

/* FNV-1a of all bits */
static uint64_t hash_of_shares(void)
{
	const struct scan how = { .max = 20, .min = -35, .temperature = 1.7 };
	uint64_t h = UINT64_C(0xcbf29ce484222325);
	double share[SCAN_BLOCK + 1];

	for (int i = 0; i < COUNT; i += SCAN_BLOCK) {
		share[SCAN_BLOCK] = scan_shares(share, logits + i, SCAN_BLOCK - i % 3,
			&how);
		for (size_t j = 0; j < sizeof share; j++)
			h = (h ^ ((unsigned char *)share)[j]) * UINT64_C(0x100000001b3);
	}
	return h;
}

static void check_versions(const char *self)
{
	char command[512];
	unsigned long long plain = 0;
	FILE *f;

	snprintf(command, sizeof command, "RNP_ISA=ref '%s' hash", self);
	f = popen(command, "r");
	CHECK(f && fscanf(f, "%llx", &plain) == 1);
	if (f)
		CHECK_I64(0, pclose(f));
	CHECK(plain == hash_of_shares());
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
	check_versions(argv[0]);
	TEST_END();
}
