/* store.c - upgrades, durable settings, errors with their codes; in a directory of its
 * own. */
#include "common/store/store.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "tests/unit/test.h"

static const char *const one[] = { "CREATE TABLE t (a INTEGER, b TEXT) STRICT", NULL };
static const char *const two[] = { "CREATE TABLE t (a INTEGER, b TEXT) STRICT",
	"ALTER TABLE t ADD COLUMN c BLOB", NULL };
static const char *const broken[] = { "CREATE TABLE t (a INTEGER, b TEXT) STRICT",
	"ALTER TABLE t ADD COLUMN c BLOB",
	"CREATE TABLE u (a INTEGER); CREATE TABLE t (a)", NULL };

static int64_t ask(struct store *s, const char *sql)
{
	sqlite3_stmt *q = NULL;
	int64_t n = -1;

	if (store_prepare(s, &q, sql) == 0 && store_step(s, q) == 1)
		n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return n;
}

static void upgrades(void)
{
	struct store s = STORE_INIT, other = STORE_INIT;
	sqlite3_stmt *q = NULL;

	CHECK_I64(0, store_open(&s, "a.db", one, false));
	CHECK_I64(0, store_begin(&s));
	CHECK_I64(0, store_prepare(&s, &q, "INSERT INTO t VALUES (?, ?)"));
	CHECK_I64(0, store_run(&s, q, "it", INT64_C(9007199254740993), "x"));
	CHECK_I64(0, store_run(&s, q, "nt", (const char *)NULL));
	CHECK_I64(0, store_commit(&s));
	sqlite3_finalize(q);
	/* a STRICT table takes no text for a number */
	CHECK_FAILS(EX_DATAERR, store_exec(&s, "INSERT INTO t VALUES ('x', 'y')"));
	store_close(&s);

	CHECK_I64(0, store_open(&s, "a.db", two, false));
	CHECK_I64(2, ask(&s, "PRAGMA user_version"));
	CHECK_I64(INT64_C(9007199254740993),
		ask(&s, "SELECT max(a) FROM t WHERE c IS NULL"));
	CHECK_I64(2, ask(&s, "PRAGMA synchronous")); /* FULL */
	CHECK_I64(0, store_open(&other, "a.db", two, true));
	CHECK_I64(2, ask(&other, "SELECT count(*) FROM t"));
	CHECK_FAILS(EX_NOPERM, store_exec(&other, "DELETE FROM t"));
	store_close(&other);
	/* rolled back whole, and the version stays */
	CHECK_FAILS(EX_IOERR, store_open(&other, "a.db", broken, false));
	CHECK_I64(2, ask(&s, "PRAGMA user_version"));
	CHECK_I64(0, ask(&s, "SELECT count(*) FROM sqlite_schema WHERE name = 'u'"));
	store_close(&s);
	CHECK_FAILS(EX_DATAERR,
		store_open(&s, "a.db", one, false)); /* of a later version */
}

static void refusals(void)
{
	struct store s = STORE_INIT;

	CHECK_FAILS(EX_NOINPUT, store_open(&s, "none/a.db", one, false));
	CHECK_FAILS(EX_NOINPUT, store_open(&s, "none.db", one, true));
	CHECK_I64(0,
		io_replace("text.db",
			"no database, but long enough to be read as one\n"
			"no database, but long enough to be read as one\n",
			94, 0600));
	CHECK_FAILS(EX_DATAERR, store_open(&s, "text.db", one, false));
	store_close(&s); /* closing what is closed is fine */
}

int main(void)
{
	char dir[] = "/tmp/rnp-store.XXXXXX";

	if (!mkdtemp(dir) || chdir(dir) < 0)
		return 71;
	upgrades();
	refusals();
	unlink("a.db");
	unlink("text.db");
	if (chdir("/") == 0)
		rmdir(dir);
	TEST_END();
}
