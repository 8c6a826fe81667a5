/* supply_parts.h - what the files of supply.h share: one entry a node, under one lock. */
#ifndef RNP_CMD_REGISTER_MARKET_SUPPLY_PARTS_H
#define RNP_CMD_REGISTER_MARKET_SUPPLY_PARTS_H

#include <pthread.h>

#include "cmd/rnp-register/market/supply.h"
#include "common/base/index.h"
#include "common/base/sha256.h"
#include "common/market/index.h"

#define SALE_FAILS_MAX 3

/* What is known of a node, for sale or not. */
struct sale {
	char node[KEY_ADDRESS_MAX];
	bool known;   /* its record is registered */
	bool indexed; /* it is in the index */
	bool away;    /* by its own heartbeat */
	/* of its record: the GPUs that are for sale, the most powerful group, by place */
	int gpus;
	uint64_t places;
	char **uuids;  /* of each, in lower case, in the order of places */
	bool nameless; /* a GPU has no uuid */
	char *model, *country, *region;
	int64_t gpu_memory_bytes, ping_us;
	uint32_t compliance;
	int tier;
	enum match_host host_type;
	/* of its quote; quote_at_ms 0: none */
	int64_t quote_at_ms, customer_uusd, ask_uusd;
	unsigned char quote[SHA256_BYTES];
	/* the model that it is for, by the table's name; NULL: it does not say */
	const char *priced;
	/* of its listing; listed_until_ms 0: none */
	int64_t listed_until_ms, max_hours, cpu_cores, memory_bytes, disk_bytes;
	int part_gpus;
	bool spot;
	uint64_t *images; /* that are there: the first 8 bytes of their digests */
	int nimages;
	/* of its heartbeats */
	int64_t received_ms, interval_ms;
	/* when its agent last asked for work; 0: not since the start */
	_Atomic int64_t asked_ms;
	int64_t proven_ms;
	int64_t disputed_until_ms; /* another has proven a device of it */
	bool to_prove;             /* a customer waits for that */
	uint64_t leased;           /* by place; of a node without GPUs bit 0 */
	/* starts that failed, the oldest first, each of another customer */
	int64_t failed_ms[SALE_FAILS_MAX];
	uint64_t failed_for[SALE_FAILS_MAX]; /* hashes of their customers */
};

struct supply {
	pthread_rwlock_t lock;
	struct match_index *ix;
	struct sale *sales;
	size_t n, cap;
	struct hash_index by_node;
	int64_t started_ms;
};

/* With the lock: the entry of a node, made where it is new; or NULL where it is not there. */
struct sale *supply_entry(struct supply *s, const char *node);
const struct sale *supply_find(const struct supply *s, const char *node);

/* Two heartbeats that it promised have not come. */
bool sale_is_silent(const struct sale *n, int64_t since_ms, int64_t now_ms);

/* The prices of a part of so many GPUs. */
int64_t sale_customer_uusd(const struct sale *n, int gpus);
int64_t sale_node_uusd(const struct sale *n, int gpus);

/* By what an image is known here: the first 8 bytes of the digest in a reference, or that is one;
 * 0: it has none. */
uint64_t supply_image(const char *text);

/* The uuid of the GPU at a place of the record. */
const char *sale_uuid(const struct sale *n, int place);

#endif
