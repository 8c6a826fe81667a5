/* collect_parts.h - what the files of collect.h share: collect.c and collect_verdicts.c fill the
 * tables, collect_usage.c and cap_claims.c make usages of them. */
#ifndef RNP_CMD_REWARD_EVIDENCE_COLLECT_PARTS_H
#define RNP_CMD_REWARD_EVIDENCE_COLLECT_PARTS_H

#include <sodium.h>
#include <stdbool.h>
#include <string.h>

#include "cmd/rnp-reward/evidence/collect.h"
#include "cmd/rnp-reward/evidence/collect_item.h"
#include "common/json/canon.h"
#include "common/record/key.h"
#include "common/record/uptime.h"

typedef __int128 i128;

/* The lists of a node are linked through arrays that all nodes share: `next` is an index plus 1,
 * 0 is the end. So an empty list takes no memory. */

struct collect_record { /* an rnp.node */
	unsigned char sha256[CANON_HASH_BYTES];
	int64_t at_ms;
	const char *text; /* in texts: collect_item_facts of it */
	uint32_t next;
};

/* A verdict. Whether a passed one counts is known only when all are read, because each challenge
 * belongs to one node (challenge_rule.h). */
struct collect_verdict {
	int64_t at_ms, score_ppm; /* score -1: none */
	int64_t bandwidth;        /* bytes a second that it measured; 0: it did not */
	struct device_key challenge;
	unsigned char sha256[CANON_HASH_BYTES];
	uint32_t node;
	uint32_t proven; /* the first of nproven in c->proven */
	uint32_t named;  /* the node record that it names, in c->named, plus 1; 0: none */
	uint8_t nproven;
	bool passed, names_challenge;
};

struct collect_hash {
	unsigned char bytes[CANON_HASH_BYTES];
};

struct collect_work { /* a receipt's part in the epoch */
	struct span wall;
	int64_t gpu_ms;         /* -1: not stated */
	uint64_t short_hash[2]; /* the first bytes of the receipt's hash */
	uint32_t next;
	uint32_t used, nused; /* the devices that it names, in c->used */
};

struct collect_up { /* up according to rnp.uptime */
	struct span span;
	uint32_t next;
};

struct collect_beat {
	struct uptime_beat beat;
	uint32_t next;
};

struct collect_list {
	uint32_t first, last, n;
};

struct collect_node {
	i128 score_sum;
	int64_t earned_uusd, credits;
	int64_t bandwidth; /* the most that a verdict measured, as there */
	char address[KEY_ADDRESS_MAX];
	bool earned_known, credits_known;
	uint32_t records; /* the first */
	struct collect_list up, work, beats;
	uint64_t days;           /* with an rnp.uptime, a bit for each: collect_day */
	uint32_t verdicts;       /* without void ones, when all are counted */
	uint32_t failed, scored; /* of these */
	uint32_t void_verdicts;
	uint32_t named;     /* what its last verdict named, plus 1 */
	uint32_t proof;     /* the last verdict that proves devices, plus 1; 0: none */
	uint32_t last_void; /* the last void verdict, plus 1; 0: none */
};

struct collect_device {
	struct device_key key;
	int64_t at_ms;
	uint32_t node; /* plus 1; 0: nobody's */
};

/* How many days of an epoch have a bit of their own in collect_node.days. */
#define COLLECT_DAYS    62
#define COLLECT_DAYS_MS (INT64_C(86400000) * (COLLECT_DAYS - 1)) /* wherever they begin */

/* Returns which day of the epoch a time is on, from 1, each of 24 hours UTC; 0 and COLLECT_DAYS
 * + 1: before and after them. */
static inline int collect_day(const struct collect *c, int64_t at_ms)
{
	int64_t day = at_ms / 86400000 - c->from_ms / 86400000 + 1;

	return day < 0 ? 0 : day > COLLECT_DAYS ? COLLECT_DAYS + 1 : (int)day;
}

/* Returns the first bits of a SHA-256 or of a key, which need no hash function. */
static inline uint32_t collect_bits(const void *hash)
{
	uint32_t bits;

	memcpy(&bits, hash, sizeof bits);
	return bits;
}

/* Returns the node of an address and adds it if it is new, which may move all others. */
struct collect_node *collect_node_of(struct collect *c, const char *address);

/* Sets the hash that identifies an item. */
void collect_hash_item(const struct collect_item *item,
	unsigned char out[CANON_HASH_BYTES]);

/* Whether the record of this hash was counted before, by whomever it was signed. If not, it is
 * entered as the element `next` of its array, which the caller then adds. */
bool collect_seen(const struct collect *c, struct hash_index *ix, hash_index_same_fn same,
	const unsigned char sha256[CANON_HASH_BYTES], size_t next);

void collect_take_verdict(struct collect *c, const struct collect_item *item);

/* Counts verdict i; call it when all verdicts are there. A verdict that names no node record proves
 * nothing that is paid. */
void collect_count_verdict(struct collect *c, size_t i);

/* Returns the number of a device and adds it if it is new, which may move all others. */
uint32_t collect_device_of(struct collect *c, const struct device_key *key);

/* Return the number of the node that proved a device first, or that passed the challenge of a
 * verdict first, or UINT32_MAX. */
uint32_t collect_device_owner(const struct collect *c, const struct device_key *key);
uint32_t collect_challenge_owner(const struct collect *c,
	const struct collect_verdict *v);

/* Sets *v, the fact of that name in a node record, to the part of it that counts. group: the GPUs
 * that it is about, or NULL. bandwidth: the
 * most bytes a second that a verdict measured, 0: none did. Returns what to say of a claim that
 * was above its cap, or "". */
struct gpu_group;
const char *cap_claim(const json_t *node, const struct gpu_group *group, const char *name,
	int64_t bandwidth, int64_t *v);

#endif
