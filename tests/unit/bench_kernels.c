/* bench_kernels: every fast version of what rnp-bench measures against its reference, exactly or within the header's bound. The
 * program runs itself again with RNP_ISA set, so that all versions are tried. */
#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/cpu.h"
#include "kernels/hashchain.h"
#include "kernels/matmul.h"
#include "kernels/stream.h"
#include "tests/unit/test.h"

static uint64_t state = 88172645463325252ull;

static uint32_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32);
}

static const struct {
	int m, n, k;
} shapes[] = { { 1, 1, 1 }, { 12, 32, 4 }, { 6, 16, 256 }, { 13, 33, 5 }, { 5, 1, 300 },
	{ 1, 70, 1027 }, { 49, 65, 513 }, { 100, 130, 1030 }, { 3, 4100, 3 },
	{ 7, 9, 0 } };

#define SHAPES (sizeof shapes / sizeof *shapes)
#define GUARD  0x7e

static void *room(size_t count, size_t size)
{
	unsigned char *p = malloc(count * size + 64);

	memset(p, GUARD, count * size + 64);
	return p;
}

static int guarded(const void *p, size_t bytes)
{
	for (int i = 0; i < 64; i++)
		if (((const unsigned char *)p)[bytes + (size_t)i] != GUARD)
			return 0;
	return 1;
}

static bf16 to_bf16(float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof bits);
	return (bf16)(bits >> 16);
}

/* whole: small whole numbers, whose sums are exact; else values of many sizes */
static float value(int whole)
{
	float v = (float)((int)(next() % 17) - 8);

	return whole ? v :
		       ldexpf(v + (float)(next() % 128) / 128, (int)(next() % 12) - 6);
}

static int within(const double *exact, const double *size, const float *c, size_t count,
	int k)
{
	for (size_t i = 0; i < count; i++)
		if (!(fabs((double)c[i] - exact[i]) <=
			    (k + 2) * ldexp(size[i], -23) + k * ldexp(1, -126)))
			return 0;
	return 1;
}

static void check_floats(int m, int n, int k, int whole)
{
	size_t na = (size_t)m * (size_t)k, nb = (size_t)k * (size_t)n,
	       nc = (size_t)m * (size_t)n;
	float *a = room(na, 4), *b = room(nb, 4), *c = room(nc, 4), *r = room(nc, 4);
	bf16 *ha = room(na, 2), *hb = room(nb, 2);
	double *exact = calloc(nc, sizeof *exact), *size = calloc(nc, sizeof *size);
	const struct matmul *fast = matmul_fast();

	for (size_t i = 0; i < na; i++)
		a[i] = matmul_bf16_to_f32(ha[i] = to_bf16(value(whole)));
	for (size_t i = 0; i < nb; i++)
		b[i] = matmul_bf16_to_f32(hb[i] = to_bf16(value(whole)));
	for (int i = 0; i < m; i++)
		for (int p = 0; p < k; p++)
			for (int j = 0; j < n; j++) {
				double v = (double)a[i * k + p] * (double)b[p * n + j];

				exact[i * n + j] += v;
				size[i * n + j] += fabs(v);
			}
	matmul_reference.f32(m, n, k, a, b, r);
	CHECK(within(exact, size, r, nc, k));
	fast->f32(m, n, k, a, b, c);
	CHECK(within(exact, size, c, nc, k) && guarded(c, nc * 4));
	CHECK(!whole || memcmp(c, r, nc * 4) == 0);
	matmul_reference.bf16(m, n, k, ha, hb, r);
	CHECK(within(exact, size, r, nc, k));
	fast->bf16(m, n, k, ha, hb, c);
	CHECK(within(exact, size, c, nc, k) && guarded(c, nc * 4));
	CHECK(!whole || memcmp(c, r, nc * 4) == 0);
	/* the check itself can fail */
	if (k) {
		c[nc - 1] += (float)(size[nc - 1] + 1);
		CHECK(!within(exact, size, c, nc, k));
	}
	free(a), free(b), free(c), free(r), free(ha), free(hb), free(exact), free(size);
}

static void check_bytes(int m, int n, int k)
{
	size_t na = (size_t)m * (size_t)k, nb = (size_t)k * (size_t)n,
	       nc = (size_t)m * (size_t)n;
	int8_t *a = room(na, 1), *b = room(nb, 1);
	int32_t *c = room(nc, 4), *r = room(nc, 4);

	/* the extremes often: they are what saturates where it must not */
	for (size_t i = 0; i < na; i++)
		a[i] = next() % 3 ? (int8_t)next() : next() % 2 ? -128 : 127;
	for (size_t i = 0; i < nb; i++)
		b[i] = next() % 3 ? (int8_t)next() : next() % 2 ? -128 : 127;
	matmul_reference.i8(m, n, k, a, b, r);
	matmul_fast()->i8(m, n, k, a, b, c);
	CHECK(memcmp(c, r, nc * 4) == 0 && guarded(c, nc * 4));
	free(a), free(b), free(c), free(r);
}

static void check_streams(void)
{
	enum { N = 5000 };
	double *a = aligned_alloc(64, N * 8 + 64), *b = aligned_alloc(64, N * 8 + 64),
	       *c = aligned_alloc(64, N * 8 + 64);

	for (size_t n = N - 600; n <= N; n += 75) {
		int good = 1;

		for (size_t i = 0; i < N; i++) {
			a[i] = -1;
			b[i] = (double)next() / 7;
			c[i] = (double)next() / 11;
		}
		stream_fast()->copy(a, b, n);
		for (size_t i = 0; i < N; i++)
			good &= a[i] == (i < n ? b[i] : -1);
		stream_fast()->triad(a, b, c, 0.3, n);
		for (size_t i = 0; i < N; i++)
			good &= a[i] == (i < n ? b[i] + 0.3 * c[i] : -1);
		CHECK(good);
	}
	free(a), free(b), free(c);
}

static void check_hashes(void)
{
	/* SHA-256 of 32 zero bytes, and of that: by coreutils' sha256sum */
	static const unsigned char once[] = { 0x66, 0x68, 0x7a, 0xad, 0xf8, 0x62, 0xbd,
		0x77 };
	static const unsigned char twice[] = { 0x2b, 0x32, 0xdb, 0x6c, 0x2c, 0x0a, 0x62,
		0x35 };
	unsigned char a[32] = { 0 }, b[32] = { 0 };

	hashchain_reference.run(a, 1);
	CHECK(memcmp(a, once, sizeof once) == 0);
	hashchain_reference.run(a, 1);
	CHECK(memcmp(a, twice, sizeof twice) == 0);
	hashchain_fast()->run(b, 2);
	CHECK(memcmp(a, b, 32) == 0);
	for (int i = 0; i < 32; i++)
		a[i] = b[i] = (unsigned char)next();
	hashchain_reference.run(a, 1000);
	hashchain_fast()->run(b, 1000);
	CHECK(memcmp(a, b, 32) == 0);
}

static void check_all(void)
{
	for (size_t i = 0; i < SHAPES; i++) {
		check_floats(shapes[i].m, shapes[i].n, shapes[i].k, 1);
		check_floats(shapes[i].m, shapes[i].n, shapes[i].k, 0);
		check_bytes(shapes[i].m, shapes[i].n, shapes[i].k);
	}
	check_streams();
	check_hashes();
}

int main(int argc, char **argv)
{
	static const char *const levels[] = { "ref", "avx2", "avx512" };
	enum cpu_level level;

	(void)argc;
	if (!getenv("RNP_ISA")) {
		for (size_t i = 0; i < 3; i++) {
			int status = -1;
			pid_t pid = fork();

			if (pid == 0) {
				setenv("RNP_ISA", levels[i], 1);
				execv("/proc/self/exe", argv);
				_exit(71);
			}
			waitpid(pid, &status, 0);
			CHECK_I64(0, status);
		}
		TEST_END();
	}
	/* "has not" is said where a CPU lacks the level; the best then runs */
	CHECK((cpu_level_chosen(&level) == 0) || level == cpu_level_best());
	fprintf(stderr, "%s: %s, %s, %s, %s, %s: ", getenv("RNP_ISA"),
		matmul_fast()->f32_name, matmul_fast()->bf16_name, matmul_fast()->i8_name,
		stream_fast()->name, hashchain_fast()->name);
	check_all();
	TEST_END();
}
