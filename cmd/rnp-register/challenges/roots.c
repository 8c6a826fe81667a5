/* roots.c - what precedes an answer: its roots, which are due within the time of the
 * work, and the permission to send a large body. */
#include "cmd/rnp-register/challenges/challenge.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/challenges/table.h"
#include "cmd/rnp-register/storage/query.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

/* Stores the roots of an answer to come. Only the first count. */
static void take_roots(struct registry *g, const json_t *record, struct httpd_reply *r,
	int64_t arrived_ns)
{
	const char *node = json_string_value(json_object_get(record, "node"));
	unsigned char sha256[POC_HASH_BYTES], roots[POC_HASH_BYTES];
	json_t *ack = json_record("rnp.stored");
	bool open, is_new = false;
	struct challenged *a;

	open = poc_get_hash(json_object_get(record, "challenge_sha256"), sha256) &&
		poc_get_hash(json_object_get(record, "roots_sha256"), roots);
	pthread_mutex_lock(&g->challenger->lock);
	a = open ? *challenged_place(g->challenger, node) : NULL;
	open = a && a->c && memcmp(a->c->sha256, sha256, sizeof sha256) == 0;
	if (open && !a->has_roots) {
		is_new = a->has_roots = true;
		a->roots_ns = arrived_ns - a->delivered_ns;
		memcpy(a->roots, roots, sizeof a->roots);
	}
	if (open)
		challenged_describe(a, ack);
	pthread_mutex_unlock(&g->challenger->lock);
	if (open) {
		json_set_text(ack, "of", "rnp.roots");
		json_set_text(ack, "node", node);
		json_set_time(ack, "at", clock_now_ms());
		json_set_bool(ack, "new", is_new);
		json_write(&r->body, ack);
		buf_addc(&r->body, '\n');
	} else {
		registry_challenge_none(r, node);
	}
	json_decref(ack);
}

enum httpd_when registry_post_roots(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	int64_t arrived_ns = clock_mono_ns();
	struct registry *g = ctx;
	struct signature_result signature;
	json_t *record = json_parse_object(buf_text(&q->body), q->body.len, "body");

	if (!g->challenger)
		httpd_error(r, 404, "this registry issues no challenges");
	else if (!record || schema_check(record, "body", "rnp.roots") < 0)
		httpd_error(r, 400, "%s", err_get()->text);
	else if (signature_verify(record, &signature), !signature.ok)
		httpd_error(r, 401, "%s", signature.reason);
	else
		take_roots(g, record, r, arrived_ns);
	err_clear();
	if (r->status >= 300)
		g->refused++;
	json_decref(record);
	return HTTPD_NOW;
}

/* --- answers on their way ----------------------------------------------------------------- */

/* A node may send its answer again when the connection broke: the newer one replaces the older.
 * One challenge occupies memory for one answer of the size that it asks for, until its deadline
 * and not longer, and the verifier for one at a time. */
#define REFUSED_MAX 3    /* answers to one challenge that are no answers to it */
#define LATE_MS     2000 /* a late answer gets its verdict */

/* State that done has to undo. */
struct upload {
	char node[KEY_ADDRESS_MAX];
};

/* Called with the lock held. */
static void begin_upload(struct challenged *a, struct httpd_request *q)
{
	if (a->upload)
		a->upload->until_ns = 1;
	a->upload = q;
	q->body_bytes_max = (size_t)poc_plan_answer_bytes(a->c);
	q->until_ns = a->delivered_ns + (a->c->deadline_ms + LATE_MS) * 1000000;
}

enum httpd_when registry_begin_answer(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	const char *node = httpd_query(q, "node"), *id = httpd_query(q, "challenge");
	struct upload *u;
	struct challenged *a;
	bool busy;

	if (!g->challenger)
		return httpd_error(r, 404, "this registry issues no challenges");
	if (registry_query_known(q, r, "node challenge") < 0 ||
		registry_query_address(q, r, "node") < 0)
		return HTTPD_NOW;
	if (!node || !id)
		return httpd_error(r, 400, "which node's challenge?");
	pthread_mutex_lock(&g->challenger->lock);
	a = challenged_find_open(g->challenger, node, id);
	busy = a && (a->verified || a->refused >= REFUSED_MAX);
	if (a && !busy)
		begin_upload(a, q);
	pthread_mutex_unlock(&g->challenger->lock);
	if (!a)
		return registry_challenge_none(r, node);
	if (busy) {
		r->retry_after_s = 1;
		return httpd_error(r, 429,
			"an answer to this challenge waits, or %d were refused",
			REFUSED_MAX);
	}
	u = xcalloc(1, sizeof *u);
	snprintf(u->node, sizeof u->node, "%s", node);
	q->state = u;
	return HTTPD_GO_ON;
}

void registry_done_answer(void *ctx, struct httpd_request *q)
{
	struct registry *g = ctx;
	struct upload *u = q->state;
	struct challenged *a;

	if (!u)
		return;
	q->state = NULL;
	pthread_mutex_lock(&g->challenger->lock);
	a = *challenged_place(g->challenger, u->node);
	if (a && a->upload == q)
		a->upload = NULL;
	pthread_mutex_unlock(&g->challenger->lock);
	free(u);
}

bool challenged_arrived(struct registry *g, struct httpd_request *q)
{
	const struct upload *u = q->state;
	struct challenged *a;
	bool good;

	pthread_mutex_lock(&g->challenger->lock);
	a = u ? *challenged_place(g->challenger, u->node) : NULL;
	good = a && !a->verified;
	if (good)
		a->verified = q;
	if (good && a->upload == q)
		a->upload = NULL;
	pthread_mutex_unlock(&g->challenger->lock);
	return good;
}

void challenged_verified(struct registry *g, const struct httpd_request *q, bool refused)
{
	const struct upload *u = q->state;
	struct challenged *a;

	pthread_mutex_lock(&g->challenger->lock);
	a = *challenged_place(g->challenger, u->node);
	if (a->verified == q)
		a->verified = NULL;
	a->refused += refused;
	pthread_mutex_unlock(&g->challenger->lock);
}
