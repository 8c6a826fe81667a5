/* kernels.c - Philox and SHA-256 are those of their papers, in every version that this
 * CPU runs. */
#include "kernels/dev/philox.h"
#include "kernels/crypto/sha256_rows.h"

#include <sodium.h>
#include <stdlib.h>

#include "common/base/rng.h"
#include "kernels/dev/cpu.h"
#include "tests/unit/test.h"

static void check_philox(const char *name, philox_fill_fn fill)
{
	static unsigned char want[3000], got[3002];
	struct philox p = { .seed = 0x123456789abcdef0, .stream = 77 };
	static const uint64_t blocks[] = { 0, 5, 0xfffffff8, 0xffffffffffffffff };
	struct rng r;

	for (size_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
		for (uint64_t n = 0; n < sizeof want; n += n < 300 ? 1 : 371) {
			rng_seed(&r, p.seed, p.stream);
			rng_seek(&r, blocks[b]);
			rng_bytes(&r, want, n);
			memset(got, 0xee, sizeof got);
			p.block = blocks[b];
			fill(got + 1, n, &p);
			CHECK(memcmp(got + 1, want, n) == 0);
			CHECK(got[0] == 0xee && got[n + 1] == 0xee);
			if (test_failures) {
				fprintf(stderr, "philox %s, %d bytes\n", name, (int)n);
				return;
			}
		}
}

static void digest(unsigned char out[32], const struct sha256_rows *in, uint64_t i)
{
	unsigned char index[8];
	crypto_hash_sha256_state s;

	for (int k = 0; k < 8; k++)
		index[k] = (unsigned char)((in->first + i) >> 8 * k);
	crypto_hash_sha256_init(&s);
	crypto_hash_sha256_update(&s, in->prefix, in->prefix_bytes);
	crypto_hash_sha256_update(&s, index, in->index_bytes);
	crypto_hash_sha256_update(&s,
		(const unsigned char *)in->rows + i * in->stride_bytes, in->row_bytes);
	crypto_hash_sha256_final(&s, out);
}

/* against libsodium: every length around the block, counts around the lanes */
static void check_sha256(const char *name, sha256_rows_fn rows)
{
	static unsigned char data[40 * 300], got[40 * 32 + 2], want[32];
	struct rng r;

	rng_seed(&r, 1, 1);
	rng_bytes(&r, data, sizeof data);
	for (uint64_t n = 0; n < 260 && !test_failures; n++) {
		struct sha256_rows in = { .rows = data + n % 7,
			.row_bytes = n,
			.stride_bytes = n + n % 3,
			.count = n % 40,
			.first = 0xfffffffa,
			.index_bytes = n % 3 * 4,
			.prefix_bytes = n % 33 };

		memcpy(in.prefix, data + 17, in.prefix_bytes);
		memset(got, 0xee, sizeof got);
		rows(got + 1, &in);
		for (uint64_t i = 0; i < in.count; i++) {
			digest(want, &in, i);
			CHECK(memcmp(got + 1 + 32 * i, want, 32) == 0);
		}
		CHECK(got[0] == 0xee && got[1 + 32 * in.count] == 0xee);
		if (test_failures)
			fprintf(stderr, "sha256 %s, rows of %d bytes\n", name, (int)n);
	}
}

int main(void)
{
	check_philox("ref", philox_fill_ref);
	check_sha256("ref", sha256_rows_ref);
#ifdef __x86_64__
	if (cpu_level_best() >= CPU_AVX2) {
		check_philox("avx2", philox_fill_avx2);
		check_sha256("avx2", sha256_rows_avx2);
	}
	if (cpu_features(CPU_AVX2).sha)
		check_sha256("shani", sha256_rows_shani);
	if (cpu_level_best() >= CPU_AVX512) {
		check_philox("avx512", philox_fill_avx512);
		check_sha256("avx512", sha256_rows_avx512);
	}
#endif
	TEST_END();
}
