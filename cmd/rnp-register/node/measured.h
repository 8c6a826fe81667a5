/* measured.h - merges the measurements of rnp.bench records into an rnp.node record. Pure. */
#ifndef RNP_REGISTER_NODE_MEASURED_H
#define RNP_REGISTER_NODE_MEASURED_H

#include <jansson.h>

/* Merges what one rnp.bench record (checked against its schema) says about the machine that
 * node describes: network and memory figures, the CPU's clock if /sys does not state it, a
 * disk's reading speed. Other tests are ignored; of several records of one test the last
 * counts. Returns 0, or -1 with EX_DATAERR: it was measured on another machine. */
int measured_take(json_t *node, const json_t *bench, const char *where);

/* Call after the last record: removes what is now known from unknown. */
void measured_finish(json_t *node);

#endif
