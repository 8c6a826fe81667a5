/* blobs_put.c - PUT /v1/blobs/{sha256}: a blob comes. Its bytes go to a file as they come; files
 * are named on the writer's thread alone. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/blob_parts.h"
#include "cmd/rnp-register/market/blobs.h"
#include "cmd/rnp-register/market/parts.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

/* A blob that is being sent: the state of its request. */
struct upload {
	struct registry *g;
	struct httpd_request *q;
	struct httpd_reply *r;
	struct blob_part *part; /* NULL: it was dropped */
	struct blob_who who;
	char name[BLOB_NAME_MAX], manifest[BLOB_NAME_MAX];
	int64_t bytes;
	bool named;
};

void blobs_holder(char out[BLOB_HOLDER_MAX], const struct blob_who *who)
{
	_Static_assert(sizeof who->customer + sizeof who->cluster <= BLOB_HOLDER_MAX,
		"a holder is a customer, or a customer and a cluster");
	snprintf(out, BLOB_HOLDER_MAX, "%s%s%s", who->customer,
		who->cluster[0] ? "/" : "", who->cluster);
}

static void drop_part(struct upload *u)
{
	if (u->part)
		blob_part_drop(&u->g->blobs->files, u->part);
	u->part = NULL;
}

/* --- room ------------------------------------------------------------------------------------- */

static int refuse_room(struct registry *g, struct httpd_reply *r,
	const struct blob_who *who, int64_t most)
{
	if (!who->cluster[0])
		market_refuse(g, r, 507, "quota",
			"wait until older blobs are gone, a day after the cluster",
			"the account's blobs would have more than %lld bytes together",
			(long long)most);
	else
		market_refuse(g, r, 507, "quota",
			"keep less, or book with artifacts and their bytes_max",
			"the artifacts would have more than %lld bytes together",
			(long long)most);
	return -1;
}

/* With the quota's lock: whether there is room for a part that will take so many bytes. Artifacts
 * have room of their own: no node fills what its customer sends from. Returns 0, or -1 with r
 * filled. */
static int find_room(struct registry *g, struct httpd_reply *r,
	const struct blob_who *who, const char *name, int64_t to)
{
	struct blobs *b = g->blobs;
	char holder[BLOB_HOLDER_MAX];
	int64_t coming, all, most = b->quota_bytes;
	struct blob_room room;
	int rc;

	/* parts first: one that is named meanwhile counts twice rather than not at all */
	blobs_holder(holder, who);
	coming = blob_parts_bytes(&b->files, holder, false, name);
	all = blob_parts_bytes(&b->files, who->customer, true, name) -
		blob_parts_bytes(&b->files, who->customer, false, name);
	rc = blob_rows_room(registry_db_quick(&g->db), who, &room);
	registry_db_quick_done(&g->db);
	if (rc < 0) {
		registry_unavailable(r);
		return -1;
	}
	if (room.deposited_uusd <= 0) {
		market_refuse(g, r, 402, "credit", "deposit first",
			"%s has no account here, for which blobs could be kept",
			who->customer);
		return -1;
	}
	if (who->cluster[0]) {
		if (room.artifact_bytes + all > most - to)
			return refuse_room(g, r, who, most);
		most = room.limit_bytes;
	}
	return room.used_bytes + coming > most - to ? refuse_room(g, r, who, most) : 0;
}

/* --- the beginning ---------------------------------------------------------------------------- */

static int refuse_begin(struct registry *g, struct httpd_reply *r, enum blob_begun why,
	int64_t have)
{
	r->retry_after_s = 1;
	if (why == BLOB_BUSY)
		market_refuse(g, r, 409, "busy", "wait until the other request is over",
			"another request sends this blob");
	else if (why == BLOB_OTHER)
		market_refuse(g, r, 409, "offset", "go on there, or from 0",
			"%lld bytes of this blob are here", (long long)have);
	else if (why == BLOB_MANY)
		market_refuse(g, r, 429, "busy", "send fewer blobs at a time",
			"too many blobs are being sent");
	else
		market_refuse(g, r, 507, "storage", "tell the registry's operator", "%s",
			err_get()->text);
	err_clear();
	return -1;
}

/* Takes room for all that the request says it will send, and begins. Returns 0, or -1 with r
 * filled. */
static int begin_part(struct upload *u, int64_t from, int64_t bytes)
{
	struct blobs *b = u->g->blobs;
	char holder[BLOB_HOLDER_MAX];
	enum blob_begun begun = BLOB_BEGUN;
	int rc;

	blobs_holder(holder, &u->who);
	pthread_mutex_lock(&b->quota_lock);
	rc = find_room(u->g, u->r, &u->who, u->name, from + bytes + BLOB_OVERHEAD_BYTES);
	if (rc == 0)
		begun = blob_part_begin(&b->files, holder, u->name, from, from + bytes,
			&u->part);
	pthread_mutex_unlock(&b->quota_lock);
	return begun == BLOB_BEGUN ? rc :
				     refuse_begin(u->g, u->r, begun,
					     blob_part_bytes(&b->files, holder, u->name));
}

/* Reads from where on, and how many bytes come. Returns false with r filled. */
static bool read_range(struct registry *g, const struct httpd_request *q,
	struct httpd_reply *r, int64_t *from, int64_t *bytes)
{
	const char *from_text = httpd_query(q, "from"),
		   *length = httpd_header(q, "content-length");

	*from = 0;
	if (from_text && num_i64(from_text, "from", 0, BLOB_BYTES_MAX - 1, from) < 0) {
		err_clear();
		market_refuse(g, r, 400, "form", "give a number of bytes",
			"from: '%.40s' is no number of bytes", from_text);
		return false;
	}
	if (length && num_i64(length, "length", 0, BLOB_BYTES_MAX - *from, bytes) == 0)
		return true;
	err_clear();
	market_refuse(g, r, length ? 413 : 411, "length",
		"say it with Content-Length, and send 4 GiB at most",
		"a blob's length has to be known before it comes");
	return false;
}

/* Whether it is here already. Then *what is the answer. */
static bool is_here(const struct upload *u, enum httpd_when *what)
{
	struct blobs_renewal *w;
	struct blob_look l;
	struct store *s = registry_db_quick(&u->g->db);
	int has = blob_look_open(&l, s, &u->who, u->manifest, clock_now_ms());

	if (has < 0)
		registry_unavailable(u->r);
	else
		has = blobs_has(u->g, u->r, &l, u->name);
	blob_look_close(&l);
	registry_db_quick_done(&u->g->db);
	*what = HTTPD_NOW;
	if (has == 1) {
		json_t *ack = json_object();

		json_set_text(ack, "sha256", u->name);
		json_set_bool(ack, "new", false);
		json_write(&u->r->body, ack);
		buf_addc(&u->r->body, '\n');
		json_decref(ack);
	}
	if (has == 1 && !l.noted) {
		w = xcalloc(1, sizeof *w);
		*w = (struct blobs_renewal){ .g = u->g,
			.q = u->q,
			.r = u->r,
			.who = u->who };
		memcpy(w->manifest, u->manifest, sizeof w->manifest);
		w->names = xgrow(w->names, &w->cap, 1, sizeof *w->names);
		memcpy(w->names[w->n++], u->name, sizeof u->name);
		*what = blobs_renew(w);
	}
	return has != 0;
}

enum httpd_when blobs_begin_put(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct upload u = { .g = ctx, .q = q, .r = r }, *kept;
	const char *manifest;
	enum httpd_when what = HTTPD_NOW;
	int64_t from, bytes;

	if (!blobs_find_who(u.g, q, r, "cluster from manifest", &u.who) ||
		!blobs_find_manifest(u.g, q, r, &manifest))
		return HTTPD_NOW;
	snprintf(u.name, sizeof u.name, "%s", q->arg);
	snprintf(u.manifest, sizeof u.manifest, "%s", manifest);
	if (is_here(&u, &what) || !read_range(u.g, q, r, &from, &bytes) ||
		begin_part(&u, from, bytes) < 0)
		return what;
	q->body_bytes_max = (size_t)bytes;
	kept = xmalloc(sizeof *kept);
	*kept = u;
	q->state = kept;
	return HTTPD_GO_ON;
}

/* --- the bytes -------------------------------------------------------------------------------- */

/* The part cannot be written: it goes. Returns what the reply is. */
static enum httpd_when refuse_disk(struct upload *u, struct httpd_reply *r)
{
	int error = errno;

	drop_part(u);
	prog_warn("a blob of %s could not be written: %s", u->who.customer,
		strerror(error));
	r->retry_after_s = 60;
	if (error == ENOSPC || error == EDQUOT)
		return market_refuse(u->g, r, 507, "storage", "try again later",
			"the registry's disk is full");
	return market_refuse(u->g, r, 503, "storage", "try again later",
		"the registry cannot store blobs at present");
}

long blobs_take(void *ctx, struct httpd_request *q, struct httpd_reply *r,
	const void *data, size_t len)
{
	struct upload *u = q->state;

	(void)ctx;
	if (blob_part_write(u->part, data, len) < 0) {
		refuse_disk(u, r);
		return HTTPD_REFUSE;
	}
	return (long)len;
}

/* --- the end ---------------------------------------------------------------------------------- */

static int put_blob(struct market *m, void *ctx)
{
	struct upload *u = ctx;
	struct blobs *b = u->g->blobs;

	if (blob_part_name(&b->files, u->part) < 0) {
		/* the fault of this blob is not that of what is stored with it */
		prog_error("%s", err_get()->text);
		err_clear();
		return 0;
	}
	u->named = true;
	return blob_rows_keep(m->rows.s, &u->who, u->name, u->bytes + BLOB_OVERHEAD_BYTES,
		clock_now_ms() + b->keep_ms, u->manifest);
}

static void on_put(struct market *m, void *ctx, bool ok)
{
	struct upload *u = ctx;
	json_t *ack;

	(void)m;
	/* not before: until its row can be read it is the part that counts */
	drop_part(u);
	if (!ok || !u->named) {
		u->r->retry_after_s = 1;
		market_refuse(u->g, u->r, 503, "storage", "try again",
			"the registry cannot store blobs at present");
	} else {
		ack = json_object();
		json_set_text(ack, "sha256", u->name);
		json_set_i64(ack, "bytes", u->bytes);
		json_set_bool(ack, "new", true);
		json_write(&u->r->body, ack);
		buf_addc(&u->r->body, '\n');
		json_decref(ack);
		u->r->status = 201;
		u->g->blobs->received++;
	}
	httpd_finish(u->q);
}

enum httpd_when blobs_put(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct upload *u = q->state;

	u->bytes = u->part->bytes;
	if (!blob_part_whole(u->part)) {
		drop_part(u);
		return market_refuse(g, r, 422, "hash", "send it again, from 0",
			"the %lld bytes have another SHA-256 than the blob's name",
			(long long)u->bytes);
	}
	if (blob_part_flush(u->part) < 0)
		return refuse_disk(u, r);
	market_write(g->market, put_blob, on_put, u);
	return HTTPD_LATER;
}

void blobs_done(void *ctx, struct httpd_request *q)
{
	struct registry *g = ctx;
	struct upload *u = q->state;

	if (!u)
		return;
	if (u->part)
		blob_part_leave(&g->blobs->files, u->part);
	free(u);
	q->state = NULL;
}
