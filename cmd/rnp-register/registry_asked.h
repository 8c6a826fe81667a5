/* registry_asked.h - the table of nodes that the registry challenges: what the parts of
 * registry_challenge.h share.
 *
 * One entry for each node that sent a heartbeat, all under one lock. Functions whose comment does
 * not say otherwise are called with the lock held. */
#ifndef RNP_CMD_REGISTER_REGISTRY_ASKED_H
#define RNP_CMD_REGISTER_REGISTRY_ASKED_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/registry.h"
#include "common/poc/poc.h"
#include "common/record/key.h"
#include "common/store/store.h"

struct bandwidth_tests;

#define ASKED_BUCKETS   16384
#define ASKED_NODES_MAX 1000000

/* Addresses of the nodes that claim a device which this one claims, too, and when each had a
 * record of its own proven, or NULL. */
#define ASKED_TWINS_SQL                                                              \
	"SELECT DISTINCT m.address, "                                                \
	"(SELECT max(p.at_ms) FROM proven p WHERE p.node = m.address) FROM nodes n " \
	"JOIN devices d ON d.node = n.id "                                           \
	"JOIN devices e ON e.uuid = d.uuid AND e.node <> d.node "                    \
	"JOIN nodes m ON m.id = e.node WHERE n.address = ?"

/* A node that sent a heartbeat. */
struct asked {
	struct asked *next;
	char node[KEY_ADDRESS_MAX];
	int64_t due_ns;          /* when the next challenge is, on the monotonic clock */
	int64_t asked_ns;        /* when the open one was first handed out */
	struct poc_challenge *c; /* the open one, or NULL */
	json_t *record;
	/* of the signed requests about the open one, by their first bytes; NULL: none came */
	uint64_t *nonces;
	int nnonces;
	bool has_roots; /* of the answer to it came already */
	unsigned char roots[POC_HASH_BYTES];
	int64_t roots_ns; /* and when, since asked_ns */
	/* The instant of a joint challenge that was announced, on the monotonic clock, or 0;
	 * and what the challenges of that instant have in common, which stays until the next. */
	int64_t joint_ns;
	unsigned char joint[POC_HASH_BYTES];
	/* Of the last heartbeat: hashes of the wallet and of the block of addresses, 0: none;
	 * when it came, and its promise. */
	uint64_t wallet, block;
	int64_t seen_ns, interval_ms;
	int64_t answered_ns;    /* when the last answer arrived, 0: none did */
	char record_sha256[65]; /* of its node record */
	char asked_record[65];  /* of the one that was last asked about, or "" */
	int uploads;            /* answers that are on their way */
};

struct registry_challenger {
	pthread_mutex_t lock;
	double asks; /* how many nodes may be asked now, and when that was so */
	int64_t asks_ns;
	struct asked *buckets[ASKED_BUCKETS];
	int64_t nodes;
	/* of the writer's connection */
	sqlite3_stmt *insert, *remove, *claims, *facts, *twins;
	struct bandwidth_tests *exchanges; /* of those that are asked */
};

/* Where the node's entry is, or would be. */
struct asked **asked_place(struct registry_challenger *ch, const char *node);

/* The node's entry, which is made when there is room; NULL: there is none. */
struct asked *asked_get(struct registry *g, const char *node);

/* The node's entry when the challenge of that hash (hex) is open for it, or NULL. */
struct asked *asked_find_open(struct registry_challenger *ch, const char *node,
	const char *id);

/* When a node is asked next: evenly between now and twice the mean, so that nobody can tell. */
int64_t asked_due_ns(const struct registry *g);

void asked_hex(char out[65], const struct poc_challenge *c);

/* Plans, signs and stores a challenge (registry_plan.c), within the writer. Returns 0, or -1:
 * nothing is open. An error is this node's own, and everybody else's business goes on. */
int asked_open(struct registry *g, struct asked *a);

/* Forgets the open challenge. */
void asked_close(struct asked *a);

/* Joint challenges (registry_joint.c). Notes what the node is now, from its heartbeat. Returns
 * whether its record is pending and was never asked about: nobody should wait for chance to
 * prove it. */
bool joint_note(struct registry *g, struct asked *a, const struct registry_put *p);

/* Whether the node is there: its last heartbeat's promise is not long over. */
bool joint_is_there(const struct asked *a);

/* Asks a node whose time has come, within the writer, now or together with others. Returns how many
 * are asked. */
int joint_ask(struct registry *g, struct asked *a);

/* Opens the challenges whose instant has come, soon. Without the lock. */
void joint_open_soon(struct registry *g);

#endif
