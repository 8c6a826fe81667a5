/* owner.c - a device belongs to who has proven it: another gets no lease of it, and loses the one
 * that he has while nobody can use it. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/market/owner.h"

#include "cmd/rnp-register/market/change.h"
#include "common/base/clock.h"
#include "tests/unit/rnp-register/market/serve.h"

#define DAY_MS INT64_C(86400000)

static int64_t now_ms;

/* Nodes `node` and `other` claim one device. */
static void claim(void)
{
	const struct key *who[] = { &node, &other };

	sql("INSERT INTO records (id, kind, node, signer, at_ms, received_ms, sha256, body) "
	    "VALUES (1, 'rnp.node', '', '', 0, 0, '', '{}')");
	for (int i = 0; i < 2; i++)
		sql("INSERT INTO nodes (id, address, at_ms, sha256, record, tier, country, device, "
		    "maker, model, gpus, gpu_memory_bytes) VALUES (%d, '%s', 0, '', 1, 0, '', '', "
		    "'', '', 1, 0); INSERT INTO devices (uuid, node) VALUES ('gpu-1', %d)",
			i + 1, who[i]->address, i + 1);
}

static void prove(const struct key *who, int64_t at_ms)
{
	sql("INSERT INTO proven_devices VALUES ('gpu-1', '%s', %lld) ON CONFLICT DO UPDATE SET "
	    "at_ms = excluded.at_ms",
		who->address, (long long)at_ms);
}

struct tried {
	const struct key *who;
	int got;
	_Atomic bool done;
};

static int try_job(struct market *m, void *ctx)
{
	struct tried *t = ctx;
	struct member_row w = { .id = 1, .gpus = "[\"GPU-1\"]" };

	snprintf(w.node, sizeof w.node, "%s", t->who->address);
	t->got = change_lease(m, &w, now_ms);
	return 0;
}

static void try_done(struct market *m, void *ctx, bool ok)
{
	(void)m;
	CHECK(ok);
	((struct tried *)ctx)->done = true;
}

/* Whether who gets a lease of it; which ends again. */
static int leases(const struct key *who)
{
	struct tried t = { .who = who };

	market_write(registry.market, try_job, try_done, &t);
	while (!t.done)
		usleep(1000);
	sql("UPDATE leases SET to_ms = 1 WHERE device = 'gpu-1' AND to_ms IS NULL");
	return t.got;
}

static void lease(void)
{
	CHECK_I64(1, leases(&node));
	CHECK_I64(1, leases(&other));
	prove(&node, now_ms - DAY_MS);
	CHECK_I64(1, leases(&node));
	CHECK_I64(0, leases(&other));
	/* whose own proof is too old, or of this week */
	prove(&other, now_ms - 10 * DAY_MS);
	CHECK_I64(0, leases(&other));
	prove(&other, now_ms - 5 * DAY_MS);
	CHECK_I64(1, leases(&other));
	CHECK_I64(1, leases(&node));
	sql("DELETE FROM proven_devices");
	prove(&node, now_ms - 9 * DAY_MS);
	CHECK_I64(1, leases(&other));
	sql("DELETE FROM proven_devices");
}

/* A squatter's lease, in that state. Returns the state after the owner has proven the device. */
static int64_t squat(enum node_state state)
{
	struct tried t = { .who = &other };
	int64_t got = -1;
	sqlite3_stmt *q = NULL;
	struct store *s;

	sql("UPDATE clusters SET live = 1, state = %d, hours = 1; UPDATE members SET node = '%s', "
	    "gpus = '[\"gpu-1\"]', state = %d; DELETE FROM leases",
		(int)state, other.address, (int)state);
	market_write(registry.market, try_job, try_done, &t);
	while (!t.done)
		usleep(1000);
	CHECK_I64(1, t.got);
	prove(&node, now_ms);
	event_proven(registry.market, node.address);
	sql("SELECT 1"); /* the writer has come to here */
	s = registry_db_quick(&registry.db);
	CHECK(store_prepare(s, &q, "SELECT state FROM members WHERE id = 1") == 0 &&
		store_step(s, q) == 1);
	got = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	registry_db_quick_done(&registry.db);
	sql("DELETE FROM proven_devices");
	return got;
}

int main(void)
{
	struct registry_config config = { 0 };

	now_ms = clock_now_ms();
	make_keys();
	start_with(&config);
	make_market();
	claim();
	lease();
	CHECK_I64(NODE_FAILED, squat(NODE_PROVING));
	CHECK_I64(NODE_FAILED, squat(NODE_PULLING));
	/* a customer is on it */
	CHECK_I64(NODE_READY, squat(NODE_READY));
	stop();
	clean_up();
	TEST_END();
}
