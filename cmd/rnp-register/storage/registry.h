/* registry.h - the registry behind `serve`: all its parts. Handlers get it as their context.
 *
 * registry_db stores records, registry_accept decides what is accepted, registry_challenge asks
 * nodes for proof, registry_verdict verifies their answers, registry_uptime signs when they
 * were up, registry_limits says how much a stranger may use, registry_reads has the replies to
 * readers, registry_query parses what they ask, registry_api has the routes. No part knows
 * sockets: a request is a struct httpd_request. */
#ifndef RNP_CMD_REGISTER_STORAGE_REGISTRY_H
#define RNP_CMD_REGISTER_STORAGE_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/storage/db.h"
#include "cmd/rnp-register/storage/limits.h"
#include "common/record/key.h"
#include "common/record/policy.h"

struct registry_config {
	/* ":memory:": nothing is stored on disk, and everything runs in one thread */
	const char *db_path;
	const char *const *trusted; /* addresses of verifiers and coordinators */
	int ntrusted;
	int64_t challenge_every_ms; /* mean time between the challenges of a node; 0: never */
	const struct key *key; /* signs challenges, verdicts and uptimes; NULL: none */
	const struct policy *policy;
	/* how long to keep heartbeats whose day is signed, measurements and asks; 0: forever */
	int64_t keep_ms;
	int64_t bytes_max; /* of the database; 0: no limit */
	struct limits_config limits;
	bool market;               /* customers book nodes here; needs a key */
	const char *default_image; /* of bookings that name none; NULL: there is none */
	/* where customers' blobs lie (NULL: in DB_PATH.blobs), how many bytes those of one account
	 * may have, and how long they stay after they were asked for; 0: the default */
	const char *blobs_path;
	int64_t blob_quota_bytes, blob_keep_ms;
};

struct registry_challenger; /* challenges/challenge.h */
struct registry_verdicts;   /* challenges/verdict.h */
struct market;              /* market/market.h */

struct registry {
	struct registry_config config;
	struct registry_db db;
	struct registry_challenger *challenger; /* NULL: none are issued */
	struct registry_verdicts *verdicts;     /* NULL likewise */
	struct limits *limits;
	struct market *market; /* NULL: it is none */
	struct blobs *blobs;   /* NULL likewise */
	struct logs *logs;     /* NULL likewise */
	struct twins *twins;   /* storage/twins.h */
	struct nonces *nonces; /* of all signed requests */
	/* Whether a node is not to be challenged at present: what is on its devices is a
	 * customer's. NULL: all may be. */
	bool (*spared)(struct registry *g, const char *node);
	/* Whether a key costs something: it has an account, or is a node's. NULL: nobody knows. */
	bool (*knows)(struct registry *g, const char *address);
	_Atomic uint64_t stored, refused;

	/* the progress of pages/uptime.h */
	_Atomic bool working, work_left;
	int64_t work_due_ns;

	/* the last reply of /v1/pools and its version */
	pthread_mutex_t pools_lock;
	char *pools;
	int64_t pools_version;
};

/* Opens or creates the database and starts all parts. Returns 0 or -1 as store_open. */
int registry_open(struct registry *g, const struct registry_config *config);

/* Stores all queued records, stops, and closes. */
void registry_close(struct registry *g);

#endif
