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
#define SCORE_MAX INT64_C(1000000000000000)

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
	node->proven_at_ms = -1;
	node->number = (uint32_t)g->n - 1;
	snprintf(node->address, sizeof node->address, "%s", address);
	slot->index = (uint32_t)g->n;
	return node;
}

static bool is_free(const struct gather_seen *slot)
{
	return sodium_is_zero(slot->hash, sizeof slot->hash);
}

/* Returns the slot that holds a hash, or would hold it; the hash is random, so it is its own
 * index. */
static struct gather_seen *seen_slot(struct gather_seen *table, size_t slots,
	const struct gather_seen *seen)
{
	size_t at;

	memcpy(&at, seen->hash, sizeof at);
	for (at &= slots - 1; !is_free(&table[at]); at = (at + 1) & (slots - 1))
		if (memcmp(&table[at], seen, sizeof *seen) == 0)
			break;
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

/* Whether this receipt or verdict was counted before, whatever signatures it carries. */
static bool seen_before(struct gather *g, const json_t *record)
{
	json_t *bare = json_copy((json_t *)record);
	struct gather_seen seen, *slot;
	struct buf text = BUF_INIT;

	json_object_del(bare, "proof");
	if (canon_write(&text, bare) < 0)
		bug("%s", err_get()->text);
	crypto_generichash(seen.hash, sizeof seen.hash, (const unsigned char *)text.data,
		text.len, NULL, 0);
	json_decref(bare);
	buf_release(&text);
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

/* Every node record is stored as text, because only the last passed verdict decides which one
 * counts. */
static int add_node(struct gather *g, const json_t *record, const char *where)
{
	struct gather_record *kept;
	struct gather_node *node;
	struct buf text = BUF_INIT;
	const char *address;
	json_t *bare;
	int64_t at_ms;

	if (json_get_text(record, where, "node", &address) < 0 ||
		json_get_time(record, where, "at", &at_ms) < 0)
		return -1;
	node = node_of(g, address);
	node->records = xgrow(node->records, &node->records_cap, node->nrecords + 1,
		sizeof *node->records);
	kept = &node->records[node->nrecords];
	if (canon_hash_record(kept->sha256, record) < 0)
		return -1;
	for (size_t i = 0; i < node->nrecords; i++)
		if (memcmp(node->records[i].sha256, kept->sha256, sizeof kept->sha256) ==
			0)
			return 0;
	bare = json_copy((json_t *)record);
	json_object_del(bare, "proof");
	json_write(&text, bare);
	json_decref(bare);
	kept->at_ms = at_ms;
	kept->text = buf_take(&text);
	node->nrecords++;
	return 0;
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

/* Adds a registry's rnp.uptime of one day; days need not coincide with the epoch. */
static int add_uptime(struct gather *g, const json_t *record, const char *where)
{
	const json_t *spans = json_object_get(record, "spans"), *pair;
	struct gather_node *node;
	const char *address;
	int64_t from_ms, to_ms, end = 0;
	size_t i;

	if (json_get_text(record, where, "node", &address) < 0 ||
		json_get_time(record, where, "from", &from_ms) < 0 ||
		json_get_time(record, where, "to", &to_ms) < 0)
		return -1;
	if (to_ms <= g->from_ms || from_ms >= g->to_ms)
		return 0;
	node = node_of(g, address);
	node->days++;
	json_array_foreach(spans, i, pair) {
		int64_t start = json_integer_value(json_array_get(pair, 0));
		int64_t stop = json_integer_value(json_array_get(pair, 1));

		if (start < end || stop <= start || stop > to_ms - from_ms)
			return err_set(EX_DATAERR,
				"%s: spans[%zu]: is not after the one before, "
				"or not within the day",
				where, i);
		end = stop;
		node->up = xgrow(node->up, &node->up_cap, node->nup + 1,
			sizeof *node->up);
		node->up[node->nup++] = (struct span){ from_ms + start, from_ms + stop };
	}
	return 0;
}

/* --- verdicts ------------------------------------------------------------------------------ */

void gather_device_key(const char *uuid, struct device_key *out)
{
	char lower[160];
	size_t n = 0;

	/* a uuid in upper case names the same device */
	for (; uuid[n] && n < sizeof lower; n++)
		lower[n] = uuid[n] >= 'A' && uuid[n] <= 'Z' ? (char)(uuid[n] + 32) :
							      uuid[n];
	crypto_generichash(out->bytes, sizeof out->bytes, (const unsigned char *)lower, n,
		NULL, 0);
}

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

static bool read_hash(const json_t *record, const char *key,
	unsigned char out[CANON_HASH_BYTES])
{
	const char *text = json_string_value(json_object_get(record, key));
	size_t n;

	return text &&
		sodium_hex2bin(out, CANON_HASH_BYTES, text, strlen(text), NULL, &n,
			NULL) == 0 &&
		n == CANON_HASH_BYTES;
}

/* Adds the facts that a passed verdict proves. A verdict that names no node record proves
 * nothing that is paid. Of two at the same instant, the one with the greater hash counts as the
 * last. */
static int take_proven(struct gather *g, struct gather_node *node, const json_t *record,
	int64_t at_ms)
{
	unsigned char hash[CANON_HASH_BYTES], node_hash[CANON_HASH_BYTES];
	struct device_key keys[GATHER_DEVICES_MAX];
	const json_t *device;
	int n = 0;
	size_t i;

	if (!read_hash(record, "node_record", node_hash))
		return 0;
	if (canon_hash_record(hash, record) < 0)
		return -1;
	json_array_foreach(json_object_get(record, "proven"), i, device) {
		if (n == GATHER_DEVICES_MAX)
			break;
		gather_device_key(json_string_value(json_object_get(device, "device")),
			&keys[n]);
		claim_device(g, (uint32_t)(node - g->nodes), &keys[n++], at_ms);
	}
	if (!n || at_ms < node->proven_at_ms ||
		(at_ms == node->proven_at_ms &&
			memcmp(hash, node->verdict_sha256, sizeof hash) < 0))
		return 0;
	node->proven_at_ms = at_ms;
	memcpy(node->verdict_sha256, hash, sizeof hash);
	memcpy(node->node_sha256, node_hash, sizeof node_hash);
	memcpy(node->proven, keys, sizeof keys);
	node->nproven = n;
	return 0;
}

static int add_verdict(struct gather *g, const json_t *record, const char *where)
{
	const char *address;
	struct gather_node *node;
	int64_t at_ms, score = -1;
	bool passed;

	if (json_get_text(record, where, "node", &address) < 0 ||
		json_get_time(record, where, "at", &at_ms) < 0 ||
		json_get_bool(record, where, "passed", &passed) < 0 ||
		json_opt_i64(record, where, "score_ppm", 0, SCORE_MAX, &score) < 0)
		return -1;
	if (at_ms < g->from_ms || at_ms >= g->to_ms || seen_before(g, record))
		return 0;
	node = node_of(g, address);
	node->verdicts++;
	node->failed += !passed;
	if (passed && take_proven(g, node, record, at_ms) < 0)
		return -1;
	if (!passed)
		score = 0;
	else if (g->scores)
		score = policy_score_ppm(g->scores, json_object_get(record, "readings"));
	if (score < 0)
		return 0;
	node->score_sum += score;
	node->scored++;
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

static int add_amount(int64_t *sum, bool *known, const json_t *record, const char *where,
	const char *key, const struct span *all, const struct span *clipped)
{
	int64_t amount;

	if (!json_object_get(record, key))
		return 0;
	if (json_get_i64(record, where, key, 0, JSON_SAFE_INTEGER_MAX, &amount) < 0)
		return -1;
	*known = true;
	if (__builtin_add_overflow(*sum, part_of(amount, all, clipped), sum) ||
		*sum > JSON_SAFE_INTEGER_MAX)
		return err_set(EX_DATAERR, "%s: %s: the sum of all receipts is too large",
			where, key);
	return 0;
}

static int add_receipt(struct gather *g, const json_t *record, const char *where)
{
	const char *address;
	struct gather_node *node;
	struct gather_work *work;
	int64_t gpu_s = -1;
	struct span all, in;

	if (json_get_text(record, where, "node", &address) < 0 ||
		json_get_time(record, where, "from", &all.from_ms) < 0 ||
		json_get_time(record, where, "to", &all.to_ms) < 0 ||
		json_opt_i64(record, where, "gpu_seconds", 0, JSON_SAFE_INTEGER_MAX,
			&gpu_s) < 0)
		return -1;
	if (all.to_ms <= all.from_ms)
		return err_set(EX_DATAERR, "%s: field 'to' is not after 'from'", where);
	in.from_ms = all.from_ms > g->from_ms ? all.from_ms : g->from_ms;
	in.to_ms = all.to_ms < g->to_ms ? all.to_ms : g->to_ms;
	if (in.from_ms >= in.to_ms || seen_before(g, record))
		return 0;
	node = node_of(g, address);
	if (add_amount(&node->earned_uusd, &node->earned_known, record, where,
		    "earned_uusd", &all, &in) < 0 ||
		add_amount(&node->credits, &node->credits_known, record, where, "credits",
			&all, &in) < 0)
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

int gather_add(struct gather *g, const json_t *record, const char *where)
{
	const char *kind;

	if (json_get_text(record, where, "kind", &kind) < 0)
		return -1;
	if (strcmp(kind, "rnp.node") == 0)
		return add_node(g, record, where);
	if (strcmp(kind, "rnp.uptime") == 0)
		return add_uptime(g, record, where);
	if (strcmp(kind, "rnp.heartbeat") == 0)
		return add_heartbeat(g, record, where);
	if (strcmp(kind, "rnp.verdict") == 0)
		return add_verdict(g, record, where);
	if (strcmp(kind, "rnp.receipt") == 0)
		return add_receipt(g, record, where);
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
