/* db.c - the registry's storage: the tables, the thread that writes them, and
 * connections for reading. It decides what is stored only if that depends on what is stored
 * already; long because the schema stands beside the statements that use it. */
#include "cmd/rnp-register/storage/db.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/storage/beats.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/record/pool.h"

/* records and heartbeats only grow; nodes holds the current state of each node, in narrow rows
 * for the filters. Columns are derived from the records and could be computed again. */
static const char *const schema_steps[] = {
	"CREATE TABLE nodes ("
	" id INTEGER PRIMARY KEY,"
	" address TEXT NOT NULL UNIQUE,"
	" at_ms INTEGER NOT NULL,"
	" sha256 TEXT NOT NULL,"
	" record INTEGER NOT NULL REFERENCES records (id),"
	" tier INTEGER NOT NULL,"
	" country TEXT NOT NULL,"
	" device TEXT NOT NULL,"
	" maker TEXT NOT NULL,"
	" model TEXT NOT NULL,"
	" gpus INTEGER NOT NULL,"
	" gpu_memory_bytes INTEGER NOT NULL"
	") STRICT;"
	"CREATE TABLE records ("
	" id INTEGER PRIMARY KEY,"
	" kind TEXT NOT NULL,"
	" node TEXT NOT NULL,"
	" signer TEXT NOT NULL,"
	" at_ms INTEGER NOT NULL,"
	" received_ms INTEGER NOT NULL,"
	" sha256 TEXT NOT NULL,"
	" body TEXT NOT NULL"
	") STRICT;"
	"CREATE TABLE heartbeats ("
	" id INTEGER PRIMARY KEY,"
	" node INTEGER NOT NULL REFERENCES nodes (id),"
	" at_ms INTEGER NOT NULL,"
	" interval_s INTEGER NOT NULL,"
	" state INTEGER NOT NULL,"
	/* either the text, or the fields that reproduce it */
	" created_ms INTEGER,"
	" signature BLOB,"
	" body TEXT"
	") STRICT;"
	/* after the id come the columns of the other filters, which are then tested without
	 * reading the row */
	"CREATE INDEX nodes_model ON nodes (model COLLATE NOCASE, id, device, tier,"
	" country COLLATE NOCASE, gpu_memory_bytes);"
	"CREATE INDEX nodes_country ON nodes (country COLLATE NOCASE, id, device, tier,"
	" gpu_memory_bytes);"
	"CREATE INDEX nodes_tier ON nodes (tier, id, device, gpu_memory_bytes);"
	"CREATE INDEX nodes_pool ON nodes (tier, country, device, maker, model);"
	"CREATE INDEX records_node ON records (node, kind, id);"
	"CREATE INDEX records_kind ON records (kind, id);"
	"CREATE INDEX records_content ON records (sha256);"
	"CREATE INDEX heartbeats_node ON heartbeats (node, at_ms, interval_s, state);",
	/* those without a verdict */
	"CREATE TABLE challenges ("
	" sha256 TEXT NOT NULL PRIMARY KEY,"
	" body TEXT NOT NULL"
	") STRICT, WITHOUT ROWID;",
	/* when a heartbeat arrived; node records of passed challenges, and when; which node
	 * claims which device; progress of the registry's tasks */
	"ALTER TABLE heartbeats ADD COLUMN received_ms INTEGER;"
	"ALTER TABLE nodes ADD COLUMN proven_ms INTEGER;"
	"CREATE TABLE proven ("
	" node TEXT NOT NULL,"
	" sha256 TEXT NOT NULL,"
	" at_ms INTEGER NOT NULL,"
	" PRIMARY KEY (node, sha256)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE devices ("
	" uuid TEXT NOT NULL,"
	" node INTEGER NOT NULL REFERENCES nodes (id),"
	" PRIMARY KEY (uuid, node)"
	") STRICT, WITHOUT ROWID;"
	"CREATE TABLE tasks ("
	" name TEXT NOT NULL PRIMARY KEY,"
	" value INTEGER NOT NULL"
	") STRICT, WITHOUT ROWID;"
	"CREATE INDEX devices_node ON devices (node);"
	"CREATE INDEX records_signer ON records (signer, id);",
	/* which node proved which device, and when last; a uuid in capitals is the same device */
	"UPDATE OR REPLACE devices SET uuid = lower(uuid);"
	"CREATE TABLE proven_devices ("
	" uuid TEXT NOT NULL,"
	" node TEXT NOT NULL,"
	" at_ms INTEGER NOT NULL,"
	" PRIMARY KEY (uuid, node)"
	") STRICT, WITHOUT ROWID;"
	"INSERT OR REPLACE INTO proven_devices SELECT d.uuid, n.address, n.proven_ms FROM nodes n "
	"JOIN devices d ON d.node = n.id WHERE n.proven_ms IS NOT NULL;",
	NULL,
};

struct registry_writer {
	sqlite3_stmt *find_node, *insert_record, *insert_node, *update_node, *same_record;
	sqlite3_stmt *last_beat, *insert_beat, *invited, *prove_record, *prove_node;
	sqlite3_stmt *forget, *drop_devices, *insert_device, *prove_device, *used;
};

static int prepare_all(struct registry_db *db)
{
	struct registry_writer *w = db->writer;
	struct store *s = &db->store;

	if (store_prepare(s, &w->find_node,
		    "SELECT id, at_ms, sha256, proven_ms FROM nodes WHERE address = ?") <
			0 ||
		store_prepare(s, &w->insert_record,
			"INSERT INTO records (kind, node, signer, at_ms, received_ms, sha256, "
			"body) VALUES (?, ?, ?, ?, ?, ?, ?)") < 0 ||
		store_prepare(s, &w->insert_node,
			"INSERT INTO nodes (at_ms, sha256, record, tier, country, device, maker, "
			"model, gpus, gpu_memory_bytes, address) "
			"VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)") < 0 ||
		store_prepare(s, &w->update_node,
			"UPDATE nodes SET at_ms = ?, sha256 = ?, record = ?, tier = ?, "
			"country = ?, device = ?, maker = ?, model = ?, gpus = ?, "
			"gpu_memory_bytes = ?, proven_ms = NULL WHERE address = ?") < 0 ||
		store_prepare(s, &w->same_record,
			"SELECT 1 FROM records WHERE sha256 = ? AND kind = ? AND signer = ?") <
			0 ||
		store_prepare(s, &w->last_beat,
			"SELECT max(at_ms) FROM heartbeats WHERE node = ?") < 0 ||
		store_prepare(s, &w->insert_beat,
			"INSERT INTO heartbeats (node, at_ms, interval_s, state, body, "
			"created_ms, signature, received_ms) VALUES (?, ?, ?, ?, ?, ?, ?, ?)") <
			0 ||
		store_prepare(s, &w->invited,
			"SELECT 1 FROM records WHERE node = ? AND kind = 'rnp.invitation' "
			"AND at_ms > ?") < 0 ||
		store_prepare(s, &w->prove_record,
			"INSERT INTO proven (node, sha256, at_ms) VALUES (?, ?, ?) "
			"ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms") < 0 ||
		store_prepare(s, &w->prove_node,
			"UPDATE nodes SET proven_ms = ?3 WHERE address = ?1 AND sha256 = ?2") <
			0 ||
		store_prepare(s, &w->forget,
			"DELETE FROM records WHERE node = ?1 AND kind = ?2 AND id <= "
			"(SELECT id FROM records WHERE node = ?1 AND kind = ?2 "
			"ORDER BY id DESC LIMIT 1 OFFSET ?3) AND sha256 NOT IN "
			"(SELECT sha256 FROM proven WHERE node = ?1)") < 0 ||
		store_prepare(s, &w->drop_devices, "DELETE FROM devices WHERE node = ?") <
			0 ||
		store_prepare(s, &w->insert_device,
			"INSERT OR IGNORE INTO devices (uuid, node) VALUES (lower(?), ?)") <
			0 ||
		store_prepare(s, &w->prove_device,
			"INSERT INTO proven_devices (uuid, node, at_ms) VALUES (lower(?), ?, ?) "
			"ON CONFLICT DO UPDATE SET at_ms = excluded.at_ms") < 0 ||
		store_prepare(s, &w->used,
			"SELECT (SELECT page_count FROM pragma_page_count) - "
			"(SELECT freelist_count FROM pragma_freelist_count), "
			"(SELECT page_size FROM pragma_page_size)") < 0)
		return -1;
	return 0;
}

static void finalize_all(struct registry_writer *w)
{
	sqlite3_finalize(w->find_node);
	sqlite3_finalize(w->insert_record);
	sqlite3_finalize(w->insert_node);
	sqlite3_finalize(w->update_node);
	sqlite3_finalize(w->same_record);
	sqlite3_finalize(w->last_beat);
	sqlite3_finalize(w->insert_beat);
	sqlite3_finalize(w->invited);
	sqlite3_finalize(w->prove_record);
	sqlite3_finalize(w->prove_node);
	sqlite3_finalize(w->forget);
	sqlite3_finalize(w->drop_devices);
	sqlite3_finalize(w->insert_device);
	sqlite3_finalize(w->prove_device);
	sqlite3_finalize(w->used);
}

/* Returns 1 if the node exists (id, at_ms, sha256 in the statement's row), 0, -1. */
static int find_node(struct registry_db *db, const char *address)
{
	store_bind(db->writer->find_node, "t", address);
	return store_step(&db->store, db->writer->find_node);
}

static int insert_record(struct registry_db *db, const struct registry_put *p)
{
	return store_run(&db->store, db->writer->insert_record, "tttiitt", p->kind,
		p->node, p->signer, p->at_ms, p->received_ms, p->sha256, p->text);
}

static int put_node_columns(struct registry_db *db, const struct registry_put *p,
	bool is_new)
{
	struct pool pool;

	pool_of_node(p->record, &pool);
	return store_run(&db->store,
		is_new ? db->writer->insert_node : db->writer->update_node, "itiittttiit",
		p->at_ms, p->sha256, (int64_t)sqlite3_last_insert_rowid(db->store.db),
		(int64_t)(pool.tier - pool_tiers), pool.country, pool.device, pool.maker,
		pool.model, pool.gpus, pool.memory_bytes, p->node);
}

int registry_db_insert(struct registry_db *db, const struct registry_put *p)
{
	if (insert_record(db, p) < 0)
		return -1;
	if (!p->keep)
		return 0;
	return store_run(&db->store, db->writer->forget, "tti", p->node, p->kind,
		p->keep);
}

/* Whether less space remains than is reserved for records that cannot wait. */
static bool is_full(const struct registry_db *db)
{
	return db->bytes_max && db->bytes_used > db->bytes_max;
}

/* Stores which devices the node now claims. */
static int put_devices(struct registry_db *db, const json_t *record, int64_t node)
{
	struct registry_writer *w = db->writer;
	const json_t *gpu;
	size_t i;

	if (store_run(&db->store, w->drop_devices, "i", node) < 0)
		return -1;
	json_array_foreach(json_object_get(record, "gpus"), i, gpu) {
		const char *uuid = json_string_value(json_object_get(gpu, "uuid"));

		if (uuid && store_run(&db->store, w->insert_device, "ti", uuid, node) < 0)
			return -1;
	}
	return 0;
}

/* Returns 1 if the node has a valid invitation, 0, or -1. */
static int is_invited(struct registry_db *db, const struct registry_put *p)
{
	sqlite3_stmt *q = db->writer->invited;
	int rc;

	store_bind(q, "ti", p->node, p->received_ms);
	rc = store_step(&db->store, q);
	sqlite3_reset(q);
	return rc;
}

/* Decides what becomes of a node's record, from what is stored: found, its id, time and hash.
 * Returns 0 or -1. */
static int decide_node(struct registry_db *db, struct registry_put *p, int found,
	bool same)
{
	int invited = 0;

	if (!found && !p->may_join && (invited = is_invited(db, p)) < 0)
		return -1;
	p->stored = same                           ? STORED_SAME :
		p->at_ms <= p->known_at_ms         ? STORED_OLDER :
		p->at_ms < p->at_min_ms            ? STORED_EARLY :
		!found && !p->may_join && !invited ? STORED_NO_WORK :
		is_full(db)                        ? STORED_FULL :
		found                              ? STORED_NEW :
						     STORED_FIRST;
	return 0;
}

static int put_node(struct registry_db *db, struct registry_put *p)
{
	sqlite3_stmt *q = db->writer->find_node;
	int found = find_node(db, p->node);
	int64_t id;
	bool same;

	if (found < 0)
		return -1;
	id = found ? sqlite3_column_int64(q, 0) : 0;
	p->known_at_ms = found ? sqlite3_column_int64(q, 1) : INT64_MIN;
	same = found && strcmp(store_text(q, 2), p->sha256) == 0;
	p->pending = !same || sqlite3_column_type(q, 3) == SQLITE_NULL;
	sqlite3_reset(q);
	if (decide_node(db, p, found, same) < 0)
		return -1;
	if (p->stored > STORED_FIRST)
		return 0;
	if (insert_record(db, p) < 0 || put_node_columns(db, p, !found) < 0)
		return -1;
	if (!found)
		id = sqlite3_last_insert_rowid(db->store.db);
	if (put_devices(db, p->record, id) < 0 ||
		(p->keep &&
			store_run(&db->store, db->writer->forget, "tti", p->node, p->kind,
				p->keep) < 0))
		return -1;
	return 1;
}

/* Sets the time of the node's newest heartbeat, 0 if there is none. */
static int last_beat(struct registry_db *db, int64_t node, int64_t *at_ms)
{
	sqlite3_stmt *q = db->writer->last_beat;

	store_bind(q, "i", node);
	if (store_step(&db->store, q) < 0)
		return -1;
	*at_ms = sqlite3_column_int64(q, 0); /* NULL is 0 */
	sqlite3_reset(q);
	return 0;
}

static int put_heartbeat(struct registry_db *db, struct registry_put *p)
{
	struct registry_writer *w = db->writer;
	const struct registry_beat *b = &p->beat;
	unsigned char packed[BEAT_PACKED_MAX];
	int found = find_node(db, p->node);
	int64_t id = found > 0 ? sqlite3_column_int64(w->find_node, 0) : 0;

	sqlite3_reset(w->find_node);
	p->stored = found ? STORED_NEW : STORED_NO_NODE;
	if (found <= 0)
		return found;
	if (last_beat(db, id, &p->known_at_ms) < 0)
		return -1;
	if (p->at_ms <= p->known_at_ms) {
		p->stored = STORED_OLDER;
		return 0;
	}
	if (b->compact)
		store_bind(w->insert_beat, "iiiinibi", id, p->at_ms, b->interval_s,
			(int64_t)b->state, b->created_ms, packed,
			registry_beat_pack(packed, b), p->received_ms);
	else
		store_bind(w->insert_beat, "iiiitnni", id, p->at_ms, b->interval_s,
			(int64_t)b->state, p->text, p->received_ms);
	if (store_step(&db->store, w->insert_beat) < 0)
		return -1;
	if (db->hooks.heartbeat)
		p->extra = db->hooks.heartbeat(db->hooks.ctx, p);
	return 0;
}

/* Records a passed challenge about this record of the node. */
static int put_proven(struct registry_db *db, const struct registry_put *p)
{
	struct registry_writer *w = db->writer;
	const json_t *one;
	size_t i;

	json_array_foreach(json_object_get(p->record, "proven"), i, one) {
		const char *uuid = json_string_value(json_object_get(one, "device"));

		if (uuid &&
			store_run(&db->store, w->prove_device, "tti", uuid, p->node,
				p->at_ms) < 0)
			return -1;
	}
	if (store_run(&db->store, w->prove_record, "tti", p->node, p->proves, p->at_ms) <
		0)
		return -1;
	return store_run(&db->store, w->prove_node, "tti", p->node, p->proves, p->at_ms);
}

/* Returns 1 if it may be stored, 0 with p->stored, or -1. */
static int may_say(struct registry_db *db, struct registry_put *p)
{
	int found;

	if (p->by_trusted)
		return 1;
	found = find_node(db, p->node);
	sqlite3_reset(db->writer->find_node);
	p->stored = found ? STORED_FULL : STORED_NO_NODE;
	return found <= 0 ? found : !is_full(db);
}

static int put_record(struct registry_db *db, struct registry_put *p)
{
	sqlite3_stmt *q = db->writer->same_record;
	int known, may = may_say(db, p);

	if (may <= 0)
		return may;
	store_bind(q, "ttt", p->sha256, p->kind, p->signer);
	known = store_step(&db->store, q);
	sqlite3_reset(q);
	if (known < 0)
		return -1;
	if (!known && registry_db_insert(db, p) < 0)
		return -1;
	if (p->closes[0] && db->hooks.closed &&
		db->hooks.closed(db->hooks.ctx, p->closes) < 0)
		return -1;
	if (p->proves[0] && put_proven(db, p) < 0)
		return -1;
	p->stored = known ? STORED_SAME : STORED_FIRST;
	return 0;
}

/* Stores one record within the transaction. Returns 1 if it changed the nodes, 0, or -1 and the
 * whole transaction fails. */
static int apply(struct registry_db *db, struct registry_put *p)
{
	switch (p->what) {
	case PUT_NODE:
		return put_node(db, p);
	case PUT_HEARTBEAT:
		return put_heartbeat(db, p);
	case PUT_JOB:
		return p->job(p, db);
	default:
		return put_record(db, p);
	}
}

/* Reports the results of all records: either the whole transaction is now in effect, or none of
 * it. */
static void finish_all(struct registry_db *db, struct registry_put *list, bool ok)
{
	while (list) {
		struct registry_put *p = list;

		list = p->next;
		if (!ok)
			p->stored = STORED_FAILED;
		if (db->hooks.stored && p->what != PUT_JOB && p->stored <= STORED_FIRST)
			db->hooks.stored(db->hooks.ctx, p);
		p->done(p, p->done_ctx);
		json_decref(p->extra);
		json_decref(p->record);
		free(p);
	}
}

static void read_used(struct registry_db *db)
{
	sqlite3_stmt *q = db->writer->used;

	if (store_step(&db->store, q) == 1)
		db->bytes_used = sqlite3_column_int64(q, 0) * sqlite3_column_int64(q, 1);
	else
		err_clear();
	sqlite3_reset(q);
}

static void store_all(struct registry_db *db, struct registry_put *list)
{
	bool nodes_changed = false;
	int rc = store_begin(&db->store);

	for (struct registry_put *p = list; p && rc >= 0; p = p->next) {
		rc = apply(db, p);
		nodes_changed |= rc > 0;
	}
	if (rc >= 0)
		rc = store_commit(&db->store);
	if (rc < 0) {
		prog_error("%s", err_get()->text);
		store_rollback(&db->store);
	} else if (nodes_changed) {
		db->version++;
	}
	db->commits++;
	if (db->bytes_max)
		read_used(db);
	finish_all(db, list, rc >= 0);
}

static void *write_records(void *arg)
{
	struct registry_db *db = arg;

	for (;;) {
		struct registry_put *list;

		pthread_mutex_lock(&db->lock);
		while (!db->first && !db->stopping)
			pthread_cond_wait(&db->wake, &db->lock);
		list = db->first;
		db->first = NULL;
		db->last = &db->first;
		pthread_mutex_unlock(&db->lock);
		if (!list)
			return NULL;
		store_all(db, list);
	}
}

void registry_db_put(struct registry_db *db, struct registry_put *p)
{
	p->next = NULL;
	if (db->in_memory) {
		store_all(db, p);
		return;
	}
	pthread_mutex_lock(&db->lock);
	*db->last = p;
	db->last = &p->next;
	pthread_cond_signal(&db->wake);
	pthread_mutex_unlock(&db->lock);
}

struct store *registry_db_reader(struct registry_db *db)
{
	struct store *s = NULL;

	if (db->in_memory)
		return &db->store;
	pthread_mutex_lock(&db->readers_lock);
	while (!s) {
		for (int i = 0; i < REGISTRY_READERS && !s; i++)
			if (!db->reader_taken[i]) {
				db->reader_taken[i] = true;
				s = &db->readers[i];
			}
		if (!s)
			pthread_cond_wait(&db->reader_free, &db->readers_lock);
	}
	pthread_mutex_unlock(&db->readers_lock);
	store_limit(s, REGISTRY_READ_MS);
	return s;
}

void registry_db_reader_done(struct registry_db *db, struct store *s)
{
	if (db->in_memory)
		return;
	pthread_mutex_lock(&db->readers_lock);
	db->reader_taken[s - db->readers] = false;
	pthread_cond_signal(&db->reader_free);
	pthread_mutex_unlock(&db->readers_lock);
}

static int open_readers(struct registry_db *db, const char *path)
{
	for (int i = 0; i < REGISTRY_READERS && !db->in_memory; i++) {
		if (store_open(&db->readers[i], path, schema_steps, true) < 0)
			return -1;
		store_limit(&db->readers[i], REGISTRY_READ_MS);
	}
	return db->in_memory ? 0 : store_open(&db->quick, path, schema_steps, true);
}

struct store *registry_db_quick(struct registry_db *db)
{
	pthread_mutex_lock(&db->quick_lock);
	return db->in_memory ? &db->store : &db->quick;
}

void registry_db_quick_done(struct registry_db *db)
{
	pthread_mutex_unlock(&db->quick_lock);
}

int registry_db_open(struct registry_db *db, const char *path, int64_t bytes_max,
	const struct store_module *const *modules)
{
	memset(db, 0, sizeof *db);
	db->bytes_max = bytes_max;
	db->in_memory = strcmp(path, ":memory:") == 0;
	db->last = &db->first;
	db->version = clock_now_ms(); /* entity tags of an earlier run must not match */
	pthread_mutex_init(&db->lock, NULL);
	pthread_mutex_init(&db->readers_lock, NULL);
	pthread_mutex_init(&db->quick_lock, NULL);
	pthread_cond_init(&db->wake, NULL);
	pthread_cond_init(&db->reader_free, NULL);
	db->writer = xcalloc(1, sizeof *db->writer);
	if (store_open(&db->store, path, schema_steps, false) == 0 &&
		store_modules(&db->store, modules) == 0 && prepare_all(db) == 0 &&
		open_readers(db, path) == 0)
		return 0;
	registry_db_close(db);
	return -1;
}

int registry_db_start(struct registry_db *db, const struct registry_hooks *hooks)
{
	db->hooks = *hooks;
	read_used(db);
	if (db->in_memory)
		return 0;
	if (pthread_create(&db->thread, NULL, write_records, db) != 0)
		return err_set(EX_OSERR, "cannot start a thread");
	db->started = true;
	return 0;
}

void registry_db_stop(struct registry_db *db)
{
	if (!db->started)
		return;
	pthread_mutex_lock(&db->lock);
	db->stopping = true;
	pthread_cond_signal(&db->wake);
	pthread_mutex_unlock(&db->lock);
	pthread_join(db->thread, NULL);
	db->started = false;
}

void registry_db_close(struct registry_db *db)
{
	if (!db->writer)
		return;
	for (int i = 0; i < REGISTRY_READERS; i++)
		store_close(&db->readers[i]);
	store_close(&db->quick);
	finalize_all(db->writer);
	store_close(&db->store);
	free(db->writer);
	db->writer = NULL;
	pthread_mutex_destroy(&db->lock);
	pthread_mutex_destroy(&db->readers_lock);
	pthread_mutex_destroy(&db->quick_lock);
	pthread_cond_destroy(&db->wake);
	pthread_cond_destroy(&db->reader_free);
}
