/* collect.h - collects the signed records of nodes and makes one rnp.usage of each node. Pure:
 * records in, records out; signatures are checked by the caller. Uses uptime, facts, policy. */
#ifndef RNP_CMD_REWARD_EVIDENCE_COLLECT_H
#define RNP_CMD_REWARD_EVIDENCE_COLLECT_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/index.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/record/policy.h"

struct collect_item; /* collect_item.h */

struct collect {
	int64_t from_ms, to_ms; /* the epoch, [from, to) */
	/* rates the measurements by its reference scores; NULL: the verdicts' own scores */
	const struct policy *scores;
	/* in the order in which they came; collect_parts.h has the types */
	struct collect_node *nodes;
	size_t n, cap;
	uint32_t *order; /* of nodes by address; collect_finish sets it */
	struct collect_record *records;
	size_t nrecords, records_cap;
	struct arena texts;
	struct collect_verdict *verdicts;
	size_t nverdicts, verdicts_cap;
	/* node records that verdicts name */
	struct collect_hash *named;
	size_t nnamed, named_cap;
	uint32_t *proven; /* the devices that verdicts prove */
	size_t nproven, proven_cap;
	uint32_t *used; /* the devices that receipts name */
	size_t nused, used_cap;
	struct collect_device *devices;
	size_t ndevices, devices_cap;
	struct collect_work *work;
	size_t nwork, work_cap;
	struct collect_up *up;
	size_t nup, up_cap;
	struct collect_beat *beats;
	size_t nbeats, beats_cap;
	/* nodes by address, devices by key, all others by hash; by_challenge finds the verdict that
	 * passed a challenge first */
	struct hash_index by_address, by_device, by_challenge, by_record, by_verdict,
		by_receipt;
};

/* from_ms < to_ms */
void collect_init(struct collect *c, int64_t from_ms, int64_t to_ms,
	const struct policy *scores);
void collect_release(struct collect *c);

/* Adds a record that fits its schema and is signed by the right party: rnp.node, rnp.uptime,
 * rnp.heartbeat, rnp.verdict, rnp.receipt. The same node, receipt or verdict counts once, however
 * often it is added. Returns 0, or -1 with EX_DATAERR. */
int collect_add(struct collect *c, const json_t *record, const char *where);

/* Adds what was already read from an rnp.node, rnp.uptime, rnp.verdict or rnp.receipt; item is
 * borrowed. The same returns. An item that is refused has changed nothing, so a second call
 * refuses it, too. */
int collect_take(struct collect *c, const struct collect_item *item, const char *where);

/* Prefetches the memory that collect_take will read for this item. Reads only its kind, node,
 * hash and challenge. */
void collect_prefetch(const struct collect *c, const struct collect_item *item);

/* Decides which verdicts count and which node each device is paid to, and sorts the nodes by
 * address; call it once, before collect_usage. */
void collect_finish(struct collect *c);

/* Appends the rnp.usage of the i-th node, without a newline. staked_uusd: what the ledger says
 * that it has at stake, -1: it was not asked. Any thread. */
void collect_usage_write(const struct collect *c, size_t i, int64_t staked_uusd,
	struct buf *out);

/* Returns the address of the i-th node. */
const char *collect_address(const struct collect *c, size_t i);

#endif
