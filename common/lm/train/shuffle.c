/* shuffle.c - the permutation of an epoch's windows. */
#include "common/lm/train/shuffle.h"

#include "common/base/err.h"
#include "common/base/rng.h"

#define ROUNDS 4

int shuffle_init(struct shuffle *o, uint64_t count, uint32_t length, uint64_t seed)
{
	if (!length || count < (uint64_t)length + 1)
		return err_set(EX_DATAERR,
			"a text of %llu tokens is shorter than one sequence of %u and what follows it",
			(unsigned long long)count, length);
	o->windows = (count - 1) / length;
	o->spare = (count - 1) % length;
	o->seed = seed;
	o->length = length;
	return 0;
}

/* The round function of the Feistel network: `bits` random bits of this half, round and epoch. */
static uint64_t mixed(const struct shuffle *o, uint64_t epoch, uint32_t round,
	uint64_t half, int bits)
{
	uint32_t key[2] = { (uint32_t)o->seed, (uint32_t)(o->seed >> 32) };
	uint32_t counter[4] = { (uint32_t)half, (uint32_t)(half >> 32), (uint32_t)epoch,
		(uint32_t)(epoch >> 32) ^ round << 24 };
	uint32_t out[4];

	rng_philox(out, counter, key);
	return (out[0] | (uint64_t)out[1] << 32) & (((uint64_t)1 << bits) - 1);
}

static uint64_t shuffled(const struct shuffle *o, uint64_t epoch, uint64_t i)
{
	int bits = 1;
	uint64_t mask;

	while (bits < 32 && o->windows > (uint64_t)1 << 2 * bits)
		bits++;
	mask = ((uint64_t)1 << bits) - 1;
	do {
		uint64_t left = i >> bits, right = i & mask;

		for (uint32_t round = 0; round < ROUNDS; round++) {
			uint64_t next = left ^ mixed(o, epoch, round, right, bits);

			left = right;
			right = next;
		}
		i = left << bits | right;
	} while (i >= o->windows);
	return i;
}

uint64_t shuffle_at(const struct shuffle *o, uint64_t n)
{
	uint64_t epoch = n / o->windows;
	uint64_t shift = mixed(o, epoch, ROUNDS, 0, 32) % (o->spare + 1);

	return shuffled(o, epoch, n % o->windows) * o->length + shift;
}
