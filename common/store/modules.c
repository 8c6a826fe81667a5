/* modules.c - upgrades the tables of a program's parts, each from its own version. */
#include "common/store/modules.h"

#include "common/base/err.h"

/* Returns 1 and the version, 0 if there is none yet, or -1. */
static int version_of(struct store *s, const char *name, int64_t *version)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q, "SELECT version FROM store_modules WHERE name = ?");

	*version = 0;
	if (rc == 0) {
		store_bind(q, "t", name);
		rc = store_step(s, q);
	}
	if (rc == 1)
		*version = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return rc;
}

static int set_version(struct store *s, const char *name, int64_t version)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(s, &q,
		"INSERT INTO store_modules (name, version) VALUES (?, ?) "
		"ON CONFLICT DO UPDATE SET version = excluded.version");

	if (rc == 0)
		rc = store_run(s, q, "ti", name, version);
	sqlite3_finalize(q);
	return rc;
}

/* Within a transaction, which another process may have waited for, too. */
static int upgrade(struct store *s, const struct store_module *m)
{
	int64_t version, latest = 0;

	while (m->steps[latest])
		latest++;
	if (version_of(s, m->name, &version) < 0)
		return -1;
	if (version > latest)
		return err_set(EX_DATAERR,
			"'%s' was written by a later version of rnp: its %s", s->path,
			m->name);
	if (version == latest)
		return 0;
	for (; version < latest; version++)
		if (store_exec(s, m->steps[version]) < 0)
			return -1;
	return set_version(s, m->name, latest);
}

int store_module(struct store *s, const struct store_module *m)
{
	if (store_begin(s) < 0)
		return -1;
	if (store_exec(s,
		    "CREATE TABLE IF NOT EXISTS store_modules (name TEXT NOT NULL PRIMARY KEY,"
		    " version INTEGER NOT NULL) STRICT, WITHOUT ROWID") < 0 ||
		upgrade(s, m) < 0) {
		store_rollback(s);
		return -1;
	}
	return store_commit(s);
}

int store_modules(struct store *s, const struct store_module *const *all)
{
	for (; *all; all++)
		if (store_module(s, *all) < 0)
			return -1;
	return 0;
}
