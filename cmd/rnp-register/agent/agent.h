/* agent.h - the node's side of the market: takes what is assigned to it, runs it in containers, and
 * tells the registry what became of it. Prints nothing. Uses journal, assignment, sandbox, podman.
 *
 * A thread asks the registry for work, one sends events, and each lease has one of its own, which
 * alone touches its container. What a kill must not lose is in the journal first. */
#ifndef RNP_REGISTER_AGENT_AGENT_H
#define RNP_REGISTER_AGENT_AGENT_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/agent/sandbox.h"
#include "common/http/http.h"
#include "common/record/key.h"

struct agent_config {
	const char *registry, *ca;
	const struct key *key;
	const char *key_path, *passphrase_file; /* where it is, as key_load takes them */
	const char *dir;         /* journal, images, volumes: root's alone */
	const char *run;         /* on a tmpfs; at most 12 bytes long */
	const char *state_to;    /* file for heartbeat --state-from; NULL: none */
	const char *cdi;         /* vendor and class of devices: "nvidia.com/gpu" */
	const char *const *gpus; /* uuids of this machine's */
	size_t ngpus;
	int64_t cpu_cores, memory_bytes, disk_bytes; /* for all leases together */
	bool private_images;                         /* see images_config */
	int64_t images_bytes;  /* of the disk that images have; 0: images_open chooses */
	int64_t up_bits_per_s; /* of each; 0: no bound */
	int64_t part_gpus;     /* sold in parts of so many; 0: whole */
	int64_t max_hours;     /* of one booking; 0: any */
	bool spot;             /* leases may be interrupted */
	int64_t grace_ms;      /* between SIGTERM and SIGKILL */
	const char *const *resolvers; /* servers of names for containers */
	size_t nresolvers;
	void (*say)(
		const char *line); /* what a person should know; any thread calls it */
	/* how it stands, in a line; the thread of agent_run calls it */
	void (*stands)(const char *line);
};

/* Works until *stop is set (by a signal), then returns: containers run on and are found again.
 * Where the sale was ended (sell.h) it returns when the last lease has.
 * Returns 0, or -1 with err_set: 69 something that containers need lacks, 75 another agent is at
 * work, 77 not root, and as journal_open. */
int agent_run(const struct agent_config *c, const volatile int *stop);

#endif
