/* sketch.c - copies, multiples and copies under noise are found, other deltas are not; the pieces
 * in which elements come, and the width of a matrix, make no difference. */
#include "common/lm/rounds/sketch.h"

#include <stdlib.h>

#include "common/base/mem.h"
#include "tests/unit/test.h"

#define N 200003

static void sketch_of(float out[SKETCH_N], const float *x, uint64_t n, uint64_t step)
{
	struct sketch s;

	sketch_begin(&s, 77);
	for (uint64_t at = 0; at < n; at += step)
		sketch_add(&s, x + at, n - at < step ? n - at : step);
	sketch_end(&s, out);
}

/* by * what sequence 0 has + noise * what `other` has */
static void fill(float *x, double by, double noise, uint64_t other)
{
	struct rng a, b;

	rng_seed(&a, 5, 0);
	rng_seed(&b, 5, other);
	for (uint64_t i = 0; i < N; i++)
		x[i] = (float)(by * (rng_f64(&a) - 0.5) + noise * (rng_f64(&b) - 0.5));
}

int main(void)
{
	float *x = xmalloc(N * sizeof *x), a[SKETCH_N], b[SKETCH_N];

	fill(x, 1, 0, 1);
	sketch_of(a, x, N, N);
	sketch_of(b, x, N, 1000);
	CHECK(memcmp(a, b, sizeof a) == 0);
	sketch_of(b, x, N, 7);
	CHECK(memcmp(a, b, sizeof a) == 0);
	fill(x, 1e-3, 0, 1);
	sketch_of(b, x, N, N);
	CHECK(sketch_cosine_ppm(a, b) > 999990);
	fill(x, -3, 0, 1);
	sketch_of(b, x, N, N);
	CHECK(sketch_cosine_ppm(a, b) < -999990);
	/* a tenth of noise has a cosine of 0.995 */
	fill(x, 1, 0.1, 1);
	sketch_of(b, x, N, N);
	CHECK(sketch_cosine_ppm(a, b) > 990000);
	/* half in common, as honest deltas of a first round */
	fill(x, 1, 1, 1);
	sketch_of(b, x, N, N);
	CHECK(sketch_cosine_ppm(a, b) > 500000 && sketch_cosine_ppm(a, b) < 880000);
	for (uint64_t i = 1; i < 50; i++) {
		fill(x, 0, 1, i);
		sketch_of(b, x, N, N);
		CHECK(llabs(sketch_cosine_ppm(a, b)) < 300000);
	}
	/* two columns of a matrix as wide as a sketch: unlike, though they meet in one sum */
	for (uint64_t i = 0; i < N; i++)
		x[i] = i % SKETCH_N == 3;
	sketch_of(a, x, N, N);
	for (uint64_t i = 0; i < N; i++)
		x[i] = i % SKETCH_N == 3 ? (i / SKETCH_N % 2 ? 1 : -1) : 0;
	sketch_of(b, x, N, N);
	CHECK(llabs(sketch_cosine_ppm(a, b)) < 300000);
	for (uint64_t i = 0; i < N; i++)
		x[i] = 0;
	sketch_of(b, x, N, N);
	CHECK(sketch_cosine_ppm(a, b) == 0 && sketch_cosine_ppm(b, b) == 0);
	free(x);
	TEST_END();
}
