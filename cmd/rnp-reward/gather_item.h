/* gather_item.h - what gathering takes from one rnp.node, rnp.uptime, rnp.verdict or rnp.receipt,
 * whoever has read it: gather_item.c from JSON values, evidence_plain.c from text. Pure. */
#ifndef RNP_CMD_REWARD_GATHER_ITEM_H
#define RNP_CMD_REWARD_GATHER_ITEM_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/json/canon.h"
#include "common/record/key.h"

#define GATHER_DEVICES_MAX 16 /* devices that one verdict can prove */
#define GATHER_KEY_BYTES   16
#define GATHER_READINGS    4

struct span {
	int64_t from_ms, to_ms;
};

/* A device by the hash of its uuid, in lower case. */
struct device_key {
	unsigned char bytes[GATHER_KEY_BYTES];
};

enum gather_kind { GATHER_UPTIME, GATHER_VERDICT, GATHER_RECEIPT, GATHER_NODE };

/* Only the fields of its kind, and those of all kinds, are set; the others are 0. */
struct gather_item {
	enum gather_kind kind;
	char node[KEY_ADDRESS_MAX];
	/* canon_hash_record; computed by gathering, where it is needed, if record is not NULL */
	unsigned char sha256[CANON_HASH_BYTES];
	const json_t *record; /* borrowed */

	/* nodes: gather_item_facts of it, borrowed; NULL: they are taken from record */
	const char *text;

	int64_t from_ms, to_ms; /* uptimes and receipts */

	/* uptimes: milliseconds after from_ms, as they stand there; owned by the reader */
	const struct span *spans;
	size_t nspans;

	int64_t at_ms; /* nodes and verdicts */

	/* verdicts */
	bool passed, names_record, names_challenge;
	unsigned char node_record[CANON_HASH_BYTES]; /* if names_record */
	struct device_key challenge; /* half of its hash, if names_challenge */
	int64_t score_ppm;           /* -1: not stated */
	const json_t *readings; /* borrowed; NULL: they are in reading, -1: not taken */
	int64_t reading[GATHER_READINGS]; /* in the order of gather_readings */
	int nproven;

	/* receipts; -1: not stated */
	int64_t gpu_s, earned_uusd, credits;

	/* verdicts: nproven of them; the others are not set. Last, so that an item can be passed on
	 * without them */
	struct device_key proven[GATHER_DEVICES_MAX];
};

/* Names of the readings of a verdict, in ascending order: bandwidth is the first. */
extern const char *const gather_readings[GATHER_READINGS];

/* Whether records of a kind become items; sets *out to which. */
bool gather_item_kind(const char *kind, enum gather_kind *out);

/* Reads an item from a record of that kind that fits its schema; it borrows the record. Returns 0,
 * or -1 with EX_DATAERR; gather_item_release releases the spans. */
int gather_item_read(struct gather_item *item, enum gather_kind kind,
	const json_t *record, const char *where);
void gather_item_release(struct gather_item *item);

/* Appends what usage needs of an rnp.node, a fifth of it, in canonical form: when it was written, the
 * wallet, what identifies and rates GPUs, CPU and network, and why something is unknown. */
void gather_item_facts(const json_t *record, struct buf *out);

/* Computes the key of a device's uuid. */
void gather_device_key(const char *uuid, struct device_key *out);

#endif
