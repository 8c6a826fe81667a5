/* huff.c - tests that every instruction set encodes to the same bytes, decodes its own output,
 * stays near the entropy, and reads any bytes as a chunk without harm. */
#include "kernels/grad/huff.h"

#include <math.h>
#include <stdlib.h>

#include "kernels/grad/huff_plan.h"
#include "tests/unit/test.h"

static struct huff_work *work;
static unsigned char *coded[2];
static uint64_t seed = 1;

static double uniform(void)
{
	seed = seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (double)(seed >> 11) / 9007199254740992.0;
}

static unsigned below(unsigned n)
{
	return (unsigned)(uniform() * n);
}

/* Both ways on every level, from and to memory of exactly the size. Returns the coded bytes. */
static uint32_t both_ways(const unsigned char *symbols, uint32_t n)
{
	unsigned char *in = malloc(n + 1), *back = malloc(n + 1), *exact;
	uint32_t bytes = 0;

	memcpy(in + 1, symbols, n); /* odd addresses */
	for (int level = 0; level <= (int)cpu_level_best(); level++) {
		const struct huff_kernels *k = huff_kernels((enum cpu_level)level);
		uint32_t got;

		memset(coded[level > 0], 0xee, n + HUFF_SLACK);
		got = k->encode(work, coded[level > 0], in + 1, n);
		if (level == 0)
			bytes = got;
		CHECK(got == bytes && got <= n + 1);
		CHECK(memcmp(coded[0], coded[level > 0], bytes) == 0);
		exact = malloc(bytes + 2);
		exact[bytes + 1] = 0;
		memcpy(exact + 1, coded[0], bytes);
		memset(back, 0xee, n + 1);
		CHECK(k->decode(work, back + 1, n, exact + 1, bytes) == 0);
		CHECK(memcmp(in + 1, back + 1, n) == 0);
		CHECK(k->decode(work, back + 1, n, exact + 1, bytes + 1) == -1 || !n);
		free(exact);
	}
	free(in), free(back);
	return bytes;
}

enum kind { FLAT, BELL, SKEWED, ONE_VALUE, STEPS, RAMP, KINDS };

static void make(unsigned char *out, uint32_t n, enum kind kind, unsigned symbols,
	double q)
{
	for (uint32_t i = 0; i < n; i++) {
		unsigned v = symbols - 1;

		if (kind == FLAT || (kind == SKEWED && uniform() < q))
			v = below(symbols);
		if (kind == BELL) {
			double sum = 0;

			for (int j = 0; j < 12; j++)
				sum += uniform();
			v = (unsigned)(sum / 12 * symbols);
		}
		if (kind == STEPS)
			for (v = 0; v + 1 < symbols && uniform() < q; v++)
				;
		if (kind == RAMP)
			v = i % symbols;
		out[i] = (unsigned char)v;
	}
}

static void check_lengths(void)
{
	static unsigned char in[5001];

	for (uint32_t n = 0; n <= 5000; n++) {
		enum kind kind = (enum kind)(n % KINDS);

		make(in, n, kind, 2 + n * 7 % 255, n % 97 / 97.0);
		both_ways(in, n);
	}
}

static void check_alphabets(void)
{
	static unsigned char in[HUFF_CHUNK_MAX];

	for (unsigned symbols = 1; symbols <= 256; symbols++)
		for (int kind = 0; kind < KINDS; kind++) {
			uint32_t n = 300 + below(12000);

			make(in, n, (enum kind)kind, symbols, uniform());
			both_ways(in, n);
		}
	for (int kind = 0; kind < KINDS; kind++) {
		make(in, HUFF_CHUNK_MAX, (enum kind)kind, 200, 0.03);
		both_ways(in, HUFF_CHUNK);
		both_ways(in, HUFF_CHUNK_MAX);
		both_ways(in, HUFF_CHUNK_MAX - 1);
	}
}

/* Lengths beyond the limit: Fibonacci counts make the deepest tree. */
static void check_limit(void)
{
	static unsigned char in[HUFF_CHUNK_MAX];
	uint32_t n = 0, a = 1, b = 1;

	for (unsigned v = 0; n + a < HUFF_CHUNK_MAX; v++) {
		uint32_t next = a + b;

		for (uint32_t i = 0; i < a; i++)
			in[n++] = (unsigned char)(v * 11);
		a = b;
		b = next;
	}
	both_ways(in, n);
	both_ways(in, n / 7);
}

/* The least cost of a code of `used` leaves under the limit, found by trying every count of
 * leaves per length. */
static uint64_t cheapest(const uint32_t *rising, unsigned used, unsigned left,
	unsigned length, uint32_t cap)
{
	uint64_t best = UINT64_MAX, sum = 0;

	if (!left)
		return cap ? UINT64_MAX : 0;
	if (length > HUFF_LENGTH_MAX)
		return UINT64_MAX;
	for (unsigned take = 0;; take++) {
		uint32_t cost = take << (HUFF_LENGTH_MAX - length);
		uint64_t rest;

		if (cost > cap)
			break;
		rest = cheapest(rising, used, left - take, length + 1, cap - cost);
		if (rest != UINT64_MAX && rest + sum < best)
			best = rest + sum;
		if (take == left)
			break;
		sum += (uint64_t)length * rising[left - take - 1];
	}
	return best;
}

static int by_weight(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* The coin collector's price of the optimal code, for alphabets that are too large to try all. */
static uint64_t cheapest_of_many(const uint32_t *counts)
{
	uint64_t list[512], sum = 0;
	unsigned count = 0, used = 0;

	for (int level = 0; level < HUFF_LENGTH_MAX; level++) {
		unsigned pairs = count / 2;

		for (unsigned i = 0; i < pairs; i++)
			list[i] = list[2 * i] + list[2 * i + 1];
		count = pairs;
		for (unsigned i = 0; i < 256; i++)
			if (counts[i])
				list[count++] = counts[i];
		used = count - pairs;
		qsort(list, count, sizeof *list, by_weight);
	}
	for (unsigned i = 0; i < 2 * used - 2; i++)
		sum += list[i];
	return sum;
}

static void check_many(void)
{
	struct huff_tree t;

	for (unsigned trial = 0; trial < 200; trial++) {
		uint32_t counts[256] = { 0 }, kraft = 0;
		unsigned char length[256] = { 0 };
		unsigned used = trial == 0 ? 256 : 2 + below(255);
		uint64_t cost = 0;

		for (unsigned i = 0; i < used; i++)
			counts[i] = 1 + (uint32_t)exp(uniform() * (trial % 13));
		if (trial % 5 == 4)
			counts[below(used)] = HUFF_CHUNK_MAX / 2;
		CHECK(huff_sort(&t, counts, 256) == used);
		for (unsigned i = 0; i + 1 < used; i++)
			CHECK(t.key[i] < t.key[i + 1]);
		if (trial % 2)
			huff_lengths(&t, used, length);
		else
			huff_limited_lengths(&t, used, length);
		for (unsigned i = 0; i < used; i++) {
			cost += (uint64_t)counts[i] * length[i];
			kraft += 4096u >> length[i];
		}
		CHECK(kraft == 4096 && cost == cheapest_of_many(counts));
	}
}

static void check_optimal(void)
{
	struct huff_tree t;

	for (int trial = 0; trial < 100; trial++) {
		uint32_t counts[256] = { 0 }, rising[24];
		unsigned char length[256] = { 0 };
		unsigned used = 2 + below(14);
		uint64_t cost = 0;
		uint32_t kraft = 0;

		for (unsigned i = 0; i < used; i++)
			counts[i * 9] = 1 +
				(uint32_t)exp(uniform() * (trial % 2 ? 11 : 3));
		CHECK(huff_sort(&t, counts, 256) == used);
		for (unsigned i = 0; i < used; i++)
			rising[i] = t.leaf[i + 1];
		if (trial % 3)
			huff_lengths(&t, used, length);
		else
			huff_limited_lengths(&t, used, length);
		for (unsigned i = 0; i < 256; i++) {
			cost += (uint64_t)counts[i] * length[i];
			kraft += counts[i] ? 4096u >> length[i] : 0;
			CHECK(length[i] <= HUFF_LENGTH_MAX && !length[i] == !counts[i]);
		}
		CHECK(kraft == 4096);
		CHECK(cost == cheapest(rising, used, used, 1, 4096));
	}
}

/* Coded bits against the entropy of what was drawn. */
static void check_sizes(void)
{
	static const struct {
		uint32_t n;
		unsigned symbols;
		double q, over;
	} cases[] = { { HUFF_CHUNK_MAX, 2, 0.0137, 1.03 },
		{ HUFF_CHUNK_MAX, 3, 0.01, 1.03 }, { HUFF_CHUNK, 2, 0.05, 1.03 },
		{ HUFF_CHUNK, 2, 0.2, 1.03 }, { HUFF_CHUNK, 2, 0.76, 1.03 },
		{ HUFF_CHUNK, 3, 0.5, 1.03 }, { HUFF_CHUNK, 16, 0.2, 1.03 },
		{ HUFF_CHUNK, 16, 0.5, 1.03 }, { HUFF_CHUNK, 40, 0.3, 1.03 },
		{ HUFF_CHUNK, 200, 0.1, 1.03 }, { HUFF_CHUNK, 256, 0.45, 1.03 } };
	static unsigned char in[HUFF_CHUNK_MAX];

	for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
		uint32_t counts[256], n = cases[c].n;
		double entropy = 0, bits;

		make(in, n, SKEWED, cases[c].symbols, cases[c].q);
		huff_kernels(CPU_REF)->count(counts, in, n);
		for (unsigned i = 0; i < 256; i++)
			if (counts[i])
				entropy -= counts[i] * log2((double)counts[i] / n);
		bits = 8.0 * both_ways(in, n);
		CHECK(bits <= entropy * cases[c].over);
		if (bits > entropy * cases[c].over)
			fprintf(stderr, "case %zu: %.4f bits, entropy %.4f\n", c,
				bits / n, entropy / n);
	}
	/* levels of a quantiser whose step is large: 0, then 1 and -1, and few more */
	for (int c = 0; c < 5; c++) {
		static const double zero[] = { 0.71, 0.8, 0.87, 0.92, 0.95 };
		uint32_t counts[256];
		double entropy = 0, bits;

		for (uint32_t i = 0; i < HUFF_CHUNK; i++) {
			unsigned v = 0;

			if (uniform() > zero[c])
				for (v = 1; uniform() < 0.12; v++)
					;
			in[i] = (unsigned char)(below(2) ? v : 0 - v);
		}
		huff_kernels(CPU_REF)->count(counts, in, HUFF_CHUNK);
		for (unsigned i = 0; i < 256; i++)
			if (counts[i])
				entropy -= counts[i] *
					log2((double)counts[i] / HUFF_CHUNK);
		bits = 8.0 * both_ways(in, HUFF_CHUNK);
		CHECK(bits <= entropy * 1.03);
		if (bits > entropy * 1.03)
			fprintf(stderr, "zeros %g: %.4f bits, entropy %.4f\n", zero[c],
				bits / HUFF_CHUNK, entropy / HUFF_CHUNK);
	}
	make(in, HUFF_CHUNK, BELL, 256, 0);
	for (uint32_t i = 0; i < HUFF_CHUNK; i++)
		in[i] &=
			0xfe; /* no use for a split of one bit: all bits are in the code */
	both_ways(in, HUFF_CHUNK);
}

/* Shortened, lengthened, every bit turned: an error or other symbols, never more. */
static void check_hostile(void)
{
	static unsigned char in[6000];

	for (int trial = 0; trial < 30; trial++) {
		static const uint32_t sizes[] = { 40, 300, 1000, 2000, 6000 };
		uint32_t n = sizes[trial / KINDS], bytes, taken = 0;
		unsigned char *bad, *out = malloc(n);
		enum cpu_level best = cpu_level_best();

		make(in, n, (enum kind)(trial % KINDS), 2 + below(trial % 2 ? 250 : 14),
			uniform() * uniform());
		bytes = huff_kernels(CPU_REF)->encode(work, coded[0], in, n);
		for (uint32_t layout = 0; layout < bytes;
			layout += layout < 300 ? 1 : 37) {
			int rc[CPU_LEVELS] = { 0 };

			bad = malloc(layout ? layout : 1);
			memcpy(bad, coded[0], layout);
			for (int level = 0; level <= (int)best; level++) {
				rc[level] = huff_kernels((enum cpu_level)level)
						    ->decode(work, out, n, bad, layout);
				CHECK(rc[level] == rc[0]);
			}
			taken += rc[0] == 0;
			free(bad);
		}
		CHECK(taken < 3); /* a stream may end elsewhere by chance */
		bad = malloc(bytes);
		for (uint32_t bit = 0; bit < 8 * bytes; bit += bit < 700 ? 1 : 61) {
			int rc[CPU_LEVELS] = { 0 };

			memcpy(bad, coded[0], bytes);
			bad[bit / 8] ^= (unsigned char)(1 << bit % 8);
			for (int level = 0; level <= (int)best; level++) {
				rc[level] = huff_kernels((enum cpu_level)level)
						    ->decode(work, out, n, bad, bytes);
				CHECK(rc[level] == rc[0]);
			}
		}
		free(bad), free(out);
	}
}

int main(void)
{
	work = aligned_alloc(64, (sizeof *work + 63) & ~(size_t)63);
	for (int i = 0; i < 2; i++)
		coded[i] = malloc(HUFF_CHUNK_MAX + HUFF_SLACK);
	check_lengths();
	check_alphabets();
	check_limit();
	check_optimal();
	check_many();
	check_sizes();
	check_hostile();
	for (int i = 0; i < 2; i++)
		free(coded[i]);
	free(work);
	TEST_END();
}
