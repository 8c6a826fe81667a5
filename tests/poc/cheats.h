/* cheats.h - dishonest provers who have read the source: every known cheat, computed as the
 * cheat would compute it. For tests/unit/poc/poc.c (few, small) and tests/bench/poc.c (many).
 *
 * long because all cheats share one bed, and unit test and benchmark share all cheats.
 *
 * A cheat is either refused always, or passes with a probability that the header poc.h promises. */
#ifndef RNP_TESTS_POC_CHEATS_H
#define RNP_TESTS_POC_CHEATS_H

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/prove/prove.h"
#include "common/base/clock.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/base/mem.h"
#include "common/record/signature.h"
#include "common/base/rng.h"
#include "tests/poc/grinder.h"

#define ISSUED_MS   INT64_C(1800000000000)
#define DEADLINE_MS 60000
#define TOOK_MS     10

enum { MATMUL = 1, MEMORY = 2, CHAIN = 4, ALL = 7 };

/* An honest answer that several cheats of one number start from. */
struct shared {
	bool there;
	uint64_t number;
	struct poc_challenge c;
	json_t *answer;
};

struct bed {
	struct key node, stranger, verifier;
	struct poc_device size;
	uint64_t number; /* of the attempt */
	struct rng rng;
	struct shared honest[ALL + 1], other[ALL + 1], skipped; /* by what is asked */
};

struct cheat {
	const char *name;
	bool (*run)(struct bed *b);            /* whether it passed */
	double (*passes)(const struct bed *b); /* how likely that is; NULL: never */
};

static void bed_init(struct bed *b, const struct poc_device *size)
{
	memset(b, 0, sizeof *b);
	key_generate(&b->node);
	key_generate(&b->stranger);
	key_generate(&b->verifier);
	b->size = *size;
}

/* The state that copies of a bed share. */
static void bed_forget(struct bed *b)
{
	for (int i = 0; i <= ALL; i++) {
		json_decref(b->honest[i].answer);
		json_decref(b->other[i].answer);
	}
	json_decref(b->skipped.answer);
}

static void bed_release(struct bed *b)
{
	bed_forget(b);
	key_release(&b->node);
	key_release(&b->stranger);
	key_release(&b->verifier);
}

/* A challenge to `key` that nobody saw before; devices: how many, the first is the CPU. */
static void ask(struct bed *b, struct poc_challenge *c, int tests, const struct key *key,
	int ndevices)
{
	*c = (struct poc_challenge){ .issued_ms = ISSUED_MS,
		.deadline_ms = DEADLINE_MS,
		.ndevices = ndevices };
	rng_bytes(&b->rng, c->nonce, sizeof c->nonce);
	memcpy(c->node_key, key->public_key, sizeof c->node_key);
	memcpy(c->node, key->address, sizeof c->node);
	memcpy(c->signer, b->verifier.address, sizeof c->signer);
	for (int i = 0; i < ndevices; i++) {
		struct poc_device *d = &c->devices[i];

		*d = b->size;
		if (!(tests & MATMUL))
			d->n = d->rounds = 0;
		if (!(tests & MEMORY))
			d->lanes = d->per_slice = d->passes = 0;
		if (!(tests & CHAIN))
			d->segments = d->steps = 0;
		if (i)
			snprintf(d->uuid, sizeof d->uuid, "GPU-%d", i);
		else
			poc_cpu_uuid(d->uuid, c->node_key);
	}
	json_decref(poc_challenge_write(c));
}

static void sign(json_t *answer, const struct key *k)
{
	json_object_del(answer, "proof");
	if (signature_add(answer, k, ISSUED_MS) < 0)
		abort();
}

static json_t *answer_of(struct bed *b, const struct poc_challenge *c,
	const struct prove_hooks *hooks)
{
	json_t *answer = prove(c, INT64_C(1) << 30, hooks);

	if (!answer)
		abort();
	json_set_time(answer, "at", ISSUED_MS);
	sign(answer, &b->node);
	return answer;
}

/* Verify and release. */
static bool passes_at(const struct poc_challenge *c, json_t *answer, int64_t took_ms)
{
	struct poc_conditions j = { .received_ms = ISSUED_MS + took_ms,
		.no_bandwidth = "a test" };
	bool passed;

	json_decref(poc_verify(c, answer, &j, &passed));
	json_decref(answer);
	return passed;
}

static bool passes(const struct poc_challenge *c, json_t *answer)
{
	return passes_at(c, answer, TOOK_MS);
}

static json_t *part_of(const json_t *answer, const char *test)
{
	return json_object_get(json_array_get(json_object_get(answer, "devices"), 0),
		test);
}

/* A copy of the answer in s, which is made when it is not of this number; *c: its challenge. */
static json_t *shared(struct bed *b, struct shared *s, int tests, uint64_t stream,
	struct poc_challenge *c)
{
	struct rng before = b->rng;

	if (!s->there || s->number != b->number) {
		json_decref(s->answer);
		rng_seed(&b->rng, b->number, stream);
		ask(b, &s->c, tests, &b->node, 1);
		s->answer = answer_of(b, &s->c, NULL);
		s->there = true;
		s->number = b->number;
		b->rng = before;
	}
	*c = s->c;
	return json_deep_copy(s->answer);
}

/* An honest answer, and one to another challenge. */
static json_t *right(struct bed *b, int tests, struct poc_challenge *c)
{
	return shared(b, &b->honest[tests], tests, 1000, c);
}

static json_t *right_elsewhere(struct bed *b, int tests, struct poc_challenge *c)
{
	return shared(b, &b->other[tests], tests, 2000, c);
}

/* The expectations of a cheat that can be played in any test. */
static int one_test(const struct bed *b)
{
	static const int tests[] = { MATMUL, MEMORY, CHAIN, ALL };

	return tests[b->number % 4];
}

/* An honest answer takes as long as it takes, and the deadline is the usual one. */
static bool honest(struct bed *b)
{
	int64_t from_ns = clock_mono_ns();
	struct poc_challenge c;
	json_t *answer;

	ask(b, &c, ALL, &b->node, 1);
	c.deadline_ms = poc_plan_deadline_ms(&c, NULL);
	json_decref(poc_challenge_write(&c));
	answer = answer_of(b, &c, NULL);
	return passes_at(&c, answer, (clock_mono_ns() - from_ns) / 1000000 + 1);
}

/* --- rows that were not computed ---------------------------------------------------------- */

struct skip {
	struct bed *b;
	uint64_t *leaves; /* sorted; those that are made up */
	size_t n;
};

static uint64_t rows_of(const struct bed *b)
{
	return (uint64_t)(b->size.n * b->size.rounds);
}

static uint64_t share(const struct bed *b, double p)
{
	return (uint64_t)ceil(p * (double)rows_of(b));
}

/* None of w wrong ones among the 264 of L that are opened. */
static double none_opened(uint64_t all, uint64_t wrong, uint64_t opened)
{
	double p = 1;

	for (uint64_t i = 0; i < opened; i++)
		p *= wrong + i >= all ? 0 : (double)(all - wrong - i) / (double)(all - i);
	return p;
}

static void make_up(void *ctx, int64_t t, int8_t *a, int64_t n)
{
	struct skip *s = ctx;
	uint64_t first = (uint64_t)((t - 1) * n);

	for (size_t i = 0; i < s->n; i++)
		if (s->leaves[i] >= first && s->leaves[i] < first + (uint64_t)n)
			rng_bytes(&s->b->rng, a + (int64_t)(s->leaves[i] - first) * n,
				(size_t)n);
}

/* The cheat that does not compute w rows, chosen in advance at random. */
static json_t *skipped(struct bed *b, const struct poc_challenge *c, uint64_t w)
{
	struct skip s = { b, xmalloc(w * sizeof *s.leaves + 1), w };
	struct prove_hooks hooks = { .ctx = &s, .round = make_up };
	json_t *answer;
	size_t n = 0;

	while (n < w) {
		while (n < w)
			s.leaves[n++] = rng_below(&b->rng, rows_of(b));
		n = poc_sort(s.leaves, n);
	}
	answer = answer_of(b, c, &hooks);
	free(s.leaves);
	return answer;
}

#define DEFINE_SKIP(name, p)                                               \
	static bool skip_##name(struct bed *b)                             \
	{                                                                  \
		struct poc_challenge c;                                    \
		ask(b, &c, MATMUL, &b->node, 1);                           \
		return passes(&c, skipped(b, &c, share(b, p)));            \
	}                                                                  \
	static double skip_##name##_passes(const struct bed *b)            \
	{                                                                  \
		return none_opened(rows_of(b), share(b, p), POC_OPENINGS); \
	}

DEFINE_SKIP(1, 0.01)
DEFINE_SKIP(10, 0.1)
DEFINE_SKIP(50, 0.5)

/* The cheat that skips a tenth and tries other roots: one made-up row more is another root. */
#define TRIES 3
static bool grinding(struct bed *b)
{
	struct poc_challenge c;
	bool passed = false;

	ask(b, &c, MATMUL, &b->node, 1);
	for (int i = 0; i < TRIES && !passed; i++)
		passed = passes(&c, skipped(b, &c, share(b, 0.1) + (uint64_t)i));
	return passed;
}

static double grinding_passes(const struct bed *b)
{
	return 1 - pow(1 - skip_10_passes(b), TRIES);
}

/* All rows are made to be the first one, which saves all but one of them: without salts only the
 * first round would be wrong. */
static void all_the_same(void *ctx, int64_t t, int8_t *a, int64_t n)
{
	(void)ctx;
	(void)t;
	for (int64_t i = 1; i < n; i++)
		memcpy(a + i * n, a, (size_t)n);
}

/* Rows of zeros in the first round: without salts they would stay so, and be right. */
static void all_zero(void *ctx, int64_t t, int8_t *a, int64_t n)
{
	(void)ctx;
	(void)t;
	memset(a, 0, (size_t)(n * n));
}

#define DEFINE_ROUNDS(name)                                             \
	static bool rounds_##name(struct bed *b)                        \
	{                                                               \
		struct prove_hooks hooks = { .ctx = b, .round = name }; \
		struct poc_challenge c;                                 \
		ask(b, &c, MATMUL, &b->node, 1);                        \
		return passes(&c, answer_of(b, &c, &hooks));            \
	}

DEFINE_ROUNDS(all_the_same)
DEFINE_ROUNDS(all_zero)

/* A(Br): commit to anything, and compute only what is then asked for: here the opened rows, right
 * ones, in the place of those in the tree. */
static void anything(void *ctx, int64_t t, int8_t *a, int64_t n)
{
	struct bed *b = ctx;

	(void)t;
	rng_bytes(&b->rng, a, (size_t)(n * n));
}

static bool only_asked(struct bed *b)
{
	struct prove_hooks hooks = { .ctx = b, .round = anything };
	struct poc_challenge c;
	json_t *asked = right(b, MATMUL, &c), *lazy = answer_of(b, &c, &hooks);

	json_set(part_of(lazy, "matmul"), "rows",
		json_incref(json_object_get(part_of(asked, "matmul"), "rows")));
	json_decref(asked);
	sign(lazy, &b->node);
	return passes(&c, lazy);
}

/* --- lists -------------------------------------------------------------------------------- */

/* Half of the rows are made up, and the openings are those of an honest tree. */
static bool wrong_indices(struct bed *b)
{
	struct poc_challenge c;
	json_t *good = right(b, MATMUL, &c), *bad = skipped(b, &c, share(b, 0.5));

	json_set(part_of(bad, "matmul"), "openings",
		json_incref(json_object_get(part_of(good, "matmul"), "openings")));
	json_set(part_of(bad, "matmul"), "rows",
		json_incref(json_object_get(part_of(good, "matmul"), "rows")));
	json_decref(good);
	sign(bad, &b->node);
	return passes(&c, bad);
}

/* A tenth skipped, the same answer for all four edits of its lists. */
static json_t *skipped_once(struct bed *b, struct poc_challenge *c)
{
	struct shared *s = &b->skipped;

	if (!s->there || s->number != b->number) {
		json_decref(s->answer);
		json_decref(right(b, MATMUL, &s->c));
		s->answer = skipped(b, &s->c, share(b, 0.1));
		s->there = true;
		s->number = b->number;
	}
	*c = s->c;
	return json_deep_copy(s->answer);
}

/* which: 0 empty lists, 1 one fewer, 2 one more, 3 one twice */
static bool list_edit(struct bed *b, int which)
{
	struct poc_challenge c;
	json_t *answer = skipped_once(b, &c), *part, *list;

	part = part_of(answer, "matmul");
	list = json_object_get(part, "openings");
	if (which == 0) {
		json_array_clear(list);
		json_set_text(part, "rows", "");
		json_set_text(part, "path", "");
	} else if (which == 1) {
		json_array_remove(list, rng_below(&b->rng, POC_OPENINGS));
	} else if (which == 2) {
		json_array_append(list, json_array_get(list, 7));
	} else {
		json_array_set(list, 7, json_array_get(list, 8));
	}
	sign(answer, &b->node);
	return passes(&c, answer);
}

static bool list_empty(struct bed *b)
{
	return list_edit(b, 0);
}

static bool list_fewer(struct bed *b)
{
	return list_edit(b, 1);
}

static bool list_more(struct bed *b)
{
	return list_edit(b, 2);
}

static bool list_twice(struct bed *b)
{
	return list_edit(b, 3);
}

/* --- answers to something else ------------------------------------------------------------ */

/* An answer to `from`, said to be one to `to` and signed again. */
static json_t *redirect(struct bed *b, json_t *answer, const struct poc_challenge *to)
{
	char hex[2 * POC_HASH_BYTES + 1];
	json_t *devices = json_object_get(answer, "devices");

	for (int i = 0; i < POC_HASH_BYTES; i++)
		snprintf(hex + 2 * i, 3, "%02x", to->sha256[i]);
	json_set_text(answer, "challenge_sha256", hex);
	json_set_text(answer, "node", to->node);
	for (int i = 0; i < to->ndevices; i++)
		json_set_text(json_array_get(devices, (size_t)i), "device",
			to->devices[i].uuid);
	sign(answer, &b->node);
	return answer;
}

static bool replayed(struct bed *b)
{
	struct poc_challenge old, new;
	json_t *answer = right(b, one_test(b), &old);

	ask(b, &new, one_test(b), &b->node, 1);
	return passes(&new, redirect(b, answer, &new));
}

static bool replayed_as_it_is(struct bed *b)
{
	struct poc_challenge old, new;
	json_t *answer = right(b, one_test(b), &old);

	ask(b, &new, one_test(b), &b->node, 1);
	return passes(&new, answer);
}

/* The same nonce, sent to two nodes of one operator: one computes, both answer. */
static bool other_nodes(struct bed *b)
{
	struct poc_challenge mine, theirs;
	struct rng again = b->rng;

	ask(b, &mine, one_test(b), &b->node, 1);
	b->rng = again;
	ask(b, &theirs, one_test(b), &b->stranger, 1);
	return passes(&mine, redirect(b, answer_of(b, &theirs, NULL), &mine));
}

/* Two devices are asked; the CPU's answer stands for both. */
static bool other_devices(struct bed *b)
{
	struct poc_challenge both, one;
	json_t *answer = right(b, one_test(b), &one), *devices;

	/* the same nonce to both */
	rng_seed(&b->rng, b->number, 1000);
	ask(b, &both, one_test(b), &b->node, 2);
	devices = json_object_get(answer, "devices");
	json_push(devices, json_deep_copy(json_array_get(devices, 0)));
	return passes(&both, redirect(b, answer, &both));
}

/* --- signatures, readings, time ----------------------------------------------------------- */

static bool edited_readings(struct bed *b)
{
	struct poc_conditions j = { .received_ms = ISSUED_MS + TOOK_MS };
	json_t *answer, *claims = json_object(), *verdict;
	double operations = 2 * pow((double)b->size.n, 3) * (double)b->size.rounds;
	struct poc_challenge c;
	bool passed, believed;

	answer = right(b, MATMUL, &c);
	json_set_i64(claims, "teraflops", INT64_C(1000000000000000));
	json_set_i64(claims, "elapsed_ns", 1);
	json_set(json_array_get(json_object_get(answer, "devices"), 0), "readings",
		claims);
	sign(answer, &b->node);
	verdict = poc_verify(&c, answer, &j, &passed);
	believed = !passed ||
		fabs((double)json_integer_value(
			     json_object_get(json_object_get(verdict, "readings"),
				     "teraflops")) -
			operations / (TOOK_MS / 1e3)) > 1;
	json_decref(verdict);
	/* and after the signature */
	json_set_i64(claims, "teraflops", 7);
	return passes(&c, answer) || believed;
}

static int test_of_name(const char *test)
{
	if (test && strcmp(test, "memory") == 0)
		return MEMORY;
	return test && strcmp(test, "matmul") == 0 ? MATMUL : CHAIN;
}

/* Parts of another answer: its signature, or its hashes. */
static bool swapped(struct bed *b, const char *test, const char *field)
{
	struct poc_challenge one, two;
	int tests = test_of_name(test);
	json_t *a = right(b, tests, &one), *other = right_elsewhere(b, tests, &two);

	if (test) {
		json_set(part_of(a, test), field,
			json_incref(json_object_get(part_of(other, test), field)));
		sign(a, &b->node);
	} else {
		json_set(a, "proof", json_incref(json_object_get(other, "proof")));
	}
	json_decref(other);
	return passes(&one, a);
}

static bool swapped_proofs(struct bed *b)
{
	static const char *const what[][2] = { { NULL, NULL }, { "matmul", "path" },
		{ "matmul", "root" }, { "matmul", "rows" }, { "memory", "paths" },
		{ "memory", "roots" }, { "memory", "blocks" },
		{ "chain", "checkpoints" } };
	uint64_t i = b->number % (sizeof what / sizeof *what);

	return swapped(b, what[i][0], what[i][1]);
}

static bool null_proofs(struct bed *b)
{
	static const char *const what[][2] = { { NULL, NULL }, { "matmul", "path" },
		{ "matmul", "root" }, { "memory", "paths" }, { "memory", "roots" },
		{ "chain", "checkpoints" } };
	uint64_t i = b->number % (sizeof what / sizeof *what);
	struct poc_challenge c;
	json_t *a = right(b, test_of_name(what[i][0]), &c);

	if (what[i][0]) {
		json_set(part_of(a, what[i][0]), what[i][1], json_null());
		sign(a, &b->node);
	} else if (b->number % 4 < 2) {
		json_set(a, "proof", b->number % 4 ? json_null() : json_array());
	} else {
		json_object_del(a, "proof");
	}
	return passes(&c, a);
}

static bool late(struct bed *b)
{
	struct poc_challenge c;

	ask(b, &c, CHAIN, &b->node, 1);
	return passes_at(&c, answer_of(b, &c, NULL),
		DEADLINE_MS + 1 + (int64_t)rng_below(&b->rng, 1000));
}

/* --- joints ------------------------------------------------------------------------------- */

/* A checkpoint is invented, so that what comes after it is computed beside what comes before. */
static void invent(void *ctx, int64_t segment, unsigned char state[POC_HASH_BYTES])
{
	struct bed *b = ctx;

	if (segment == (int64_t)(b->number % (uint64_t)b->size.segments))
		rng_bytes(&b->rng, state, POC_HASH_BYTES);
}

static bool broken_chain(struct bed *b)
{
	struct prove_hooks hooks = { .ctx = b, .segment = invent };
	struct poc_challenge c;

	ask(b, &c, CHAIN, &b->node, 1);
	return passes(&c, answer_of(b, &c, &hooks));
}

/* The same slice again, with the first block of each lane invented, or with those parents in
 * finished slices missing whose place is odd: half of the memory, and no time to compute the
 * rest again. */
static void fill_badly(const struct memfill *m, struct rng *rng, bool joints)
{
	uint64_t slice = m->step % MEMFILL_SLICES;

	for (uint64_t lane = 0; lane < m->lanes; lane++)
		for (uint64_t i = 0; i < m->per_slice; i++) {
			uint32_t *out = m->blocks +
				MEMFILL_WORDS * memfill_index(m, lane, slice, i);
			const uint32_t *prev = NULL, *ref[MEMFILL_REFS] = { NULL };
			struct memfill_ref from;
			uint32_t salt[4];

			if (joints && !i) {
				rng_bytes(rng, out, MEMFILL_BYTES);
				continue;
			}
			if (i)
				prev = out - MEMFILL_WORDS;
			else if (m->step)
				prev = m->blocks +
					MEMFILL_WORDS *
						memfill_index(m, lane,
							(slice + 3) % MEMFILL_SLICES,
							m->per_slice - 1);
			memfill_salt(salt, m, lane, i);
			for (int j = 0; j < MEMFILL_REFS; j++)
				if (memfill_ref_of(&from, m, salt, j) &&
					(joints || from.i % 2 == 0))
					ref[j] = m->blocks +
						MEMFILL_WORDS *
							memfill_index(m, from.lane,
								from.slice, from.i);
			memfill_block(out, prev, ref, salt);
		}
}

static void break_lanes(void *ctx, const struct memfill *m)
{
	fill_badly(m, &((struct bed *)ctx)->rng, true);
}

static void forget_half(void *ctx, const struct memfill *m)
{
	fill_badly(m, &((struct bed *)ctx)->rng, false);
}

static bool broken_lanes(struct bed *b)
{
	struct prove_hooks hooks = { .ctx = b, .step = break_lanes };
	struct poc_challenge c;

	ask(b, &c, MEMORY, &b->node, 1);
	return passes(&c, answer_of(b, &c, &hooks));
}

/* one block a lane and step */
static double broken_lanes_passes(const struct bed *b)
{
	double p = 1;

	for (int64_t u = 0; u < MEMFILL_SLICES * b->size.passes; u++)
		p *= none_opened((uint64_t)poc_step_leaves(&b->size),
			(uint64_t)b->size.lanes,
			(uint64_t)poc_step_openings(&b->size, u));
	return p;
}

static bool half_memory(struct bed *b)
{
	struct prove_hooks hooks = { .ctx = b, .step = forget_half };
	struct poc_challenge c;

	ask(b, &c, MEMORY, &b->node, 1);
	return passes(&c, answer_of(b, &c, &hooks));
}

/* Zeros stand for a part of the lanes, and one block of each step is ground: grinder.h. Here an
 * eighth is missing and a step gets 64 tries; it passes when luck is with it in all steps. */
static bool ground_lanes(struct bed *b)
{
	struct grinder g = { .missing = b->size.lanes / 8, .tries = 64 };
	struct poc_challenge c;
	json_t *answer;

	ask(b, &c, MEMORY, &b->node, 1);
	rng_bytes(&b->rng, &g.salt, sizeof g.salt);
	grinder_open(&g, &c, &c.devices[0]);
	answer = answer_of(b, &c, &g.hooks);
	return passes(&c, answer);
}

/* None of the missing is drawn, nor the ground block, in any try of a step. */
static double ground_lanes_passes(const struct bed *b)
{
	double p = 1;

	for (int64_t u = 0; u < MEMFILL_SLICES * b->size.passes; u++)
		p *= 1 - pow(1 - grinder_try_passes(&b->size, b->size.lanes / 8, u), 64);
	return p;
}

static const struct cheat cheats[] = {
	{ "skip 1% of the rows", skip_1, skip_1_passes },
	{ "skip 10% of the rows", skip_10, skip_10_passes },
	{ "skip 50% of the rows", skip_50, skip_50_passes },
	{ "grinding", grinding, grinding_passes },
	{ "one row for all", rounds_all_the_same, NULL },
	{ "rows of zeros", rounds_all_zero, NULL },
	{ "A(Br)", only_asked, NULL },
	{ "wrong indices", wrong_indices, NULL },
	{ "empty lists", list_empty, NULL },
	{ "fewer openings", list_fewer, NULL },
	{ "more openings", list_more, NULL },
	{ "repeated openings", list_twice, NULL },
	{ "replayed answer", replayed_as_it_is, NULL },
	{ "replayed answer, signed again", replayed, NULL },
	{ "other node's answer", other_nodes, NULL },
	{ "other device's answer", other_devices, NULL },
	{ "edited readings", edited_readings, NULL },
	{ "swapped proofs", swapped_proofs, NULL },
	{ "null proofs", null_proofs, NULL },
	{ "late answer", late, NULL },
	{ "broken joint in the chain", broken_chain, NULL },
	{ "broken joints in the lanes", broken_lanes, broken_lanes_passes },
	{ "half the memory", half_memory, NULL },
	{ "an eighth of the lanes missing, ground", ground_lanes, ground_lanes_passes },
};
#define NCHEATS (sizeof cheats / sizeof *cheats)

/* Attempt i of a kind: the same in every run. Attempts of one number share the honest answers
 * that they start from, so all kinds of a number come one after the other. */
static bool attempt(struct bed *b, size_t kind, uint64_t i)
{
	b->number = i;
	rng_seed(&b->rng, i, kind);
	return kind < NCHEATS ? cheats[kind].run(b) : honest(b);
}

/* Whether the number that passed of n is as the formula says: within 5 standard deviations and
 * 1. */
static bool as_promised(const struct bed *b, size_t kind, uint64_t n, uint64_t passed)
{
	double p = cheats[kind].passes ? cheats[kind].passes(b) : 0;
	double mean = p * (double)n;

	return fabs((double)passed - mean) <=
		(cheats[kind].passes ? 1 : 0) + 5 * sqrt(mean * (1 - p));
}

#endif
