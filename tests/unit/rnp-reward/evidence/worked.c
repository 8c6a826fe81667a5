/* worked.c - what receipts come to, by groups of GPUs: by hand, and against a count of each
 * millisecond. */
/* uses: cmd/rnp-reward */
#include "cmd/rnp-reward/evidence/worked.h"

#include "common/base/rng.h"
#include "tests/unit/test.h"

static struct worked_receipt receipt(int64_t from, int64_t to, int64_t gpu_ms)
{
	return (struct worked_receipt){ .wall = { from, to }, .gpu_ms = gpu_ms };
}

static void without_devices(void)
{
	struct worked_receipt r[3] = { receipt(10, 20, 25), receipt(0, 10, 100),
		receipt(5, 15, -1) };
	const int64_t gpus[2] = { 2, 3 };
	struct worked out[2];

	/* nothing is proven: hours count, GPU time does not */
	worked_sum(r, 3, NULL, 0, out);
	CHECK_I64(20, out[0].wall_ms);
	CHECK_I64(0, out[0].gpu_ms);
	/* the first group has at most what it could have done, the next one what is left */
	worked_sum(r, 3, gpus, 1, out);
	CHECK_I64(20 + 20, out[0].gpu_ms);
	worked_sum(r, 3, gpus, 2, out);
	CHECK_I64(20 + 20, out[0].gpu_ms);
	CHECK_I64(30 + 5, out[1].gpu_ms);
	CHECK_I64(20, out[0].wall_ms);
	CHECK_I64(0, out[1].wall_ms);
}

static void with_devices(void)
{
	struct worked_receipt r[3] = { receipt(0, 10, 40), receipt(5, 15, 30),
		receipt(20, 30, 4) };
	const int64_t gpus[2] = { 2, 3 };
	struct worked out[2];

	/* two of the first group, one of the second, one that is not paid */
	r[0].named = 4;
	r[0].of[0] = 2;
	r[0].of[1] = 1;
	/* three of the second */
	r[1].named = 3;
	r[1].of[1] = 3;
	/* none that is paid */
	r[2].named = 1;
	worked_sum(r, 3, gpus, 2, out);
	CHECK_I64(20, out[0].gpu_ms);
	CHECK_I64(10 + 30, out[1].gpu_ms);
	CHECK_I64(10, out[0].wall_ms);
	CHECK_I64(5, out[1].wall_ms);
	/* a receipt that states less than its time covers no more */
	r[0] = receipt(0, 10, 3);
	r[0].named = r[0].of[1] = 1;
	worked_sum(r, 1, gpus, 2, out);
	CHECK_I64(0, out[0].wall_ms);
	CHECK_I64(3, out[1].wall_ms);
	CHECK_I64(3, out[1].gpu_ms);
}

/* Whatever the order and the devices: no group has more than its GPUs in the time that is covered,
 * all have no more than is stated, and their hours add up to what is covered. */
static void bounds(void)
{
	struct rng rng;

	rng_seed(&rng, 7, 0);
	for (int round = 0; round < 3000; round++) {
		const int64_t gpus[3] = { 1 + (int64_t)rng_below(&rng, 4),
			1 + (int64_t)rng_below(&rng, 4),
			1 + (int64_t)rng_below(&rng, 4) };
		struct worked_receipt r[6], turned[6];
		struct worked out[3], again[3];
		int n = 1 + (int)rng_below(&rng, 6);
		int64_t stated = 0, covered = 0, sum = 0, wall = 0;

		for (int i = 0; i < n; i++) {
			int64_t from = (int64_t)rng_below(&rng, 30);

			r[i] = receipt(from, from + 1 + (int64_t)rng_below(&rng, 20),
				(int64_t)rng_below(&rng, 100));
			for (int g = 0; g < 3 && rng_below(&rng, 2); g++) {
				r[i].of[g] = (unsigned char)rng_below(&rng,
					(uint64_t)gpus[g] + 1);
				r[i].named += r[i].of[g];
			}
			stated += r[i].gpu_ms;
			turned[n - 1 - i] = r[i];
		}
		for (int64_t ms = 0; ms < 60; ms++) {
			bool any = false;

			for (int i = 0; i < n; i++)
				any = any ||
					(r[i].wall.from_ms <= ms && ms < r[i].wall.to_ms);
			covered += any;
		}
		worked_sum(r, (size_t)n, gpus, 3, out);
		worked_sum(turned, (size_t)n, gpus, 3, again);
		for (int g = 0; g < 3; g++) {
			CHECK(out[g].gpu_ms >= 0 && out[g].gpu_ms <= covered * gpus[g]);
			CHECK(out[g].wall_ms >= 0);
			CHECK_I64(out[g].gpu_ms, again[g].gpu_ms);
			CHECK_I64(out[g].wall_ms, again[g].wall_ms);
			sum += out[g].gpu_ms;
			wall += out[g].wall_ms;
		}
		CHECK(sum <= stated && wall <= covered);
	}
}

int main(void)
{
	without_devices();
	with_devices();
	bounds();
	TEST_END();
}
