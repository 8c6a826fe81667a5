/* check_huff.c - compares every version of huff with its reference: exact or bounded cases,
 * edges, repeatability. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/kcheck.h"

struct arguments {
	const unsigned char *in;
	const uint64_t *at;
	unsigned char *space;
	uint64_t n, bytes;
	uint32_t chunk;
};

/* Output: the counts. */
static int run_count(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->huff->count(d, out, a->in, a->n);
}

/* Output: the offsets of the chunks, then the chunks. */
static int run_encode(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;
	uint64_t head = 8 * (huff_chunks(a->n, a->chunk) + 1);

	if (d->ops->huff->encode(d, a->space, out, a->in, a->n, a->chunk) < 0)
		return -1;
	return d->ops->copy(d, (char *)out + head, a->space, a->bytes);
}

/* Output: the number of bad chunks, then the symbols. */
static int run_decode(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->huff->decode(d, (unsigned char *)out + 4, out, a->in, a->bytes,
		a->at, a->n, a->chunk);
}

/* Output: the number of bad chunks. */
static int run_refuse(struct dev *d, void *out, const void *arguments)
{
	const struct arguments *a = arguments;

	return d->ops->huff->decode(d, a->space, out, a->in, a->bytes, a->at, a->n,
		a->chunk);
}

enum kind { FLAT, BELL, GEOMETRIC, RARE, TWO, LEVELS, LOWS, KINDS };

static void make(unsigned char *out, uint64_t n, enum kind kind, uint64_t seed)
{
	uint64_t *random = malloc(8 * n + 8);

	kcheck_random(random, 8 * n, seed);
	for (uint64_t i = 0; i < n; i++) {
		uint64_t r = random[i];

		out[i] = (unsigned char)r;
		if (kind == BELL)
			out[i] = (unsigned char)(((r & 255) + (r >> 8 & 255) +
							 (r >> 16 & 255) +
							 (r >> 24 & 255)) /
				4);
		if (kind == GEOMETRIC)
			out[i] = (unsigned char)__builtin_ctzll(r | UINT64_C(1) << 40);
		if (kind == RARE)
			out[i] = r >> 58 ? 7 : (unsigned char)(r & 31);
		if (kind == TWO)
			out[i] = r % 10 < 4 ? 200 : 3;
		if (kind == LOWS) /* five bits that no code makes shorter */
			out[i] = (unsigned char)(__builtin_ctzll(r >> 8 | 128) << 5 |
				(r & 31));
		if (kind == LEVELS) /* 0, often 1 and -1, sometimes more */
			out[i] = r >> 61 ?
				0 :
				r & 1 ?
				(unsigned char)__builtin_ctzll(r | UINT64_C(1) << 40) :
				(unsigned char)-__builtin_ctzll(r | UINT64_C(1) << 40);
	}
	free(random);
}

/* Damages the last chunk in a way that every version must detect. */
static void damaged(struct kcheck *k, struct arguments *a, const unsigned char *coded,
	const unsigned char *symbols, uint64_t *at, const char *name)
{
	uint64_t chunks = huff_chunks(a->n, a->chunk);
	uint32_t want[2] = { 1, 0 };
	struct kcase c = { .run = run_refuse,
		.arguments = a,
		.want = want,
		.out_bytes = 4 };
	unsigned char *bad = malloc(a->bytes + 1);

	memcpy(bad, coded, a->bytes);
	bad[at[chunks - 1]] = 99; /* an unknown mode */
	a->in = kcheck_put(k, bad, a->bytes, 0);
	a->at = kcheck_put(k, at, 8 * (chunks + 1), 0);
	a->space = kcheck_put(k, symbols, a->n, 0);
	snprintf(c.label, sizeof c.label, "refuse a mode, %s", name);
	kcheck_case(k, &c);
	at[chunks] = at[chunks - 1] > 1 ? at[chunks - 1] - 1 : a->bytes + 1;
	a->in = kcheck_put(k, coded, a->bytes, 0);
	a->at = kcheck_put(k, at, 8 * (chunks + 1), 0);
	a->space = kcheck_put(k, symbols, a->n, 0);
	snprintf(c.label, sizeof c.label, "refuse a place, %s", name);
	kcheck_case(k, &c);
	free(bad);
}

static void both_ways(struct kcheck *k, uint64_t n, uint32_t chunk, enum kind kind)
{
	static const char *const names[KINDS] = { "flat", "bell", "geometric", "rare",
		"two", "levels", "lows" };
	uint64_t chunks = huff_chunks(n, chunk), head = 8 * (chunks + 1);
	const struct huff_kernels *ref = huff_kernels(CPU_REF);
	struct huff_work *work = aligned_alloc(64, (sizeof *work + 63) & ~(size_t)63);
	unsigned char *in = malloc(n + 1), *all = malloc(head + huff_bound(n, chunk) + 1);
	unsigned char *symbols = malloc(n + 4);
	uint64_t *at = (uint64_t *)all;
	struct arguments a = { .n = n, .chunk = chunk };
	uint32_t counts[256];
	struct kcase c = { .arguments = &a, .work = (double)n, .unit = "B" };
	char name[64];

	snprintf(name, sizeof name, "%s %llu by %u", names[kind], (unsigned long long)n,
		(unsigned)chunk);
	make(in, n, kind, n + kind);
	ref->count(counts, in, n);
	at[0] = 0;
	for (uint64_t i = 0; i < chunks; i++)
		at[i + 1] = at[i] +
			ref->encode(work, all + head + at[i], in + i * chunk,
				n - i * chunk < chunk ? (uint32_t)(n - i * chunk) :
							chunk);
	a.bytes = at[chunks];

	a.in = kcheck_put(k, in, n, 1);
	c.run = run_count;
	c.want = k->bench ? NULL : counts;
	c.out_bytes = sizeof counts;
	snprintf(c.label, sizeof c.label, "count %s", name);
	kcheck_case(k, &c);

	a.in = kcheck_put(k, in, n, 1);
	a.space = kcheck_put(k, all, huff_bound(n, chunk), 0);
	c.run = run_encode;
	c.want = k->bench ? NULL : all;
	c.out_bytes = head + a.bytes;
	snprintf(c.label, sizeof c.label, "encode %s", name);
	kcheck_case(k, &c);

	memset(symbols, 0, 4);
	memcpy(symbols + 4, in, n);
	a.in = kcheck_put(k, all + head, a.bytes, 3);
	a.at = kcheck_put(k, at, head, 0);
	c.run = run_decode;
	c.want = k->bench ? NULL : symbols;
	c.out_bytes = n + 4;
	snprintf(c.label, sizeof c.label, "decode %s", name);
	kcheck_case(k, &c);
	if (n && !k->bench)
		damaged(k, &a, all + head, symbols, at, name);
	free(in), free(all), free(symbols), free(work);
}

/* Damages a coded chunk, half of the time in what is before its codes; or it is cut, or something
 * follows. Returns its bytes, at most one more than before. */
static uint32_t damage(unsigned char *coded, uint32_t bytes, const uint64_t *random)
{
	uint64_t what = random[0] >> 8;

	for (unsigned i = 0; i < 1 + what % 3; i++) {
		uint64_t r = random[1 + i];
		uint32_t most = r & 1 && bytes > 24 ? 24 : bytes;

		coded[(r >> 1) % most] ^= (unsigned char)(r & 2 ? 1u << (r >> 40) % 8 :
								  r >> 48);
	}
	if (what / 3 % 8 == 0)
		return bytes - (uint32_t)(random[1] >> 8) % bytes;
	coded[bytes] = (unsigned char)random[0];
	return bytes + (what / 3 % 8 == 1);
}

/* Chunks that a stranger damaged: every version refuses as many as the reference, and writes
 * nothing beyond the symbols. */
static void damaged_anywhere(struct kcheck *k, uint32_t chunk, enum kind kind)
{
	enum { CHUNKS = 32 };
	const struct huff_kernels *ref = huff_kernels(CPU_REF);
	struct huff_work *work = aligned_alloc(64, (sizeof *work + 63) & ~(size_t)63);
	uint64_t n = (uint64_t)CHUNKS * chunk, random[CHUNKS][4], at[CHUNKS + 1] = { 0 };
	unsigned char *in = malloc(n), *coded = malloc(n + CHUNKS * (HUFF_SLACK + 1));
	struct arguments a = { .n = n, .chunk = chunk };
	uint32_t bad = 0;
	struct kcase c = { .run = run_refuse,
		.arguments = &a,
		.want = &bad,
		.out_bytes = 4 };

	make(in, n, kind, n + kind + 100);
	kcheck_random(random, sizeof random, n + kind);
	for (unsigned i = 0; i < CHUNKS; i++) {
		unsigned char *to = coded + at[i];
		uint32_t bytes = ref->encode(work, to, in + i * (uint64_t)chunk, chunk);

		bytes = damage(to, bytes, random[i]);
		at[i + 1] = at[i] + bytes;
	}
	a.bytes = at[CHUNKS];
	for (unsigned i = 0; i < CHUNKS; i++)
		bad += ref->decode(work, in, chunk, coded + at[i], at[i + 1] - at[i]) < 0;
	a.in = kcheck_put(k, coded, a.bytes, 0);
	a.at = kcheck_put(k, at, sizeof at, 0);
	a.space = kcheck_put(k, in, n, 0);
	snprintf(c.label, sizeof c.label, "damaged, kind %d, by %u, %u of %d bad",
		(int)kind, chunk, bad, CHUNKS);
	kcheck_case(k, &c);
	free(work), free(in), free(coded);
}

void check_huff(struct kcheck *k)
{
	static const struct {
		uint64_t n;
		uint32_t chunk;
	} cases[] = { { 0, HUFF_CHUNK }, { 1, HUFF_CHUNK }, { 63, 64 }, { 65, 64 },
		{ 1000, 333 }, { 4999, HUFF_CHUNK }, { 20001, 7000 },
		{ HUFF_CHUNK + 1, HUFF_CHUNK } };

	if (k->bench) {
		for (int kind = 0; kind < KINDS; kind++)
			both_ways(k, UINT64_C(64) << 20, HUFF_CHUNK, (enum kind)kind);
		return;
	}
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int kind = 0; kind < KINDS; kind++)
			both_ways(k, cases[i].n, cases[i].chunk, (enum kind)kind);
	for (int kind = 0; kind < KINDS; kind++) {
		damaged_anywhere(k, 300, (enum kind)kind);
		damaged_anywhere(k, 4500, (enum kind)kind);
	}
}
