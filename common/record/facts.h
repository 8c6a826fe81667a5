/* facts.h - single facts read off an rnp.node record, under the names that rnp.usage and
 * reward policies use. Uses jansson, gpu. Pure. */
#ifndef RNP_COMMON_RECORD_FACTS_H
#define RNP_COMMON_RECORD_FACTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define FACT_CAUSE_MAX 200

struct fact {
	bool known,
		none; /* none: the record states that there is none ("gpus" is empty) */
	const char *text; /* borrowed; NULL: the value is a number */
	int64_t value;
	const char *source; /* the field it was read from: "gpus[0].memory_bytes" */
	char cause[FACT_CAUSE_MAX]; /* why it is unknown; "" if the record does not say */
};

/* Reads one fact: wallet, gpu_model (the canonical name if the model is known), gpu_count,
 * gpu_memory_bytes, gpu_clock_mhz, gpu_memory_bandwidth_bps (from the table of models if it was
 * not measured), cpu_cores, cpu_threads, cpu_clock_mhz, memory_bytes, nvme_bytes, os, down_bps,
 * up_bps. Returns false if there is no fact of that name. The first GPU stands for the node;
 * gpu_count counts those of its model. */
bool fact_read(const json_t *node, const char *name, struct fact *out);

#endif
