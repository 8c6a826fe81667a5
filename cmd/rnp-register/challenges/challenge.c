/* challenge.c - challenges of the registry: when each node is challenged, and what is open.
 * The table of nodes is in table.c, how a challenge is made in plan.c, joint ones in joint.c,
 * roots in roots.c, the bandwidth test in bandwidth.c, answers and verdicts in verdict.c.
 *
 * An open challenge is also in the database until its verdict is: after a restart it is still
 * open, and its time has run on. Challenges that became due while no registry was running to
 * take the answer are dropped. A node is challenged for all that its newest rnp.node claims
 * (poc_plan_node), at random moments, on average every config.challenge_every_ms, in the reply
 * to its heartbeat; the same challenge is repeated with each heartbeat until it is answered or
 * too late. */
#include "cmd/rnp-register/challenges/challenge.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/challenges/table.h"
#include "cmd/rnp-register/challenges/verdict.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/registry/bandwidth_test.h"

void registry_challenger_close(struct registry *g)
{
	struct registry_challenger *ch = g->challenger;

	if (!ch)
		return;
	for (int i = 0; i < CHALLENGED_BUCKETS; i++)
		while (ch->buckets[i]) {
			struct challenged *a = ch->buckets[i];

			ch->buckets[i] = a->next;
			challenged_close(ch, a);
			free(a);
		}
	sqlite3_finalize(ch->insert);
	sqlite3_finalize(ch->remove);
	sqlite3_finalize(ch->claims);
	sqlite3_finalize(ch->facts);
	sqlite3_finalize(ch->twins);
	pthread_mutex_destroy(&ch->lock);
	bandwidth_tests_free(ch->exchanges);
	free(ch);
	g->challenger = NULL;
}

/* --- the hooks of the storage ----------------------------------------------------------------- */

/* Answers have megabytes and take a good part of a second of a core: if thousands of nodes join
 * within minutes they are challenged one after the other, each with a later heartbeat of its own,
 * so that all answers can be handled and nobody is late because of us. */
#define ASKS_PER_S  2
#define ASKS_MAX    16
#define WAITING_MAX 4
/* Limit of open_bytes, so that there is memory for each answer that may come (serve.c). */
#define OPEN_BYTES_MAX ((int64_t)POC_ANSWER_BYTES_MAX * 3 / 2)

static bool may_ask(struct registry *g, const struct challenged *a)
{
	struct registry_challenger *ch = g->challenger;
	int64_t now_ns = clock_mono_ns();

	ch->asks += ASKS_PER_S * (double)(now_ns - ch->asks_ns) / 1e9;
	ch->asks_ns = now_ns;
	if (ch->asks > ASKS_MAX)
		ch->asks = ASKS_MAX;
	return ch->asks >= 1 && registry_verdicts_waiting(g) < WAITING_MAX &&
		(!ch->open_bytes || ch->open_bytes + a->answer_bytes <= OPEN_BYTES_MAX);
}

json_t *registry_challenge_for(void *ctx, const struct registry_put *p)
{
	struct registry *g = ctx;
	struct registry_challenger *ch = g->challenger;
	json_t *extra = NULL;
	struct challenged *a;
	bool is_new;

	if (!ch)
		return NULL;
	pthread_mutex_lock(&ch->lock);
	a = challenged_get(g, p->node);
	is_new = a && joint_note(g, a, p) && challenged_at_once(a);
	if (a && !a->c && !a->joint_ns && (a->due_ns <= clock_mono_ns() || is_new) &&
		!challenged_is_spared(g, a) && may_ask(g, a))
		ch->asks -= joint_ask(g, a);
	if (a && a->record) {
		extra = json_object();
		json_set(extra, "challenge", json_deep_copy(a->record));
		challenged_describe(a, extra);
	} else if (a && a->joint_ns) {
		int64_t in_ns = a->joint_ns - clock_mono_ns();

		extra = json_object();
		json_set_i64(extra, "challenge_in_ms", in_ns > 0 ? in_ns / 1000000 : 0);
	}
	pthread_mutex_unlock(&ch->lock);
	return extra;
}

void registry_challenge_within(struct registry *g, const char *node, int64_t ms)
{
	struct challenged *a;
	int64_t due_ns;
	uint64_t r;

	if (!g->challenger)
		return;
	randombytes_buf(&r, sizeof r);
	due_ns = clock_mono_ns() + (int64_t)(r % ((uint64_t)ms * 1000000 + 1));
	pthread_mutex_lock(&g->challenger->lock);
	a = challenged_get(g, node);
	if (a && a->due_ns > due_ns)
		a->due_ns = due_ns;
	pthread_mutex_unlock(&g->challenger->lock);
}

int registry_challenge_closed(void *ctx, const char *sha256)
{
	struct registry *g = ctx;

	return store_run(&g->db.store, g->challenger->remove, "t", sha256);
}

/* Restores a challenge that was open when the registry stopped. */
static void reopen(struct registry *g, const char *text)
{
	struct poc_challenge *c = xcalloc(1, sizeof *c);
	json_t *record = json_parse_object(text, strlen(text), "challenge");
	int64_t passed_ms = 0;
	struct challenged *a = NULL;

	if (record && poc_challenge_read(c, record, "challenge") == 0 &&
		strcmp(c->signer, g->config.key->address) == 0) {
		passed_ms = clock_now_ms() - c->issued_ms;
		if (passed_ms >= 0 && passed_ms <= c->deadline_ms)
			a = challenged_get(g, c->node);
	}
	if (a && !a->c) {
		/* its roots may have come before the registry stopped, and are then lost */
		c->roots_ms = 0;
		a->c = c;
		a->record = record;
		a->delivered_ns = clock_mono_ns() - passed_ms * 1000000;
		g->challenger->open_bytes += poc_plan_answer_bytes(c);
		return;
	}
	err_clear();
	json_decref(record);
	free(c);
}

/* Only open challenges stay in the table. */
static int reopen_all(struct registry *g)
{
	sqlite3_stmt *all = NULL;
	int rc;

	if (store_prepare(&g->db.store, &all, "SELECT body FROM challenges") < 0)
		return -1;
	while ((rc = store_step(&g->db.store, all)) > 0)
		reopen(g, store_text(all, 0));
	sqlite3_finalize(all);
	if (rc < 0 || store_begin(&g->db.store) < 0)
		return -1;
	rc = store_exec(&g->db.store, "DELETE FROM challenges");
	for (int i = 0; i < CHALLENGED_BUCKETS && rc == 0; i++)
		for (struct challenged *a = g->challenger->buckets[i]; a && rc == 0;
			a = a->next) {
			struct buf text = BUF_INIT;
			char hex[65];

			challenged_hex(hex, a->c);
			json_write(&text, a->record);
			rc = store_run(&g->db.store, g->challenger->insert, "tt", hex,
				buf_text(&text));
			buf_release(&text);
		}
	if (rc < 0) {
		store_rollback(&g->db.store);
		return -1;
	}
	return store_commit(&g->db.store);
}

int registry_challenger_open(struct registry *g)
{
	struct registry_challenger *ch;

	if (!g->config.challenge_every_ms)
		return 0;
	ch = g->challenger = xcalloc(1, sizeof *ch);
	pthread_mutex_init(&ch->lock, NULL);
	ch->exchanges = bandwidth_tests_new();
	if (store_prepare(&g->db.store, &ch->insert,
		    "INSERT OR REPLACE INTO challenges (sha256, body) VALUES (?, ?)") <
			0 ||
		store_prepare(&g->db.store, &ch->remove,
			"DELETE FROM challenges WHERE sha256 = ?") < 0 ||
		store_prepare(&g->db.store, &ch->claims,
			"SELECT body FROM records WHERE id = "
			"(SELECT record FROM nodes WHERE address = ?)") < 0 ||
		store_prepare(&g->db.store, &ch->facts,
			"SELECT n.sha256, n.proven_ms, CASE json_valid(r.body) "
			"WHEN 1 THEN json_extract(r.body, '$.wallet') END, n.gpus FROM nodes n "
			"JOIN records r ON r.id = n.record WHERE n.address = ?") < 0 ||
		store_prepare(&g->db.store, &ch->twins, CHALLENGED_TWINS_SQL) < 0)
		return -1;
	return reopen_all(g);
}

/* A node that is late may say why: its words tell its operator more than ours. */
#define GRACE_MS 3000

/* Sets why the node of an open challenge has failed by now. now_ns: as registry_verdicts_now_ns; a
 * node that answered in time and waits for verification is not late. Returns false if it has
 * not. */
static bool has_failed(const struct challenged *a, int64_t now_ns,
	char why[POC_REASON_MAX])
{
	int64_t late_ms = (now_ns - a->delivered_ns) / 1000000 - GRACE_MS;

	if (late_ms > a->c->deadline_ms)
		snprintf(why, POC_REASON_MAX,
			"no answer came within the %.3g s that it had",
			(double)a->c->deadline_ms / 1e3);
	else if (a->c->roots_ms && !a->has_roots && late_ms > a->c->roots_ms)
		snprintf(why, POC_REASON_MAX,
			"no answer came: its work had %.3g s, and no roots came by then",
			(double)a->c->roots_ms / 1e3);
	else
		return false;
	return true;
}

/* With the lock: the open challenge of a ends in a verdict that is not passed. */
static void fail(struct registry *g, struct challenged *a, int64_t now_ns,
	const char *why)
{
	registry_fail_unanswered(g, a->c, now_ns - a->delivered_ns, why);
	a->failed++;
	a->due_ns = challenged_due_ns(g, a);
	challenged_close(g->challenger, a);
}

/* The node's own words become the verdict's. */
static bool take_unanswered(struct registry *g, const char *node,
	const unsigned char sha256[POC_HASH_BYTES], const char *reason)
{
	char why[POC_UNANSWERED_MAX + 32];
	struct challenged *a;
	bool open;

	snprintf(why, sizeof why, "the node says: %s", reason);
	pthread_mutex_lock(&g->challenger->lock);
	a = *challenged_place(g->challenger, node);
	open = a && a->c && !a->verified &&
		memcmp(a->c->sha256, sha256, POC_HASH_BYTES) == 0;
	if (open)
		fail(g, a, clock_mono_ns(), why);
	pthread_mutex_unlock(&g->challenger->lock);
	return open;
}

enum httpd_when registry_post_unanswered(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	unsigned char sha256[POC_HASH_BYTES];
	json_t *record = json_parse_object(buf_text(&q->body), q->body.len, "body"), *ack;
	const char *node = json_string_value(json_object_get(record, "node"));
	const char *reason = record ? poc_unanswered_read(record, "body", sha256) : NULL;

	if (!g->challenger) {
		httpd_error(r, 404, "this registry issues no challenges");
	} else if (!reason) {
		httpd_error(r, err_get()->code == EX_NOPERM ? 401 : 400, "%s",
			err_get()->text);
	} else if (!take_unanswered(g, node, sha256, reason)) {
		registry_challenge_none(r, node);
	} else {
		ack = json_record("rnp.stored");
		json_set_text(ack, "of", "rnp.unanswered");
		json_set_text(ack, "node", node);
		json_set_time(ack, "at", clock_now_ms());
		json_set_bool(ack, "new", true);
		json_write(&r->body, ack);
		buf_addc(&r->body, '\n');
		json_decref(ack);
	}
	err_clear();
	if (r->status >= 300)
		g->refused++;
	json_decref(record);
	return HTTPD_NOW;
}

void registry_challenges_tick(struct registry *g)
{
	struct registry_challenger *ch = g->challenger;
	int64_t now_ns = registry_verdicts_now_ns(g), mono_ns = clock_mono_ns();
	bool joint = false;

	for (int i = 0; i < CHALLENGED_BUCKETS; i++) {
		pthread_mutex_lock(&ch->lock);
		for (struct challenged *a = ch->buckets[i]; a; a = a->next) {
			char why[POC_REASON_MAX];

			joint = joint || (a->joint_ns && a->joint_ns <= mono_ns);
			if (a->c && has_failed(a, now_ns, why))
				fail(g, a, now_ns, why);
		}
		pthread_mutex_unlock(&ch->lock);
	}
	if (joint)
		joint_open_soon(g);
}
