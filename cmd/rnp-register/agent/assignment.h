/* assignment.h - what a registry assigns to a node, and whether the node owes it: only what a
 * customer signed, for a price that the node quoted itself. Nothing else that a registry says is
 * believed. Uses json, signature, image, journal's names. Pure. */
#ifndef RNP_REGISTER_AGENT_ASSIGNMENT_H
#define RNP_REGISTER_AGENT_ASSIGNMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/agent/journal.h"
#include "cmd/rnp-register/market/place.h"
#include "common/record/key.h"

#define ASSIGNMENT_BLOBS_MAX 256
#define ASSIGNMENT_RANKS_MAX 64
#define ASSIGNMENT_BYTES_MAX ((size_t)1 << 20)

enum assignment_failure { ASSIGNMENT_RESTART, ASSIGNMENT_CONTINUE, ASSIGNMENT_END };

/* One entry of the list of GET /v1/work. Texts are borrowed from it. */
struct assignment {
	char id[LEASE_ID_MAX];
	const char *cluster, *customer, *booking_sha256, *quote, *cause;
	int rank, turn;
	int64_t number;         /* of the lease, at this registry */
	enum lease_state state; /* as the registry sees it */
	bool release;           /* it is to end */
	bool go;                /* all ranks are ready: `run` begins */
	bool halt;              /* `run` has failed on another: it is to end here, too */
	int64_t restarts, seq, ready_ms;
	int64_t uusd_per_hour, node_uusd_per_hour;
	const char *gpus[LEASE_GPUS_MAX];
	size_t ngpus;
	const json_t *booking;
	/* the ranks that have a node at present, by their numbers; NULL: has none. One that is not
	 * said is alone */
	const json_t *peers[ASSIGNMENT_RANKS_MAX];
	const json_t *kept; /* the event of what was kept of this rank last, or NULL */
	/* the action by which its customer said who may log in, or NULL: the booking's keys may */
	const json_t *keys;
	/* of the booking, which the customer has signed */
	const char *image, *run, *setup; /* run, setup: hashes of blobs, or NULL */
	const char *blobs[ASSIGNMENT_BLOBS_MAX];
	size_t nblobs;
	int64_t hours, booked_ms;
	enum assignment_failure on_failure;
	/* of the job, a node's; 0: not said */
	int64_t nodes, cpu_cores, memory_bytes, disk_bytes;
};

/* Reads an entry. Returns 0, or -1 with err_set (65). */
int assignment_parse(struct assignment *a, const json_t *entry);

/* A price that this node has signed. */
struct assignment_quote {
	char sha256[65];
	int64_t ask_uusd; /* per hour, for gpus GPUs; 0 GPUs: the whole node */
	int64_t gpus;
	int64_t until_ms; /* 0: not said */
};

/* What a node knows of itself. */
struct assignment_node {
	const char *address;
	const struct assignment_quote *quotes;
	size_t nquotes;
	const char *const *gpus; /* uuids of those that it has */
	size_t ngpus;
	int64_t now_ms;
};

/* Whether the node owes what is assigned. Returns 0, or -1 with err_set (77): the booking is not
 * its customer's, not for this node, not at its price, for GPUs that it has not, or over; 65:
 * its image has no digest. */
int assignment_verify(const struct assignment *a, const struct assignment_node *node);

/* What changes while a lease runs: its peers have to be nodes of the booking, what was kept has to
 * be the signed word of one about this rank, and keys that of its customer about this cluster. Part
 * of assignment_verify; returns as that. */
int assignment_verify_others(const struct assignment *a);

/* Writes the address of a rank among the others: it follows from cluster and rank. */
void assignment_address(const struct assignment *a, int rank, char out[PLACE_TEXT_MAX]);

/* Whether b is about what a is about: the same booking, devices, price and place. What a node has
 * verified once must not change under it. */
bool assignment_same(const struct assignment *a, const struct assignment *b);

/* Finds the price in a record of the node's own; signatures are checked. Returns 0, or -1 with
 * err_set. */
int assignment_quote_read(struct assignment_quote *out, const json_t *quote,
	const char *address);

#endif
