/* modules.c - parts of a program upgrade their tables each on its own, in one database. */
#include "common/store/modules.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/err.h"
#include "tests/unit/test.h"

static const char *const base[] = { "CREATE TABLE t (a INTEGER) STRICT", NULL };
static const char *const first[] = { "CREATE TABLE x (a INTEGER) STRICT", NULL };
static const char *const later[] = { "CREATE TABLE x (a INTEGER) STRICT",
	"ALTER TABLE x ADD COLUMN b TEXT", NULL };
static const char *const broken[] = { "CREATE TABLE x (a INTEGER) STRICT",
	"ALTER TABLE x ADD COLUMN b TEXT",
	"CREATE TABLE y (a INTEGER); CREATE TABLE x (a)", NULL };
static const char *const other[] = { "CREATE TABLE z (a INTEGER) STRICT", NULL };

static const struct store_module x1 = { "x", first }, x2 = { "x", later },
				 x3 = { "x", broken }, z = { "z", other };

static int64_t ask(struct store *s, const char *sql)
{
	sqlite3_stmt *q = NULL;
	int64_t n = -1;

	if (store_prepare(s, &q, sql) == 0 && store_step(s, q) == 1)
		n = sqlite3_column_int64(q, 0);
	err_clear();
	sqlite3_finalize(q);
	return n;
}

static void upgrades(void)
{
	const struct store_module *const old[] = { &x1, NULL },
					 *const all[] = { &x2, &z, NULL };
	struct store s = STORE_INIT;

	/* a database of before there were modules */
	CHECK_I64(0, store_open(&s, "a.db", base, false));
	store_close(&s);
	CHECK_I64(0, store_open(&s, "a.db", base, false));
	CHECK_I64(0, store_modules(&s, old));
	CHECK_I64(0, store_exec(&s, "INSERT INTO x VALUES (5)"));
	store_close(&s);
	for (int i = 0; i < 2; i++) { /* the second time there is nothing to do */
		CHECK_I64(0, store_open(&s, "a.db", base, false));
		CHECK_I64(0, store_modules(&s, all));
		CHECK_I64(5, ask(&s, "SELECT a FROM x WHERE b IS NULL"));
		CHECK_I64(0, ask(&s, "SELECT count(*) FROM z"));
		CHECK_I64(1, ask(&s, "PRAGMA user_version"));
		store_close(&s);
	}
	CHECK_I64(0, store_open(&s, "a.db", base, false));
	/* rolled back whole; an older program does not touch it */
	CHECK_FAILS(EX_IOERR, store_module(&s, &x3));
	CHECK_I64(-1, ask(&s, "SELECT count(*) FROM y"));
	CHECK_FAILS(EX_DATAERR, store_modules(&s, old));
	CHECK_I64(2, ask(&s, "SELECT version FROM store_modules WHERE name = 'x'"));
	store_close(&s);
}

int main(void)
{
	char dir[] = "/tmp/rnp-modules.XXXXXX";

	if (!mkdtemp(dir) || chdir(dir) < 0)
		return 71;
	upgrades();
	unlink("a.db");
	if (chdir("/") == 0)
		rmdir(dir);
	TEST_END();
}
