/* registry.h - the registry behind `serve`: its parts put together. A handler gets it as its
 * context.
 *
 * registry_db keeps records, registry_accept decides what is accepted, registry_challenge asks
 * nodes for proof, registry_verdict verifies their answers, registry_uptime signs when they
 * were up, registry_limits says how much a stranger may have, registry_reads has what is
 * answered to readers, registry_query what they may ask, registry_api the routes. Nothing of it
 * knows sockets: a request is a struct httpd_request. */
#ifndef RNP_CMD_REGISTER_REGISTRY_H
#define RNP_CMD_REGISTER_REGISTRY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/registry_db.h"
#include "cmd/rnp-register/registry_limits.h"
#include "common/record/key.h"
#include "common/record/policy.h"

struct registry_config {
	/* ":memory:": nothing is kept, and everything runs in one thread */
	const char *db_path;
	const char *const *trusted; /* addresses of verifiers and coordinators */
	int ntrusted;
	int64_t challenge_every_ms; /* on average, each node; 0: never */
	const struct key *key; /* signs challenges, verdicts and uptimes; NULL: none */
	const struct policy *policy;
	int64_t keep_ms; /* heartbeats whose day is signed, measurements and asks; 0: for ever */
	int64_t bytes_max; /* of the database; 0: no bound */
	struct limits_config limits;
};

struct registry_challenger; /* registry_challenge.h */
struct registry_verdicts;   /* registry_verdict.h */

struct registry {
	struct registry_config config;
	struct registry_db db;
	struct registry_challenger *challenger; /* NULL: none are issued */
	struct registry_verdicts *verdicts;     /* the same */
	struct limits *limits;
	_Atomic uint64_t stored, refused;

	/* the task of registry_uptime.h */
	_Atomic bool working, work_left;
	int64_t work_due_ns;

	/* the last answer of /v1/pools and the version it is of */
	pthread_mutex_t pools_lock;
	char *pools;
	int64_t pools_version;
};

/* Opens or creates the database and starts all parts. Returns 0 or -1 as store_open. */
int registry_open(struct registry *g, const struct registry_config *config);

/* Stores what is queued, stops, closes. */
void registry_close(struct registry *g);

#endif
