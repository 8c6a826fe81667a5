/* worked.h - what receipts come to, for each group of equal GPUs of a node. Pure. Uses the spans of
 * collect_item.h. */
#ifndef RNP_CMD_REWARD_EVIDENCE_WORKED_H
#define RNP_CMD_REWARD_EVIDENCE_WORKED_H

#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-reward/evidence/collect_item.h"

#define WORKED_GROUPS_MAX COLLECT_DEVICES_MAX

/* A receipt's part in the epoch. */
struct worked_receipt {
	struct span wall;
	int64_t gpu_ms; /* -1: not stated */
	int named;      /* devices that it names; 0: it does not say which */
	unsigned char of[WORKED_GROUPS_MAX]; /* of these, how many are in each group */
};

struct worked {
	int64_t wall_ms; /* in which these worked and none of the groups before */
	int64_t gpu_ms;
};

/* Computes what n receipts come to, and sorts them. gpus: how many GPUs each of the groups has, 0
 * groups: none is paid; out has a place for each of them, and at least one. Time of receipts that
 * overlap counts once. GPU time is for each receipt at most what the devices that it names could
 * have done in its time, or all of them, and for receipts that overlap at most what these could in
 * the time that they cover together. Time of a receipt that names no devices goes to the first
 * group, and its GPU time to the first one that has time left. */
void worked_sum(struct worked_receipt *receipts, size_t n, const int64_t *gpus,
	int ngroups, struct worked *out);

/* Returns the time within [from, to) that at least one of the spans covers, which are in the
 * order of their starts. */
int64_t worked_union_ms(const struct span *spans, size_t n, int64_t from_ms,
	int64_t to_ms);

#endif
