/* store.c - opens SQLite databases the way that all our stores use them, and runs statements. */
#include "common/store/store.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"

#define BUSY_MS         5000
#define LIMIT_STEPS     10000 /* instructions of SQLite, some tenths of a millisecond */
#define CACHE_KIB       "-16384" /* of each connection */
#define WAL_PAGES       "8192"   /* a checkpoint every 32 MiB: fewer, larger writes */
#define WAL_LIMIT_BYTES "67108864"

static int code_of(int rc, int os_error)
{
	switch (rc & 0xff) {
	case SQLITE_BUSY:
	case SQLITE_LOCKED:
	case SQLITE_INTERRUPT:
		return EX_TEMPFAIL;
	case SQLITE_CANTOPEN:
		if (os_error == EACCES || os_error == EPERM || os_error == EROFS)
			return EX_NOPERM;
		return EX_NOINPUT;
	case SQLITE_PERM:
	case SQLITE_AUTH:
	case SQLITE_READONLY:
		return EX_NOPERM;
	case SQLITE_NOTADB:
	case SQLITE_CORRUPT:
	case SQLITE_SCHEMA:
	case SQLITE_MISMATCH:
	case SQLITE_CONSTRAINT:
	case SQLITE_TOOBIG:
		return EX_DATAERR;
	default: /* FULL, IOERR and all others */
		return EX_IOERR;
	}
}

static bool is_of_disk(int rc)
{
	switch (rc & 0xff) {
	case SQLITE_FULL:
	case SQLITE_IOERR:
	case SQLITE_READONLY:
	case SQLITE_CANTOPEN:
		return true;
	default:
		return false;
	}
}

/* SQLite calls a file missing, or the database read-only, where it could not make a file: the
 * database, or one of those beside it, which readers need, too. Returns why the folder takes no
 * files; 0: it does, or the error is another one. */
static int folder_error(const struct store *s, int rc, int os_error)
{
	bool of_open = (rc & 0xff) == SQLITE_CANTOPEN && os_error == ENOENT;
	char *copy;
	int error = 0;

	if ((!of_open && (rc & 0xff) != SQLITE_READONLY) ||
		(s->read_only && access(s->path, F_OK) < 0))
		return 0;
	copy = xstrdup(s->path);
	if (faccessat(AT_FDCWD, dirname(copy), W_OK | X_OK, AT_EACCESS) < 0)
		error = errno;
	free(copy);
	return error;
}

/* Sets the error from the connection's last one; what: "cannot store a heartbeat". Returns -1. */
static int store_fail(struct store *s, const char *what)
{
	int rc = s->db ? sqlite3_extended_errcode(s->db) : SQLITE_NOMEM;
	int os_error = s->db ? sqlite3_system_errno(s->db) : 0;
	int folder = folder_error(s, rc, os_error);

	if (s->db && is_of_disk(rc)) {
		s->failed_ns = clock_mono_ns();
		s->changes = sqlite3_total_changes(s->db);
	}
	if (folder) {
		errno = folder;
		return err_sys(0, "%s: '%s': cannot write in its folder", what, s->path);
	}
	return err_set(code_of(rc, os_error), "%s: '%s': %s%s%s", what, s->path,
		s->db ? sqlite3_errmsg(s->db) : "out of memory", os_error ? ": " : "",
		os_error ? strerror(os_error) : "");
}

/* After a commit: one that has changed something shows that the disk takes it. */
static void note_stored(struct store *s)
{
	if (s->failed_ns && sqlite3_get_autocommit(s->db) &&
		sqlite3_total_changes(s->db) != s->changes)
		s->failed_ns = 0;
}

bool store_failing(struct store *s)
{
	int64_t since_ns = s->failed_ns;

	return since_ns &&
		clock_mono_ns() - since_ns < STORE_FAILING_S * INT64_C(1000000000);
}

/* Called by SQLite every LIMIT_STEPS instructions: a result other than 0 ends the statement. */
static int is_over(void *ctx)
{
	const struct store *s = ctx;

	return clock_mono_ns() > s->until_ns;
}

void store_limit(struct store *s, int64_t ms)
{
	s->until_ns = clock_mono_ns() + ms * 1000000;
	sqlite3_progress_handler(s->db, ms ? LIMIT_STEPS : 0, ms ? is_over : NULL, s);
}

int store_exec(struct store *s, const char *sql)
{
	return sqlite3_exec(s->db, sql, NULL, NULL, NULL) == SQLITE_OK ?
		0 :
		store_fail(s, "database refused");
}

int store_begin(struct store *s)
{
	return store_exec(s, "BEGIN IMMEDIATE");
}

int store_commit(struct store *s)
{
	if (sqlite3_exec(s->db, "COMMIT", NULL, NULL, NULL) == SQLITE_OK) {
		note_stored(s);
		return 0;
	}
	store_fail(s, "cannot commit");
	store_rollback(s);
	return -1;
}

void store_rollback(struct store *s)
{
	if (s->db && !sqlite3_get_autocommit(s->db))
		sqlite3_exec(s->db, "ROLLBACK", NULL, NULL, NULL);
}

int store_prepare(struct store *s, sqlite3_stmt **out, const char *sql)
{
	if (sqlite3_prepare_v3(s->db, sql, -1, SQLITE_PREPARE_PERSISTENT, out, NULL) ==
		SQLITE_OK)
		return 0;
	return store_fail(s, "cannot prepare a statement");
}

void store_bind(sqlite3_stmt *q, const char *letters, ...)
{
	va_list args;

	sqlite3_reset(q);
	va_start(args, letters);
	for (int i = 1; letters[i - 1]; i++) {
		const void *data;
		int rc;

		switch (letters[i - 1]) {
		case 't':
			rc = sqlite3_bind_text(q, i, va_arg(args, const char *), -1,
				SQLITE_STATIC);
			break;
		case 'i':
			rc = sqlite3_bind_int64(q, i, va_arg(args, int64_t));
			break;
		case 'r':
			rc = sqlite3_bind_double(q, i, va_arg(args, double));
			break;
		case 'b':
			data = va_arg(args, const void *);
			rc = sqlite3_bind_blob64(q, i, data, va_arg(args, size_t),
				SQLITE_STATIC);
			break;
		case 'n':
			rc = sqlite3_bind_null(q, i);
			break;
		default:
			bug("store_bind: letter '%c'", letters[i - 1]);
		}
		if (rc != SQLITE_OK)
			bug("store_bind: parameter %d of '%s': %s", i, sqlite3_sql(q),
				sqlite3_errstr(rc));
	}
	va_end(args);
}

int store_step(struct store *s, sqlite3_stmt *q)
{
	int rc = sqlite3_step(q);

	if (rc == SQLITE_ROW)
		return 1;
	if (rc == SQLITE_DONE) {
		sqlite3_reset(q);
		note_stored(s);
		return 0;
	}
	store_fail(s, "database refused");
	sqlite3_reset(q);
	return -1;
}

const char *store_text(sqlite3_stmt *q, int column)
{
	const char *text = (const char *)sqlite3_column_text(q, column);

	return text ? text : "";
}

int store_blob(sqlite3_stmt *q, int column, void *out, size_t n)
{
	if (sqlite3_column_bytes(q, column) != (int)n)
		return err_set(EX_DATAERR,
			"'%s' is damaged: a value of %.40s has not %zu bytes",
			sqlite3_db_filename(sqlite3_db_handle(q), NULL),
			sqlite3_column_name(q, column), n);
	memcpy(out, sqlite3_column_blob(q, column), n);
	return 0;
}

static int64_t user_version(struct store *s)
{
	sqlite3_stmt *q = NULL;
	int64_t version = -1;

	if (store_prepare(s, &q, "PRAGMA user_version") == 0 && store_step(s, q) == 1)
		version = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return version;
}

/* Returns 1 if there is a table of that name (NULL: any), 0, or -1. */
static int has_table(struct store *s, const char *name)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q,
		"SELECT 1 FROM sqlite_schema WHERE ?1 IS NULL OR name = ?1 LIMIT 1");

	if (rc == 0 && name)
		store_bind(q, "t", name);
	if (rc == 0)
		rc = store_step(s, q);
	sqlite3_finalize(q);
	return rc;
}

/* Checks that a database of that version is one of these steps: it has the table that the first of
 * them makes, and at version 0 none at all. any: whether it had a table before the version was
 * read. */
static int check_ours(struct store *s, const char *const *steps, int64_t version, int any)
{
	static const char start[] = "CREATE TABLE ";
	char name[64] = "";
	int ours = !any;

	if (version) {
		if (strncmp(steps[0], start, sizeof start - 1) != 0)
			return 0;
		sscanf(steps[0] + sizeof start - 1, "%63[A-Za-z0-9_]", name);
		ours = has_table(s, name);
	}
	if (ours == 0)
		return err_set(EX_DATAERR, "'%s' is a database of something else",
			s->path);
	return ours < 0 ? -1 : 0;
}

static int upgrade(struct store *s, const char *const *steps, int64_t to)
{
	struct buf sql = BUF_INIT;
	int rc = store_begin(s);

	/* another process may have done it while we waited for the lock */
	for (int64_t v = rc < 0 ? to : user_version(s); rc == 0 && v >= 0 && v < to;
		v++) {
		buf_reset(&sql);
		buf_addf(&sql, "%s; PRAGMA user_version = %lld", steps[v],
			(long long)v + 1);
		rc = store_exec(s, sql.data);
	}
	if (rc == 0)
		rc = store_commit(s);
	store_rollback(s);
	buf_release(&sql);
	return rc;
}

static int prepare_file(struct store *s, const char *const *steps, bool read_only)
{
	int64_t latest = 0, version;
	int any;

	while (steps[latest])
		latest++;
	sqlite3_extended_result_codes(s->db, 1);
	sqlite3_busy_timeout(s->db, BUSY_MS);
	if (store_exec(s,
		    "PRAGMA foreign_keys = ON; PRAGMA cache_size = " CACHE_KIB
		    "; PRAGMA trusted_schema = OFF; PRAGMA temp_store = MEMORY") < 0)
		return -1;
	/* version and tables are written together, and the tables are looked for first: another
	 * process may make ours meanwhile. Nothing is changed before, not even the kind of
	 * journal */
	any = has_table(s, NULL);
	version = any < 0 ? -1 : user_version(s);
	if (version < 0)
		return -1;
	if (version > latest)
		return err_set(EX_DATAERR, "'%s' was written by a later version of rnp",
			s->path);
	if (check_ours(s, steps, version, any) < 0)
		return -1;
	if (!read_only &&
		store_exec(s,
			"PRAGMA journal_mode = WAL; PRAGMA synchronous = FULL; "
			"PRAGMA wal_autocheckpoint = " WAL_PAGES
			"; PRAGMA journal_size_limit = " WAL_LIMIT_BYTES) < 0)
		return -1;
	if (version == latest)
		return 0;
	s->older = read_only;
	if (read_only)
		return err_set(EX_DATAERR,
			"'%s' was written by an earlier version of rnp", s->path);
	return upgrade(s, steps, latest);
}

int store_open(struct store *s, const char *path, const char *const *steps,
	bool read_only)
{
	int flags = read_only ? SQLITE_OPEN_READONLY :
				SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE;

	s->db = NULL;
	s->until_ns = 0;
	s->failed_ns = 0;
	s->kept = NULL;
	s->read_only = read_only;
	s->older = false;
	s->path = xstrdup(path);
	if (sqlite3_open_v2(path, &s->db, flags | SQLITE_OPEN_NOMUTEX, NULL) != SQLITE_OK)
		store_fail(s, "cannot open the database");
	else if (prepare_file(s, steps, read_only) == 0)
		return 0;
	store_close(s);
	return -1;
}

/* Statements by the address of their text; there are not many texts. */
#define KEPT_MAX 256

struct store_kept {
	const char *sql[KEPT_MAX];
	sqlite3_stmt *q[KEPT_MAX];
};

sqlite3_stmt *store_keep(struct store *s, const char *sql)
{
	size_t at = (uintptr_t)sql / 8 % KEPT_MAX, seen = 0;

	if (!s->kept)
		s->kept = xcalloc(1, sizeof *s->kept);
	while (s->kept->sql[at] && s->kept->sql[at] != sql) {
		at = (at + 1) % KEPT_MAX;
		if (++seen == KEPT_MAX)
			bug("more than %d statements are kept", KEPT_MAX);
	}
	if (!s->kept->q[at] && store_prepare(s, &s->kept->q[at], sql) < 0)
		return NULL;
	s->kept->sql[at] = sql;
	sqlite3_reset(s->kept->q[at]);
	return s->kept->q[at];
}

static void finalize_kept(struct store *s)
{
	for (int i = 0; s->kept && i < KEPT_MAX; i++)
		sqlite3_finalize(s->kept->q[i]);
	free(s->kept);
	s->kept = NULL;
}

void store_close(struct store *s)
{
	finalize_kept(s);
	if (s->db && sqlite3_close(s->db) != SQLITE_OK)
		bug("store_close: a statement of '%s' is still open", s->path);
	free(s->path);
	s->db = NULL;
	s->path = NULL;
}

/* Those of SQLite itself, such as statistics, change nothing. */
static const char list_schema[] =
	"SELECT name, type, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
	" ORDER BY name, type";

static void differs(struct buf *reason, sqlite3_stmt *q, const char *how)
{
	buf_addf(reason, "%s '%.100s' %s", store_text(q, 1), store_text(q, 0), how);
}

/* Merges two lists in the order of their names. */
static int compare_lists(struct store *s, sqlite3_stmt *is, struct store *model,
	sqlite3_stmt *should, struct buf *reason)
{
	int a = store_step(s, is), b = store_step(model, should);

	while ((a == 1 || b == 1) && a >= 0 && b >= 0 && !reason->len) {
		int order = a != 1 ? 1 :
			b != 1     ? -1 :
				     strcmp(store_text(is, 0), store_text(should, 0));

		if (order < 0)
			differs(reason, is, "is none of this program's");
		else if (order > 0)
			differs(reason, should, "is missing");
		else if (strcmp(store_text(is, 1), store_text(should, 1)) != 0 ||
			strcmp(store_text(is, 2), store_text(should, 2)) != 0)
			differs(reason, should, "is not what it was made as");
		a = store_step(s, is);
		b = store_step(model, should);
	}
	return a < 0 || b < 0 ? -1 : 0;
}

int store_compare(struct store *s, const char *const *steps, struct buf *reason)
{
	struct store model = STORE_INIT;
	sqlite3_stmt *is = NULL, *should = NULL;
	int rc = -1;

	model.path = xstrdup(":memory:");
	if (sqlite3_open(model.path, &model.db) != SQLITE_OK) {
		store_fail(&model, "cannot open");
		goto out;
	}
	for (rc = 0; rc == 0 && *steps; steps++)
		rc = store_exec(&model, *steps);
	if (rc == 0)
		rc = store_prepare(s, &is, list_schema);
	if (rc == 0)
		rc = store_prepare(&model, &should, list_schema);
	if (rc == 0)
		rc = compare_lists(s, is, &model, should, reason);
out:
	sqlite3_finalize(is);
	sqlite3_finalize(should);
	sqlite3_close(model.db);
	free(model.path);
	return rc;
}
