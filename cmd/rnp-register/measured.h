/* measured.h - measured figures from rnp.bench records into an rnp.node record. Pure. */
#ifndef RNP_REGISTER_MEASURED_H
#define RNP_REGISTER_MEASURED_H

#include <jansson.h>

/* Take what one rnp.bench record (checked against its schema) says about the machine that node
 * describes: network and memory figures, the CPU's clock where /sys does not tell it, a disk's
 * reading speed. Other tests are passed over; of several records of one test the last counts.
 * Returns 0, or -1 with EX_DATAERR: it was measured on another machine. */
int measured_take(json_t *node, const json_t *bench, const char *where);

/* After the last record: what is now known is no longer listed in unknown. */
void measured_finish(json_t *node);

#endif
