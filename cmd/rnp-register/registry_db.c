#include "cmd/rnp-register/registry.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"

const char *const registry_states[] = { "idle", "busy", "render", "maintenance", NULL };

/* records and heartbeats only grow; nodes holds what a node is now, in narrow rows for the
 * filters. Columns are derived from the records and could be computed again. */
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
	/* either the text, or what it can be written again from */
	" created_ms INTEGER,"
	" signature BLOB,"
	" body TEXT"
	") STRICT;"
	/* behind the id stand the columns of the other filters, which are then tested without
	 * a look at the row */
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
	NULL,
};

struct registry_writer {
	sqlite3_stmt *find_node, *insert_record, *insert_node, *update_node, *same_record;
	sqlite3_stmt *last_beat, *insert_beat;
};

static int prepare_all(struct registry *g)
{
	struct registry_writer *w = g->writer;
	struct store *s = &g->db;

	if (store_prepare(s, &w->find_node,
		    "SELECT id, at_ms, sha256 FROM nodes WHERE address = ?") < 0 ||
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
			"gpu_memory_bytes = ? WHERE address = ?") < 0 ||
		store_prepare(s, &w->same_record,
			"SELECT 1 FROM records WHERE sha256 = ? AND kind = ? AND signer = ?") <
			0 ||
		store_prepare(s, &w->last_beat,
			"SELECT max(at_ms) FROM heartbeats WHERE node = ?") < 0 ||
		store_prepare(s, &w->insert_beat,
			"INSERT INTO heartbeats (node, at_ms, interval_s, state, body, "
			"created_ms, signature) VALUES (?, ?, ?, ?, ?, ?, ?)") < 0)
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
}

static void answer(struct registry_put *p, bool is_new, json_t *takes_challenge)
{
	json_t *ack = json_record("rnp.stored");

	json_set_text(ack, "of", p->kind);
	json_set_text(ack, "node", p->node);
	json_set_time(ack, "at", p->at_ms);
	json_set_text(ack, "sha256", p->sha256[0] ? p->sha256 : NULL);
	json_set_bool(ack, "new", is_new);
	if (takes_challenge)
		json_set(ack, "challenge", takes_challenge);
	json_write(&p->r->body, ack);
	buf_addc(&p->r->body, '\n');
	json_decref(ack);
}

/* Returns 1 a node is there (id, at_ms, sha256 in the statement's row), 0, -1. */
static int find_node(struct registry *g, const char *address)
{
	store_bind(g->writer->find_node, "t", address);
	return store_step(&g->db, g->writer->find_node);
}

static int insert_record(struct registry *g, const struct registry_put *p)
{
	return store_run(&g->db, g->writer->insert_record, "tttiitt", p->kind, p->node,
		p->signer, p->at_ms, p->received_ms, p->sha256, buf_text(&p->q->body));
}

static int put_node_columns(struct registry *g, const struct registry_put *p, bool is_new)
{
	const json_t *gpus = json_object_get(p->record, "gpus");
	const json_t *memory = json_object_get(json_array_get(gpus, 0), "memory_bytes");
	struct pool pool;

	pool_of_node(p->record, &pool);
	return store_run(&g->db, is_new ? g->writer->insert_node : g->writer->update_node,
		"itiittttiit", p->at_ms, p->sha256,
		(int64_t)sqlite3_last_insert_rowid(g->db.db),
		(int64_t)(pool.tier - pool_tiers), pool.country, pool.device, pool.maker,
		pool.model, (int64_t)json_array_size(gpus),
		(int64_t)json_integer_value(memory), p->node);
}

static int put_node(struct registry *g, struct registry_put *p)
{
	sqlite3_stmt *q = g->writer->find_node;
	int found = find_node(g, p->node);
	char at[CLOCK_TEXT_MAX];
	int64_t known_at;
	bool same;

	if (found < 0)
		return -1;
	known_at = found ? sqlite3_column_int64(q, 1) : 0;
	same = found && strcmp(store_text(q, 2), p->sha256) == 0;
	sqlite3_reset(q);
	if (same) {
		answer(p, false, NULL);
		return 0;
	}
	if (found && p->at_ms <= known_at) {
		clock_format(at, known_at);
		httpd_error(p->r, 409,
			"a record of %s as new or newer is here already, of %s", p->node,
			at);
		return 0;
	}
	if (llabs(p->at_ms - p->received_ms) > REGISTRY_SKEW_MS) {
		clock_format(at, p->received_ms);
		httpd_error(p->r, 422,
			"at: more than 5 minutes from our clock, which shows %s", at);
		return 0;
	}
	if (insert_record(g, p) < 0 || put_node_columns(g, p, !found) < 0)
		return -1;
	if (!found)
		p->r->status = 201;
	answer(p, true, NULL);
	return 1;
}

static int put_heartbeat(struct registry *g, struct registry_put *p)
{
	struct registry_writer *w = g->writer;
	int found = find_node(g, p->node);
	int64_t id = found > 0 ? sqlite3_column_int64(w->find_node, 0) : 0, last;
	char at[CLOCK_TEXT_MAX];

	sqlite3_reset(w->find_node);
	if (found < 0)
		return -1;
	if (!found) {
		httpd_error(p->r, 404, "node %s is not registered here", p->node);
		return 0;
	}
	store_bind(w->last_beat, "i", id);
	if (store_step(&g->db, w->last_beat) < 0)
		return -1;
	last = sqlite3_column_int64(w->last_beat, 0); /* NULL is 0 */
	sqlite3_reset(w->last_beat);
	if (p->at_ms <= last) {
		clock_format(at, last);
		httpd_error(p->r, 409,
			"a heartbeat of %s as new or newer is here already, of %s",
			p->node, at);
		return 0;
	}
	if (p->compact)
		store_bind(w->insert_beat, "iiiinib", id, p->at_ms, p->interval_s,
			(int64_t)p->state, p->created_ms, p->signature,
			sizeof p->signature);
	else
		store_bind(w->insert_beat, "iiiitnn", id, p->at_ms, p->interval_s,
			(int64_t)p->state, buf_text(&p->q->body));
	if (store_step(&g->db, w->insert_beat) < 0)
		return -1;
	answer(p, true, registry_challenge_for(g, p->node));
	return 0;
}

static int put_record(struct registry *g, struct registry_put *p)
{
	sqlite3_stmt *q = g->writer->same_record;
	int known;

	store_bind(q, "ttt", p->sha256, p->kind, p->signer);
	known = store_step(&g->db, q);
	sqlite3_reset(q);
	if (known < 0)
		return -1;
	if (!known && insert_record(g, p) < 0)
		return -1;
	if (p->closes[0] && registry_challenge_closed(g, p->closes) < 0)
		return -1;
	if (!known)
		p->r->status = 201;
	answer(p, !known, NULL);
	return 0;
}

/* One record within the transaction. Returns 1 when it changed the nodes, 0, or -1 and the
 * whole transaction fails. */
static int apply(struct registry *g, struct registry_put *p)
{
	switch (p->what) {
	case PUT_NODE:
		return put_node(g, p);
	case PUT_HEARTBEAT:
		return put_heartbeat(g, p);
	default:
		return put_record(g, p);
	}
}

static void put_free(struct registry_put *p)
{
	json_decref(p->record);
	free(p);
}

/* Answer all: what they were told while the transaction ran is true now, or none of it is. */
static void finish_all(struct registry *g, struct registry_put *list, bool ok)
{
	while (list) {
		struct registry_put *p = list;

		list = p->next;
		if (!ok) {
			p->r->retry_after_s = 1;
			httpd_error(p->r, 503,
				"the registry cannot store records at present");
		} else if (p->r->status < 300) {
			g->stored++;
		} else {
			g->refused++;
		}
		httpd_finish(p->q);
		put_free(p);
	}
}

static void store_all(struct registry *g, struct registry_put *list)
{
	bool nodes_changed = false;
	int rc = store_begin(&g->db);

	for (struct registry_put *p = list; p && rc >= 0; p = p->next) {
		rc = apply(g, p);
		nodes_changed |= rc > 0;
	}
	if (rc >= 0)
		rc = store_commit(&g->db);
	if (rc < 0) {
		prog_error("%s", err_get()->text);
		store_rollback(&g->db);
	} else if (nodes_changed) {
		g->version++;
	}
	g->commits++;
	finish_all(g, list, rc >= 0);
}

static void *write_records(void *arg)
{
	struct registry *g = arg;

	for (;;) {
		struct registry_put *list;

		pthread_mutex_lock(&g->lock);
		while (!g->first && !g->stopping)
			pthread_cond_wait(&g->wake, &g->lock);
		list = g->first;
		g->first = NULL;
		g->last = &g->first;
		pthread_mutex_unlock(&g->lock);
		if (!list)
			return NULL;
		store_all(g, list);
	}
}

void registry_put(struct registry *g, struct registry_put *p)
{
	p->next = NULL;
	if (g->in_memory) {
		store_all(g, p);
		return;
	}
	pthread_mutex_lock(&g->lock);
	*g->last = p;
	g->last = &p->next;
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
}

struct store *registry_reader(struct registry *g)
{
	struct store *s = NULL;

	if (g->in_memory)
		return &g->db;
	pthread_mutex_lock(&g->readers_lock);
	while (!s) {
		for (int i = 0; i < REGISTRY_READERS && !s; i++)
			if (!g->reader_taken[i]) {
				g->reader_taken[i] = true;
				s = &g->readers[i];
			}
		if (!s)
			pthread_cond_wait(&g->reader_free, &g->readers_lock);
	}
	pthread_mutex_unlock(&g->readers_lock);
	return s;
}

void registry_reader_done(struct registry *g, struct store *s)
{
	if (g->in_memory)
		return;
	pthread_mutex_lock(&g->readers_lock);
	g->reader_taken[s - g->readers] = false;
	pthread_cond_signal(&g->reader_free);
	pthread_mutex_unlock(&g->readers_lock);
}

static int open_readers(struct registry *g)
{
	for (int i = 0; i < REGISTRY_READERS && !g->in_memory; i++)
		if (store_open(&g->readers[i], g->config.db_path, schema_steps, true) < 0)
			return -1;
	return 0;
}

int registry_open(struct registry *g, const struct registry_config *config)
{
	memset(g, 0, sizeof *g);
	g->config = *config;
	g->in_memory = strcmp(config->db_path, ":memory:") == 0;
	g->last = &g->first;
	g->version = clock_now_ms(); /* entity tags of an earlier run must not match */
	pthread_mutex_init(&g->lock, NULL);
	pthread_mutex_init(&g->readers_lock, NULL);
	pthread_mutex_init(&g->pools_lock, NULL);
	pthread_cond_init(&g->wake, NULL);
	pthread_cond_init(&g->reader_free, NULL);
	g->writer = xcalloc(1, sizeof *g->writer);
	if (store_open(&g->db, config->db_path, schema_steps, false) < 0 ||
		prepare_all(g) < 0 || open_readers(g) < 0 ||
		registry_challenger_open(g) < 0 ||
		(g->challenger && registry_verify_open(g) < 0))
		goto fail;
	if (!g->in_memory && pthread_create(&g->thread, NULL, write_records, g) != 0) {
		err_set(EX_OSERR, "cannot start a thread");
		goto fail;
	}
	return 0;
fail:
	g->in_memory = true; /* no thread to wait for */
	registry_close(g);
	return -1;
}

void registry_close(struct registry *g)
{
	registry_verify_close(g);
	if (!g->in_memory) {
		pthread_mutex_lock(&g->lock);
		g->stopping = true;
		pthread_cond_signal(&g->wake);
		pthread_mutex_unlock(&g->lock);
		pthread_join(g->thread, NULL);
	}
	for (int i = 0; i < REGISTRY_READERS; i++)
		store_close(&g->readers[i]);
	registry_challenger_close(g);
	finalize_all(g->writer);
	store_close(&g->db);
	free(g->writer);
	free(g->pools);
	pthread_mutex_destroy(&g->lock);
	pthread_mutex_destroy(&g->readers_lock);
	pthread_mutex_destroy(&g->pools_lock);
	pthread_cond_destroy(&g->wake);
	pthread_cond_destroy(&g->reader_free);
}
