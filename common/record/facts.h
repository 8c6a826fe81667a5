/* facts.h - single facts read off an rnp.node record, under the names that rnp.usage and
 * reward policies use. Uses jansson, gpu, gpus. Pure. */
#ifndef RNP_COMMON_RECORD_FACTS_H
#define RNP_COMMON_RECORD_FACTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/record/gpus.h"

#define FACT_CAUSE_MAX  200
#define FACT_SOURCE_MAX 48

struct fact {
	bool known,
		none; /* none: the record states that there is none ("gpus" is empty) */
	const char *text; /* borrowed; NULL: the value is a number */
	int64_t value;
	char source
		[FACT_SOURCE_MAX]; /* the field it was read from: "gpus[1].memory_bytes" */
	char cause[FACT_CAUSE_MAX]; /* why it is unknown; "" if the record does not say */
};

/* Reads one fact: wallet, gpu_model (the canonical name if the model is known), gpu_count,
 * gpu_memory_bytes, gpu_clock_mhz, gpu_memory_bandwidth_bps (from the table of models if it was
 * not measured), cpu_cores, cpu_threads, cpu_clock_mhz, memory_bytes, nvme_bytes, os, down_bps,
 * up_bps. Returns false if there is no fact of that name. Those of GPUs are of the node's most
 * powerful group (gpus.h): how many there are, and the least that one of them has. The model is
 * unknown where they have less memory than any card of that name. */
bool fact_read(const json_t *node, const char *name, struct fact *out);

/* The same of this group of the node's GPUs; NULL: it has none. */
bool fact_read_group(const json_t *node, const struct gpu_group *group, const char *name,
	struct fact *out);

/* Whether a fact is about GPUs, so that it differs between groups. */
bool fact_is_of_gpus(const char *name);

#endif
