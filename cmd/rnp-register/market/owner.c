/* owner.c - whoever has proven a device keeps others from selling it. */
#include "cmd/rnp-register/market/owner.h"

#include <stdlib.h>

#include "cmd/rnp-register/challenges/table.h"
#include "cmd/rnp-register/market/change.h"
#include "cmd/rnp-register/market/supply.h"
#include "common/base/err.h"
#include "common/base/mem.h"

_Static_assert(OWNER_MS == CHALLENGED_PAID_MS, "a proof that is paid counts");

void owner_look(struct market *m, const char *node)
{
	sqlite3_stmt *q = rows_get(&m->rows, ROWS_DISPUTED);
	int rc = q ? 0 : -1;

	if (q)
		store_bind(q, "t", node);
	while (rc >= 0 && (rc = store_step(m->rows.s, q)) == 1) {
		int64_t at_ms = sqlite3_column_int64(q, 1);

		supply_dispute(m->supply, store_text(q, 0), at_ms ? at_ms + OWNER_MS : 0);
	}
	sqlite3_reset(q);
	err_clear(); /* a booking finds out likewise */
}

#define TAKEN_MAX 64 /* at a time: the next proof takes the rest */

int owner_take(struct market *m, const char *node, int64_t now_ms)
{
	sqlite3_stmt *q = rows_get(&m->rows, ROWS_SQUATTERS);
	struct member_row *found = xcalloc(TAKEN_MAX, sizeof *found);
	struct cluster_row c;
	int n = 0, rc = q ? 0 : -1;

	if (q)
		store_bind(q, "ti", node, now_ms - OWNER_MS);
	while (q && n < TAKEN_MAX && (rc = store_step(m->rows.s, q)) == 1)
		member_read(q, &found[n++]);
	sqlite3_reset(q);
	for (int i = 0; i < n && rc >= 0; i++) {
		rc = cluster_by_id(&m->rows, found[i].cluster, &c);
		if (rc == 1)
			rc = change_fail(m, &c, &found[i],
				"another node has proven that the device is its own",
				NULL, now_ms);
	}
	free(found);
	return rc < 0 ? -1 : 0;
}
