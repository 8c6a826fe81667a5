/* gpus.h - the GPUs of an rnp.node record in groups of one model. Uses jansson, gpu. Pure.
 *
 * A machine is worth what its best group is, whichever slot that is in: a display card beside two
 * large ones must cost the node neither its price nor its pay. */
#ifndef RNP_COMMON_RECORD_GPUS_H
#define RNP_COMMON_RECORD_GPUS_H

#include <jansson.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/record/gpu.h"

#define GPUS_MAX      64  /* of one node: rnp.node's schema */
#define GPUS_UUID_MAX 129 /* with the terminating 0 */

/* GPUs of one model. Texts and objects are borrowed from the record or from the table. */
struct gpu_group {
	const struct gpu_model *known; /* NULL: not in the table of models */
	const char *model;             /* the table's name, else the driver's */
	int64_t count;
	int64_t memory_bytes; /* of one, the least that is stated; 0: not known */
	const json_t *gpus;   /* all GPUs of the record */
	int at[GPUS_MAX];     /* places of those of this group in gpus, ascending */
};

/* Groups the GPUs of a record, the most powerful group first: by what all its GPUs compute by
 * their data sheets; then by memory, by number and by name, never by slot. Entries without a model
 * are left out. Returns how many there are; 0: the record has none, or no gpus. */
int gpus_group(const json_t *node, struct gpu_group out[GPUS_MAX]);

/* Returns why a GPU of an rnp.node cannot be challenged, and is not paid, or NULL. */
const char *gpus_why_unpaid(const json_t *gpu);

/* Appends the groups but number i for people: "1 NVIDIA T400 4GB, 2 RTX 3090". */
void gpus_others(struct buf *out, const struct gpu_group *groups, int n, int i);

#endif
