/* gather.c - collects the records of an epoch: nodes, uptimes, verdicts, receipts. */
#include "cmd/rnp-reward/gather.h"

#include <inttypes.h>
#include <sodium.h>
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
	for (size_t i = 0; i < g->n; i++) {
		struct gather_node *node = &g->nodes[i];

		for (size_t k = 0; k < node->nrecords; k++)
			free(node->records[k].text);
		free(node->records);
		free(node->beats);
		free(node->up);
		free(node->work);
	}
	free(g->nodes);
	free(g->slots);
	free(g->seen);
	free(g->devices);
	free(g->verdicts);
	free(g->proven);
	free(g->place);
	memset(g, 0, sizeof *g);
}

/* --- tables -------------------------------------------------------------------------------- */

static uint64_t hash_text(const char *text)
{
	static const unsigned char key[crypto_shorthash_KEYBYTES] = "rnp-reward usag";
	uint64_t h;

	crypto_shorthash((unsigned char *)&h, (const unsigned char *)text, strlen(text),
		key);
	return h;
}

static struct gather_slot *slot_of(const struct gather *g, const char *address)
{
	size_t at = hash_text(address) & (g->nslots - 1);

	while (g->slots[at].index &&
		strcmp(g->nodes[g->slots[at].index - 1].address, address))
		at = (at + 1) & (g->nslots - 1);
	return &g->slots[at];
}

static void grow_slots(struct gather *g)
{
	free(g->slots);
	g->nslots = g->nslots ? 2 * g->nslots : 64;
	g->slots = xcalloc(g->nslots, sizeof *g->slots);
	for (size_t i = 0; i < g->n; i++)
		slot_of(g, g->nodes[i].address)->index = (uint32_t)i + 1;
}

static struct gather_node *node_of(struct gather *g, const char *address)
{
	struct gather_slot *slot;
	struct gather_node *node;

	if (2 * (g->n + 1) > g->nslots)
		grow_slots(g);
	slot = slot_of(g, address);
	if (slot->index)
		return &g->nodes[slot->index - 1];
	g->nodes = xgrow(g->nodes, &g->cap, g->n + 1, sizeof *g->nodes);
	node = &g->nodes[g->n++];
	memset(node, 0, sizeof *node);
	node->number = (uint32_t)g->n - 1;
	snprintf(node->address, sizeof node->address, "%s", address);
	slot->index = (uint32_t)g->n;
	return node;
}

static bool is_free(const struct gather_seen *slot)
{
	return !(slot->half[0] | slot->half[1]);
}

/* Returns the slot that holds a hash, or would hold it; the hash is random, so it is its own
 * index. */
static struct gather_seen *seen_slot(struct gather_seen *table, size_t slots,
	const struct gather_seen *seen)
{
	size_t at = seen->half[0] & (slots - 1);

	while (!is_free(&table[at]) &&
		(table[at].half[0] != seen->half[0] ||
			table[at].half[1] != seen->half[1]))
		at = (at + 1) & (slots - 1);
	return &table[at];
}

static void grow_seen(struct gather *g)
{
	size_t slots = g->seen_cap ? 2 * g->seen_cap : 64;
	struct gather_seen *table = xcalloc(slots, sizeof *table);

	for (size_t i = 0; i < g->seen_cap; i++)
		if (!is_free(&g->seen[i]))
			*seen_slot(table, slots, &g->seen[i]) = g->seen[i];
	free(g->seen);
	g->seen = table;
	g->seen_cap = slots;
}

/* Sets the hash that identifies an item. */
static void hash_item(const struct gather_item *item, unsigned char out[CANON_HASH_BYTES])
{
	if (!item->record)
		memcpy(out, item->sha256, CANON_HASH_BYTES);
	else if (canon_hash_record(out, item->record) < 0)
		bug("%s", err_get()->text);
}

/* Whether the node, receipt or verdict of this hash was counted before, whatever signatures it
 * carries. */
static bool seen_before(struct gather *g, const unsigned char sha256[CANON_HASH_BYTES])
{
	struct gather_seen seen, *slot;

	memcpy(seen.half, sha256, sizeof seen.half);
	if (2 * (g->nseen + 1) > g->seen_cap)
		grow_seen(g);
	slot = seen_slot(g->seen, g->seen_cap, &seen);
	if (!is_free(slot))
		return true;
	*slot = seen;
	g->nseen++;
	return false;
}

/* --- taking in ----------------------------------------------------------------------------- */

/* Returns the text of a record without its proof; the caller frees it. */
static char *text_of(const json_t *record)
{
	struct buf text = BUF_INIT;
	json_t *bare = json_copy((json_t *)record);

	json_object_del(bare, "proof");
	json_write(&text, bare);
	json_decref(bare);
	return buf_take(&text);
}

/* Every node record is stored as text, because only the last passed verdict decides which one
 * counts. */
static void take_node(struct gather *g, const struct gather_item *item)
{
	struct gather_record *kept;
	struct gather_node *node;
	unsigned char sha256[CANON_HASH_BYTES];

	hash_item(item, sha256);
	node = node_of(g, item->node);
	if (seen_before(g, sha256))
		return;
	node->records = xgrow(node->records, &node->records_cap, node->nrecords + 1,
		sizeof *node->records);
	kept = &node->records[node->nrecords++];
	memcpy(kept->sha256, sha256, sizeof kept->sha256);
	kept->at_ms = item->at_ms;
	kept->text = item->text ? xstrndup(item->text, strlen(item->text)) :
				  text_of(item->record);
}

static int add_heartbeat(struct gather *g, const json_t *record, const char *where)
{
	const char *address;
	struct gather_node *node;
	int64_t at_ms, interval_s;

	if (json_get_text(record, where, "node", &address) < 0 ||
		json_get_time(record, where, "at", &at_ms) < 0 ||
		json_get_i64(record, where, "interval_s", 1, 86400, &interval_s) < 0)
		return -1;
	node = node_of(g, address);
	node->beats = xgrow(node->beats, &node->beats_cap, node->nbeats + 1,
		sizeof *node->beats);
	node->beats[node->nbeats++] = (struct uptime_beat){ at_ms, interval_s * 1000 };
	return 0;
}

/* Takes a registry's rnp.uptime of one day; days need not coincide with the epoch. */
static int take_uptime(struct gather *g, const struct gather_item *item,
	const char *where)
{
	struct gather_node *node;
	int64_t end = 0;

	if (item->to_ms <= g->from_ms || item->from_ms >= g->to_ms)
		return 0;
	node = node_of(g, item->node);
	node->days++;
	for (size_t i = 0; i < item->nspans; i++) {
		int64_t start = item->spans[i].from_ms, stop = item->spans[i].to_ms;

		if (start < end || stop <= start || stop > item->to_ms - item->from_ms)
			return err_set(EX_DATAERR,
				"%s: spans[%zu]: is not after the one before, "
				"or not within the day",
				where, i);
		end = stop;
		node->up = xgrow(node->up, &node->up_cap, node->nup + 1,
			sizeof *node->up);
		node->up[node->nup++] = (struct span){ item->from_ms + start,
			item->from_ms + stop };
	}
	return 0;
}

/* --- verdicts ------------------------------------------------------------------------------ */

static struct gather_device *device_slot(struct gather_device *table, size_t slots,
	const struct device_key *key)
{
	size_t at;

	memcpy(&at, key->bytes, sizeof at);
	for (at &= slots - 1; table[at].node; at = (at + 1) & (slots - 1))
		if (memcmp(&table[at].key, key, sizeof *key) == 0)
			break;
	return &table[at];
}

static void grow_devices(struct gather *g)
{
	size_t slots = g->devices_cap ? 2 * g->devices_cap : 64;
	struct gather_device *table = xcalloc(slots, sizeof *table);

	for (size_t i = 0; i < g->devices_cap; i++)
		if (g->devices[i].node)
			*device_slot(table, slots, &g->devices[i].key) = g->devices[i];
	free(g->devices);
	g->devices = table;
	g->devices_cap = slots;
}

/* The first node that proves a device owns it for the epoch; of two at the same instant, the
 * one with the lower address, so that the order of the input does not matter. */
static void claim_device(struct gather *g, uint32_t node, const struct device_key *key,
	int64_t at_ms)
{
	struct gather_device *d;

	if (2 * (g->ndevices + 1) > g->devices_cap)
		grow_devices(g);
	d = device_slot(g->devices, g->devices_cap, key);
	if (!d->node)
		g->ndevices++;
	else if (at_ms > d->at_ms ||
		(at_ms == d->at_ms &&
			strcmp(g->nodes[node].address, g->nodes[d->node - 1].address) >=
				0))
		return;
	*d = (struct gather_device){ *key, at_ms, node + 1 };
}

uint32_t gather_owner(const struct gather *g, const struct device_key *key)
{
	const struct gather_device *d = g->devices_cap ?
		device_slot(g->devices, g->devices_cap, key) :
		NULL;

	return d && d->node ? d->node - 1 : UINT32_MAX;
}

/* Returns what a passed verdict scores, -1: nothing. */
static int64_t score_of(const struct gather *g, const struct gather_item *item)
{
	json_t *readings;
	int64_t ppm;

	if (!g->scores)
		return item->score_ppm;
	if (item->readings)
		return policy_score_ppm(g->scores, item->readings);
	readings = json_object();
	for (int i = 0; i < GATHER_READINGS; i++)
		if (item->reading[i] >= 0)
			json_set_i64(readings, gather_readings[i], item->reading[i]);
	ppm = policy_score_ppm(g->scores, readings);
	json_decref(readings);
	return ppm;
}

static void take_passed(struct gather *g, uint32_t node, const struct gather_item *item,
	const unsigned char sha256[CANON_HASH_BYTES])
{
	struct gather_verdict *v;

	if (item->names_challenge)
		claim_device(g, node, &item->challenge, item->at_ms);
	g->verdicts = xgrow(g->verdicts, &g->verdicts_cap, g->nverdicts + 1,
		sizeof *g->verdicts);
	v = &g->verdicts[g->nverdicts++];
	*v = (struct gather_verdict){ .at_ms = item->at_ms,
		.score_ppm = score_of(g, item),
		.node = node,
		.proven = (uint32_t)g->nproven,
		.nproven = (uint8_t)item->nproven,
		.names_challenge = item->names_challenge,
		.names_record = item->names_record,
		.challenge = item->challenge };
	memcpy(v->sha256, sha256, sizeof v->sha256);
	memcpy(v->node_record, item->node_record, sizeof v->node_record);
	g->proven = xgrow(g->proven, &g->proven_cap, g->nproven + v->nproven,
		sizeof *g->proven);
	for (int i = 0; i < item->nproven; i++)
		g->proven[g->nproven++] = item->proven[i];
}

static void take_verdict(struct gather *g, const struct gather_item *item)
{
	unsigned char sha256[CANON_HASH_BYTES];
	struct gather_node *node;

	if (item->at_ms < g->from_ms || item->at_ms >= g->to_ms)
		return;
	hash_item(item, sha256);
	if (seen_before(g, sha256))
		return;
	node = node_of(g, item->node);
	node->verdicts++;
	if (item->passed) {
		take_passed(g, (uint32_t)(node - g->nodes), item, sha256);
	} else {
		node->failed++;
		node->scored++;
	}
}

/* Whether v is later than the verdict of that index plus 1; of two at the same instant, the one
 * with the greater hash is. */
static bool is_later(const struct gather *g, const struct gather_verdict *v,
	uint32_t than)
{
	const struct gather_verdict *last = than ? &g->verdicts[than - 1] : NULL;

	return !last || v->at_ms > last->at_ms ||
		(v->at_ms == last->at_ms &&
			memcmp(v->sha256, last->sha256, sizeof v->sha256) >= 0);
}

/* Counts a passed verdict. One on a challenge that another node passed first is none of this
 * node's: it proves nothing, and counts as failed. One that names no node record proves nothing
 * that is paid. */
static void count_passed(struct gather *g, size_t i)
{
	const struct gather_verdict *v = &g->verdicts[i];
	struct gather_node *node = &g->nodes[v->node];

	if (v->names_challenge && gather_owner(g, &v->challenge) != v->node) {
		node->failed++;
		node->scored++;
		if (is_later(g, v, node->taken))
			node->taken = (uint32_t)i + 1;
		return;
	}
	if (v->score_ppm >= 0) {
		node->score_sum += v->score_ppm;
		node->scored++;
	}
	if (!v->names_record || !v->nproven)
		return;
	for (int k = 0; k < v->nproven; k++)
		claim_device(g, v->node, &g->proven[v->proven + (uint32_t)k], v->at_ms);
	if (is_later(g, v, node->proof))
		node->proof = (uint32_t)i + 1;
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

/* amount -1: not stated */
static int add_amount(int64_t *sum, bool *known, int64_t amount, const char *where,
	const char *key, const struct span *all, const struct span *clipped)
{
	if (amount < 0)
		return 0;
	*known = true;
	if (__builtin_add_overflow(*sum, part_of(amount, all, clipped), sum) ||
		*sum > JSON_SAFE_INTEGER_MAX)
		return err_set(EX_DATAERR, "%s: %s: the sum of all receipts is too large",
			where, key);
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
	hash_item(item, sha256);
	if (seen_before(g, sha256))
		return 0;
	node = node_of(g, item->node);
	if (add_amount(&node->earned_uusd, &node->earned_known, item->earned_uusd, where,
		    "earned_uusd", &all, &in) < 0 ||
		add_amount(&node->credits, &node->credits_known, item->credits, where,
			"credits", &all, &in) < 0)
		return -1;
	node->receipts++;
	node->work = xgrow(node->work, &node->work_cap, node->nwork + 1,
		sizeof *node->work);
	work = &node->work[node->nwork++];
	*work = (struct gather_work){ in, in, -1 };
	if (gpu_s < 0)
		return 0;
	work->gpu_ms = part_of(gpu_s > GPU_S_MAX ? GPU_S_MAX * 1000 : gpu_s * 1000, &all,
		&in);
	if (work->gpu_ms < in.to_ms - in.from_ms)
		work->span.to_ms = in.from_ms + work->gpu_ms;
	return 0;
}

int gather_take(struct gather *g, const struct gather_item *item, const char *where)
{
	switch (item->kind) {
	case GATHER_UPTIME:
		return take_uptime(g, item, where);
	case GATHER_VERDICT:
		take_verdict(g, item);
		return 0;
	case GATHER_NODE:
		take_node(g, item);
		return 0;
	case GATHER_RECEIPT:
		break;
	}
	return take_receipt(g, item, where);
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

static int by_time(const void *a, const void *b)
{
	const struct uptime_beat *x = a, *y = b;

	if (x->at_ms != y->at_ms)
		return x->at_ms < y->at_ms ? -1 : 1;
	return (x->interval_ms > y->interval_ms) - (x->interval_ms < y->interval_ms);
}

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b; /* or gather_work, which starts with a span */

	return (x->from_ms > y->from_ms) - (x->from_ms < y->from_ms);
}

static int by_address(const void *a, const void *b)
{
	return strcmp(((const struct gather_node *)a)->address,
		((const struct gather_node *)b)->address);
}

void gather_finish(struct gather *g)
{
	/* all challenges have their owners now, and the nodes are still as they arrived */
	for (size_t i = 0; i < g->nverdicts; i++)
		count_passed(g, i);
	for (size_t i = 0; i < g->n; i++) {
		struct gather_node *node = &g->nodes[i];

		if (node->nbeats)
			qsort(node->beats, node->nbeats, sizeof *node->beats, by_time);
		if (node->nup)
			qsort(node->up, node->nup, sizeof *node->up, by_start);
		if (node->nwork)
			qsort(node->work, node->nwork, sizeof *node->work, by_start);
	}
	if (g->n)
		qsort(g->nodes, g->n, sizeof *g->nodes, by_address);
	/* devices name nodes by the order in which they arrived */
	g->place = xcalloc(g->n + 1, sizeof *g->place);
	for (size_t i = 0; i < g->n; i++)
		g->place[g->nodes[i].number] = (uint32_t)i;
}

const char *gather_address(const struct gather *g, size_t i)
{
	return g->nodes[i].address;
}
