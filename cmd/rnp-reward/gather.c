#include "cmd/rnp-reward/gather.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/record/facts.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/base/mem.h"
#include "common/record/uptime.h"

#define SCORE_MAX INT64_C(1000000000000000)

typedef __int128 i128;

struct span {
	int64_t from_ms, to_ms;
};

struct gather_node {
	char address[KEY_ADDRESS_MAX];
	json_t *node; /* its rnp.node that holds for the epoch, or NULL */
	int64_t node_at_ms;
	struct uptime_beat *beats;
	size_t nbeats, beats_cap;
	struct span *spans; /* of work */
	size_t nspans, spans_cap;
	int64_t receipts, verdicts, failed;
	int64_t earned_uusd, credits;
	bool earned_known, credits_known;
	i128 score_sum;
	int64_t scored;
};

struct gather_slot {
	uint32_t index; /* + 1; 0: free */
};

struct gather_seen {
	unsigned char hash[crypto_generichash_BYTES_MIN];
};

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
		json_decref(g->nodes[i].node);
		free(g->nodes[i].beats);
		free(g->nodes[i].spans);
	}
	free(g->nodes);
	free(g->slots);
	free(g->seen);
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
	snprintf(node->address, sizeof node->address, "%s", address);
	slot->index = (uint32_t)g->n;
	return node;
}

static bool is_free(const struct gather_seen *slot)
{
	return sodium_is_zero(slot->hash, sizeof slot->hash);
}

/* Where a hash stands in the table, or would: it is random already. */
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

/* Whether this receipt or verdict came before, whatever proofs it carries. */
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

/* The newest record from before the end of the epoch; where there is none, the oldest after. */
static bool holds_rather(const struct gather *g, int64_t new_ms, int64_t old_ms)
{
	bool new_before = new_ms < g->to_ms, old_before = old_ms < g->to_ms;

	if (new_before != old_before)
		return new_before;
	return new_before ? new_ms > old_ms : new_ms < old_ms;
}

static int add_node(struct gather *g, const json_t *record, const char *where)
{
	const char *address;
	struct gather_node *node;
	int64_t at_ms;

	if (json_get_text(record, where, "node", &address) < 0 ||
		json_get_time(record, where, "at", &at_ms) < 0)
		return -1;
	node = node_of(g, address);
	if (node->node && !holds_rather(g, at_ms, node->node_at_ms))
		return 0;
	json_decref(node->node);
	node->node = json_incref((json_t *)record);
	node->node_at_ms = at_ms;
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

/* The part of an amount that falls into the epoch, so that the parts of all epochs add up to
 * the whole: the difference of what was due by its end and by its start, each rounded down. */
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
	struct span all, in;

	if (json_get_text(record, where, "node", &address) < 0 ||
		json_get_time(record, where, "from", &all.from_ms) < 0 ||
		json_get_time(record, where, "to", &all.to_ms) < 0)
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
	node->spans = xgrow(node->spans, &node->spans_cap, node->nspans + 1,
		sizeof *node->spans);
	node->spans[node->nspans++] = in;
	return 0;
}

int gather_add(struct gather *g, const json_t *record, const char *where)
{
	const char *kind;

	if (json_get_text(record, where, "kind", &kind) < 0)
		return -1;
	if (strcmp(kind, "rnp.node") == 0)
		return add_node(g, record, where);
	if (strcmp(kind, "rnp.heartbeat") == 0)
		return add_heartbeat(g, record, where);
	if (strcmp(kind, "rnp.verdict") == 0)
		return add_verdict(g, record, where);
	if (strcmp(kind, "rnp.receipt") == 0)
		return add_receipt(g, record, where);
	return err_set(EX_DATAERR, "%s: kind '%.40s' says nothing about usage", where,
		kind);
}

/* --- what comes of it ---------------------------------------------------------------------- */

static int by_time(const void *a, const void *b)
{
	const struct uptime_beat *x = a, *y = b;

	if (x->at_ms != y->at_ms)
		return x->at_ms < y->at_ms ? -1 : 1;
	return (x->interval_ms > y->interval_ms) - (x->interval_ms < y->interval_ms);
}

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

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
		if (node->nspans)
			qsort(node->spans, node->nspans, sizeof *node->spans, by_start);
	}
	if (g->n)
		qsort(g->nodes, g->n, sizeof *g->nodes, by_address);
}

/* Time that at least one receipt covers: never more than the clock on the wall. */
static int64_t union_ms(const struct span *spans, size_t n)
{
	int64_t sum = 0, end = INT64_MIN;

	for (size_t i = 0; i < n; i++) {
		int64_t start = spans[i].from_ms > end ? spans[i].from_ms : end;

		if (spans[i].to_ms <= start)
			continue;
		sum += spans[i].to_ms - start;
		end = spans[i].to_ms;
	}
	return sum;
}

static void set_sourced(json_t *usage, json_t *sources, const char *key, int64_t v,
	const char *source)
{
	json_set_i64(usage, key, v);
	json_set_text(sources, key, source);
}

static void set_fact(json_t *usage, json_t *sources, json_t *unknown, const json_t *node,
	const char *name)
{
	char source[160], at[64] = "";
	struct fact f;

	fact_read(node, name, &f);
	if (!f.known || (f.none && strcmp(name, "gpu_count") != 0)) {
		json_set_text(unknown, name,
			f.none             ? "this machine has no GPU" :
				f.cause[0] ? f.cause :
					     "the node record does not say");
		return;
	}
	snprintf(at, sizeof at, "%.40s", json_string_value(json_object_get(node, "at")));
	snprintf(source, sizeof source, "rnp.node of %s: %s", at, f.source);
	json_set_text(sources, name, source);
	if (f.text)
		json_set_text(usage, name, f.text);
	else
		json_set_i64(usage, name, f.value);
}

static void set_facts(json_t *usage, json_t *sources, json_t *unknown, const json_t *node)
{
	static const char *const names[] = { "wallet", "gpu_model", "gpu_count",
		"gpu_memory_bytes", "gpu_clock_mhz", "gpu_memory_bandwidth_bps",
		"cpu_cores", "cpu_clock_mhz", "down_bps", "up_bps" };

	if (!node) {
		json_set_text(unknown, "wallet", "there is no rnp.node record");
		json_set_text(unknown, "gpu_model", "there is no rnp.node record");
		return;
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		set_fact(usage, sources, unknown, node, names[i]);
}

static void set_times(json_t *usage, json_t *sources, const struct gather *g,
	const struct gather_node *node)
{
	/* judged as of the end of the epoch, so that the same records say the same at any time */
	int64_t up_ms = uptime_ms(node->beats, node->nbeats, g->from_ms, g->to_ms,
		g->to_ms);
	char source[96];

	snprintf(source, sizeof source, "%zu heartbeats", node->nbeats);
	set_sourced(usage, sources, "up_s", up_ms / 1000, source);
	snprintf(source, sizeof source, "%" PRId64 " receipts", node->receipts);
	set_sourced(usage, sources, "worked_s",
		union_ms(node->spans, node->nspans) / 1000, source);
	if (node->earned_known || !node->receipts)
		set_sourced(usage, sources, "earned_uusd", node->earned_uusd, source);
	if (node->credits_known || !node->receipts)
		set_sourced(usage, sources, "credits", node->credits, source);
}

static void set_score(json_t *usage, json_t *sources, json_t *unknown,
	const struct gather_node *node)
{
	char source[128];

	if (!node->scored) {
		json_set_text(unknown, "score_ppm",
			node->verdicts ? "no verdict has all readings" :
					 "no verdict in this epoch");
		return;
	}
	snprintf(source, sizeof source,
		"mean of %" PRId64 " verdicts, %" PRId64 " failed", node->scored,
		node->failed);
	set_sourced(usage, sources, "score_ppm",
		(int64_t)(node->score_sum / node->scored), source);
}

json_t *gather_usage(const struct gather *g, size_t i)
{
	const struct gather_node *node = &g->nodes[i];
	json_t *usage = json_record("rnp.usage"), *sources = json_object(),
	       *unknown = json_object();

	json_set_text(usage, "node", node->address);
	json_set_time(usage, "from", g->from_ms);
	json_set_time(usage, "to", g->to_ms);
	set_facts(usage, sources, unknown, node->node);
	set_times(usage, sources, g, node);
	set_score(usage, sources, unknown, node);
	json_set(usage, "sources", sources);
	if (json_object_size(unknown))
		json_set(usage, "unknown", unknown);
	else
		json_decref(unknown);
	return usage;
}
