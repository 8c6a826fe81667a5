/* reach.c - places of leases; listings, which are public. */
#include "cmd/rnp-register/market/reach.h"

#include <string.h>

#include "cmd/rnp-register/market/place.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/err.h"
#include "common/json/json.h"

void reach_set_places(json_t *to, const char *cluster, const struct member_row *w)
{
	char text[PLACE_TEXT_MAX];

	place_on_gateway(member_number(w->id), text);
	json_set_text(to, "ssh", text);
	place_text(place_rank(cluster, PLACE_RANKS_APART, w->rank), text);
	json_set_text(to, "address", text);
}

int reach_set_listing(struct rows *rows, json_t *to, const char *node)
{
	sqlite3_stmt *q = rows_get(rows, ROWS_LISTING);

	if (!q)
		return -1;
	store_bind(q, "t", node);
	return rows_set_record(rows, q, to, "listing");
}

enum httpd_when reach_get_listings(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	const char *node = httpd_query(q, "node");
	json_t *found, *list, *reply;
	struct rows rows;
	struct store *s;
	int rc;

	if (!market_is_here(g, r) || registry_query_known(q, r, "node") < 0 ||
		registry_query_address(q, r, "node") < 0)
		return HTTPD_NOW;
	if (!node)
		return httpd_error(r, 400, "node: is missing");
	s = registry_db_reader(&g->db);
	rows_open(&rows, s);
	found = json_object();
	list = json_array();
	rc = reach_set_listing(&rows, found, node);
	rows_close(&rows);
	registry_db_reader_done(&g->db, s);
	if (json_object_get(found, "listing"))
		json_push(list, json_incref(json_object_get(found, "listing")));
	reply = json_object();
	json_set(reply, "listings", list);
	if (rc == 0) {
		json_write(&r->body, reply);
		buf_addc(&r->body, '\n');
	} else {
		registry_unavailable(r);
	}
	json_decref(reply);
	json_decref(found);
	return HTTPD_NOW;
}
