/* tests.c - generates the inputs of the tests, and verifies each test. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/poc/poc.h"
#include "kernels/crypto/sha256_chain.h"

/* columns of B that a thread generates at a time: so many that they stay in its cache */
#define CHUNK_BYTES ((int64_t)1 << 18)

static bool no(char reason[POC_REASON_MAX], const char *why)
{
	snprintf(reason, POC_REASON_MAX, "%s", why);
	return false;
}

/* --- fields ------------------------------------------------------------------------------- */

void poc_set_bytes(json_t *obj, const char *key, const void *data, size_t len)
{
	size_t cap = sodium_base64_encoded_len(len,
		sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	char *text = xmalloc(cap);

	sodium_bin2base64(text, cap, data, len, sodium_base64_VARIANT_URLSAFE_NO_PADDING);
	/* megabytes, which need no look at whether base64 is UTF-8 */
	json_set(obj, key, json_stringn_nocheck(text, cap - 1));
	free(text);
}

/* Reads any number of bytes up to max; sets *len. */
static unsigned char *poc_get_some(const json_t *obj, const char *key, size_t max,
	size_t *len)
{
	const json_t *v = json_object_get(obj, key);
	size_t chars = json_string_length(v);
	unsigned char *out;

	if (!json_is_string(v) || chars / 4 * 3 > max + 3)
		return NULL;
	out = xmalloc(max + 4);
	if (sodium_base642bin(out, max, json_string_value(v), chars, NULL, len, NULL,
		    sodium_base64_VARIANT_URLSAFE_NO_PADDING) == 0)
		return out;
	free(out);
	return NULL;
}

/* Reads what poc_set_bytes has set, exactly `want` bytes; NULL: it is not that. */
static unsigned char *poc_get_bytes(const json_t *obj, const char *key, size_t want)
{
	size_t len;
	unsigned char *out = poc_get_some(obj, key, want, &len);

	if (out && len != want) {
		free(out);
		out = NULL;
	}
	return out;
}

void poc_set_hash(json_t *obj, const char *key, const unsigned char hash[POC_HASH_BYTES])
{
	char hex[2 * POC_HASH_BYTES + 1];

	sodium_bin2hex(hex, sizeof hex, hash, POC_HASH_BYTES);
	json_set_text(obj, key, hex);
}

bool poc_get_hash(const json_t *v, unsigned char out[POC_HASH_BYTES])
{
	const char *text = json_string_value(v);
	size_t len;

	return text && strspn(text, "0123456789abcdef") == 64 &&
		json_string_length(v) == 64 &&
		sodium_hex2bin(out, POC_HASH_BYTES, text, 64, NULL, &len, NULL) == 0;
}

/* Whether tuple is a list of exactly these numbers. */
static bool same_tuple(const json_t *tuple, const int64_t *want, int width)
{
	if (!json_is_array(tuple) || json_array_size(tuple) != (size_t)width)
		return false;
	for (int k = 0; k < width; k++) {
		const json_t *v = json_array_get(tuple, (size_t)k);

		if (!json_is_integer(v) || json_integer_value(v) != want[k])
			return false;
	}
	return true;
}

/* Whether list consists of exactly these count tuples of width numbers. */
static bool same_tuples(const json_t *list, const int64_t *want, int count, int width)
{
	if (!json_is_array(list) || json_array_size(list) != (size_t)count)
		return false;
	for (int i = 0; i < count; i++)
		if (!same_tuple(json_array_get(list, (size_t)i), want + i * width, width))
			return false;
	return true;
}

/* --- matmul ------------------------------------------------------------------------------- */

void poc_matrix(int8_t *out, const unsigned char seed[POC_HASH_BYTES], int which,
	int64_t n, int64_t first, int64_t count)
{
	int8_balance_fn balance = poc_kernels()->balance;
	char name[3] = { which < 0 ? 'A' : 'B', (char)('0' + (which < 0 ? 0 : which)),
		'\0' };
	struct philox p;

	poc_sequence(&p, seed, name);
	p.block = (uint64_t)(first * n / PHILOX_BLOCK_BYTES);
	poc_fill(out, (uint64_t)(count * n), &p);
#pragma omp parallel for schedule(static) if (count > 64)
	for (int64_t r = 0; r < count; r++)
		balance(out + r * n, (uint64_t)n);
}

void poc_salts(uint32_t *rows, uint32_t *columns,
	const unsigned char seed[POC_HASH_BYTES], int64_t n, int64_t t)
{
	struct philox p;

	poc_sequence(&p, seed, "rows");
	p.block = (uint64_t)(t * n / 4);
	poc_fill(rows, 4 * (uint64_t)n, &p);
	poc_sequence(&p, seed, "columns");
	p.block = (uint64_t)(t * n / 4);
	poc_fill(columns, 4 * (uint64_t)n, &p);
}

/* matmul: computes one row of the next matrix from one row of C. */
static void poc_next_row(int8_t *out, const int32_t *c, int64_t n, uint32_t row_salt,
	const uint32_t *column_salts)
{
	for (int64_t j = 0; j < n; j++)
		out[j] = (int8_t)((((uint32_t)c[j] ^ row_salt ^ column_salts[j]) *
					  POC_MULTIPLIER) >>
			24);
}

/* One opening: the row of round t and the same row of the round before. */
struct opening {
	int64_t t, row;
	const int8_t *now, *before; /* before NULL: it is a row of the first matrix */
};

/* c = m rows times a B; each thread generates some columns at a time. */
static void multiply(int32_t *c, const int8_t *a, int64_t m, int64_t n,
	const unsigned char seed[POC_HASH_BYTES], int which)
{
	product_fn product = poc_kernels()->product;
	int64_t each = CHUNK_BYTES / n;

#pragma omp parallel for schedule(dynamic) if (n > each)
	for (int64_t j = 0; j < n; j += each) {
		int64_t count = n - j < each ? n - j : each;
		int8_t *b = xmalloc((size_t)(count * n));
		const struct product p = { .type = PRODUCT_I8,
			.c = c + j,
			.a = a,
			.b = b,
			.m = (uint64_t)m,
			.n = (uint64_t)count,
			.k = (uint64_t)n,
			.lda = (uint64_t)n,
			.ldb = (uint64_t)n,
			.ldc = (uint64_t)n };

		poc_matrix(b, seed, which, n, j, count);
		product(&p);
		free(b);
	}
}

/* Checks all openings of rounds that use one B, and counts the wrong ones. */
static int wrong_rows(const struct opening *o, int64_t n,
	const unsigned char seed[POC_HASH_BYTES], int which)
{
	const struct opening *mine[POC_OPENINGS];
	int64_t m = 0;
	int8_t *a, *next = xmalloc((size_t)n);
	uint32_t *rows = xmalloc((size_t)n * 8), *columns = rows + n;
	int32_t *c;
	int wrong = 0;

	for (int i = 0; i < POC_OPENINGS; i++)
		if ((o[i].t - 1) % POC_MATRICES == which)
			mine[m++] = &o[i];
	a = xmalloc((size_t)(m * n) + 1);
	c = xmalloc((size_t)(m * n) * sizeof *c + 1);
	for (int64_t i = 0; i < m; i++) {
		if (mine[i]->before)
			memcpy(a + i * n, mine[i]->before, (size_t)n);
		else
			poc_matrix(a + i * n, seed, -1, n, mine[i]->row, 1);
	}
	if (m)
		multiply(c, a, m, n, seed, which);
	for (int64_t i = 0; i < m; i++) {
		/* openings are sorted by round */
		if (!i || mine[i]->t != mine[i - 1]->t)
			poc_salts(rows, columns, seed, n, mine[i]->t);
		poc_next_row(next, c + i * n, n, rows[mine[i]->row], columns);
		wrong += memcmp(next, mine[i]->now, (size_t)n) != 0;
	}
	free(a);
	free(c);
	free(next);
	free(rows);
	return wrong;
}

/* Leaves in the answer, sorted: the openings and the rows before them. */
static size_t matmul_leaves(uint64_t *at, const uint64_t *drawn, int64_t n)
{
	size_t count = 0;

	for (int i = 0; i < POC_OPENINGS; i++) {
		at[count++] = drawn[i];
		if (drawn[i] >= (uint64_t)n)
			at[count++] = drawn[i] - (uint64_t)n;
	}
	return poc_sort(at, count);
}

static bool matmul_rows_right(const struct poc_device *d,
	const unsigned char seed[POC_HASH_BYTES], const uint64_t *drawn,
	const uint64_t *at, size_t count, const unsigned char *rows,
	char reason[POC_REASON_MAX])
{
	struct opening o[POC_OPENINGS];
	uint64_t n = (uint64_t)d->n;
	int wrong = 0;

	for (int i = 0; i < POC_OPENINGS; i++) {
		o[i].t = (int64_t)(drawn[i] / n) + 1;
		o[i].row = (int64_t)(drawn[i] % n);
		o[i].now = (const int8_t *)rows + n * poc_find(at, count, drawn[i]);
		o[i].before = drawn[i] < n ?
			NULL :
			(const int8_t *)rows + n * poc_find(at, count, drawn[i] - n);
	}
	for (int which = 0; which < POC_MATRICES && !wrong; which++)
		wrong = wrong_rows(o, d->n, seed, which);
	if (wrong)
		return no(reason,
			"an opened row is not the product of the one before it");
	return true;
}

bool poc_verify_matmul(const struct poc_challenge *c, const struct poc_device *d,
	const json_t *part, char reason[POC_REASON_MAX])
{
	uint64_t n = (uint64_t)d->n, total = n * (uint64_t)d->rounds;
	unsigned char seed[POC_HASH_BYTES], root[POC_HASH_BYTES], x[POC_HASH_BYTES];
	unsigned char *rows = NULL, *proof = NULL, *hashes = NULL;
	uint64_t drawn[POC_OPENINGS], at[2 * POC_OPENINGS];
	int64_t want[2 * POC_OPENINGS];
	size_t count, proof_bytes;
	bool good = false;

	if (!poc_get_hash(json_object_get(part, "root"), root))
		return no(reason, "no root");
	poc_seed(seed, c, d->uuid);
	poc_fold(x, c, seed, "matmul", root);
	poc_draw(drawn, POC_OPENINGS, total, x);
	for (int i = 0; i < POC_OPENINGS; i++) {
		want[2 * i] = (int64_t)(drawn[i] / n) + 1;
		want[2 * i + 1] = (int64_t)(drawn[i] % n);
	}
	if (!same_tuples(json_object_get(part, "openings"), want, POC_OPENINGS, 2))
		return no(reason, "the openings are not those that follow from the root");
	count = matmul_leaves(at, drawn, d->n);
	rows = poc_get_bytes(part, "rows", count * n);
	proof = poc_get_some(part, "path", count * 32 * POC_HASH_BYTES, &proof_bytes);
	if (!rows || !proof) {
		no(reason, "rows or path have another size than the openings ask for");
		goto out;
	}
	hashes = xmalloc(count * POC_HASH_BYTES);
	for (size_t i = 0; i < count; i++)
		poc_leaves(hashes + POC_HASH_BYTES * i, rows + n * i, n, 1,
			(uint32_t)(at[i] / n) + 1, at[i] % n);
	if (!poc_tree_check(root, total, at, hashes, count, proof, proof_bytes))
		no(reason, "the opened rows are not in the tree of that root");
	else
		good = matmul_rows_right(d, seed, drawn, at, count, rows, reason);
out:
	free(rows);
	free(proof);
	free(hashes);
	return good;
}

/* --- memory ------------------------------------------------------------------------------- */

int64_t poc_step_openings(const struct poc_device *d, int64_t u)
{
	return u < MEMFILL_SLICES * (d->passes - 1) ? POC_STEP_OPENINGS :
						      POC_LAST_OPENINGS;
}

int64_t poc_openings_before(const struct poc_device *d, int64_t u)
{
	int64_t early = MEMFILL_SLICES * (d->passes - 1);

	return u < early ? u * POC_STEP_OPENINGS :
			   early * POC_STEP_OPENINGS + (u - early) * POC_LAST_OPENINGS;
}

int64_t poc_step_leaves(const struct poc_device *d)
{
	return d->lanes * d->per_slice;
}

/* Returns the leaf of the block before (lane, i) of step u, as a number within the whole fill;
 * -1: none. */
static int64_t block_before(const struct poc_device *d, int64_t u, int64_t lane,
	int64_t i)
{
	int64_t step = poc_step_leaves(d);

	if (i)
		return u * step + lane * d->per_slice + i - 1;
	return u ? (u - 1) * step + (lane + 1) * d->per_slice - 1 : -1;
}

/* Returns the leaf of its parent `which` in a finished slice; -1: none. */
static int64_t block_ref(const struct poc_device *d, const struct memfill *m,
	int64_t lane, int64_t i, int which)
{
	struct memfill_ref from;
	uint32_t salt[4];

	memfill_salt(salt, m, (uint64_t)lane, (uint64_t)i);
	if (!memfill_ref_of(&from, m, salt, which))
		return -1;
	return (int64_t)from.step * poc_step_leaves(d) +
		(int64_t)from.lane * d->per_slice + (int64_t)from.i;
}

size_t poc_needed(uint64_t *out, const struct poc_device *d, const struct memfill *m,
	const uint64_t *drawn, int count)
{
	size_t n = 0;

	for (int k = 0; k < count; k++) {
		int64_t lane = (int64_t)drawn[k] / d->per_slice;
		int64_t i = (int64_t)drawn[k] % d->per_slice;
		int64_t before = block_before(d, (int64_t)m->step, lane, i);

		out[n++] = m->step * (uint64_t)poc_step_leaves(d) + drawn[k];
		if (before >= 0)
			out[n++] = (uint64_t)before;
		for (int j = 0; j < MEMFILL_REFS; j++) {
			int64_t ref = block_ref(d, m, lane, i, j);

			if (ref >= 0)
				out[n++] = (uint64_t)ref;
		}
	}
	return n;
}

struct fill {
	const struct poc_device *d;
	int64_t nsteps;
	unsigned char (*roots)[POC_HASH_BYTES];
	struct memfill steps[MEMFILL_SLICES * POC_PASSES_MAX];
	uint64_t drawn
		[POC_MEMORY_OPENINGS_MAX]; /* leaves within their step, step after step */
	uint64_t at[POC_NEEDED_MAX];
	size_t count;
};

static bool step_openings_named(const struct fill *f, int64_t u, const json_t *list)
{
	for (int64_t k = poc_openings_before(f->d, u);
		k < poc_openings_before(f->d, u + 1); k++) {
		const int64_t want[3] = { u, (int64_t)f->drawn[k] / f->d->per_slice,
			(int64_t)f->drawn[k] % f->d->per_slice };

		if (!same_tuple(json_array_get(list, (size_t)k), want, 3))
			return false;
	}
	return true;
}

/* Derives from the roots: keys, openings, and the blocks that must be present. Returns false as
 * soon as a step's openings differ from those of the answer, since each step costs 2^18 hashes. */
static bool fill_plan(struct fill *f, const struct poc_challenge *c,
	const struct poc_device *d, const json_t *openings)
{
	unsigned char seed[POC_HASH_BYTES], x[POC_HASH_BYTES];
	struct philox key;

	if (!json_is_array(openings) ||
		json_array_size(openings) != (size_t)poc_openings_before(d, f->nsteps))
		return false;

	poc_seed(seed, c, d->uuid);
	poc_first_key(&key, seed);
	f->count = 0;
	for (int64_t u = 0; u < f->nsteps; u++) {
		uint64_t *drawn = f->drawn + poc_openings_before(d, u);
		int count = (int)poc_step_openings(d, u);

		f->steps[u] = (struct memfill){ NULL, (uint64_t)d->lanes,
			(uint64_t)d->per_slice, (uint64_t)u, key };
		poc_fold_step(x, c, seed, u, f->roots[u]);
		poc_draw(drawn, count, (uint64_t)poc_step_leaves(d), x);
		if (!step_openings_named(f, u, openings))
			return false;
		f->count += poc_needed(f->at + f->count, d, &f->steps[u], drawn, count);
		poc_next_key(&key, x);
	}
	f->count = poc_sort(f->at, f->count);
	return true;
}

/* Whether all blocks are in the trees of their steps; the proofs follow one another. */
static bool fill_in_trees(const struct fill *f, const unsigned char *blocks,
	const json_t *paths)
{
	uint64_t leaves = (uint64_t)poc_step_leaves(f->d), at[POC_NEEDED_MAX];
	unsigned char *hashes = xmalloc(f->count * POC_HASH_BYTES);
	bool good = json_is_array(paths) && json_array_size(paths) == (size_t)f->nsteps;
	size_t k = 0;

	for (int64_t u = 0; u < f->nsteps && good; u++) {
		json_t *one = json_pack("{s:O?}", "path",
			json_array_get(paths, (size_t)u));
		unsigned char *proof;
		size_t n = 0, bytes;

		for (; k < f->count && f->at[k] / leaves == (uint64_t)u; k++, n++) {
			uint64_t leaf = f->at[k] % leaves;
			uint64_t per = (uint64_t)f->d->per_slice;

			at[n] = leaf;
			poc_leaves(hashes + POC_HASH_BYTES * n,
				blocks + MEMFILL_BYTES * k, MEMFILL_BYTES, 1,
				(uint32_t)(leaf / per), (uint64_t)u * per + leaf % per);
		}
		proof = one ? poc_get_some(one, "path", n * 32 * POC_HASH_BYTES, &bytes) :
			      NULL;
		good = proof &&
			poc_tree_check(f->roots[u], leaves, at, hashes, n, proof, bytes);
		free(proof);
		json_decref(one);
	}
	free(hashes);
	return good;
}

/* Whether the k-th opening, of step u, was computed correctly from its parents. */
static bool fill_block_right(const struct fill *f, const uint32_t *blocks, int64_t u,
	int64_t k)
{
	const struct memfill *m = &f->steps[u];
	int64_t lane = (int64_t)f->drawn[k] / f->d->per_slice;
	int64_t i = (int64_t)f->drawn[k] % f->d->per_slice;
	int64_t before = block_before(f->d, u, lane, i);
	const uint32_t *refs[MEMFILL_REFS];
	uint64_t own = m->step * (uint64_t)poc_step_leaves(f->d) + f->drawn[k];
	uint32_t salt[4], want[MEMFILL_WORDS];
#define BLOCK(leaf) (blocks + MEMFILL_WORDS * poc_find(f->at, f->count, (uint64_t)(leaf)))

	memfill_salt(salt, m, (uint64_t)lane, (uint64_t)i);
	for (int j = 0; j < MEMFILL_REFS; j++) {
		int64_t ref = block_ref(f->d, m, lane, i, j);

		refs[j] = ref < 0 ? NULL : BLOCK(ref);
	}
	memfill_block(want, before < 0 ? NULL : BLOCK(before), refs, salt);
	return memcmp(want, BLOCK(own), sizeof want) == 0;
#undef BLOCK
}

static bool fill_blocks_right(const struct fill *f, const uint32_t *blocks)
{
	for (int64_t u = 0; u < f->nsteps; u++)
		for (int64_t k = poc_openings_before(f->d, u);
			k < poc_openings_before(f->d, u + 1); k++)
			if (!fill_block_right(f, blocks, u, k))
				return false;
	return true;
}

bool poc_verify_memory(const struct poc_challenge *c, const struct poc_device *d,
	const json_t *part, char reason[POC_REASON_MAX])
{
	unsigned char roots[MEMFILL_SLICES * POC_PASSES_MAX][POC_HASH_BYTES];
	const json_t *list = json_object_get(part, "roots");
	struct fill f = { .d = d, .roots = roots };
	unsigned char *blocks;
	bool good = false;

	f.nsteps = MEMFILL_SLICES * d->passes;
	if (!json_is_array(list) || json_array_size(list) != (size_t)f.nsteps)
		return no(reason, "not one root a step");
	for (int64_t u = 0; u < f.nsteps; u++)
		if (!poc_get_hash(json_array_get(list, (size_t)u), roots[u]))
			return no(reason, "not one root a step");
	if (!fill_plan(&f, c, d, json_object_get(part, "openings")))
		return no(reason,
			"the openings are not those that follow from the roots");
	blocks = poc_get_bytes(part, "blocks", f.count * MEMFILL_BYTES);
	if (!blocks)
		return no(reason, "blocks have another size than the openings ask for");
	if (!fill_in_trees(&f, blocks, json_object_get(part, "paths")))
		no(reason, "the opened blocks are not in the trees of those roots");
	else if (!fill_blocks_right(&f, (const uint32_t *)(const void *)blocks))
		no(reason, "an opened block does not follow from its parents");
	else
		good = true;
	free(blocks);
	return good;
}

/* --- chain -------------------------------------------------------------------------------- */

bool poc_verify_chain(const struct poc_challenge *c, const struct poc_device *d,
	const json_t *part, char reason[POC_REASON_MAX])
{
	size_t bytes = (size_t)d->segments * POC_HASH_BYTES;
	unsigned char *ends = poc_get_bytes(part, "checkpoints", bytes), *states;
	unsigned char seed[POC_HASH_BYTES];
	int64_t each = 64, wrong = 0;

	if (!ends)
		return no(reason,
			"checkpoints have another size than the segments ask for");
	states = xmalloc(bytes);
	poc_seed(seed, c, d->uuid);
	poc_derive(states, seed, "chain");
	memcpy(states + POC_HASH_BYTES, ends, bytes - POC_HASH_BYTES);
#pragma omp parallel for schedule(dynamic) if (d->segments > each)
	for (int64_t at = 0; at < d->segments; at += each)
		sha256_chain_fast()(states + POC_HASH_BYTES * at,
			(uint64_t)(d->segments - at < each ? d->segments - at : each),
			(uint64_t)d->steps);
	wrong = memcmp(states, ends, bytes) != 0;
	free(states);
	free(ends);
	return wrong ? no(reason, "a segment does not lead to its checkpoint") : true;
}
