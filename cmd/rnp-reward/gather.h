/* gather.h - gathers the signed records of nodes into one rnp.usage each. Pure: records in,
 * records out; signatures are checked by the caller. Uses uptime, facts, policy. */
#ifndef RNP_CMD_REWARD_GATHER_H
#define RNP_CMD_REWARD_GATHER_H

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-reward/gather_index.h"
#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/record/policy.h"

struct gather_item; /* gather_item.h */

struct gather {
	int64_t from_ms, to_ms; /* the epoch, [from, to) */
	/* rates the measurements by its reference scores; NULL: the verdicts' own scores */
	const struct policy *scores;
	/* as they arrived; gather_parts.h tells what these are */
	struct gather_node *nodes;
	size_t n, cap;
	uint32_t *order; /* of nodes by address; gather_finish sets it */
	struct gather_record *records;
	size_t nrecords, records_cap;
	struct arena texts;
	struct gather_verdict *verdicts;
	size_t nverdicts, verdicts_cap;
	/* node records that verdicts name */
	struct gather_hash *named;
	size_t nnamed, named_cap;
	uint32_t *proven; /* the devices that verdicts prove */
	size_t nproven, proven_cap;
	struct gather_device *devices;
	size_t ndevices, devices_cap;
	struct gather_work *work;
	size_t nwork, work_cap;
	struct gather_up *up;
	size_t nup, up_cap;
	struct gather_beat *beats;
	size_t nbeats, beats_cap;
	/* nodes by address, devices by key, the rest by hash; challenges: the verdict that passed
	 * each first */
	struct gather_index by_address, by_device, by_challenge, by_record, by_verdict,
		by_receipt;
};

/* from_ms < to_ms */
void gather_init(struct gather *g, int64_t from_ms, int64_t to_ms,
	const struct policy *scores);
void gather_release(struct gather *g);

/* Adds a record that fits its schema and is signed by the right party: rnp.node, rnp.uptime,
 * rnp.heartbeat, rnp.verdict, rnp.receipt. The same node, receipt or verdict counts once, however
 * often it is added. Returns 0, or -1 with EX_DATAERR. */
int gather_add(struct gather *g, const json_t *record, const char *where);

/* The same for what was read from an rnp.node, rnp.uptime, rnp.verdict or rnp.receipt; item is
 * borrowed. What is refused can be taken again, and is refused again. */
int gather_take(struct gather *g, const struct gather_item *item, const char *where);

/* Fetches from memory what taking an item will look at; reads its kind, node, hash and challenge alone. */
void gather_expect(const struct gather *g, const struct gather_item *item);

/* Decides which verdicts count and which node each device is paid to, and sorts the nodes by
 * address; call it once, before gather_usage. */
void gather_finish(struct gather *g);

/* Appends the rnp.usage of the i-th node, without a newline. staked_uusd: what the ledger says that it
 * has at stake, -1: it was not asked. Any thread. */
void gather_usage_write(const struct gather *g, size_t i, int64_t staked_uusd,
	struct buf *out);

/* Returns the address of the i-th node. */
const char *gather_address(const struct gather *g, size_t i);

#endif
