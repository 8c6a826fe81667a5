/* gather.c - collects the records of an epoch: nodes, uptimes, verdicts, receipts. */
#include "cmd/rnp-reward/gather.h"

#include <sodium.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/gather_parts.h"
#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/base/mem.h"

/* largest value in a receipt; in milliseconds it still fits */
#define GPU_S_MAX INT64_C(1000000000000)

void gather_init(struct gather *g, int64_t from_ms, int64_t to_ms,
	const struct policy *scores)
{
	memset(g, 0, sizeof *g);
	g->from_ms = from_ms;
	g->to_ms = to_ms;
	g->scores = scores;
}

void gather_release(struct gather *g)
{
	free(g->nodes);
	free(g->order);
	free(g->records);
	arena_release(&g->texts);
	free(g->verdicts);
	free(g->named);
	free(g->proven);
	free(g->devices);
	free(g->work);
	free(g->up);
	free(g->beats);
	gather_index_release(&g->by_address);
	gather_index_release(&g->by_device);
	gather_index_release(&g->by_challenge);
	gather_index_release(&g->by_record);
	gather_index_release(&g->by_verdict);
	gather_index_release(&g->by_receipt);
	memset(g, 0, sizeof *g);
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

static bool same_address(const void *g, uint32_t index, const void *address)
{
	return strcmp(((const struct gather *)g)->nodes[index].address, address) == 0;
}

static bool same_record(const void *g, uint32_t index, const void *sha256)
{
	return memcmp(((const struct gather *)g)->records[index].sha256, sha256,
		       CANON_HASH_BYTES) == 0;
}

static bool same_receipt(const void *g, uint32_t index, const void *sha256)
{
	const struct gather_work *w = &((const struct gather *)g)->work[index];

	return memcmp(w->half, sha256, sizeof w->half) == 0;
}

struct gather_node *gather_node_of(struct gather *g, const char *address)
{
	uint32_t hash = hash_text(address);
	struct gather_node *node;
	uint64_t *slot;

	gather_index_reserve(&g->by_address);
	slot = gather_index_slot(&g->by_address, hash, same_address, g, address);
	if (*slot)
		return &g->nodes[(uint32_t)*slot - 1];
	g->nodes = xgrow(g->nodes, &g->cap, g->n + 1, sizeof *g->nodes);
	gather_index_set(&g->by_address, slot, hash, g->n);
	node = &g->nodes[g->n++];
	memset(node, 0, sizeof *node);
	snprintf(node->address, sizeof node->address, "%s", address);
	return node;
}

void gather_hash_item(const struct gather_item *item, unsigned char out[CANON_HASH_BYTES])
{
	if (!item->record)
		memcpy(out, item->sha256, CANON_HASH_BYTES);
	else if (canon_hash_record(out, item->record) < 0)
		bug("%s", err_get()->text);
}

bool gather_seen(const struct gather *g, struct gather_index *ix, gather_same_fn same,
	const unsigned char sha256[CANON_HASH_BYTES], size_t next)
{
	uint64_t *slot;

	gather_index_reserve(ix);
	slot = gather_index_slot(ix, gather_bits(sha256), same, g, sha256);
	if (*slot)
		return true;
	gather_index_set(ix, slot, gather_bits(sha256), next);
	return false;
}

/* Makes the element of that index the last of a list. Elements are of `stride` bytes and have their
 * `next` at next_at. */
static void append(struct gather_list *list, void *array, size_t stride, size_t next_at,
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

/* --- taking in ----------------------------------------------------------------------------- */

static const char *keep_text(struct gather *g, const struct gather_item *item)
{
	struct buf text = BUF_INIT;
	const char *kept;

	if (item->text)
		return arena_strdup(&g->texts, item->text);
	gather_item_facts(item->record, &text);
	kept = arena_strdup(&g->texts, buf_text(&text));
	buf_release(&text);
	return kept;
}

/* Every node record is kept, because only the last passed verdict decides which one counts. */
static void take_node(struct gather *g, const struct gather_item *item)
{
	unsigned char sha256[CANON_HASH_BYTES];
	struct gather_record *kept;
	struct gather_node *node;

	gather_hash_item(item, sha256);
	node = gather_node_of(g, item->node);
	if (gather_seen(g, &g->by_record, same_record, sha256, g->nrecords))
		return;
	g->records = xgrow(g->records, &g->records_cap, g->nrecords + 1,
		sizeof *g->records);
	kept = &g->records[g->nrecords++];
	*kept = (struct gather_record){ .at_ms = item->at_ms,
		.text = keep_text(g, item),
		.next = node->records };
	memcpy(kept->sha256, sha256, sizeof kept->sha256);
	node->records = (uint32_t)g->nrecords;
}

static int add_heartbeat(struct gather *g, const json_t *record, const char *where)
{
	const char *address;
	int64_t at_ms, interval_s;

	if (json_get_text(record, where, "node", &address) < 0 ||
		json_get_time(record, where, "at", &at_ms) < 0 ||
		json_get_i64(record, where, "interval_s", 1, 86400, &interval_s) < 0)
		return -1;
	g->beats = xgrow(g->beats, &g->beats_cap, g->nbeats + 1, sizeof *g->beats);
	g->beats[g->nbeats] = (struct gather_beat){ { at_ms, interval_s * 1000 }, 0 };
	append(&gather_node_of(g, address)->beats, g->beats, sizeof *g->beats,
		offsetof(struct gather_beat, next), g->nbeats++);
	return 0;
}

/* One that begins where the last one ended, as days do, is made one with it. */
static void add_up(struct gather *g, struct gather_node *node, int64_t from_ms,
	int64_t to_ms)
{
	struct span *last = node->up.n ? &g->up[node->up.last - 1].span : NULL;

	if (last && last->to_ms == from_ms) {
		last->to_ms = to_ms;
		return;
	}
	g->up = xgrow(g->up, &g->up_cap, g->nup + 1, sizeof *g->up);
	g->up[g->nup] = (struct gather_up){ { from_ms, to_ms }, 0 };
	append(&node->up, g->up, sizeof *g->up, offsetof(struct gather_up, next),
		g->nup++);
}

/* Takes a registry's rnp.uptime of one day; days need not coincide with the epoch. */
static int take_uptime(struct gather *g, const struct gather_item *item,
	const char *where)
{
	struct gather_node *node;
	int64_t end = 0;

	if (item->to_ms <= g->from_ms || item->from_ms >= g->to_ms)
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
	node = gather_node_of(g, item->node);
	node->days |= UINT64_C(1) << gather_day(g, item->from_ms);
	for (size_t i = 0; i < item->nspans; i++)
		add_up(g, node, item->from_ms + item->spans[i].from_ms,
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
static int add_amounts(struct gather_node *node, const struct gather_item *item,
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

static int take_receipt(struct gather *g, const struct gather_item *item,
	const char *where)
{
	unsigned char sha256[CANON_HASH_BYTES];
	struct span all = { item->from_ms, item->to_ms }, in = all;
	int64_t gpu_s = item->gpu_s;
	struct gather_node *node;
	struct gather_work *work;

	if (all.to_ms <= all.from_ms)
		return err_set(EX_DATAERR, "%s: field 'to' is not after 'from'", where);
	in.from_ms = all.from_ms > g->from_ms ? all.from_ms : g->from_ms;
	in.to_ms = all.to_ms < g->to_ms ? all.to_ms : g->to_ms;
	if (in.from_ms >= in.to_ms)
		return 0;
	gather_hash_item(item, sha256);
	if (gather_index_find(&g->by_receipt, gather_bits(sha256), same_receipt, g,
		    sha256) != UINT32_MAX)
		return 0;
	node = gather_node_of(g, item->node);
	if (add_amounts(node, item, where, &all, &in) < 0)
		return -1;
	gather_seen(g, &g->by_receipt, same_receipt, sha256, g->nwork);
	g->work = xgrow(g->work, &g->work_cap, g->nwork + 1, sizeof *g->work);
	work = &g->work[g->nwork];
	*work = (struct gather_work){ .wall = in, .gpu_ms = -1 };
	memcpy(work->half, sha256, sizeof work->half);
	if (gpu_s >= 0)
		work->gpu_ms = part_of(gpu_s > GPU_S_MAX ? GPU_S_MAX * 1000 :
							   gpu_s * 1000,
			&all, &in);
	append(&node->work, g->work, sizeof *g->work, offsetof(struct gather_work, next),
		g->nwork++);
	return 0;
}

int gather_take(struct gather *g, const struct gather_item *item, const char *where)
{
	switch (item->kind) {
	case GATHER_UPTIME:
		return take_uptime(g, item, where);
	case GATHER_VERDICT:
		gather_take_verdict(g, item);
		return 0;
	case GATHER_NODE:
		take_node(g, item);
		return 0;
	case GATHER_RECEIPT:
		break;
	}
	return take_receipt(g, item, where);
}

void gather_expect(const struct gather *g, const struct gather_item *item)
{
	gather_index_fetch(&g->by_address, hash_text(item->node));
	switch (item->kind) {
	case GATHER_VERDICT:
		gather_index_fetch(&g->by_verdict, gather_bits(item->sha256));
		if (item->names_challenge)
			gather_index_fetch(&g->by_challenge,
				gather_bits(&item->challenge));
		break;
	case GATHER_NODE:
		gather_index_fetch(&g->by_record, gather_bits(item->sha256));
		break;
	case GATHER_RECEIPT:
		gather_index_fetch(&g->by_receipt, gather_bits(item->sha256));
		break;
	case GATHER_UPTIME:
		break;
	}
}

static int add_item(struct gather *g, enum gather_kind kind, const json_t *record,
	const char *where)
{
	struct gather_item item;
	int rc = gather_item_read(&item, kind, record, where);

	if (rc == 0)
		rc = gather_take(g, &item, where);
	gather_item_release(&item);
	return rc;
}

int gather_add(struct gather *g, const json_t *record, const char *where)
{
	enum gather_kind item;
	const char *kind;

	if (json_get_text(record, where, "kind", &kind) < 0)
		return -1;
	if (strcmp(kind, "rnp.heartbeat") == 0)
		return add_heartbeat(g, record, where);
	if (gather_item_kind(kind, &item))
		return add_item(g, item, record, where);
	return err_set(EX_DATAERR, "%s: kind '%.40s' says nothing about usage", where,
		kind);
}

/* --- the order of it all ---------------------------------------------------------------------- */

/* A node's first bytes and number. */
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

static void sort_nodes(struct gather *g)
{
	struct place *places = xcalloc(g->n, sizeof *places);

	for (size_t i = 0; i < g->n; i++) {
		const char *address = g->nodes[i].address;

		places[i] = (struct place){ 0, address, (uint32_t)i };
		for (size_t k = 0; k < sizeof places->prefix && address[k]; k++)
			places[i].prefix |= (uint64_t)(unsigned char)address[k]
				<< (56 - 8 * k);
	}
	qsort(places, g->n, sizeof *places, by_address);
	g->order = xcalloc(g->n, sizeof *g->order);
	for (size_t i = 0; i < g->n; i++)
		g->order[i] = places[i].number;
	free(places);
}

void gather_finish(struct gather *g)
{
	/* all challenges have their owners now */
	for (size_t i = 0; i < g->nverdicts; i++)
		gather_count_verdict(g, i);
	if (g->n)
		sort_nodes(g);
}

const char *gather_address(const struct gather *g, size_t i)
{
	return g->nodes[g->order[i]].address;
}
