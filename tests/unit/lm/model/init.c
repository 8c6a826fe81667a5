/* init.c - lm/init: the quantile is that of the normal distribution, and any part of a tensor
 * is the same as the whole has there. */
#include "common/lm/model/init.h"

#include <math.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "tests/unit/test.h"

/* From Python's statistics.NormalDist().inv_cdf, which is Wichura's PPND16. */
static void check_quantile(void)
{
	static const struct {
		double p, x;
	} known[] = {
		{ 1e-16, -8.222082216130 },
		{ 1e-12, -7.034483825301 },
		{ 1e-09, -5.997807015008 },
		{ 1e-05, -4.264890793923 },
		{ 0.001, -3.090232306168 },
		{ 0.0228, -1.999077214972 },
		{ 0.0749, -1.440238267528 },
		{ 0.0751, -1.438825392753 },
		{ 0.3, -0.524400512708 },
		{ 0.5, 0.000000000000 },
		{ 0.7, 0.524400512708 },
		{ 0.925, 1.439531470938 },
		{ 0.9251, 1.440238267528 },
		{ 0.975, 1.959963984540 },
		{ 0.999999, 4.753424308817 },
	};

	for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
		double x = lm_init_quantile(known[i].p);

		CHECK(fabs(x - known[i].x) <= 2e-7 * fabs(known[i].x) + 1e-12);
	}
}

static void check_parts(void)
{
	struct lm_config c;
	struct lm_place p;
	float *all, part[7];
	uint32_t o;

	CHECK_I64(0, lm_config_preset(&c, "nano", 0));
	o = (uint32_t)lm_layout_index(&c, LM_GATE, 2);
	lm_layout_at(&c, o, &p);
	all = xmalloc(p.count * sizeof *all);
	lm_init_read(all, &c, 9, o, 0, p.count);
	for (uint64_t from = 0; from + 7 <= p.count; from += 997) {
		lm_init_read(part, &c, 9, o, from, 7);
		CHECK(memcmp(part, all + from, sizeof part) == 0);
	}
	lm_init_read(part, &c, 10, o, 0, 7);
	CHECK(memcmp(part, all, sizeof part) != 0);
	lm_init_read(part, &c, 9, o + 1, 0, 7);
	CHECK(memcmp(part, all, sizeof part) != 0);
	free(all);
}

static void check_others(void)
{
	struct lm_config c;
	float x[4];

	CHECK_I64(0, lm_config_preset(&c, "nano", 0));
	c.qkv_bias = true;
	lm_init_read(x, &c, 9, (uint32_t)lm_layout_index(&c, LM_FFN_NORM, 1), 3, 4);
	CHECK(x[0] == 1 && x[3] == 1);
	lm_init_read(x, &c, 9, (uint32_t)lm_layout_index(&c, LM_K_BIAS, 1), 3, 4);
	CHECK(x[0] == 0 && x[3] == 0);
}

int main(void)
{
	check_quantile();
	check_parts();
	check_others();
	TEST_END();
}
