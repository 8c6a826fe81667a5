/* eligibility.h - whether a node's record meets what a reward policy requires of it before an
 * epoch. Uses policy.h, facts.h, gpu.h. Pure. */
#ifndef RNP_COMMON_RECORD_ELIGIBILITY_H
#define RNP_COMMON_RECORD_ELIGIBILITY_H

#include "common/base/buf.h"
#include "common/record/facts.h"
#include "common/record/policy.h"

/* Whether a fact meets a requirement; what is not known does not. A GPU's row in a policy's tables
 * may have the name of its family ("H100"). */
bool eligibility_met(const struct policy *p, const struct policy_need *n,
	const struct fact *f);

/* Appends why it does not, for people: "download: 50 bit/s is not more than 100000000 bit/s". */
void eligibility_reason(struct buf *out, const struct policy_need *n,
	const struct fact *f);

/* Returns which of a node's groups of GPUs counts: the first that meets all requirements of GPUs
 * but those of an epoch, or 0 if there is none. */
int eligibility_group(const struct policy *p, const struct policy_need *needs, int n,
	const json_t *node, const struct gpu_group *groups, int ngroups);

/* The GPUs of a node that can be challenged, as those that cannot are never paid and count nowhere;
 * where all of them cannot, all are taken, and unasked is set. */
struct eligibility_gpus {
	/* copies with the one and with the other kind, or NULL; owned */
	json_t *node, *others;
	/* the first that cannot, where there are only such; borrowed */
	const json_t *unasked;
};

/* Divides them. The record is borrowed, and must outlive what comes of it. */
void eligibility_divide(const json_t *node, struct eligibility_gpus *out);
void eligibility_divide_release(struct eligibility_gpus *g);

/* Appends why a requirement of GPUs is not met where none can be challenged. */
void eligibility_unasked(struct buf *out, const struct policy_need *n,
	const json_t *unasked);

/* Whether an rnp.node record meets all requirements but those of an epoch; if not, the first that
 * it does not is appended to why. Of GPUs of several models one group has to, and GPUs that cannot
 * be challenged meet none. A policy whose requirements cannot be read is met by nobody. */
bool eligibility_check(const struct policy *p, const json_t *node, struct buf *why);

#endif
