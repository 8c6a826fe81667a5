/* member.c - looks clusters and their nodes up. */
#include "cmd/rnp-register/market/member.h"

#include <stdio.h>

#include "cmd/rnp-register/market/parts.h"
#include "cmd/rnp-register/market/states.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/err.h"

bool member_customer(struct registry *g, struct httpd_reply *r, const char *cluster,
	const char *who, char customer[KEY_ADDRESS_MAX])
{
	struct store *s = registry_db_quick(&g->db);
	sqlite3_stmt *q = store_keep(s,
		"SELECT customer FROM clusters c WHERE cluster = ?1 AND (customer = ?2 OR EXISTS "
		"(SELECT 1 FROM members WHERE cluster = c.id AND node = ?2 AND state <= ?3))");
	int rc = q ? 0 : -1;

	if (q) {
		store_bind(q, "tti", cluster, who, (int64_t)NODE_RELEASING);
		rc = store_step(s, q);
	}
	if (rc == 1)
		snprintf(customer, KEY_ADDRESS_MAX, "%s", store_text(q, 0));
	sqlite3_reset(q);
	registry_db_quick_done(&g->db);
	if (rc < 0)
		registry_unavailable(r);
	else if (rc == 0)
		market_refuse(g, r, 404, "unknown", "name a cluster of yours",
			"%s is not, or not any more, of a cluster '%.40s'", who, cluster);
	return rc == 1;
}

int member_turn(struct registry *g, struct httpd_reply *r, const char *cluster, int rank,
	const char *node)
{
	struct store *s = registry_db_quick(&g->db);
	sqlite3_stmt *q = store_keep(s,
		"SELECT turn FROM members WHERE cluster = (SELECT id FROM clusters WHERE cluster "
		"= ?1) AND rank = ?2 AND node = ?3 AND state <= ?4 ORDER BY turn DESC LIMIT 1");
	int turn = -1, rc = q ? 0 : -1;

	if (q) {
		store_bind(q, "titi", cluster, (int64_t)rank, node,
			(int64_t)NODE_RELEASING);
		rc = store_step(s, q);
	}
	if (rc == 1)
		turn = sqlite3_column_int(q, 0);
	sqlite3_reset(q);
	registry_db_quick_done(&g->db);
	if (rc < 0)
		registry_unavailable(r);
	else if (rc == 0)
		market_refuse(g, r, 404, "unknown", "ask GET /v1/work what is assigned",
			"%s has no lease of rank %d in a cluster '%.40s'", node, rank,
			cluster);
	return turn;
}

bool member_is_known(struct registry *g, const char *address)
{
	struct store *s = registry_db_quick(&g->db);
	sqlite3_stmt *q = store_keep(s,
		"SELECT 1 FROM accounts WHERE customer = ?1 UNION ALL SELECT 1 FROM nodes "
		"WHERE address = ?1 UNION ALL SELECT 1 FROM gateways WHERE gateway = ?1");
	int rc = q ? 0 : -1;

	if (q) {
		store_bind(q, "t", address);
		rc = store_step(s, q);
	}
	sqlite3_reset(q);
	registry_db_quick_done(&g->db);
	err_clear();
	return rc == 1 || market_trusts(g, address);
}

bool member_cluster_live(struct registry *g, const char *cluster)
{
	struct store *s = registry_db_quick(&g->db);
	sqlite3_stmt *q = store_keep(s, "SELECT live FROM clusters WHERE cluster = ?");
	bool live = true;
	int rc = q ? 0 : -1;

	if (q) {
		store_bind(q, "t", cluster);
		rc = store_step(s, q);
	}
	/* where it cannot be read it is not taken for over */
	if (rc >= 0)
		live = rc == 1 && sqlite3_column_int(q, 0) != 0;
	err_clear();
	sqlite3_reset(q);
	registry_db_quick_done(&g->db);
	return live;
}
