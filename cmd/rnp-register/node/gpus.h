/* gpus.h - the GPUs of this machine that its operator shares, as detect writes them. */
#ifndef RNP_REGISTER_NODE_GPUS_H
#define RNP_REGISTER_NODE_GPUS_H

#include <jansson.h>

#include "common/hw/hw.h"

/* Adds "gpus" to an rnp.node record, or a cause. chosen: "0,GPU-...": only these, by the number
 * that the driver gives them from 0 on, or by uuid; NULL: all. One that is not there is warned of
 * and noted. Returns 0, or -1: 64 chosen is malformed. */
int node_gpus_add(json_t *node, const char *chosen, struct hw_causes *why);

#endif
