/* pool.h - bandwidth tier and pool path of a node (RNP-004). Uses jansson, gpus, buf. Pure.
 *
 * Pools are nested: tier > country > GPU or CPU > maker > model. If a record does not state one
 * of these it is "unknown", and such nodes are pooled together. */
#ifndef RNP_COMMON_RECORD_POOL_H
#define RNP_COMMON_RECORD_POOL_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

struct pool_tier {
	const char *name;  /* "ultra-high": in records, filters and URLs */
	const char *label; /* "Ultra High": for people, as in RNP-004 */
	int64_t min_bps;   /* bit/s, each way */
};

#define POOL_PING_MAX_US 100000

/* The five tiers from the highest down, then "none" (measured, too slow) and "unknown" (not
 * measured); ends with a NULL name. */
extern const struct pool_tier pool_tiers[];

/* Returns the tier of these measurements; -1 means not measured. A ping above 100 ms gives
 * "none"; an unmeasured ping does not count against the node. */
const struct pool_tier *pool_tier(int64_t down_bps, int64_t up_bps, int64_t ping_us);

/* Finds a tier by name or label, in any case; NULL if there is none. */
const struct pool_tier *pool_tier_find(const char *name);

/* Returns the name of tier number i in pool_tiers; "unknown" for other numbers. */
const char *pool_tier_name(int64_t number);

#define POOL_TEXT_MAX 96

struct pool {
	const struct pool_tier *tier;
	char country[POOL_TEXT_MAX];
	const char *device; /* "GPU" or "CPU": CPU only if a machine has no GPU */
	char maker[POOL_TEXT_MAX];
	/* of the most powerful group of GPUs, by the one name that gpu.h has for it */
	char model[POOL_TEXT_MAX];
	int64_t gpus;         /* of that group; 0: it has none */
	int64_t memory_bytes; /* of one of them; 0: not known */
};

/* Fills in the pool of an rnp.node record; never fails. */
void pool_of_node(const json_t *node, struct pool *out);

/* Appends "High > US > GPU > NVIDIA > RTX 4090". */
void pool_path(struct buf *out, const struct pool *p);

#endif
