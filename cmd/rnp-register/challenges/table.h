/* table.h - the table of nodes that the registry challenges, shared by the parts of
 * challenge.h.
 *
 * One entry for each node that sent a heartbeat, all under one lock. Functions are called with
 * the lock held unless their comment says otherwise. */
#ifndef RNP_CMD_REGISTER_CHALLENGES_TABLE_H
#define RNP_CMD_REGISTER_CHALLENGES_TABLE_H

#include <jansson.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"
#include "common/poc/poc.h"
#include "common/record/key.h"
#include "common/store/store.h"

struct bandwidth_tests;

#define CHALLENGED_BUCKETS   16384
#define CHALLENGED_NODES_MAX 1000000

/* Addresses of other nodes that claim, or have proven, a device which this one claims, and when
 * each last proved it (0: never), last one first. */
#define CHALLENGED_TWINS_SQL                                                                   \
	"WITH mine (uuid) AS (SELECT d.uuid FROM devices d JOIN nodes n ON n.id = d.node "     \
	"WHERE n.address = ?1) SELECT node, max(at_ms) FROM ("                                 \
	"SELECT m.address AS node, 0 AS at_ms FROM mine JOIN devices e ON e.uuid = mine.uuid " \
	"JOIN nodes m ON m.id = e.node UNION ALL "                                             \
	"SELECT p.node, p.at_ms FROM mine JOIN proven_devices p ON p.uuid = mine.uuid) "       \
	"WHERE node <> ?1 GROUP BY node ORDER BY 2 DESC, 1"

/* A node that proved a device this recently may still be paid for it. */
#define CHALLENGED_PAID_MS (INT64_C(8) * 86400000)

/* A node that sent a heartbeat. */
struct challenged {
	struct challenged *next;
	char node[KEY_ADDRESS_MAX];
	int64_t due_ns;       /* when the next challenge is due, on the monotonic clock */
	int64_t delivered_ns; /* when the open one was first delivered */
	struct poc_challenge *c; /* the open one, or NULL */
	json_t *record;
	int signed_reads; /* signed requests about the open one */
	bool has_roots;   /* the answer's roots have arrived */
	unsigned char roots[POC_HASH_BYTES];
	int64_t roots_ns; /* and when, since delivered_ns */
	/* The instant of an announced joint challenge, on the monotonic clock, or 0; and the
	 * value that challenges of that instant have in common, which stays until the next. */
	int64_t joint_ns;
	unsigned char joint[POC_HASH_BYTES];
	/* of the instant before, whose answers may still wait to be verified */
	unsigned char joint_before[POC_HASH_BYTES];
	/* From the last heartbeat: hashes of the wallet and of the block of addresses, 0: none;
	 * when it arrived, and the interval that it promised. */
	uint64_t wallet, block;
	int64_t seen_ns, interval_ms;
	int64_t answered_ns;        /* when the last answer arrived, 0: never */
	char record_sha256[65];     /* of its node record */
	char challenged_record[65]; /* of the one that was last challenged, or "" */
	int failed;                 /* challenges in a row that it did not pass */
	/* When an answer of it last proved a device, in Unix time: known here before it is
	 * stored. */
	int64_t proven_ms;
	int64_t answer_bytes; /* estimate of its answer's size, by what it claims */
	/* The answer that is being received, which a newer one replaces; the one that waits to be
	 * verified; and how many about the open challenge were refused. */
	struct httpd_request *upload, *verified;
	int refused;
	struct httpd_request *exchange; /* the bytes that come back from it, likewise */
};

struct registry_challenger {
	pthread_mutex_t lock;
	/* a token bucket: how many nodes may be challenged now, and when that was computed */
	double asks;
	int64_t asks_ns;
	/* limits of the answers' sizes to open challenges, added up */
	int64_t open_bytes;
	struct challenged *buckets[CHALLENGED_BUCKETS];
	int64_t nodes;
	/* on the writer's connection */
	sqlite3_stmt *insert, *remove, *claims, *facts, *twins;
	struct bandwidth_tests *exchanges; /* of the nodes with open challenges */
};

/* Returns the slot of the node's entry, or where it would be. */
struct challenged **challenged_place(struct registry_challenger *ch, const char *node);

/* Returns the node's entry, creating it if there is space; NULL: there is none. */
struct challenged *challenged_get(struct registry *g, const char *node);

/* Returns the node's entry if the challenge with that hash (hex) is open for it, or NULL. */
struct challenged *challenged_find_open(struct registry_challenger *ch, const char *node,
	const char *id);

/* The time of a node's next challenge: evenly between now and twice the mean, so that nobody
 * can predict it. After the third failed challenge in a row, the mean doubles with each, up to 64
 * times: verdicts are kept for ever, and a node that never passes is not worth one an hour. */
int64_t challenged_due_ns(const struct registry *g, const struct challenged *a);

/* Whether a node with a new record is challenged at once: not if it did not pass the last three. */
bool challenged_at_once(const struct challenged *a);

/* Whether what runs on its devices is a customer's, so that it is not challenged now. */
bool challenged_is_spared(struct registry *g, const struct challenged *a);

void challenged_hex(char out[65], const struct poc_challenge *c);

/* Names the open challenge in a reply to its node: "challenge_sha256", the "phase" that is awaited
 * ("roots", then "openings"), and in how many milliseconds that is due. */
void challenged_describe(const struct challenged *a, json_t *reply);

/* Plans, signs and stores a challenge (plan.c), within the writer. Returns 0, or -1:
 * nothing is open. An error concerns only this node; other nodes are not affected. */
int challenged_open(struct registry *g, struct challenged *a);

/* Forgets the open challenge; if it is still a's, the size of its answer is not reserved any
 * longer. */
void challenged_close(struct registry_challenger *ch, struct challenged *a);

/* The error of whoever answers, or exchanges for, a challenge to a node that is not open (any
 * more). */
enum httpd_when registry_challenge_none(struct httpd_reply *r, const char *node);

/* Takes the open challenge of this answer; the caller frees it. j->elapsed_ns is when the
 * answer arrived on the monotonic clock, and becomes the time since its issue; the roots that
 * came before are set. NULL: r is filled. The answer must be the node's own, so that nobody
 * else can use up its challenge. */
struct poc_challenge *registry_challenge_take(struct registry *g, const json_t *answer,
	struct httpd_reply *r, struct poc_conditions *j);

/* After the verdict on a challenge that was taken: who does not pass is challenged less often.
 * proven: a device was. */
void registry_challenge_verified(struct registry *g, const struct poc_challenge *c,
	bool passed, bool proven);

/* The answer's body has arrived, and is to be verified next. Returns false if there is one already
 * that waits. Called without the lock, as the next one. */
bool challenged_arrived(struct registry *g, struct httpd_request *q);

/* It was verified, or refused. */
void challenged_verified(struct registry *g, const struct httpd_request *q, bool refused);

/* Joint challenges (joint.c). Records the node's state from its heartbeat. Returns
 * whether its record is pending and was never challenged: then it should not wait for a random
 * challenge. */
bool joint_note(struct registry *g, struct challenged *a, const struct registry_put *p);

/* Challenges a node that is due, within the writer, now or together with others. Returns how
 * many are challenged. */
int joint_ask(struct registry *g, struct challenged *a);

/* Opens the challenges whose instant is about to come. Called without the lock. */
void joint_open_soon(struct registry *g);

#endif
