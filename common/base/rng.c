/* rng.c - hands out words, numbers and bytes of a Philox sequence. */
#include "common/base/rng.h"

#include "kernels/dev/philox.h"

void rng_philox(uint32_t out[4], const uint32_t counter[4], const uint32_t key[2])
{
	philox_words(out, counter, key);
}

void rng_seed(struct rng *r, uint64_t seed, uint64_t stream)
{
	*r = (struct rng){
		.key = { (uint32_t)seed, (uint32_t)(seed >> 32) },
		.stream = { (uint32_t)stream, (uint32_t)(stream >> 32) },
	};
}

static uint64_t little_endian(const unsigned char *bytes)
{
	uint64_t v = 0;

	for (int i = 7; i >= 0; i--)
		v = v << 8 | bytes[i];
	return v;
}

void rng_seed_bytes(struct rng *r, const unsigned char seed[RNG_SEED_BYTES])
{
	rng_seed(r, little_endian(seed), little_endian(seed + 8));
}

void rng_seek(struct rng *r, uint64_t i)
{
	r->block = i;
	r->left = 0;
}

uint32_t rng_u32(struct rng *r)
{
	if (!r->left) {
		uint32_t counter[4] = { (uint32_t)r->block, (uint32_t)(r->block >> 32),
			r->stream[0], r->stream[1] };

		rng_philox(r->words, counter, r->key);
		r->block++;
		r->left = 4;
	}
	return r->words[4 - r->left--];
}

uint64_t rng_u64(struct rng *r)
{
	uint64_t low = rng_u32(r);

	return low | (uint64_t)rng_u32(r) << 32;
}

uint64_t rng_below(struct rng *r, uint64_t n)
{
	/* 2^64 mod n values at the bottom would make some results likelier than others */
	uint64_t excess = -n % n, v;

	do
		v = rng_u64(r);
	while (v < excess);
	return v % n;
}

double rng_f64(struct rng *r)
{
	return (double)(rng_u64(r) >> 11) * 0x1p-53;
}

void rng_bytes(struct rng *r, void *out, size_t len)
{
	unsigned char *to = out;

	while (len) {
		uint32_t word = rng_u32(r);
		size_t n = len < 4 ? len : 4;

		for (size_t i = 0; i < n; i++)
			to[i] = (unsigned char)(word >> 8 * i);
		to += n;
		len -= n;
	}
}
