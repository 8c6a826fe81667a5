/* state.c - what was listed where and when: see state.h. */
#include "cmd/rnp-price/publish/state.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/lock.h"

#define KEEP_MS (90 * PUBLISH_DAY_MS)
#define SKEW_MS INT64_C(300000)

static const char *const steps[] = {
	"CREATE TABLE listed (id INTEGER PRIMARY KEY, market TEXT NOT NULL, unit TEXT NOT NULL,"
	"  at_ms INTEGER NOT NULL, uusd INTEGER NOT NULL) STRICT;"
	"CREATE INDEX listed_at ON listed (market, unit, at_ms);",
	NULL
};

static int lock(struct publish_state *s, const char *path)
{
	struct buf name = BUF_INIT;
	int rc = 0;

	buf_addf(&name, "%s.lock", path);
	s->lock = open(name.data, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
	if (s->lock < 0)
		rc = err_sys(0, "cannot open '%s'", name.data);
	else
		rc = lock_take(s->lock, path, "another publish is at work");
	buf_release(&name);
	return rc;
}

int publish_state_open(struct publish_state *s, const char *path)
{
	if (lock(s, path) == 0 && store_open(&s->store, path, steps, false) == 0)
		return 0;
	publish_state_close(s);
	return -1;
}

void publish_state_close(struct publish_state *s)
{
	store_close(&s->store);
	if (s->lock >= 0)
		close(s->lock);
	s->lock = -1;
}

int publish_state_saw(struct publish_state *s, const char *market, const char *unit,
	int64_t at_ms, int64_t uusd)
{
	sqlite3_stmt *put = NULL, *old = NULL;
	int rc = store_begin(&s->store);

	if (rc < 0)
		return -1;
	if (store_prepare(&s->store, &put,
		    "INSERT INTO listed (market, unit, at_ms, uusd) VALUES (?, ?, ?, ?)") <
			0 ||
		store_run(&s->store, put, "ttii", market, unit, at_ms, uusd) < 0 ||
		store_prepare(&s->store, &old, "DELETE FROM listed WHERE at_ms < ?") <
			0 ||
		store_run(&s->store, old, "i", at_ms - KEEP_MS) < 0)
		rc = -1;
	sqlite3_finalize(put);
	sqlite3_finalize(old);
	if (rc == 0)
		return store_commit(&s->store);
	store_rollback(&s->store);
	return -1;
}

static int check_clock(struct publish_state *s, const char *market, const char *unit,
	int64_t now_ms)
{
	char then[CLOCK_TEXT_MAX];
	sqlite3_stmt *q = NULL;
	int64_t last = 0;
	int rc = store_prepare(&s->store, &q,
		"SELECT coalesce(max(at_ms), 0) FROM listed WHERE market = ? AND unit = ?");

	if (rc == 0) {
		store_bind(q, "tt", market, unit);
		rc = store_step(&s->store, q);
		if (rc > 0)
			last = sqlite3_column_int64(q, 0);
	}
	sqlite3_finalize(q);
	if (rc < 0 || last <= now_ms + SKEW_MS)
		return rc < 0 ? -1 : 0;
	clock_format(then, last);
	return err_set(EX_DATAERR, "%s: the clock went back: the last price is of %s",
		s->store.path, then);
}

int publish_state_day_before(struct publish_state *s, const char *market,
	const char *unit, int64_t now_ms, int64_t *uusd)
{
	sqlite3_stmt *q = NULL;
	int rc;

	if (check_clock(s, market, unit, now_ms) < 0 ||
		store_prepare(&s->store, &q,
			"SELECT uusd FROM listed WHERE market = ?1 AND unit = ?2 ORDER BY"
			" at_ms > ?3, CASE WHEN at_ms > ?3 THEN id ELSE -id END LIMIT 1") <
			0)
		return -1;
	store_bind(q, "tti", market, unit, now_ms - PUBLISH_DAY_MS);
	rc = store_step(&s->store, q);
	if (rc > 0)
		*uusd = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}
