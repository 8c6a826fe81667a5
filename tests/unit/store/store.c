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

/* What store_compare says of a file of these rules after more SQL. */
static const char *compared(const char *sql)
{
	static const char *const rules[] = { "CREATE TABLE a (x INTEGER) STRICT;"
					     "CREATE TABLE b (x INTEGER) STRICT",
		"CREATE INDEX b_x ON b (x)",
		"CREATE TRIGGER c AFTER UPDATE ON a BEGIN DELETE FROM b; END", NULL };
	static char text[200];
	struct store s = STORE_INIT;
	struct buf reason = BUF_INIT;

	unlink("compare.db");
	CHECK_I64(0, store_open(&s, "compare.db", rules, false));
	CHECK_I64(0, store_exec(&s, sql));
	CHECK_I64(0, store_compare(&s, rules, &reason));
	snprintf(text, sizeof text, "%s", buf_text(&reason));
	buf_release(&reason);
	store_close(&s);
	return text;
}

static void compares(void)
{
	CHECK_TEXT("", compared("INSERT INTO a VALUES (1)"));
	CHECK_TEXT("index 'b_x' is missing", compared("DROP INDEX b_x"));
	CHECK_TEXT("trigger 'c' is missing", compared("DROP TRIGGER c"));
	CHECK_TEXT("table 'a' is missing", compared("DROP TABLE a"));
	CHECK_TEXT("table 'aa' is none of this program's",
		compared("CREATE TABLE aa (x)"));
	CHECK_TEXT("table 'z' is none of this program's", compared("CREATE TABLE z (x)"));
	CHECK_TEXT("index 'b_x' is not what it was made as",
		compared("DROP INDEX b_x; CREATE UNIQUE INDEX b_x ON b (x)"));
	CHECK_TEXT("trigger 'c' is not what it was made as",
		compared("DROP TRIGGER c; CREATE TRIGGER c AFTER UPDATE ON a BEGIN "
			 "DELETE FROM a; END"));
	CHECK_TEXT("index 'b_x' is not what it was made as",
		compared("DROP INDEX b_x; CREATE TABLE b_x (x)"));
}

/* A statement that goes on for too long ends, and the next one does not. */
static void limits(void)
{
	static const char without_end[] =
		"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
		"SELECT count(*) FROM n";
	struct store s = STORE_INIT;

	CHECK_I64(0, store_open(&s, "limits.db", one, false));
	store_limit(&s, 20);
	CHECK_I64(-1, ask(&s, without_end));
	CHECK_I64(EX_TEMPFAIL, err_get()->code);
	store_limit(&s, 600000);
	CHECK_I64(100000,
		ask(&s,
			"WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n "
			"LIMIT 100000) SELECT count(*) FROM n"));
	store_limit(&s, 0);
	CHECK_I64(0, ask(&s, "SELECT count(*) FROM t"));
	store_close(&s);
}

/* Whether the disk fails is known until something is stored again; a rule that is broken is no
 * failure of it. */
static void failing(void)
{
	struct store s = STORE_INIT;

	CHECK_I64(0, store_open(&s, "failing.db", one, false));
	CHECK(!store_failing(&s));
	CHECK_FAILS(EX_DATAERR, store_exec(&s, "INSERT INTO t VALUES ('x', 'y')"));
	CHECK(!store_failing(&s));
	/* the file may not grow, as on a full disk */
	CHECK_I64(0, store_exec(&s, "PRAGMA max_page_count = 3"));
	CHECK_I64(0, store_begin(&s));
	CHECK(store_exec(&s, "INSERT INTO t VALUES (1, hex(zeroblob(100000)))") < 0);
	CHECK(store_failing(&s));
	store_rollback(&s);
	CHECK(store_failing(&s));
	/* what changes nothing shows nothing */
	CHECK_I64(0, store_begin(&s));
	CHECK_I64(0, store_commit(&s));
	CHECK(store_failing(&s));
	CHECK_I64(0, store_begin(&s));
	CHECK_I64(0, store_exec(&s, "INSERT INTO t VALUES (1, 'x')"));
	CHECK_I64(0, store_commit(&s));
	CHECK(!store_failing(&s));
	store_close(&s);
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
	compares();
	limits();
	failing();
	upgrades();
	refusals();
	unlink("a.db");
	unlink("text.db");
	if (chdir("/") == 0)
		rmdir(dir);
	TEST_END();
}
