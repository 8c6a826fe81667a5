/* registry_challenge.c - challenges of the registry: when each node is asked, and what is open.
 * How one is made is in registry_plan.c, joint ones in registry_joint.c, roots in
 * registry_roots.c, the bandwidth test in registry_bandwidth.c, answers and verdicts in
 * registry_verdict.c.
 *
 * An open challenge is also in the database until its verdict is: after a restart it is still
 * open, and its time has run on. Challenges that became due while no registry was running to
 * take the answer are dropped. A node is asked for all that its newest rnp.node claims
 * (poc_plan_node), at random moments, on average every config.challenge_every_ms, in the reply
 * to its heartbeat; the same challenge is repeated with each heartbeat until it is answered or
 * too late. */
#include "cmd/rnp-register/registry_challenge.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/registry_asked.h"
#include "cmd/rnp-register/registry_verdict.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/net/bandwidth_test.h"

void asked_close(struct registry_challenger *ch, struct asked *a)
{
	if (a->c && a->record)
		ch->open_bytes -= poc_plan_answer_bytes(a->c);
	free(a->c);
	json_decref(a->record);
	free(a->nonces);
	a->c = NULL;
	a->record = NULL;
	a->nonces = NULL;
	a->nnonces = 0;
	a->has_roots = false;
}

void registry_challenger_close(struct registry *g)
{
	struct registry_challenger *ch = g->challenger;

	if (!ch)
		return;
	for (int i = 0; i < ASKED_BUCKETS; i++)
		while (ch->buckets[i]) {
			struct asked *a = ch->buckets[i];

			ch->buckets[i] = a->next;
			asked_close(ch, a);
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

#define FAILED_FREE 3
#define FAILED_MAX  9

int64_t asked_due_ns(const struct registry *g, const struct asked *a)
{
	int failed = a->failed < FAILED_MAX ? a->failed : FAILED_MAX;
	uint64_t r, span = 2000000 * (uint64_t)g->config.challenge_every_ms + 1;

	span <<= failed > FAILED_FREE ? failed - FAILED_FREE : 0;
	randombytes_buf(&r, sizeof r);
	return clock_mono_ns() + (int64_t)(r % span);
}

bool asked_at_once(const struct asked *a)
{
	return a->failed < FAILED_FREE;
}

struct asked **asked_place(struct registry_challenger *ch, const char *node)
{
	uint32_t h = 2166136261u; /* FNV-1a */
	struct asked **at;

	for (const char *c = node; *c; c++)
		h = (h ^ (unsigned char)*c) * 16777619u;
	for (at = &ch->buckets[h % ASKED_BUCKETS]; *at; at = &(*at)->next)
		if (strcmp((*at)->node, node) == 0)
			break;
	return at;
}

struct asked *asked_get(struct registry *g, const char *node)
{
	struct registry_challenger *ch = g->challenger;
	struct asked **at = asked_place(ch, node);

	if (!*at && ch->nodes < ASKED_NODES_MAX) {
		ch->nodes++;
		*at = xcalloc(1, sizeof **at);
		snprintf((*at)->node, KEY_ADDRESS_MAX, "%s", node);
		(*at)->due_ns = asked_due_ns(g, *at);
	}
	return *at;
}

void asked_hex(char out[65], const struct poc_challenge *c)
{
	sodium_bin2hex(out, 65, c->sha256, sizeof c->sha256);
}

void asked_describe(const struct asked *a, json_t *reply)
{
	bool roots = a->c->roots_ms && !a->has_roots;
	int64_t passed_ms = (clock_mono_ns() - a->asked_ns) / 1000000;
	int64_t left_ms = (roots ? a->c->roots_ms : a->c->deadline_ms) - passed_ms;
	char hex[65];

	asked_hex(hex, a->c);
	json_set_text(reply, "challenge_sha256", hex);
	json_set_text(reply, "phase", roots ? "roots" : "openings");
	json_set_i64(reply, "due_in_ms", left_ms > 0 ? left_ms : 0);
}

struct asked *asked_find_open(struct registry_challenger *ch, const char *node,
	const char *id)
{
	struct asked *a = *asked_place(ch, node);
	char hex[2 * POC_HASH_BYTES + 1];

	if (!a || !a->c)
		return NULL;
	sodium_bin2hex(hex, sizeof hex, a->c->sha256, sizeof a->c->sha256);
	return strcmp(hex, id) == 0 ? a : NULL;
}

/* --- the hooks of the storage ----------------------------------------------------------------- */

/* Answers have megabytes and take a good part of a second of a core: if thousands of nodes join
 * within minutes they are asked one after the other, each with a later heartbeat of its own, so
 * that all answers can be handled and nobody is late because of us. */
#define ASKS_PER_S  2
#define ASKS_MAX    16
#define WAITING_MAX 4
/* Limit of open_bytes, so that there is memory for each answer that may come (serve.c). */
#define OPEN_BYTES_MAX ((int64_t)POC_ANSWER_BYTES_MAX * 3 / 2)

static bool may_ask(struct registry *g, const struct asked *a)
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
	struct asked *a;
	bool is_new;

	if (!ch)
		return NULL;
	pthread_mutex_lock(&ch->lock);
	a = asked_get(g, p->node);
	is_new = a && joint_note(g, a, p) && asked_at_once(a);
	if (a && !a->c && !a->joint_ns && (a->due_ns <= clock_mono_ns() || is_new) &&
		may_ask(g, a))
		ch->asks -= joint_ask(g, a);
	if (a && a->record) {
		extra = json_object();
		json_set(extra, "challenge", json_deep_copy(a->record));
		asked_describe(a, extra);
	} else if (a && a->joint_ns) {
		int64_t in_ns = a->joint_ns - clock_mono_ns();

		extra = json_object();
		json_set_i64(extra, "challenge_in_ms", in_ns > 0 ? in_ns / 1000000 : 0);
	}
	pthread_mutex_unlock(&ch->lock);
	return extra;
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
	struct asked *a = NULL;

	if (record && poc_challenge_read(c, record, "challenge") == 0 &&
		strcmp(c->signer, g->config.key->address) == 0) {
		passed_ms = clock_now_ms() - c->issued_ms;
		if (passed_ms >= 0 && passed_ms <= c->deadline_ms)
			a = asked_get(g, c->node);
	}
	if (a && !a->c) {
		/* its roots may have come before the registry stopped, and are then lost */
		c->roots_ms = 0;
		a->c = c;
		a->record = record;
		a->asked_ns = clock_mono_ns() - passed_ms * 1000000;
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
	for (int i = 0; i < ASKED_BUCKETS && rc == 0; i++)
		for (struct asked *a = g->challenger->buckets[i]; a && rc == 0;
			a = a->next) {
			struct buf text = BUF_INIT;
			char hex[65];

			asked_hex(hex, a->c);
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
		store_prepare(&g->db.store, &ch->twins, ASKED_TWINS_SQL) < 0)
		return -1;
	return reopen_all(g);
}

struct poc_challenge *registry_challenge_take(struct registry *g, const json_t *answer,
	struct httpd_reply *r, struct poc_conditions *j)
{
	const char *node = json_string_value(json_object_get(answer, "node"));
	unsigned char sha256[POC_HASH_BYTES];
	struct poc_challenge *c = NULL;
	struct asked *a;

	if (!node || !poc_get_hash(json_object_get(answer, "challenge_sha256"), sha256)) {
		httpd_error(r, 400, "body: names no challenge");
		return NULL;
	}
	pthread_mutex_lock(&g->challenger->lock);
	a = *asked_place(g->challenger, node);
	if (a && a->c && memcmp(a->c->sha256, sha256, sizeof sha256) == 0) {
		a->answered_ns = j->elapsed_ns;
		j->elapsed_ns -= a->asked_ns;
		j->has_roots = a->has_roots;
		j->roots_ns = a->roots_ns;
		memcpy(j->roots, a->roots, sizeof j->roots);
		c = a->c;
		a->c = NULL;
		asked_close(g->challenger, a);
	}
	pthread_mutex_unlock(&g->challenger->lock);
	if (!c)
		registry_challenge_none(r, node);
	return c;
}

enum httpd_when registry_challenge_none(struct httpd_reply *r, const char *node)
{
	return httpd_error(r, 409,
		"no such challenge to %s is open: it was answered, or its time was over",
		node);
}

void registry_challenge_verified(struct registry *g, const struct poc_challenge *c,
	bool passed, bool proven)
{
	struct asked *a;

	pthread_mutex_lock(&g->challenger->lock);
	g->challenger->open_bytes -= poc_plan_answer_bytes(c);
	a = *asked_place(g->challenger, c->node);
	if (a && proven)
		a->proven_ms = clock_now_ms();
	if (a && passed)
		a->failed = 0;
	else if (a && ++a->failed > FAILED_FREE)
		a->due_ns = asked_due_ns(g, a);
	pthread_mutex_unlock(&g->challenger->lock);
}

/* Returns why the node of an open challenge has failed by now, or NULL. now_ns: as
 * registry_verdicts_now_ns; a node that answered in time and waits for verification is not
 * late. */
static const char *why_failed(const struct asked *a, int64_t now_ns)
{
	int64_t now_ms = (now_ns - a->asked_ns) / 1000000;

	if (now_ms > a->c->deadline_ms)
		return "no answer came within the deadline";
	if (a->c->roots_ms && !a->has_roots && now_ms > a->c->roots_ms)
		return "no answer came: its roots were due before";
	return NULL;
}

void registry_challenges_tick(struct registry *g)
{
	struct registry_challenger *ch = g->challenger;
	int64_t now_ns = registry_verdicts_now_ns(g), mono_ns = clock_mono_ns();
	bool joint = false;

	for (int i = 0; i < ASKED_BUCKETS; i++) {
		pthread_mutex_lock(&ch->lock);
		for (struct asked *a = ch->buckets[i]; a; a = a->next) {
			const char *why = a->c ? why_failed(a, now_ns) : NULL;

			joint = joint || (a->joint_ns && a->joint_ns <= mono_ns);
			if (!why)
				continue;
			registry_fail_unanswered(g, a->c, now_ns - a->asked_ns, why);
			a->failed++;
			a->due_ns = asked_due_ns(g, a);
			asked_close(ch, a);
		}
		pthread_mutex_unlock(&ch->lock);
	}
	if (joint)
		joint_open_soon(g);
}
