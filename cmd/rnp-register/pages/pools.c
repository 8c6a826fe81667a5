/* pools.c - the pools with their counts. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/storage/registry.h"
#include "cmd/rnp-register/storage/query.h"
#include "cmd/rnp-register/pages/reads.h"
#include "common/json/canon.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/record/pool.h"

/* Builds the nested pools: level by level, a row of the sorted GROUP BY opens the groups that
 * are new in it. */
#define LEVELS 5

static const char *const level_names[LEVELS] = { "tier", "country", "device", "maker",
	"model" };
static const char *const level_lists[LEVELS] = { "pools", "countries", "devices",
	"makers", "models" };

struct pools {
	json_t *lists
		[LEVELS]; /* destination of items of each level; borrowed except the first */
	json_t *items[LEVELS];
	char names[LEVELS][POOL_TEXT_MAX];
};

static void add_count(json_t *item, const char *key, int64_t n)
{
	json_set_i64(item, key, n + json_integer_value(json_object_get(item, key)));
}

static void add_pool(struct pools *p, const char *const names[LEVELS], int64_t nodes,
	int64_t gpus)
{
	bool open = false;

	for (int i = 0; i < LEVELS; i++) {
		open = open || !p->items[i] || strcmp(p->names[i], names[i]) != 0;
		if (open) {
			p->items[i] = json_object();
			json_set_text(p->items[i], level_names[i], names[i]);
			json_push(p->lists[i], p->items[i]);
			strncpy(p->names[i], names[i], POOL_TEXT_MAX - 1);
			if (i + 1 < LEVELS) {
				/* counts precede the list in the text */
				json_set_i64(p->items[i], "nodes", 0);
				json_set_i64(p->items[i], "gpus", 0);
				p->lists[i + 1] = json_array();
				json_set(p->items[i], level_lists[i + 1],
					p->lists[i + 1]);
			}
		}
		add_count(p->items[i], "nodes", nodes);
		add_count(p->items[i], "gpus", gpus);
	}
}

/* The largest ones: a model's name is what a node says, so that there may be as many as nodes. */
#define POOLS_MAX "2000"

/* Returns a new object, or NULL with err_set. */
static json_t *count_pools(struct store *s)
{
	struct pools p = { 0 };
	json_t *answer = json_object();
	sqlite3_stmt *rows = NULL;
	int rc = store_prepare(s, &rows,
		"SELECT tier, country, device, maker, model, nodes, gpus FROM ("
		"SELECT tier, country, device, maker, model, count(*) AS nodes, "
		"sum(gpus) AS gpus FROM nodes GROUP BY tier, country, device, maker, model "
		"ORDER BY count(proven_ms) DESC, count(*) DESC LIMIT " POOLS_MAX ") "
		"ORDER BY tier, country, device, maker, model");

	p.lists[0] = json_array();
	json_set(answer, level_lists[0], p.lists[0]);
	while (rc >= 0 && (rc = store_step(s, rows)) == 1) {
		const char *names[LEVELS] = { pool_tier_name(
			sqlite3_column_int64(rows, 0)) };

		for (int i = 1; i < LEVELS; i++)
			names[i] = store_text(rows, i);
		add_pool(&p, names, sqlite3_column_int64(rows, 5),
			sqlite3_column_int64(rows, 6));
	}
	sqlite3_finalize(rows);
	if (rc == 0)
		return answer;
	json_decref(answer);
	return NULL;
}

enum httpd_when registry_get_pools(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	int64_t version = g->db.version; /* read first: newer rows only make it newer */
	enum httpd_when when = HTTPD_NOW;

	if (registry_query_known(q, r, "") < 0)
		return HTTPD_NOW;
	pthread_mutex_lock(&g->pools_lock);
	if (!g->pools || g->pools_version != version) {
		struct store *s = registry_db_reader(&g->db);
		json_t *pools = count_pools(s);
		struct buf text = BUF_INIT;

		registry_db_reader_done(&g->db, s);
		free(g->pools);
		g->pools = NULL;
		if (pools) {
			json_write(&text, pools);
			buf_addc(&text, '\n');
			g->pools = buf_take(&text);
			g->pools_version = version;
			json_decref(pools);
		}
	}
	if (g->pools) {
		buf_adds(&r->body, g->pools);
		registry_etag(r);
	} else {
		when = registry_unavailable(r);
	}
	pthread_mutex_unlock(&g->pools_lock);
	return when;
}
