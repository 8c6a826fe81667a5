/* line_fit.c - the line and the crossings of numbers that can be worked out by hand.
 * uses: cmd/rnp-bench */
#include "cmd/rnp-bench/suites/line_fit.h"

#include <math.h>

#include "tests/unit/test.h"

static bool near(double a, double b)
{
	return fabs(a - b) <= 1e-9 * (fabs(a) + fabs(b));
}

static void test_line(void)
{
	double bytes[5] = { 1024, 4096, 65536, 1 << 20, 64 << 20 }, ns[5];
	struct fit f;

	for (int i = 0; i < 5; i++)
		ns[i] = 2000 + 0.125 * bytes[i];
	CHECK(fit_line(bytes, ns, 5, &f));
	CHECK(near(f.latency_ns, 2000));
	CHECK(near(f.per_byte_ns, 0.125));
	CHECK(f.worst < 1e-9);
	CHECK(fit_line(bytes, ns, 2, &f) && near(f.latency_ns, 2000));
	CHECK(!fit_line(bytes, ns, 1, &f));
	CHECK(!fit_line(bytes, ns, 0, &f));
	for (int i = 0; i < 5; i++)
		ns[i] = 700; /* a line without slope has no bandwidth */
	CHECK(!fit_line(bytes, ns, 5, &f));
}

/* Two points 1, 3 and 3, 3: w = 1, 1/9 ... by hand below; a third one off the line. */
static void test_weights(void)
{
	/* minimise (a+b-1)^2 + ((a+2b-4)/4)^2 + ((a+3b-4)/4)^2:
	 * w = 1, 1/16, 1/16; sums: w 18/16, wn 21/16, wnn 29/16, wt 24/16, wnt 36/16;
	 * determinant (18 29 - 21 21)/256 = 81/256
	 * a = (29 24 - 21 36)/81 = -60/81 < 0, so through 0: b = 36/29 */
	double bytes[3] = { 1, 2, 3 }, ns[3] = { 1, 4, 4 };
	/* the same with 2 for the first: w = 1/4, 1/16, 1/16; in 16ths: w 6, wn 9, wnn 17, wt
	 * 16, wnt 28; determinant 102 - 81 = 21; a = (17 16 - 9 28)/21 = 20/21, b = (6 28 - 9
	 * 16)/21 = 24/21 */
	double other[3] = { 2, 4, 4 };
	struct fit f;

	CHECK(fit_line(bytes, ns, 3, &f));
	CHECK(f.latency_ns == 0);
	CHECK(near(f.per_byte_ns, 36.0 / 29));
	CHECK(fit_line(bytes, other, 3, &f));
	CHECK(near(f.latency_ns, 20.0 / 21));
	CHECK(near(f.per_byte_ns, 24.0 / 21));
	/* at 2: 20/21 + 48/21 = 68/21 for 4: 16/84; at 3: 92/21 for 4: 8/84; at 1: 44/21: 4/84 */
	CHECK(near(f.worst, 16.0 / 84));
}

#define F(t)                        \
	{                           \
		(t), (t)-1, (t) + 1 \
	}

static void test_crossings(void)
{
	double bytes[4] = { 1, 10, 100, 1000 };
	struct figure curves[2 * 4] = { F(10), F(20), F(80), F(600), F(40), F(40), F(40),
		F(60) };
	struct crossing x[4];

	/* between 10 and 100: logs of 2 and of 1/2, so half way */
	CHECK_I64(2, (int64_t)fit_crossings(curves, 2, bytes, 4, x));
	CHECK(x[0].winner == 0 && x[0].loser == -1 && x[0].bytes == 1);
	CHECK(x[1].winner == 1 && x[1].loser == 0);
	CHECK(near(x[1].bytes, 10 * sqrt(10)));
	CHECK(x[1].low == 10 && x[1].high == 100);
	/* as long as the intervals overlap nothing is overtaken */
	curves[2].low = 30;
	CHECK_I64(2, (int64_t)fit_crossings(curves, 2, bytes, 4, x));
	CHECK(x[1].low == 10 && x[1].high == 1000);
	CHECK(near(x[1].bytes, 10 * sqrt(10)));
	/* what was not measured neither wins nor is overtaken there */
	curves[3] = (struct figure){ 0, 0, 0 };
	CHECK_I64(1, (int64_t)fit_crossings(curves, 2, bytes, 4, x));
	for (int i = 0; i < 8; i++)
		curves[i] = (struct figure){ 0, 0, 0 };
	CHECK_I64(0, (int64_t)fit_crossings(curves, 2, bytes, 4, x));
}

int main(void)
{
	test_line();
	test_weights();
	test_crossings();
	TEST_END();
}
