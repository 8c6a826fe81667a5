/* gather_verdicts.c - verdicts: who passed a challenge first, who proved a device first, and which of
 * them count. */
#include <string.h>

#include "cmd/rnp-reward/challenge_rule.h"
#include "cmd/rnp-reward/gather_parts.h"
#include "common/base/mem.h"
#include "common/json/json.h"

static bool same_verdict(const void *g, uint32_t index, const void *sha256)
{
	return memcmp(((const struct gather *)g)->verdicts[index].sha256, sha256,
		       CANON_HASH_BYTES) == 0;
}

static bool same_challenge(const void *g, uint32_t index, const void *key)
{
	return memcmp(&((const struct gather *)g)->verdicts[index].challenge, key,
		       sizeof(struct device_key)) == 0;
}

static bool same_device(const void *g, uint32_t index, const void *key)
{
	return memcmp(&((const struct gather *)g)->devices[index].key, key,
		       sizeof(struct device_key)) == 0;
}

/* Whether a node comes first of two that passed a challenge, or proved a device, to which the same
 * rule applies. */
static bool is_first(const struct gather *g, uint32_t node, int64_t at_ms, uint32_t other,
	int64_t other_at_ms)
{
	return challenge_order(at_ms, g->nodes[node].address, other_at_ms,
		       g->nodes[other].address) < 0;
}

/* Claims the challenge of a verdict, whose index is given. */
static void claim_challenge(struct gather *g, size_t index)
{
	const struct gather_verdict *v = &g->verdicts[index], *owner;
	uint32_t bits = gather_bits(&v->challenge);
	uint64_t *slot;

	gather_index_reserve(&g->by_challenge);
	slot = gather_index_slot(&g->by_challenge, bits, same_challenge, g,
		&v->challenge);
	owner = *slot ? &g->verdicts[(uint32_t)*slot - 1] : NULL;
	if (!owner || is_first(g, v->node, v->at_ms, owner->node, owner->at_ms))
		gather_index_set(&g->by_challenge, slot, bits, index);
}

uint32_t gather_challenge_owner(const struct gather *g, const struct gather_verdict *v)
{
	uint32_t first = gather_index_find(&g->by_challenge, gather_bits(&v->challenge),
		same_challenge, g, &v->challenge);

	return first == UINT32_MAX ? UINT32_MAX : g->verdicts[first].node;
}

/* Returns the number of a device, which is new or not. */
static uint32_t device_of(struct gather *g, const struct device_key *key)
{
	uint64_t *slot;

	gather_index_reserve(&g->by_device);
	slot = gather_index_slot(&g->by_device, gather_bits(key), same_device, g, key);
	if (*slot)
		return (uint32_t)*slot - 1;
	g->devices = xgrow(g->devices, &g->devices_cap, g->ndevices + 1,
		sizeof *g->devices);
	g->devices[g->ndevices] = (struct gather_device){ .key = *key };
	gather_index_set(&g->by_device, slot, gather_bits(key), g->ndevices);
	return (uint32_t)g->ndevices++;
}

/* The first node that proves a device owns it for the epoch. */
static void claim_device(struct gather *g, uint32_t node, struct gather_device *d,
	int64_t at_ms)
{
	if (!d->node || is_first(g, node, at_ms, d->node - 1, d->at_ms)) {
		d->node = node + 1;
		d->at_ms = at_ms;
	}
}

uint32_t gather_device_owner(const struct gather *g, const struct device_key *key)
{
	uint32_t d = gather_index_find(&g->by_device, gather_bits(key), same_device, g,
		key);

	return d == UINT32_MAX || !g->devices[d].node ? UINT32_MAX :
							g->devices[d].node - 1;
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

/* Returns where a node record's hash is in named, plus 1. The verdicts of a node mostly name the
 * same one. */
static uint32_t name_record(struct gather *g, struct gather_node *node,
	const unsigned char sha256[CANON_HASH_BYTES])
{
	if (node->named &&
		memcmp(&g->named[node->named - 1], sha256, sizeof *g->named) == 0)
		return node->named;
	g->named = xgrow(g->named, &g->named_cap, g->nnamed + 1, sizeof *g->named);
	memcpy(&g->named[g->nnamed++], sha256, sizeof *g->named);
	node->named = (uint32_t)g->nnamed;
	return node->named;
}

static void take_passed(struct gather *g, struct gather_node *node,
	const struct gather_item *item)
{
	size_t index = g->nverdicts - 1;
	struct gather_verdict *v = &g->verdicts[index];

	v->score_ppm = score_of(g, item);
	v->bandwidth = item->readings ?
		json_integer_value(json_object_get(item->readings, "bandwidth")) :
		item->reading[0];
	if (item->names_record)
		v->named = name_record(g, node, item->node_record);
	v->proven = (uint32_t)g->nproven;
	v->nproven = (uint8_t)item->nproven;
	g->proven = xgrow(g->proven, &g->proven_cap, g->nproven + v->nproven,
		sizeof *g->proven);
	for (int i = 0; i < item->nproven; i++)
		g->proven[g->nproven++] = device_of(g, &item->proven[i]);
	if (!item->names_challenge)
		return;
	v->names_challenge = true;
	v->challenge = item->challenge;
	claim_challenge(g, index);
}

void gather_take_verdict(struct gather *g, const struct gather_item *item)
{
	unsigned char sha256[CANON_HASH_BYTES];
	struct gather_verdict *v;
	struct gather_node *node;

	if (item->at_ms < g->from_ms || item->at_ms >= g->to_ms)
		return;
	gather_hash_item(item, sha256);
	if (gather_seen(g, &g->by_verdict, same_verdict, sha256, g->nverdicts))
		return;
	node = gather_node_of(g, item->node);
	node->verdicts++;
	g->verdicts = xgrow(g->verdicts, &g->verdicts_cap, g->nverdicts + 1,
		sizeof *g->verdicts);
	v = &g->verdicts[g->nverdicts++];
	*v = (struct gather_verdict){ .at_ms = item->at_ms,
		.node = (uint32_t)(node - g->nodes),
		.passed = item->passed };
	memcpy(v->sha256, sha256, sizeof v->sha256);
	if (item->passed)
		take_passed(g, node, item);
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

void gather_count_verdict(struct gather *g, size_t i)
{
	const struct gather_verdict *v = &g->verdicts[i];
	struct gather_node *node = &g->nodes[v->node];

	if (v->names_challenge && gather_challenge_owner(g, v) != v->node) {
		node->verdicts--;
		node->void_verdicts++;
		if (is_later(g, v, node->taken))
			node->taken = (uint32_t)i + 1;
		return;
	}
	if (!v->passed) {
		node->failed++;
		node->scored++;
		return;
	}
	if (v->bandwidth > node->bandwidth)
		node->bandwidth = v->bandwidth;
	if (v->score_ppm >= 0) {
		node->score_sum += v->score_ppm;
		node->scored++;
	}
	if (!v->named || !v->nproven)
		return;
	for (uint32_t k = v->proven; k < v->proven + v->nproven; k++)
		claim_device(g, v->node, &g->devices[g->proven[k]], v->at_ms);
	if (is_later(g, v, node->proof))
		node->proof = (uint32_t)i + 1;
}
