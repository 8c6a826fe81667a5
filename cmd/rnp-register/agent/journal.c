/* journal.c - the agent's tables: leases, their devices, events on their way. */
#include "cmd/rnp-register/agent/journal.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/lock.h"

#define OVER_KEPT_MS INT64_C(30) * 86400000

const char *const lease_state_names[LEASE_STATES] = { "reserved", "proving", "pulling",
	"starting", "ready", "releasing", "released", "failed" };

int lease_state_find(const char *name)
{
	for (int i = 0; i < LEASE_STATES; i++)
		if (strcmp(lease_state_names[i], name) == 0)
			return i;
	return -1;
}

/* A device has one live lease, whatever the registry says. */
static const char *const steps[] = {
	"CREATE TABLE leases (id TEXT PRIMARY KEY, cluster TEXT NOT NULL, booking TEXT NOT NULL, "
	"rank INTEGER NOT NULL, turn INTEGER NOT NULL, slot INTEGER NOT NULL, "
	"state INTEGER NOT NULL, seq INTEGER NOT NULL, ready_ms INTEGER NOT NULL, "
	"restarts INTEGER NOT NULL, gone INTEGER NOT NULL, exit INTEGER NOT NULL, "
	"container TEXT NOT NULL, log_file INTEGER NOT NULL, log_bytes INTEGER NOT NULL, "
	"log_sent INTEGER NOT NULL, over_ms INTEGER NOT NULL, assignment TEXT NOT NULL) STRICT;"
	"CREATE UNIQUE INDEX one_slot ON leases (slot) WHERE over_ms = 0;"
	"CREATE TABLE devices (device TEXT PRIMARY KEY, lease TEXT NOT NULL) STRICT;"
	"CREATE TABLE events (id INTEGER PRIMARY KEY AUTOINCREMENT, lease TEXT NOT NULL, "
	"text TEXT NOT NULL) STRICT;"
	"CREATE INDEX events_of ON events (lease);",
	"CREATE UNIQUE INDEX one_turn ON leases (booking, rank, turn);",
	NULL,
};

int journal_open(struct journal *j, const char *dir)
{
	struct buf path = BUF_INIT;
	int rc = -1;

	buf_addf(&path, "%s/agent.lock", dir);
	j->lock_fd = open(buf_text(&path), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (j->lock_fd < 0) {
		err_sys(0, "cannot open '%s'", buf_text(&path));
		goto out;
	}
	if (lock_take(j->lock_fd, buf_text(&path), "another agent is at work") < 0)
		goto out;
	buf_reset(&path);
	buf_addf(&path, "%s/agent.db", dir);
	rc = store_open(&j->store, buf_text(&path), steps, false);
out:
	buf_release(&path);
	if (rc < 0 && j->lock_fd >= 0) {
		close(j->lock_fd);
		j->lock_fd = -1;
	}
	return rc;
}

void journal_close(struct journal *j)
{
	store_close(&j->store);
	if (j->lock_fd >= 0)
		close(j->lock_fd);
	j->lock_fd = -1;
}

/* Prepares, binds, runs to the end, and finalises. */
#define RUN(j, sql, ...)                                                     \
	({                                                                   \
		sqlite3_stmt *run_q = NULL;                                  \
		int run_rc = store_prepare(&(j)->store, &run_q, (sql));      \
		if (run_rc == 0)                                             \
			run_rc = store_run(&(j)->store, run_q, __VA_ARGS__); \
		sqlite3_finalize(run_q);                                     \
		run_rc;                                                      \
	})

/* --- leases ---------------------------------------------------------------------------------- */

/* Returns the number in the first row of a question, or `none`; -2 with err_set. */
static int64_t ask_number(struct journal *j, const char *sql, const char *text,
	int64_t none)
{
	sqlite3_stmt *q = NULL;
	int64_t n = -2;
	int rc = -1;

	if (store_prepare(&j->store, &q, sql) == 0) {
		if (text)
			store_bind(q, "t", text);
		rc = store_step(&j->store, q);
	}
	if (rc >= 0)
		n = rc == 1 ? sqlite3_column_int64(q, 0) : none;
	sqlite3_finalize(q);
	return n;
}

static int take_devices(struct journal *j, const struct lease_row *row,
	const char *const *devices, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		/* registries write names in lower case, drivers do not */
		int64_t taken = ask_number(j,
			"SELECT 1 FROM devices WHERE device = ? COLLATE NOCASE",
			devices[i], 0);

		if (taken < 0)
			return -1;
		if (taken)
			return err_set(EXIT_NO, "device '%.100s' is in another lease",
				devices[i]);
		if (RUN(j, "INSERT INTO devices VALUES (?, ?)", "tt", devices[i],
			    row->id) < 0)
			return -1;
	}
	return 0;
}

/* Whether the lease was here before, or one of the same booking under another name. */
static int64_t is_known(struct journal *j, const struct lease_row *row)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&j->store, &q,
		"SELECT 1 FROM leases WHERE id = ? OR "
		"(booking = ? AND rank = ? AND turn = ?)");

	if (rc == 0) {
		store_bind(q, "ttii", row->id, row->booking, (int64_t)row->rank,
			(int64_t)row->turn);
		rc = store_step(&j->store, q);
	}
	sqlite3_finalize(q);
	return rc;
}

static int insert(struct journal *j, struct lease_row *row, const char *assignment)
{
	int64_t known = is_known(j, row);
	int64_t slot = known ?
		0 :
		ask_number(j,
			"SELECT min(s) FROM (SELECT 0 AS s UNION SELECT slot + 1 "
			"FROM leases WHERE over_ms = 0) WHERE s NOT IN "
			"(SELECT slot FROM leases WHERE over_ms = 0)",
			NULL, 0);

	if (known < 0 || slot < 0)
		return -1;
	if (known)
		return err_set(EXIT_NO, "lease '%s' was here before", row->id);
	row->slot = (int)slot;
	return RUN(j,
		"INSERT INTO leases VALUES (?, ?, ?, ?, ?, ?, ?, ?, 0, ?, 0, -1, '', 0, 0, 0, 0, ?)",
		"tttiiiiiit", row->id, row->cluster, row->booking, (int64_t)row->rank,
		(int64_t)row->turn, (int64_t)row->slot, (int64_t)row->state, row->seq,
		row->restarts, assignment);
}

int journal_take(struct journal *j, struct lease_row *row, const char *assignment,
	const char *const *devices, size_t ndevices)
{
	int rc = -1;

	pthread_mutex_lock(&j->lock);
	if (store_begin(&j->store) == 0) {
		/* what is long over need not be remembered */
		rc = RUN(j, "DELETE FROM leases WHERE over_ms > 0 AND over_ms < ?", "i",
			clock_now_ms() - OVER_KEPT_MS);
		if (rc == 0)
			rc = insert(j, row, assignment);
		if (rc == 0)
			rc = take_devices(j, row, devices, ndevices);
		if (rc == 0)
			rc = store_commit(&j->store);
		else
			store_rollback(&j->store);
	}
	pthread_mutex_unlock(&j->lock);
	return rc;
}

int journal_assign(struct journal *j, const char *id, const char *assignment)
{
	int rc;

	pthread_mutex_lock(&j->lock);
	rc = RUN(j, "UPDATE leases SET assignment = ? WHERE id = ?", "tt", assignment,
		id);
	pthread_mutex_unlock(&j->lock);
	return rc;
}

static void read_row(sqlite3_stmt *q, struct lease_row *r)
{
	*r = (struct lease_row){ 0 };
	snprintf(r->id, sizeof r->id, "%s", store_text(q, 0));
	snprintf(r->cluster, sizeof r->cluster, "%s", store_text(q, 1));
	snprintf(r->booking, sizeof r->booking, "%s", store_text(q, 2));
	r->rank = sqlite3_column_int(q, 3);
	r->turn = sqlite3_column_int(q, 4);
	r->slot = sqlite3_column_int(q, 5);
	r->state = (enum lease_state)sqlite3_column_int(q, 6);
	r->seq = sqlite3_column_int64(q, 7);
	r->ready_ms = sqlite3_column_int64(q, 8);
	r->restarts = sqlite3_column_int64(q, 9);
	r->gone = sqlite3_column_int(q, 10) != 0;
	r->exit = sqlite3_column_int(q, 11);
	snprintf(r->container, sizeof r->container, "%s", store_text(q, 12));
	r->log_file = (uint64_t)sqlite3_column_int64(q, 13);
	r->log_bytes = sqlite3_column_int64(q, 14);
	r->log_sent = sqlite3_column_int64(q, 15);
}

int journal_each(struct journal *j,
	int (*fn)(void *ctx, const struct lease_row *row, const char *assignment),
	void *ctx)
{
	sqlite3_stmt *q = NULL;
	struct lease_row row;
	int rc;

	pthread_mutex_lock(&j->lock);
	rc = store_prepare(&j->store, &q,
		"SELECT id, cluster, booking, rank, turn, slot, state, seq, ready_ms, restarts, gone, "
		"exit, container, log_file, log_bytes, log_sent, assignment FROM leases "
		"WHERE over_ms = 0 ORDER BY id");
	while (rc == 0 && (rc = store_step(&j->store, q)) == 1) {
		read_row(q, &row);
		rc = fn(ctx, &row, store_text(q, 16));
	}
	sqlite3_finalize(q);
	pthread_mutex_unlock(&j->lock);
	return rc;
}

static int put(struct journal *j, const struct lease_row *r, const char *event)
{
	bool over = r->state >= LEASE_RELEASED;
	int rc = RUN(j,
		"UPDATE leases SET state = ?, seq = ?, ready_ms = ?, restarts = ?, gone = ?, exit = ?, "
		"container = ?, log_file = ?, log_bytes = ?, log_sent = ?, over_ms = ? WHERE id = ?",
		"iiiiiitiiiit", (int64_t)r->state, r->seq, r->ready_ms, r->restarts,
		(int64_t)r->gone, (int64_t)r->exit, r->container, (int64_t)r->log_file,
		r->log_bytes, r->log_sent, over ? clock_now_ms() : (int64_t)0, r->id);

	if (rc == 0 && over)
		rc = RUN(j, "DELETE FROM devices WHERE lease = ?", "t", r->id);
	if (rc == 0 && event)
		rc = RUN(j, "INSERT INTO events (lease, text) VALUES (?, ?)", "tt", r->id,
			event);
	return rc;
}

int journal_put(struct journal *j, const struct lease_row *row, const char *event)
{
	int rc = -1;

	pthread_mutex_lock(&j->lock);
	if (store_begin(&j->store) == 0) {
		rc = put(j, row, event);
		if (rc == 0)
			rc = store_commit(&j->store);
		else
			store_rollback(&j->store);
	}
	pthread_mutex_unlock(&j->lock);
	return rc;
}

/* --- events ---------------------------------------------------------------------------------- */

int journal_next_event(struct journal *j, int64_t skip, int64_t *event_id,
	char lease_id[LEASE_ID_MAX], struct buf *text)
{
	sqlite3_stmt *q = NULL;
	int rc;

	pthread_mutex_lock(&j->lock);
	rc = store_prepare(&j->store, &q,
		"SELECT id, lease, text FROM events WHERE id > ? ORDER BY id LIMIT 1");
	if (rc == 0) {
		store_bind(q, "i", skip);
		rc = store_step(&j->store, q);
	}
	if (rc == 1) {
		*event_id = sqlite3_column_int64(q, 0);
		snprintf(lease_id, LEASE_ID_MAX, "%s", store_text(q, 1));
		buf_reset(text);
		buf_adds(text, store_text(q, 2));
	}
	sqlite3_finalize(q);
	pthread_mutex_unlock(&j->lock);
	return rc;
}

int journal_ack(struct journal *j, int64_t event_id)
{
	int rc;

	pthread_mutex_lock(&j->lock);
	rc = RUN(j, "DELETE FROM events WHERE id = ?", "i", event_id);
	pthread_mutex_unlock(&j->lock);
	return rc;
}

int journal_is_waiting(struct journal *j, const char *lease_id)
{
	int64_t n;

	pthread_mutex_lock(&j->lock);
	n = ask_number(j, "SELECT 1 FROM events WHERE lease = ? LIMIT 1", lease_id, 0);
	pthread_mutex_unlock(&j->lock);
	return n < 0 ? -1 : (int)n;
}
