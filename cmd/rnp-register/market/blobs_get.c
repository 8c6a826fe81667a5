/* blobs_get.c - GET /v1/blobs/{sha256}, and POST /v1/blobs: what is here, and for whom. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/blob_parts.h"
#include "cmd/rnp-register/market/blobs.h"
#include "cmd/rnp-register/market/member.h"
#include "cmd/rnp-register/market/parts.h"
#include "cmd/rnp-register/storage/ack.h"
#include "cmd/rnp-register/storage/caller.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* --- who may ---------------------------------------------------------------------------------- */

static bool is_name(struct registry *g, struct httpd_reply *r, const char *text)
{
	if (blob_name_valid(text))
		return true;
	market_refuse(g, r, 400, "form", "name a blob by its SHA-256, 64 digits",
		"'%.80s' is no SHA-256", text);
	return false;
}

bool blobs_find_who(struct registry *g, struct httpd_request *q, struct httpd_reply *r,
	const char *fields, struct blob_who *who)
{
	const char *cluster = httpd_query(q, "cluster");
	char caller[KEY_ADDRESS_MAX];

	*who = (struct blob_who){ .cluster = "" };
	if (!g->blobs) {
		httpd_error(r, 404, "this registry keeps no blobs");
		return false;
	}
	if (registry_query_known(q, r, fields) < 0 || !registry_caller(g, q, r, caller) ||
		(q->arg && !is_name(g, r, q->arg)))
		return false;
	snprintf(who->customer, sizeof who->customer, "%s", caller);
	if (!cluster)
		return true;
	if (!member_customer(g, r, cluster, caller, who->customer))
		return false;
	if (strcmp(caller, who->customer) != 0)
		snprintf(who->cluster, sizeof who->cluster, "%s", cluster);
	return true;
}

bool blobs_find_manifest(struct registry *g, struct httpd_request *q,
	struct httpd_reply *r, const char **out)
{
	const char *manifest = httpd_query(q, "manifest");

	*out = manifest ? manifest : "";
	return !manifest || is_name(g, r, manifest);
}

int blobs_has(struct registry *g, struct httpd_reply *r, struct blob_look *l,
	const char *name)
{
	int rc = blob_look(l, name);

	if (rc < 0)
		registry_unavailable(r);
	return rc == 1 ? blob_is_there(&g->blobs->files, name) : rc;
}

/* --- reading ---------------------------------------------------------------------------------- */

enum httpd_when blobs_get(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct blobs *b = g->blobs;
	struct blob_who who;
	int64_t bytes = 0;
	int may, fd = -1;

	if (!blobs_find_who(g, q, r, "cluster", &who))
		return HTTPD_NOW;
	may = blob_rows_may_read(registry_db_quick(&g->db), &who, q->arg, clock_now_ms());
	registry_db_quick_done(&g->db);
	if (may < 0)
		return registry_unavailable(r);
	if (may)
		fd = blob_open(&b->files, q->arg, &bytes);
	if (fd < 0)
		return market_refuse(g, r, 404, "unknown",
			"send it again: blobs go a day after the cluster",
			"this blob is not here, or not for you");
	b->sent++;
	r->content_type = "application/octet-stream";
	snprintf(r->etag, sizeof r->etag, "\"%s\"", q->arg);
	return httpd_reply_file(r, fd, 0, bytes);
}

/* --- what is missing -------------------------------------------------------------------------- */

static int renew(struct market *m, void *ctx)
{
	struct blobs_renewal *w = ctx;

	return blob_rows_renew(m->rows.s, &w->who, w->names, w->n,
		clock_now_ms() + w->g->blobs->keep_ms, w->manifest);
}

static void free_renewal(struct blobs_renewal *w)
{
	free(w->names);
	free(w);
}

static void on_renewed(struct market *m, void *ctx, bool ok)
{
	struct blobs_renewal *w = ctx;

	(void)m;
	if (!ok)
		registry_unwritable(w->r);
	httpd_finish(w->q);
	free_renewal(w);
}

enum httpd_when blobs_renew(struct blobs_renewal *w)
{
	if (!w->n) {
		free_renewal(w);
		return HTTPD_NOW;
	}
	market_write(w->g->market, renew, on_renewed, w);
	return HTTPD_LATER;
}

/* Looks at one name of the question. Returns 0, or -1 with r filled. */
static int ask_one(struct blobs_renewal *w, struct blob_look *l, const char *name,
	json_t *missing)
{
	struct blobs *b = w->g->blobs;
	char holder[BLOB_HOLDER_MAX];
	int64_t have;
	json_t *one;
	int has;

	if (!name || !blob_name_valid(name)) {
		market_refuse(w->g, w->r, 400, "form", "send {\"sha256\":[...]}",
			"sha256: an item is no SHA-256");
		return -1;
	}
	has = blobs_has(w->g, w->r, l, name);
	if (has < 0)
		return -1;
	if (has) {
		if (l->noted && l->until_ms > l->now_ms + b->keep_ms - b->keep_ms / 4)
			return 0;
		w->names = xgrow(w->names, &w->cap, w->n + 1, sizeof *w->names);
		snprintf(w->names[w->n++], BLOB_NAME_MAX, "%s", name);
		return 0;
	}
	one = json_object();
	json_set_text(one, "sha256", name);
	blobs_holder(holder, &w->who);
	have = blob_part_bytes(&b->files, holder, name);
	if (have)
		json_set_i64(one, "have", have);
	json_push(missing, one);
	return 0;
}

static int ask_all(struct blobs_renewal *w, json_t *missing)
{
	struct buf *body = &w->q->body;
	json_t *doc = json_parse_object(buf_text(body), body->len, "body"), *list;
	struct store *s;
	struct blob_look l;
	const json_t *name;
	size_t i;
	int rc;

	if (!doc || json_get_array(doc, "body", "sha256", &list) < 0 ||
		json_array_size(list) > BLOBS_ASKED_MAX) {
		market_refuse(w->g, w->r, 400, "form",
			"send {\"sha256\":[...]} with up to 4096", "%s",
			err_get()->code ? err_get()->text : "sha256: too many");
		err_clear();
		json_decref(doc);
		return -1;
	}
	s = registry_db_reader(&w->g->db);
	rc = blob_look_open(&l, s, &w->who, w->manifest, clock_now_ms());
	if (rc < 0)
		registry_unavailable(w->r);
	json_array_foreach(list, i, name)
		if (rc == 0)
			rc = ask_one(w, &l, json_string_value(name), missing);
	blob_look_close(&l);
	registry_db_reader_done(&w->g->db, s);
	json_decref(doc);
	return rc;
}

enum httpd_when blobs_ask(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct blobs_renewal *w = xcalloc(1, sizeof *w);
	const char *manifest;
	json_t *reply;
	int rc;

	*w = (struct blobs_renewal){ .g = g, .q = q, .r = r };
	if (!blobs_find_who(g, q, r, "cluster manifest", &w->who) ||
		!blobs_find_manifest(g, q, r, &manifest)) {
		free_renewal(w);
		return HTTPD_NOW;
	}
	snprintf(w->manifest, sizeof w->manifest, "%s", manifest);
	reply = json_object();
	json_set(reply, "missing", json_array());
	rc = ask_all(w, json_object_get(reply, "missing"));
	if (rc == 0) {
		json_write(&r->body, reply);
		buf_addc(&r->body, '\n');
	} else {
		w->n = 0;
	}
	json_decref(reply);
	return blobs_renew(w);
}
