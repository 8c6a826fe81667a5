/* usage_rows.c - packs usages into pages of rows: addresses as bytes, numbers as varints, absent
 * fields not at all. */
#include "cmd/rnp-reward/epoch/usage_rows.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

#define PAGE_ROWS 128
/* flags, addresses, which fields are known, fields, times, file, line, model, factors */
#define ROW_BYTES_MAX                                                        \
	(1 + 2 * ADDRESS_BYTES + 5 + FIELD_USAGE * 10 + 16 + 3 + 5 + 5 + 1 + \
		FACTOR_N * 10)

_Static_assert(PAGE_ROWS *ROW_BYTES_MAX <= UINT16_MAX, "offsets in a page have 16 bits");

struct usage_page {
	uint16_t start[PAGE_ROWS]; /* of each row in bytes */
	unsigned char bytes[];
};

enum flag {
	ROW_WALLET = 1,
	ROW_MODEL = 2,
	ROW_FACTORS = 4,
	ROW_TIMES = 8,     /* those of rows->from_ms and to_ms */
	ROW_OWN_TIMES = 16 /* others, which follow */
};

/* --- packing -------------------------------------------------------------------------------- */

static unsigned char *write_varint(unsigned char *to, uint64_t v)
{
	for (; v >= 128; v >>= 7)
		*to++ = (unsigned char)(v | 128);
	*to++ = (unsigned char)v;
	return to;
}

static unsigned char *write_bytes(unsigned char *to, const void *from, size_t n)
{
	memcpy(to, from, n);
	return to + n;
}

static unsigned choose_flags(struct usage_rows *rows, const struct usage *u)
{
	unsigned flags = (u->has_wallet ? ROW_WALLET : 0) |
		(u->model != FIELD_NO_MODEL ? ROW_MODEL : 0) |
		(u->overridden ? ROW_FACTORS : 0);

	if (u->from_ms == -1 && u->to_ms == -1)
		return flags;
	if (!rows->dated && u->from_ms >= 0 && u->to_ms >= 0) {
		rows->from_ms = u->from_ms;
		rows->to_ms = u->to_ms;
		rows->dated = true;
	}
	return flags |
		(rows->dated && u->from_ms == rows->from_ms && u->to_ms == rows->to_ms ?
				ROW_TIMES :
				ROW_OWN_TIMES);
}

static unsigned char *pack(struct usage_rows *rows, const struct usage *u,
	unsigned char *to)
{
	unsigned flags = choose_flags(rows, u);

	*to++ = (unsigned char)flags;
	to = write_bytes(to, u->node, sizeof u->node);
	if (u->has_wallet)
		to = write_bytes(to, u->wallet, sizeof u->wallet);
	if (flags & ROW_OWN_TIMES) {
		to = write_bytes(to, &u->from_ms, sizeof u->from_ms);
		to = write_bytes(to, &u->to_ms, sizeof u->to_ms);
	}
	to = write_varint(to, u->file);
	to = write_varint(to, u->line);
	if (flags & ROW_MODEL)
		to = write_varint(to, u->model);
	to = write_varint(to, u->known);
	for (int i = 0; i < FIELD_USAGE; i++)
		if (u->known >> i & 1)
			to = write_varint(to, (uint64_t)u->value[i]);
	if (!u->overridden)
		return to;
	*to++ = u->overridden;
	for (int i = 0; i < FACTOR_N; i++)
		if (u->overridden >> i & 1)
			to = write_varint(to, (uint64_t)u->factor_nano[i]);
	return to;
}

void usage_rows_add(struct usage_rows *rows, const struct usage *u)
{
	size_t in_page = rows->n % PAGE_ROWS, room = sizeof(struct usage_page), used;
	struct usage_page *page;
	unsigned char *end;

	if (!in_page) {
		rows->pages = xgrow(rows->pages, &rows->cap, rows->npages + 1,
			sizeof(struct usage_page *));
		rows->pages[rows->npages] = xmalloc(room + PAGE_ROWS * ROW_BYTES_MAX);
		rows->pages[rows->npages++]->start[0] = 0;
	}
	page = rows->pages[rows->npages - 1];
	end = pack(rows, u, page->bytes + page->start[in_page]);
	used = (size_t)(end - page->bytes);
	rows->n++;
	if (++in_page < PAGE_ROWS)
		page->start[in_page] = (uint16_t)used;
	else
		rows->pages[rows->npages - 1] = xrealloc(page, room + used);
}

void usage_rows_add_group(struct usage_rows *rows, const struct usage_group *g)
{
	rows->groups = xgrow(rows->groups, &rows->groups_cap, rows->ngroups + 1,
		sizeof *rows->groups);
	rows->groups[rows->ngroups] = *g;
	rows->groups[rows->ngroups++].row = (uint32_t)(rows->n - 1);
}

size_t usage_rows_groups(const struct usage_rows *rows, size_t i,
	const struct usage_group **first)
{
	size_t low = 0, high = rows->ngroups, n = 0;

	while (low < high) {
		size_t middle = (low + high) / 2;

		if (rows->groups[middle].row < i)
			low = middle + 1;
		else
			high = middle;
	}
	*first = rows->groups + low;
	while (low + n < rows->ngroups && rows->groups[low + n].row == i)
		n++;
	return n;
}

/* --- unpacking ------------------------------------------------------------------------------ */

static uint64_t read_varint(const unsigned char **from)
{
	const unsigned char *at = *from;
	uint64_t v = *at & 127;

	for (int shift = 7; *at++ & 128; shift += 7)
		v |= (uint64_t)(*at & 127) << shift;
	*from = at;
	return v;
}

static void read_bytes(void *to, const unsigned char **from, size_t n)
{
	memcpy(to, *from, n);
	*from += n;
}

static const unsigned char *row_of(const struct usage_rows *rows, size_t i)
{
	const struct usage_page *page = rows->pages[i / PAGE_ROWS];

	return page->bytes + page->start[i % PAGE_ROWS];
}

static void read_times(const struct usage_rows *rows, unsigned flags,
	const unsigned char **at, int64_t *from_ms, int64_t *to_ms)
{
	*from_ms = flags & ROW_TIMES ? rows->from_ms : -1;
	*to_ms = flags & ROW_TIMES ? rows->to_ms : -1;
	if (flags & ROW_OWN_TIMES) {
		read_bytes(from_ms, at, sizeof *from_ms);
		read_bytes(to_ms, at, sizeof *to_ms);
	}
}

void usage_rows_get(const struct usage_rows *rows, size_t i, struct usage *u)
{
	const unsigned char *at = row_of(rows, i);
	unsigned flags = *at++;

	memset(u, 0, sizeof *u);
	read_bytes(u->node, &at, sizeof u->node);
	u->has_wallet = flags & ROW_WALLET;
	if (u->has_wallet)
		read_bytes(u->wallet, &at, sizeof u->wallet);
	read_times(rows, flags, &at, &u->from_ms, &u->to_ms);
	u->file = (uint16_t)read_varint(&at);
	u->line = (uint32_t)read_varint(&at);
	u->model = flags & ROW_MODEL ? (uint32_t)read_varint(&at) : FIELD_NO_MODEL;
	u->known = (uint32_t)read_varint(&at);
	for (int k = 0; k < FIELD_USAGE; k++)
		if (u->known >> k & 1)
			u->value[k] = (int64_t)read_varint(&at);
	if (!(flags & ROW_FACTORS))
		return;
	u->overridden = *at++;
	for (int k = 0; k < FACTOR_N; k++)
		if (u->overridden >> k & 1)
			u->factor_nano[k] = (int64_t)read_varint(&at);
}

void usage_rows_times(const struct usage_rows *rows, size_t i, int64_t *from_ms,
	int64_t *to_ms)
{
	const unsigned char *at = row_of(rows, i);
	unsigned flags = *at;

	at += 1 + (flags & ROW_WALLET ? 2 : 1) * ADDRESS_BYTES;
	read_times(rows, flags, &at, from_ms, to_ms);
}

const unsigned char *usage_rows_node(const struct usage_rows *rows, size_t i)
{
	return row_of(rows, i) + 1;
}

const unsigned char *usage_rows_claimant(const struct usage_rows *rows, size_t i)
{
	const unsigned char *row = row_of(rows, i);

	return row + 1 + (*row & ROW_WALLET ? ADDRESS_BYTES : 0);
}

/* --- sorting -------------------------------------------------------------------------------- */

#define BUCKETS 256 /* by the first byte */

struct order {
	const struct usage_rows *rows;
	usage_key key;
};

static bool same_address(const struct order *o, const struct usage_ref *a,
	const struct usage_ref *b)
{
	return a->prefix == b->prefix &&
		memcmp(o->key(o->rows, a->row), o->key(o->rows, b->row), ADDRESS_BYTES) ==
		0;
}

static int by_address(const void *a, const void *b, void *ctx)
{
	const struct usage_ref *x = a, *y = b;
	const struct order *o = ctx;
	int order;

	if (x->prefix != y->prefix)
		return x->prefix < y->prefix ? -1 : 1;
	order = memcmp(o->key(o->rows, x->row), o->key(o->rows, y->row), ADDRESS_BYTES);
	return order ? order : (x->row > y->row) - (x->row < y->row);
}

static uint64_t prefix_of(const unsigned char *address)
{
	uint64_t v = 0;

	for (int i = 0; i < 8; i++)
		v = v << 8 | address[i];
	return v;
}

struct usage_ref *usage_rows_sort(const struct usage_rows *rows, usage_key key)
{
	struct usage_ref *refs = xmalloc((rows->n + 1) * sizeof *refs);
	size_t start[BUCKETS + 1] = { 0 }, at[BUCKETS];
	struct order order = { rows, key };

	for (size_t i = 0; i < rows->n; i++)
		start[key(rows, i)[0] + 1]++;
	for (int b = 0; b < BUCKETS; b++) {
		start[b + 1] += start[b];
		at[b] = start[b];
	}
	for (size_t i = 0; i < rows->n; i++) {
		const unsigned char *address = key(rows, i);

		refs[at[address[0]]++] = (struct usage_ref){ prefix_of(address),
			(uint32_t)i, true };
	}
#pragma omp parallel for schedule(dynamic, 1) if (rows->n > 4096)
	for (int b = 0; b < BUCKETS; b++) {
		qsort_r(refs + start[b], start[b + 1] - start[b], sizeof *refs,
			by_address, &order);
		for (size_t i = start[b] + 1; i < start[b + 1]; i++)
			refs[i].first = !same_address(&order, &refs[i - 1], &refs[i]);
	}
	return refs;
}

bool usage_rows_duplicate(const struct usage_rows *rows, size_t *first, size_t *second)
{
	struct usage_ref *refs = usage_rows_sort(rows, usage_rows_node);
	bool found = false;

	/* the first two rows of a node are beside each other */
	for (size_t i = 1; i < rows->n; i++) {
		if (refs[i].first || (found && refs[i].row >= *second))
			continue;
		*first = refs[i - 1].row;
		*second = refs[i].row;
		found = true;
	}
	free(refs);
	return found;
}

void usage_rows_release(struct usage_rows *rows)
{
	for (size_t i = 0; i < rows->npages; i++)
		free(rows->pages[i]);
	free(rows->pages);
	free(rows->groups);
	*rows = (struct usage_rows)USAGE_ROWS_INIT;
}
