/* ready.h - what a machine lacks for running the containers of customers, and how to get it. Uses
 * command, volume, network. */
#ifndef RNP_CMD_REGISTER_AGENT_READY_H
#define RNP_CMD_REGISTER_AGENT_READY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "common/hw/gpus.h"

/* What is looked at. */
struct ready_machine {
	const char *dir;         /* where images and disks are to be */
	const char *run;         /* and sockets */
	const char *cdi;         /* vendor and class of its GPUs' devices */
	const char *const *gpus; /* their uuids */
	size_t ngpus;
	bool resolvers; /* leases are told which servers of names they have */
};

/* Who runs sessions; a lease has no SSH without. */
#define READY_USER "rnp-session"

/* The uuids of this machine's GPUs, HW_GPUS_MAX at most, which point into gpus. Returns how
 * many. */
size_t ready_gpus(const char **names, struct nvml_gpu *gpus);

/* Makes the user that sessions run as, where it lacks. Returns whether it did; a user who cannot be
 * made is among what lacks. */
bool ready_make_user(void);

/* Looks for each thing that a lease needs, and tries disk and network as a lease has them, which
 * only root can. Appends to lacks a sentence for each that is missing, and to next the commands
 * that get it, without doubles. */
void ready_look(const struct ready_machine *m, json_t *lacks, json_t *next);

#endif
