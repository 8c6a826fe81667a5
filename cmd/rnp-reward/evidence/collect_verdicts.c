/* collect_verdicts.c - which node passed a challenge first, which one proved a device first, and
 * which verdicts count. */
#include <string.h>

#include "cmd/rnp-reward/evidence/challenge_rule.h"
#include "cmd/rnp-reward/evidence/collect_parts.h"
#include "common/base/mem.h"
#include "common/json/json.h"

static bool same_verdict(const void *c, uint32_t index, const void *sha256)
{
	return memcmp(((const struct collect *)c)->verdicts[index].sha256, sha256,
		       CANON_HASH_BYTES) == 0;
}

static bool same_challenge(const void *c, uint32_t index, const void *key)
{
	return memcmp(&((const struct collect *)c)->verdicts[index].challenge, key,
		       sizeof(struct device_key)) == 0;
}

static bool same_device(const void *c, uint32_t index, const void *key)
{
	return memcmp(&((const struct collect *)c)->devices[index].key, key,
		       sizeof(struct device_key)) == 0;
}

/* Whether a node comes before another that passed the same challenge. The same rule decides who
 * proved a device first. */
static bool is_first(const struct collect *c, uint32_t node, int64_t at_ms,
	uint32_t other, int64_t other_at_ms)
{
	return challenge_order(at_ms, c->nodes[node].address, other_at_ms,
		       c->nodes[other].address) < 0;
}

/* Enters the verdict of this index as the first on its challenge, if it is. */
static void claim_challenge(struct collect *c, size_t index)
{
	const struct collect_verdict *v = &c->verdicts[index], *owner;
	uint32_t bits = collect_bits(&v->challenge);
	uint64_t *slot;

	hash_index_reserve(&c->by_challenge);
	slot = hash_index_slot(&c->by_challenge, bits, same_challenge, c, &v->challenge);
	owner = *slot ? &c->verdicts[(uint32_t)*slot - 1] : NULL;
	if (!owner || is_first(c, v->node, v->at_ms, owner->node, owner->at_ms))
		hash_index_set(&c->by_challenge, slot, bits, index);
}

uint32_t collect_challenge_owner(const struct collect *c, const struct collect_verdict *v)
{
	uint32_t first = hash_index_find(&c->by_challenge, collect_bits(&v->challenge),
		same_challenge, c, &v->challenge);

	return first == UINT32_MAX ? UINT32_MAX : c->verdicts[first].node;
}

uint32_t collect_device_of(struct collect *c, const struct device_key *key)
{
	uint64_t *slot;

	hash_index_reserve(&c->by_device);
	slot = hash_index_slot(&c->by_device, collect_bits(key), same_device, c, key);
	if (*slot)
		return (uint32_t)*slot - 1;
	c->devices = xgrow(c->devices, &c->devices_cap, c->ndevices + 1,
		sizeof *c->devices);
	c->devices[c->ndevices] = (struct collect_device){ .key = *key };
	hash_index_set(&c->by_device, slot, collect_bits(key), c->ndevices);
	return (uint32_t)c->ndevices++;
}

/* The first node that proves a device owns it for the epoch. */
static void claim_device(struct collect *c, uint32_t node, struct collect_device *d,
	int64_t at_ms)
{
	if (!d->node || is_first(c, node, at_ms, d->node - 1, d->at_ms)) {
		d->node = node + 1;
		d->at_ms = at_ms;
	}
}

uint32_t collect_device_owner(const struct collect *c, const struct device_key *key)
{
	uint32_t d = hash_index_find(&c->by_device, collect_bits(key), same_device, c,
		key);

	return d == UINT32_MAX || !c->devices[d].node ? UINT32_MAX :
							c->devices[d].node - 1;
}

/* Returns what a passed verdict scores, -1: nothing. */
static int64_t score_of(const struct collect *c, const struct collect_item *item)
{
	json_t *readings;
	int64_t ppm;

	if (!c->scores || !json_object_get(c->scores->doc, "score"))
		return item->score_ppm;
	if (item->readings)
		return policy_score_ppm(c->scores, item->readings);
	readings = json_object();
	for (int i = 0; i < COLLECT_READINGS; i++)
		if (item->reading[i] >= 0)
			json_set_i64(readings, collect_readings[i], item->reading[i]);
	ppm = policy_score_ppm(c->scores, readings);
	json_decref(readings);
	return ppm;
}

/* Returns the place of a node record's hash in named, plus 1. The verdicts of a node mostly name
 * the same record, which is kept once. */
static uint32_t name_record(struct collect *c, struct collect_node *node,
	const unsigned char sha256[CANON_HASH_BYTES])
{
	if (node->named &&
		memcmp(&c->named[node->named - 1], sha256, sizeof *c->named) == 0)
		return node->named;
	c->named = xgrow(c->named, &c->named_cap, c->nnamed + 1, sizeof *c->named);
	memcpy(&c->named[c->nnamed++], sha256, sizeof *c->named);
	node->named = (uint32_t)c->nnamed;
	return node->named;
}

static void take_passed(struct collect *c, struct collect_node *node,
	const struct collect_item *item)
{
	size_t index = c->nverdicts - 1;
	struct collect_verdict *v = &c->verdicts[index];

	v->score_ppm = score_of(c, item);
	v->bandwidth = item->readings ?
		json_integer_value(json_object_get(item->readings, "bandwidth")) :
		item->reading[0];
	if (item->names_record)
		v->named = name_record(c, node, item->node_record);
	v->proven = (uint32_t)c->nproven;
	v->nproven = (uint8_t)item->nproven;
	c->proven = xgrow(c->proven, &c->proven_cap, c->nproven + v->nproven,
		sizeof *c->proven);
	for (int i = 0; i < item->nproven; i++)
		c->proven[c->nproven++] = collect_device_of(c, &item->proven[i]);
	if (!item->names_challenge)
		return;
	v->names_challenge = true;
	v->challenge = item->challenge;
	claim_challenge(c, index);
}

void collect_take_verdict(struct collect *c, const struct collect_item *item)
{
	unsigned char sha256[CANON_HASH_BYTES];
	struct collect_verdict *v;
	struct collect_node *node;

	if (item->at_ms < c->from_ms || item->at_ms >= c->to_ms)
		return;
	collect_hash_item(item, sha256);
	if (collect_seen(c, &c->by_verdict, same_verdict, sha256, c->nverdicts))
		return;
	node = collect_node_of(c, item->node);
	node->verdicts++;
	c->verdicts = xgrow(c->verdicts, &c->verdicts_cap, c->nverdicts + 1,
		sizeof *c->verdicts);
	v = &c->verdicts[c->nverdicts++];
	*v = (struct collect_verdict){ .at_ms = item->at_ms,
		.node = (uint32_t)(node - c->nodes),
		.passed = item->passed };
	memcpy(v->sha256, sha256, sizeof v->sha256);
	if (item->passed)
		take_passed(c, node, item);
}

/* Whether v is later than the verdict of that index plus 1; of two at the same instant, the one
 * with the greater hash is. */
static bool is_later(const struct collect *c, const struct collect_verdict *v,
	uint32_t than)
{
	const struct collect_verdict *last = than ? &c->verdicts[than - 1] : NULL;

	return !last || v->at_ms > last->at_ms ||
		(v->at_ms == last->at_ms &&
			memcmp(v->sha256, last->sha256, sizeof v->sha256) >= 0);
}

void collect_count_verdict(struct collect *c, size_t i)
{
	const struct collect_verdict *v = &c->verdicts[i];
	struct collect_node *node = &c->nodes[v->node];

	if (v->names_challenge && collect_challenge_owner(c, v) != v->node) {
		node->verdicts--;
		node->void_verdicts++;
		if (is_later(c, v, node->last_void))
			node->last_void = (uint32_t)i + 1;
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
		claim_device(c, v->node, &c->devices[c->proven[k]], v->at_ms);
	if (is_later(c, v, node->proof))
		node->proof = (uint32_t)i + 1;
}
