/* collect_draft.h - the usage of a node while it is written: what collect_usage.c and
 * collect_gpus.c share. */
#ifndef RNP_CMD_REWARD_EVIDENCE_COLLECT_DRAFT_H
#define RNP_CMD_REWARD_EVIDENCE_COLLECT_DRAFT_H

#include "cmd/rnp-reward/evidence/collect_parts.h"
#include "cmd/rnp-reward/evidence/worked.h"
#include "common/base/buf.h"
#include "common/record/gpus.h"

/* GPUs of one model that are proven and paid. */
struct draft_group {
	struct gpu_group gpus; /* of draft.proven */
	struct worked worked;
};

/* Objects but for their '}'. */
struct draft_object {
	struct buf usage, sources, unknown;
};

struct draft {
	const struct collect *c;
	const struct collect_node *node;
	struct draft_object top;
	struct buf text; /* of one source: there are some fifteen a node */
	json_t *proven; /* the rnp.node that the last passed verdict names, paid devices only */
	json_t *newest; /* the newest rnp.node before the end of the epoch, for the wallet */
	const struct collect_verdict *verdict; /* the last that proves devices, or NULL */
	/* the one that meets the policy, or the most powerful one, first */
	struct draft_group groups[WORKED_GROUPS_MAX];
	int ngroups;
};

/* Begin, or add, a field that the object does not have yet. The name needs no escapes. */
void draft_name(struct buf *object, const char *name);
void draft_i64(struct buf *object, const char *name, int64_t v);
void draft_text(struct buf *object, const char *name, const char *text);

/* Adds an object, which may be empty, to another. */
void draft_object(struct buf *object, const char *name, const struct buf *v);
void draft_object_release(struct draft_object *o);

/* Adds a number with its source. */
void draft_sourced(struct draft_object *o, const char *key, int64_t v,
	const char *source);

/* Adds what the proven record says of a fact, or why it does not; group: for facts of GPUs, NULL:
 * it has none that is paid. how: "as challenged". */
void draft_fact(struct draft *d, struct draft_object *o, const json_t *node,
	const struct gpu_group *group, const char *name, const char *how);

/* Finds the groups of GPUs in the proven record that are paid, and records why others are not. */
void draft_find_groups(struct draft *d);

/* Computes what receipts come to; *all: what they do for a node of which no GPU is paid. */
void draft_add_work(struct draft *d, struct worked *all);

/* Adds the uuids of a group. */
void draft_devices(struct buf *object, const struct draft_group *group);

/* Adds the groups after the first. receipts: their source. */
void draft_more_gpus(struct draft *d, const char *receipts);

#endif
