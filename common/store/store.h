/* store.h - SQLite as our programs use it: WAL, durable commits, strict tables, errors mapped.
 *
 * One struct store is one connection and belongs to one thread at a time. Uses sqlite3, err. */
#ifndef RNP_COMMON_STORE_STORE_H
#define RNP_COMMON_STORE_STORE_H

#include <sqlite3.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

struct store {
	sqlite3 *db; /* NULL: closed */
	char *path;
	bool read_only;
	bool older; /* it could not be opened to read, as an earlier version has written it */
	int64_t until_ns; /* see store_limit */
	/* when it could not be written, until something is; 0: it can; what was changed before */
	_Atomic int64_t failed_ns;
	int changes;
	struct store_kept *kept; /* see store_keep */
};
#define STORE_INIT \
	{          \
		0  \
	}

/* Opens the database at path and upgrades it. steps[i] is the SQL that leads from version i to
 * i + 1 (PRAGMA user_version); each runs once, in a transaction of its own; the list ends with
 * NULL and is only ever appended to. A file of a later version is refused (65). The connection:
 * WAL, synchronous=FULL (a commit that returned survives power loss), foreign keys on, waits up
 * to 5 s for another writer. read_only: never writes; the file must exist. Returns 0, or -1: 66
 * absent, 77 not permitted, 65 not a database or damaged, 74, 75 busy. */
int store_open(struct store *s, const char *path, const char *const *steps,
	bool read_only);
void store_close(
	struct store *s); /* statements that were prepared must be finalised before */

/* Compares tables, indexes and triggers with what those steps make of an empty file, as a database
 * may lose a rule and still open. Writes the first that is missing, changed or not one of them to
 * reason, if any: "trigger 'x' is missing". Returns 0, or -1. */
int store_compare(struct store *s, const char *const *steps, struct buf *reason);

/* Whether the last write failed because of the disk (full, read-only, broken), and not longer ago
 * than STORE_FAILING_S: nobody may try to write any more where this tells them not to. May be
 * called by any thread. */
#define STORE_FAILING_S 60
bool store_failing(struct store *s);

/* Limits statements to that number of milliseconds from now on; one that is still running then
 * is interrupted: 75. 0: no limit. */
void store_limit(struct store *s, int64_t ms);

/* Runs SQL that returns no rows. */
int store_exec(struct store *s, const char *sql);

/* BEGIN IMMEDIATE: the write lock is taken here, so that no later statement finds the database
 * busy. A commit that fails has been rolled back. */
int store_begin(struct store *s);
int store_commit(struct store *s);
void store_rollback(struct store *s); /* keeps the pending error */

/* Prepares a statement that is kept and used again; release it with sqlite3_finalize (NULL is
 * fine). */
int store_prepare(struct store *s, sqlite3_stmt **out, const char *sql);

/* Returns the statement of that text, reset, which is prepared the first time and kept until
 * store_close; a text is known by its address alone, and lives as long. Whoever has read from it
 * resets it. Returns NULL with err_set. */
sqlite3_stmt *store_keep(struct store *s, const char *sql);

/* Resets q and binds its parameters in order, one letter each: 't' const char * (NULL binds
 * NULL), 'i' int64_t, 'r' double, 'b' const void * and size_t, 'n' nothing (NULL). Texts and
 * blobs are borrowed until the next reset. */
void store_bind(sqlite3_stmt *q, const char *letters, ...);

/* Steps: returns 1 if there is a row, 0 if done (the statement is reset), -1 with err_set. */
int store_step(struct store *s, sqlite3_stmt *q);

/* Binds, steps to the end, and expects no row. */
#define store_run(s, q, ...) (store_bind((q), __VA_ARGS__), store_step((s), (q)))

/* Returns the text of a column, borrowed until the next step; "" for NULL. */
const char *store_text(sqlite3_stmt *q, int column);

/* Copies a blob of n bytes. Returns 0, or -1 with err_set(): 65 it has not so many; a stranger's
 * file need not keep to our tables' rules. */
int store_blob(sqlite3_stmt *q, int column, void *out, size_t n);

#endif
