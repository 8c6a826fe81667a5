/* artifacts.h - how much a job may keep: what the registry takes of a node, the node packs, and the
 * customer brings home. Pure. Uses json. */
#ifndef RNP_CMD_REGISTER_MARKET_ARTIFACTS_H
#define RNP_CMD_REGISTER_MARKET_ARTIFACTS_H

#include <jansson.h>
#include <stdint.h>

/* Where the booking says nothing. */
#define ARTIFACT_BYTES_USUAL ((int64_t)10 << 30)
/* Files, directories and links of a rank. */
#define ARTIFACT_ENTRIES_MAX 500000

/* How many bytes the artifacts of one rank may have by its booking, or by its job file's task; 0:
 * it keeps none. */
int64_t artifact_bytes_max(const json_t *booking);

#endif
