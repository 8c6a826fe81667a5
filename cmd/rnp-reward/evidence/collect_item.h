/* collect_item.h - what collect.h uses of one rnp.node, rnp.uptime, rnp.verdict or rnp.receipt,
 * collect_item.c reads it from JSON values, plain.c from text. Pure. */
#ifndef RNP_CMD_REWARD_EVIDENCE_COLLECT_ITEM_H
#define RNP_CMD_REWARD_EVIDENCE_COLLECT_ITEM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/json/canon.h"
#include "common/record/key.h"

#define COLLECT_DEVICES_MAX 16 /* devices that one verdict can prove */
#define COLLECT_KEY_BYTES   16
#define COLLECT_READINGS    4

struct span {
	int64_t from_ms, to_ms;
};

/* A device by the hash of its uuid, in lower case. */
struct device_key {
	unsigned char bytes[COLLECT_KEY_BYTES];
};

enum collect_kind { COLLECT_UPTIME, COLLECT_VERDICT, COLLECT_RECEIPT, COLLECT_NODE };

/* Only the fields of its kind, and those of all kinds, are set; the others are 0. */
struct collect_item {
	enum collect_kind kind;
	char node[KEY_ADDRESS_MAX];
	/* canon_hash_record; if record is not NULL it is not set, and collect.c computes it when
	 * needed */
	unsigned char sha256[CANON_HASH_BYTES];
	const json_t *record; /* borrowed */

	/* nodes: collect_item_facts of it, borrowed; NULL: they are taken from record */
	const char *text;

	int64_t from_ms, to_ms; /* uptimes and receipts */

	/* uptimes: milliseconds after from_ms, as they stand there; owned by the reader */
	const struct span *spans;
	size_t nspans;

	int64_t at_ms; /* nodes and verdicts */

	/* verdicts */
	bool passed, names_record, names_challenge;
	unsigned char node_record[CANON_HASH_BYTES]; /* if names_record */
	struct device_key challenge; /* the first half of its hash, if names_challenge */
	int64_t score_ppm;           /* -1: not stated */
	const json_t *readings; /* borrowed; NULL: they are in reading, -1: not taken */
	int64_t reading[COLLECT_READINGS]; /* in the order of collect_readings */

	int nproven; /* verdicts and receipts */

	/* receipts; -1: not stated */
	int64_t gpu_s, earned_uusd, credits;

	/* verdicts: nproven of them that are proven; receipts: that did the work. The others are
	 * not set. Last, so that an item can be passed on
	 * without them */
	struct device_key proven[COLLECT_DEVICES_MAX];
};

/* Names of the readings of a verdict, in ascending order: bandwidth is the first. */
extern const char *const collect_readings[COLLECT_READINGS];

/* Fields of an rnp.node that collect_item_facts keeps whole, and of its cpu, network and each of
 * its gpus; they end with NULL. */
extern const char *const collect_facts_whole[];
extern const char *const collect_facts_cpu[];
extern const char *const collect_facts_network[];
extern const char *const collect_facts_gpu[];

/* Whether records of a kind become items; sets *out to which. */
bool collect_item_kind(const char *kind, enum collect_kind *out);

/* Reads an item from a record of that kind that fits its schema; it borrows the record. Returns 0,
 * or -1 with EX_DATAERR; collect_item_release releases the spans. */
int collect_item_read(struct collect_item *item, enum collect_kind kind,
	const json_t *record, const char *where);
void collect_item_release(struct collect_item *item);

/* Appends the fields of an rnp.node that a usage needs, in canonical form: a fifth of the record.
 * They say when it was written, the wallet, what identifies and rates GPUs, CPU and network, and
 * why something is unknown. */
void collect_item_facts(const json_t *record, struct buf *out);

/* Computes the key of a device's uuid. */
void collect_device_key(const char *uuid, struct device_key *out);

#endif
