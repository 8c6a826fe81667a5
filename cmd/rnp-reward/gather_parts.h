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

struct gather_record { /* an rnp.node */
	unsigned char sha256[CANON_HASH_BYTES];
	int64_t at_ms;
	char *text;
};

/* A passed verdict. Which of them count is known when all are read: a challenge is for one node. */
struct gather_verdict {
	int64_t at_ms, score_ppm; /* score -1: none */
	uint32_t node, proven;    /* proven: the first of nproven keys in gather.proven */
	uint8_t nproven;
	bool names_challenge, names_record;
	struct device_key challenge;
	unsigned char sha256[CANON_HASH_BYTES], node_record[CANON_HASH_BYTES];
};

struct gather_work {      /* a receipt's part in the epoch */
	struct span span; /* shortened to gpu_ms if that is less */
	struct span wall;
	int64_t gpu_ms; /* -1: not stated */
};

struct gather_node {
	char address[KEY_ADDRESS_MAX];
	uint32_t number; /* order of arrival */
	struct gather_record *records;
	size_t nrecords, records_cap;
	struct uptime_beat *beats;
	size_t nbeats, beats_cap;
	struct span *up; /* according to rnp.uptime */
	size_t nup, up_cap;
	int64_t days; /* number of rnp.uptime records */
	struct gather_work *work;
	size_t nwork, work_cap;
	int64_t receipts, verdicts, failed;
	int64_t earned_uusd, credits;
	bool earned_known, credits_known;
	i128 score_sum;
	int64_t scored;
	uint32_t proof; /* the last verdict that proves devices, plus 1; 0: none */
	uint32_t taken; /* the last one on another node's challenge, plus 1; 0: none */
};

struct gather_slot {
	uint32_t index; /* plus 1; 0: free slot */
};

struct gather_seen { /* half of a hash; 0: free slot */
	uint64_t half[2];
};

/* A device, or a challenge, which is nobody else's either. */
struct gather_device {
	struct device_key key;
	int64_t at_ms;
	uint32_t node; /* plus 1; 0: free slot */
};

/* Returns the number of the node that proved the device, or answered the challenge, first, or
 * UINT32_MAX. */
uint32_t gather_owner(const struct gather *g, const struct device_key *key);

#endif
