/* bench_kernels.c - the hash chain against its reference, and the loops that
 * products are held against. The program runs itself again with RNP_ISA set, so that all
 * versions are tried. */
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "kernels/dev/cpu.h"
#include "kernels/crypto/sha256_chain.h"
#include "kernels/bulk/peak.h"
#include "tests/unit/test.h"

static uint64_t state = 88172645463325252ull;

static uint32_t next(void)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (uint32_t)(state >> 32);
}

static void check_hashes(void)
{
	/* SHA-256 of 32 zero bytes, and of that: by coreutils' sha256sum */
	static const unsigned char once[] = { 0x66, 0x68, 0x7a, 0xad, 0xf8, 0x62, 0xbd,
		0x77 };
	static const unsigned char twice[] = { 0x2b, 0x32, 0xdb, 0x6c, 0x2c, 0x0a, 0x62,
		0x35 };
	unsigned char a[32] = { 0 }, b[32] = { 0 };

	sha256_chain_ref(a, 1, 1);
	CHECK(memcmp(a, once, sizeof once) == 0);
	sha256_chain_ref(a, 1, 1);
	CHECK(memcmp(a, twice, sizeof twice) == 0);
	sha256_chain_fast()(b, 1, 2);
	CHECK(memcmp(a, b, 32) == 0);
	for (int i = 0; i < 32; i++)
		a[i] = b[i] = (unsigned char)next();
	sha256_chain_ref(a, 1, 1000);
	sha256_chain_fast()(b, 1, 1000);
	CHECK(memcmp(a, b, 32) == 0);
}

/* The loops do as many operations as they say, and the rate per second of processor time is one
 * that a core can have. */
static void check_peaks(enum cpu_level level)
{
	static const enum product_type types[] = { PRODUCT_F32, PRODUCT_BF16,
		PRODUCT_I8 };

	for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
		const struct peak *p = peak_of(types[i], level);
		const uint64_t steps = 500000;
		struct timespec from, to;
		double rate, counted;

		CHECK(!p || level > CPU_REF);
		if (!p)
			continue;
		CHECK(p->run(0) == 0);
		CHECK(2 * p->run(1) == (double)p->operations);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &from);
		counted = p->run(steps);
		clock_gettime(CLOCK_THREAD_CPUTIME_ID, &to);
		rate = (double)(p->operations * steps) /
			((double)(to.tv_sec - from.tv_sec) +
				(double)(to.tv_nsec - from.tv_nsec) * 1e-9);
		CHECK(2 * counted == (double)(p->operations * steps));
		CHECK(rate > 2e9 && rate < 2e13);
		fprintf(stderr, "%s: %.0f G/s\n", p->instruction, rate / 1e9);
	}
	CHECK(peak_of(PRODUCT_F16, level) == NULL);
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
	fprintf(stderr, "%s: %s: ", getenv("RNP_ISA"), sha256_chain_name());
	check_hashes();
	check_peaks(level);
	TEST_END();
}
