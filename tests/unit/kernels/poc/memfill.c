/* memfill.c - memfill, sha256_chain: every version gives the bytes of the reference. */
#include "kernels/poc/memfill.h"

#include <sodium.h>
#include <stdlib.h>

#include "common/base/mem.h"
#include "kernels/dev/cpu.h"
#include "kernels/crypto/sha256_chain.h"
#include "tests/unit/test.h"

static void fill(memfill_fn fn, uint32_t *blocks, uint64_t lanes, uint64_t per_slice,
	uint64_t steps)
{
	struct memfill m = { blocks, lanes, per_slice, 0, { 77, 99, 0 } };

	for (; m.step < steps; m.step++) {
		m.key.seed += m.step;
		fn(&m, 0, lanes / 2);
		fn(&m, lanes / 2, lanes);
	}
}

static void check_fill(memfill_fn fn)
{
	static const uint64_t shapes[][2] = { { 1, 1 }, { 5, 3 }, { 8, 4 }, { 7, 1 } };

	for (size_t k = 0; k < sizeof shapes / sizeof *shapes; k++) {
		uint64_t lanes = shapes[k][0], per = shapes[k][1];
		size_t bytes = lanes * per * MEMFILL_SLICES * MEMFILL_BYTES;
		uint32_t *want = xmalloc(bytes), *got = xmalloc(bytes + 64);

		memset(got, 0x5a, bytes + 64);
		fill(memfill_ref, want, lanes, per, 9);
		fill(fn, got, lanes, per, 9);
		CHECK(memcmp(want, got, bytes) == 0);
		for (int i = 0; i < 64; i++)
			CHECK_I64(0x5a, ((unsigned char *)got)[bytes + (size_t)i]);
		free(want);
		free(got);
	}
}

/* One changed bit of any parent or of the salt changes about half of the bits everywhere. */
static void check_spread(void)
{
	static uint32_t prev[MEMFILL_WORDS] = { 1 }, refs[MEMFILL_REFS][MEMFILL_WORDS];
	const uint32_t *ref[MEMFILL_REFS] = { refs[0], refs[1], refs[2], refs[3], refs[4],
		refs[5], refs[6], refs[7] };
	uint32_t salt[4] = { 3 }, a[MEMFILL_WORDS], b[MEMFILL_WORDS];

	memfill_block(a, prev, ref, salt);
	for (int what = 0; what < 2 + MEMFILL_REFS; what++) {
		uint32_t *bit = what == 0 ? &prev[255] :
			what == 1         ? &salt[2] :
					    &refs[what - 2][100];
		int changed = 0, words = 0;

		*bit ^= 1u << 31;
		memfill_block(b, prev, ref, salt);
		*bit ^= 1u << 31;
		for (int i = 0; i < MEMFILL_WORDS; i++) {
			changed += __builtin_popcount(a[i] ^ b[i]);
			words += a[i] != b[i];
		}
		CHECK(words > 250 && changed > 3700 && changed < 4500);
	}
}

static void check_lanes(sha256_chain_fn fn)
{
	unsigned char want[37][32], got[37][32];

	for (uint64_t n = 0; n <= 37; n++) {
		for (uint64_t i = 0; i < 37; i++)
			memset(got[i], (int)(i + n), 32);
		memcpy(want, got, sizeof got);
		for (uint64_t i = 0; i < n; i++)
			for (uint64_t k = 0; k < 3; k++)
				crypto_hash_sha256(want[i], want[i], 32);
		fn(got[0], n, 3);
		CHECK(memcmp(want, got, sizeof got) == 0);
	}
}

int main(void)
{
	enum cpu_level best = cpu_level_best();

	check_fill(memfill_fast());
	check_spread();
	check_lanes(sha256_chain_ref);
	check_lanes(sha256_chain_fast());
#ifdef __x86_64__
	if (best >= CPU_AVX2)
		check_fill(memfill_avx2);
	if (cpu_features(best).sha)
		check_lanes(sha256_chain_shani);
	if (best >= CPU_AVX512)
		check_lanes(sha256_chain_avx512);
#endif
	TEST_END();
}
