/* gather_parts.h - what gather.c collects and gather_usage.c turns into records. */
#ifndef RNP_CMD_REWARD_GATHER_PARTS_H
#define RNP_CMD_REWARD_GATHER_PARTS_H

#include <sodium.h>
#include <stdbool.h>

#include "cmd/rnp-reward/gather.h"
#include "cmd/rnp-reward/gather_item.h"
#include "common/json/canon.h"
#include "common/record/key.h"
#include "common/record/uptime.h"

typedef __int128 i128;

/* Lists of a node are linked through arrays of all nodes, by index plus 1, 0: the end; so that a node
 * costs what it has and nothing beside. */

struct gather_record { /* an rnp.node */
	unsigned char sha256[CANON_HASH_BYTES];
	int64_t at_ms;
	const char *text; /* in texts: gather_item_facts of it */
	uint32_t next;
};

/* A verdict. Which of those that are passed count is known when all are read: a challenge is for one
 * node. */
struct gather_verdict {
	int64_t at_ms, score_ppm; /* score -1: none */
	int64_t bandwidth;        /* bytes a second that it measured; 0: it did not */
	struct device_key challenge;
	unsigned char sha256[CANON_HASH_BYTES];
	uint32_t node;
	uint32_t proven; /* the first of nproven in g->proven */
	uint32_t named;  /* the node record that it names, in g->named, plus 1; 0: none */
	uint8_t nproven;
	bool passed, names_challenge;
};

struct gather_hash {
	unsigned char bytes[CANON_HASH_BYTES];
};

struct gather_work { /* a receipt's part in the epoch */
	struct span wall;
	int64_t gpu_ms;   /* -1: not stated */
	uint64_t half[2]; /* of the receipt's hash */
	uint32_t next;
};

struct gather_up { /* up according to rnp.uptime */
	struct span span;
	uint32_t next;
};

struct gather_beat {
	struct uptime_beat beat;
	uint32_t next;
};

struct gather_list {
	uint32_t first, last, n;
};

struct gather_node {
	i128 score_sum;
	int64_t earned_uusd, credits;
	int64_t bandwidth; /* the most that a verdict measured, as there */
	char address[KEY_ADDRESS_MAX];
	bool earned_known, credits_known;
	uint32_t records; /* the first */
	struct gather_list up, work, beats;
	uint64_t days;     /* a bit for each with an rnp.uptime: gather_day */
	uint32_t verdicts; /* but void ones (challenge_rule.h), once all are counted */
	uint32_t failed, scored; /* of these */
	uint32_t void_verdicts;
	uint32_t named; /* what its last verdict named, plus 1 */
	uint32_t proof; /* the last verdict that proves devices, plus 1; 0: none */
	uint32_t taken; /* the last one on another node's challenge, plus 1; 0: none */
};

struct gather_device {
	struct device_key key;
	int64_t at_ms;
	uint32_t node; /* plus 1; 0: nobody's */
};

/* The days of an epoch that can be told apart. */
#define GATHER_DAYS    62
#define GATHER_DAYS_MS (INT64_C(86400000) * (GATHER_DAYS - 1)) /* wherever they begin */

/* Returns which day of the epoch a time is on, from 1, each of 24 hours UTC; 0 and GATHER_DAYS + 1:
 * before and after them. */
static inline int gather_day(const struct gather *g, int64_t at_ms)
{
	int64_t day = at_ms / 86400000 - g->from_ms / 86400000 + 1;

	return day < 0 ? 0 : day > GATHER_DAYS ? GATHER_DAYS + 1 : (int)day;
}

/* Some bits of what is a hash itself. */
static inline uint32_t gather_bits(const void *hash)
{
	uint32_t bits;

	memcpy(&bits, hash, sizeof bits);
	return bits;
}

/* Returns the node of an address, which is new or not; others may move. */
struct gather_node *gather_node_of(struct gather *g, const char *address);

/* Sets the hash that identifies an item. */
void gather_hash_item(const struct gather_item *item,
	unsigned char out[CANON_HASH_BYTES]);

/* Whether the node, receipt or verdict of this hash was counted before, whatever signatures it
 * carries; if not, it will be the element `next` of its array. */
bool gather_seen(const struct gather *g, struct gather_index *ix, gather_same_fn same,
	const unsigned char sha256[CANON_HASH_BYTES], size_t next);

void gather_take_verdict(struct gather *g, const struct gather_item *item);

/* Counts verdict i, when all are taken. One that names no node record proves nothing that is
 * paid. */
void gather_count_verdict(struct gather *g, size_t i);

/* Return the number of the node that proved a device first, or that passed the challenge of a verdict
 * first, or UINT32_MAX. */
uint32_t gather_device_owner(const struct gather *g, const struct device_key *key);
uint32_t gather_challenge_owner(const struct gather *g, const struct gather_verdict *v);

#endif
