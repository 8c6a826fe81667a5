/* db.h - the registry's storage: SQLite, one thread that writes, and connections for
 * reading.
 *
 * Storage only: it knows no HTTP, and nothing of who may post what. The result of a record is
 * reported through its callback once it is safe on disk, and one commit covers all records that
 * arrived in the meantime. Whatever must happen in the same transaction (challenges) is done by
 * two hooks. Uses store, pool. */
#ifndef RNP_CMD_REGISTER_STORAGE_DB_H
#define RNP_CMD_REGISTER_STORAGE_DB_H

#include <jansson.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/record/key.h"
#include "common/store/modules.h"
#include "common/store/store.h"

#define REGISTRY_READERS 8

struct registry_db;

/* The result of storing a record. */
enum registry_stored {
	STORED_NEW,
	STORED_FIRST,   /* the first of this node, or the first with this content */
	STORED_SAME,    /* it was stored already, and nothing changed */
	STORED_OLDER,   /* one as new or newer is stored, of known_at_ms */
	STORED_EARLY,   /* its time is before at_min_ms, and it is not the stored one */
	STORED_NO_NODE, /* the node is not registered, and may not post yet */
	STORED_NO_WORK, /* the first record of a node that may not join */
	STORED_FULL,    /* the disk limit is reached, and this record can wait */
	STORED_FAILED,  /* the transaction failed, and none of it was stored */
};

#define BEAT_INSTANCE_MAX (64 * 4 + 1)

/* The fields from which a heartbeat can be reproduced, byte by byte (beats.h). */
struct registry_beat {
	int64_t interval_s;
	int state; /* index into registry_states */
	bool compact;
	int64_t created_ms;
	unsigned char signature[KEY_SIGNATURE_BYTES];
	char instance[BEAT_INSTANCE_MAX]; /* as the schema allows; "": none */
};

/* One accepted record that waits to be stored. Its owner allocates it with malloc and passes it
 * to registry_db_put; after done it is freed with its record and extra. */
struct registry_put {
	struct registry_put *next;
	enum { PUT_NODE, PUT_HEARTBEAT, PUT_RECORD, PUT_JOB } what;
	char kind[32];
	char node[KEY_ADDRESS_MAX];   /* the node it is about */
	char signer[KEY_ADDRESS_MAX]; /* its author */
	char sha256[65];              /* of the canonical record without its proof */
	char from[64]; /* the block of addresses that it came from, or "" */
	int64_t at_ms, received_ms;
	const char *text; /* the record as received; borrowed until done */
	/* PUT_NODE: the source of its columns; a verdict that proves: of the devices */
	json_t *record;
	int64_t at_min_ms;         /* PUT_NODE: see STORED_EARLY */
	struct registry_beat beat; /* PUT_HEARTBEAT */
	/* PUT_NODE: an unknown node may join; otherwise it needs an invitation (a valid
	 * rnp.invitation) */
	bool may_join;
	/* PUT_RECORD: from a trusted author, so that the node need not be registered, and the
	 * disk limit does not apply */
	bool by_trusted;
	/* How many of this kind are kept of this node; older ones are deleted, except node
	 * records that were proven. 0: all */
	int64_t keep;
	/* PUT_RECORD, a verdict: its challenge, and the node record that it proves; or "" */
	char closes[65], proves[65];
	/* PUT_JOB: runs in the transaction; returns 0, or -1 with err_set and the transaction
	 * fails */
	int (*job)(struct registry_put *p, struct registry_db *db);

	enum registry_stored stored; /* out */
	int64_t known_at_ms;         /* out, see STORED_OLDER */
	bool pending; /* out, PUT_NODE: no challenge about this record has been passed yet */
	json_t *extra; /* out: what the hook added to the reply, or NULL */
	void (*done)(struct registry_put *p, void *done_ctx);
	void *done_ctx;
};

/* Called within the writer's transaction, by the writer's thread. */
struct registry_hooks {
	void *ctx;
	/* A heartbeat was stored. Returns the fields to add to the reply to the node, an object
	 * that the caller owns, or NULL. */
	json_t *(*heartbeat)(void *ctx, const struct registry_put *p);
	/* A record with `closes` was stored, or was stored already. Returns 0, or -1 with
	 * err_set, which fails the transaction. */
	int (*closed)(void *ctx, const char *challenge_sha256);
	/* After the commit: a record is stored (STORED_NEW or STORED_FIRST). */
	void (*stored)(void *ctx, const struct registry_put *p);
};

struct registry_writer; /* prepared statements of the writing connection */

struct registry_db {
	bool in_memory;
	struct store store; /* the writer's */
	struct registry_writer *writer;
	struct registry_hooks hooks;
	int64_t bytes_max;          /* of the database file; 0: no limit */
	_Atomic int64_t bytes_used; /* at the last commit */

	pthread_t thread;
	bool started;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct registry_put *first, **last; /* the queue */
	bool stopping;

	pthread_mutex_t readers_lock;
	pthread_cond_t reader_free;
	struct store readers[REGISTRY_READERS];
	bool reader_taken[REGISTRY_READERS];
	pthread_mutex_t quick_lock;
	struct store quick;

	/* incremented by every commit that changed the set of nodes: the replies' entity tag */
	_Atomic int64_t version;
	_Atomic uint64_t commits;
};

/* Opens or creates the database, with the tables of modules (ends with NULL); beyond bytes_max
 * (0: no limit) it stores only what cannot wait. ":memory:" stores nothing on disk and runs
 * everything in one thread. A module that needs statements of its own on the writer's connection
 * (db->store) prepares them between open and start. Returns 0 or -1 as store_open. */
int registry_db_open(struct registry_db *db, const char *path, int64_t bytes_max,
	const struct store_module *const *modules);

/* Starts the writer; hooks are copied. Returns 0 or -1. */
int registry_db_start(struct registry_db *db, const struct registry_hooks *hooks);

/* Stores what is queued and stops the writer. Does nothing if registry_db_start did not start
 * it. */
void registry_db_stop(struct registry_db *db);

/* Closes the connections; statements of other modules on db->store must be finalised before. */
void registry_db_close(struct registry_db *db);

/* Passes a record to the writer (takes p). */
void registry_db_put(struct registry_db *db, struct registry_put *p);

/* Within a job: stores a record as PUT_RECORD does, without its checks. Returns 0 or -1. */
int registry_db_insert(struct registry_db *db, const struct registry_put *p);

/* Borrows the connection for short queries, which never wait for long ones, until it is given
 * back. */
struct store *registry_db_quick(struct registry_db *db);
void registry_db_quick_done(struct registry_db *db);

/* Borrows a connection for reading, until it is given back. A statement on it that runs for
 * longer than REGISTRY_READ_MS is interrupted (75). */
#define REGISTRY_READ_MS 3000
struct store *registry_db_reader(struct registry_db *db);
void registry_db_reader_done(struct registry_db *db, struct store *s);

extern const char
	*const registry_states[]; /* states of heartbeats, by number; ends with NULL */

#endif
