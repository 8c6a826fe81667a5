/* collect.c - collects the records of an epoch: nodes, uptimes, verdicts, receipts. */
#include "cmd/rnp-reward/evidence/collect.h"

#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/evidence/collect_parts.h"
#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/base/mem.h"

/* largest value in a receipt; in milliseconds it still fits */
#define GPU_S_MAX INT64_C(1000000000000)

void collect_init(struct collect *c, int64_t from_ms, int64_t to_ms,
	const struct policy *scores)
{
	memset(c, 0, sizeof *c);
	c->from_ms = from_ms;
	c->to_ms = to_ms;
	c->scores = scores;
}

void collect_release(struct collect *c)
{
	free(c->nodes);
	free(c->order);
	free(c->records);
	arena_release(&c->texts);
	free(c->verdicts);
	free(c->named);
	free(c->proven);
	free(c->used);
	free(c->devices);
	free(c->work);
	free(c->up);
	free(c->beats);
	hash_index_release(&c->by_address);
	hash_index_release(&c->by_device);
	hash_index_release(&c->by_challenge);
	hash_index_release(&c->by_record);
	hash_index_release(&c->by_verdict);
	hash_index_release(&c->by_receipt);
	memset(c, 0, sizeof *c);
}

/* --- tables -------------------------------------------------------------------------------- */

static uint32_t hash_text(const char *text)
{
	static const unsigned char key[crypto_shorthash_KEYBYTES] = "rnp-reward usag";
	uint32_t h[2];

	crypto_shorthash((unsigned char *)h, (const unsigned char *)text, strlen(text),
		key);
	return h[0];
}

static bool same_address(const void *c, uint32_t index, const void *address)
{
	return strcmp(((const struct collect *)c)->nodes[index].address, address) == 0;
}

static bool same_record(const void *c, uint32_t index, const void *sha256)
{
	return memcmp(((const struct collect *)c)->records[index].sha256, sha256,
		       CANON_HASH_BYTES) == 0;
}

static bool same_receipt(const void *c, uint32_t index, const void *sha256)
{
	const struct collect_work *w = &((const struct collect *)c)->work[index];

	return memcmp(w->short_hash, sha256, sizeof w->short_hash) == 0;
}

struct collect_node *collect_node_of(struct collect *c, const char *address)
{
	uint32_t hash = hash_text(address);
	struct collect_node *node;
	uint64_t *slot;

	hash_index_reserve(&c->by_address);
	slot = hash_index_slot(&c->by_address, hash, same_address, c, address);
	if (*slot)
		return &c->nodes[(uint32_t)*slot - 1];
	c->nodes = xgrow(c->nodes, &c->cap, c->n + 1, sizeof *c->nodes);
	hash_index_set(&c->by_address, slot, hash, c->n);
	node = &c->nodes[c->n++];
	memset(node, 0, sizeof *node);
	snprintf(node->address, sizeof node->address, "%s", address);
	return node;
}

void collect_hash_item(const struct collect_item *item,
	unsigned char out[CANON_HASH_BYTES])
{
	if (!item->record)
		memcpy(out, item->sha256, CANON_HASH_BYTES);
	else if (canon_hash_record(out, item->record) < 0)
		bug("%s", err_get()->text);
}

bool collect_seen(const struct collect *c, struct hash_index *ix, hash_index_same_fn same,
	const unsigned char sha256[CANON_HASH_BYTES], size_t next)
{
	uint64_t *slot;

	hash_index_reserve(ix);
	slot = hash_index_slot(ix, collect_bits(sha256), same, c, sha256);
	if (*slot)
		return true;
	hash_index_set(ix, slot, collect_bits(sha256), next);
	return false;
}

/* Makes the element of that index the last of a list. Elements are of `stride` bytes and have their
 * `next` at next_at. */
static void append(struct collect_list *list, void *array, size_t stride, size_t next_at,
	size_t index)
{
	uint32_t number = (uint32_t)index + 1;

	if (list->n++)
		*(uint32_t *)(void *)((char *)array + (list->last - 1) * stride +
			next_at) = number;
	else
		list->first = number;
	list->last = number;
}

/* --- records ----------------------------------------------------------------------------- */

static const char *keep_text(struct collect *c, const struct collect_item *item)
{
	struct buf text = BUF_INIT;
	const char *kept;

	if (item->text)
		return arena_strdup(&c->texts, item->text);
	collect_item_facts(item->record, &text);
	kept = arena_strdup(&c->texts, buf_text(&text));
	buf_release(&text);
	return kept;
}

/* Keeps every node record, because the last passed verdict decides which one counts. */
static void take_node(struct collect *c, const struct collect_item *item)
{
	unsigned char sha256[CANON_HASH_BYTES];
	struct collect_record *kept;
	struct collect_node *node;

	collect_hash_item(item, sha256);
	node = collect_node_of(c, item->node);
	if (collect_seen(c, &c->by_record, same_record, sha256, c->nrecords))
		return;
	c->records = xgrow(c->records, &c->records_cap, c->nrecords + 1,
		sizeof *c->records);
	kept = &c->records[c->nrecords++];
	*kept = (struct collect_record){ .at_ms = item->at_ms,
		.text = keep_text(c, item),
		.next = node->records };
	memcpy(kept->sha256, sha256, sizeof kept->sha256);
	node->records = (uint32_t)c->nrecords;
}

static int add_heartbeat(struct collect *c, const json_t *record, const char *where)
{
	const char *address;
	int64_t at_ms, interval_s;

	if (json_get_text(record, where, "node", &address) < 0 ||
		json_get_time(record, where, "at", &at_ms) < 0 ||
		json_get_i64(record, where, "interval_s", 1, 86400, &interval_s) < 0)
		return -1;
	c->beats = xgrow(c->beats, &c->beats_cap, c->nbeats + 1, sizeof *c->beats);
	c->beats[c->nbeats] = (struct collect_beat){ { at_ms, interval_s * 1000 }, 0 };
	append(&collect_node_of(c, address)->beats, c->beats, sizeof *c->beats,
		offsetof(struct collect_beat, next), c->nbeats++);
	return 0;
}

/* Joins a span to the last one if it begins where that ended, as those of two days may. */
static void add_up(struct collect *c, struct collect_node *node, int64_t from_ms,
	int64_t to_ms)
{
	struct span *last = node->up.n ? &c->up[node->up.last - 1].span : NULL;

	if (last && last->to_ms == from_ms) {
		last->to_ms = to_ms;
		return;
	}
	c->up = xgrow(c->up, &c->up_cap, c->nup + 1, sizeof *c->up);
	c->up[c->nup] = (struct collect_up){ { from_ms, to_ms }, 0 };
	append(&node->up, c->up, sizeof *c->up, offsetof(struct collect_up, next),
		c->nup++);
}

/* Takes a registry's rnp.uptime of one day, of which only a part may be within the epoch. */
static int take_uptime(struct collect *c, const struct collect_item *item,
	const char *where)
{
	struct collect_node *node;
	int64_t end = 0;

	if (item->to_ms <= c->from_ms || item->from_ms >= c->to_ms)
		return 0;
	for (size_t i = 0; i < item->nspans; i++) {
		int64_t start = item->spans[i].from_ms, stop = item->spans[i].to_ms;

		if (start < end || stop <= start || stop > item->to_ms - item->from_ms)
			return err_set(EX_DATAERR,
				"%s: spans[%zu]: is not after the one before, "
				"or not within the day",
				where, i);
		end = stop;
	}
	node = collect_node_of(c, item->node);
	node->days |= UINT64_C(1) << collect_day(c, item->from_ms);
	for (size_t i = 0; i < item->nspans; i++)
		add_up(c, node, item->from_ms + item->spans[i].from_ms,
			item->from_ms + item->spans[i].to_ms);
	return 0;
}

/* --- receipts ------------------------------------------------------------------------------ */

/* Returns the part of an amount that falls into the epoch, so that the parts of all epochs add
 * up to the whole: the amount due by its end less the amount due by its start, each rounded
 * down. */
static int64_t part_of(int64_t amount, const struct span *all, const struct span *clipped)
{
	i128 length = all->to_ms - all->from_ms;

	return (int64_t)((i128)amount * (clipped->to_ms - all->from_ms) / length) -
		(int64_t)((i128)amount * (clipped->from_ms - all->from_ms) / length);
}

/* Adds the part of an amount to *sum, which stays as it was on an error; amount -1: not stated. */
static int add_amount(int64_t *sum, int64_t amount, const char *where, const char *key,
	const struct span *all, const struct span *clipped)
{
	int64_t more;

	if (amount < 0)
		return 0;
	if (__builtin_add_overflow(*sum, part_of(amount, all, clipped), &more) ||
		more > JSON_SAFE_INTEGER_MAX)
		return err_set(EX_DATAERR, "%s: %s: the sum of all receipts is too large",
			where, key);
	*sum = more;
	return 0;
}

/* Adds what a receipt earned to its node: both amounts or none. */
static int add_amounts(struct collect_node *node, const struct collect_item *item,
	const char *where, const struct span *all, const struct span *in)
{
	int64_t earned_uusd = node->earned_uusd, credits = node->credits;

	if (add_amount(&earned_uusd, item->earned_uusd, where, "earned_uusd", all, in) <
			0 ||
		add_amount(&credits, item->credits, where, "credits", all, in) < 0)
		return -1;
	node->earned_uusd = earned_uusd;
	node->credits = credits;
	node->earned_known |= item->earned_uusd >= 0;
	node->credits_known |= item->credits >= 0;
	return 0;
}

static int take_receipt(struct collect *c, const struct collect_item *item,
	const char *where)
{
	unsigned char sha256[CANON_HASH_BYTES];
	struct span all = { item->from_ms, item->to_ms }, in = all;
	int64_t gpu_s = item->gpu_s;
	struct collect_node *node;
	struct collect_work *work;

	if (all.to_ms <= all.from_ms)
		return err_set(EX_DATAERR, "%s: field 'to' is not after 'from'", where);
	in.from_ms = all.from_ms > c->from_ms ? all.from_ms : c->from_ms;
	in.to_ms = all.to_ms < c->to_ms ? all.to_ms : c->to_ms;
	if (in.from_ms >= in.to_ms)
		return 0;
	collect_hash_item(item, sha256);
	if (hash_index_find(&c->by_receipt, collect_bits(sha256), same_receipt, c,
		    sha256) != UINT32_MAX)
		return 0;
	node = collect_node_of(c, item->node);
	if (add_amounts(node, item, where, &all, &in) < 0)
		return -1;
	collect_seen(c, &c->by_receipt, same_receipt, sha256, c->nwork);
	c->work = xgrow(c->work, &c->work_cap, c->nwork + 1, sizeof *c->work);
	work = &c->work[c->nwork];
	*work = (struct collect_work){ .wall = in, .gpu_ms = -1 };
	memcpy(work->short_hash, sha256, sizeof work->short_hash);
	if (gpu_s >= 0)
		work->gpu_ms = part_of(gpu_s > GPU_S_MAX ? GPU_S_MAX * 1000 :
							   gpu_s * 1000,
			&all, &in);
	work->used = (uint32_t)c->nused;
	work->nused = (uint32_t)item->nproven;
	c->used = xgrow(c->used, &c->used_cap, c->nused + work->nused, sizeof *c->used);
	for (int i = 0; i < item->nproven; i++)
		c->used[c->nused++] = collect_device_of(c, &item->proven[i]);
	append(&node->work, c->work, sizeof *c->work, offsetof(struct collect_work, next),
		c->nwork++);
	return 0;
}

int collect_take(struct collect *c, const struct collect_item *item, const char *where)
{
	switch (item->kind) {
	case COLLECT_UPTIME:
		return take_uptime(c, item, where);
	case COLLECT_VERDICT:
		collect_take_verdict(c, item);
		return 0;
	case COLLECT_NODE:
		take_node(c, item);
		return 0;
	case COLLECT_RECEIPT:
		break;
	}
	return take_receipt(c, item, where);
}

void collect_prefetch(const struct collect *c, const struct collect_item *item)
{
	hash_index_fetch(&c->by_address, hash_text(item->node));
	switch (item->kind) {
	case COLLECT_VERDICT:
		hash_index_fetch(&c->by_verdict, collect_bits(item->sha256));
		if (item->names_challenge)
			hash_index_fetch(&c->by_challenge,
				collect_bits(&item->challenge));
		break;
	case COLLECT_NODE:
		hash_index_fetch(&c->by_record, collect_bits(item->sha256));
		break;
	case COLLECT_RECEIPT:
		hash_index_fetch(&c->by_receipt, collect_bits(item->sha256));
		break;
	case COLLECT_UPTIME:
		break;
	}
}

static int add_item(struct collect *c, enum collect_kind kind, const json_t *record,
	const char *where)
{
	struct collect_item item;
	int rc = collect_item_read(&item, kind, record, where);

	if (rc == 0)
		rc = collect_take(c, &item, where);
	collect_item_release(&item);
	return rc;
}

int collect_add(struct collect *c, const json_t *record, const char *where)
{
	enum collect_kind item;
	const char *kind;

	if (json_get_text(record, where, "kind", &kind) < 0)
		return -1;
	if (strcmp(kind, "rnp.heartbeat") == 0)
		return add_heartbeat(c, record, where);
	if (collect_item_kind(kind, &item))
		return add_item(c, item, record, where);
	return err_set(EX_DATAERR, "%s: kind '%.40s' says nothing about usage", where,
		kind);
}

/* --- the order of nodes ---------------------------------------------------------------------- */

/* A node for qsort: the first bytes of its address decide nearly always. */
struct place {
	uint64_t prefix;
	const char *address;
	uint32_t number;
};

static int by_address(const void *a, const void *b)
{
	const struct place *x = a, *y = b;

	if (x->prefix != y->prefix)
		return x->prefix < y->prefix ? -1 : 1;
	return strcmp(x->address, y->address);
}

static void sort_nodes(struct collect *c)
{
	struct place *places = xcalloc(c->n, sizeof *places);

	for (size_t i = 0; i < c->n; i++) {
		const char *address = c->nodes[i].address;

		places[i] = (struct place){ 0, address, (uint32_t)i };
		for (size_t k = 0; k < sizeof places->prefix && address[k]; k++)
			places[i].prefix |= (uint64_t)(unsigned char)address[k]
				<< (56 - 8 * k);
	}
	qsort(places, c->n, sizeof *places, by_address);
	c->order = xcalloc(c->n, sizeof *c->order);
	for (size_t i = 0; i < c->n; i++)
		c->order[i] = places[i].number;
	free(places);
}

void collect_finish(struct collect *c)
{
	/* now that each challenge has its owner */
	for (size_t i = 0; i < c->nverdicts; i++)
		collect_count_verdict(c, i);
	if (c->n)
		sort_nodes(c);
}

const char *collect_address(const struct collect *c, size_t i)
{
	return c->nodes[c->order[i]].address;
}
