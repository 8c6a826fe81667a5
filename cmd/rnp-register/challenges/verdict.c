/* verdict.c - verifies answers in a thread of its own, because one answer takes up to
 * seconds of a core and each thread of the HTTP server has many connections. Whether an answer
 * is late depends on when its body had arrived, however long it waits here. */
#include "cmd/rnp-register/challenges/verdict.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/storage/ack.h"
#include "cmd/rnp-register/challenges/table.h"
#include "cmd/rnp-register/challenges/challenge.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/registry/bandwidth_test.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/poc/poc.h"
#include "common/record/signature.h"
#include "common/json/schema.h"

/* Answers that may wait, including the one being verified: about twice as many as the HTTP
 * server has memory for at full size, because a flood of small ones must not make the wait
 * longer. */
#define WAITING_MAX   32
#define RETRY_AFTER_S 2

struct waiting {
	struct waiting *next;
	struct httpd_request *q;
	struct httpd_reply *r;
	int64_t arrived_ns, arrived_ms; /* on the monotonic clock, and the time of day */
	int64_t roundtrip_ns;
};

struct registry_verdicts {
	struct registry *g;
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t wake;
	struct waiting *first, **last; /* in order of arrival; first: being verified */
	int n;
	bool stopping;
};

/* --- verdicts that are stored ------------------------------------------------------------- */

#define UNSTORED_MS 10000

/* Whether a node with one of our devices was not challenged at the instant of our challenge and can
 * be paid for the device: it has proven it. One that only claims it is challenged together with us
 * when it is to prove it. joint: of our challenge, or NULL. */
static bool was_elsewhere(struct registry *g, const char *twin, int64_t proven_ms,
	const unsigned char *joint)
{
	int64_t now_ms = clock_now_ms();
	struct challenged *t;
	bool challenged;

	pthread_mutex_lock(&g->challenger->lock);
	t = *challenged_place(g->challenger, twin);
	challenged = joint && t &&
		(memcmp(t->joint, joint, sizeof t->joint) == 0 ||
			memcmp(t->joint_before, joint, sizeof t->joint) == 0);
	/* by a verdict that may not be stored yet, about whatever device */
	if (t && t->proven_ms > now_ms - UNSTORED_MS)
		proven_ms = t->proven_ms;
	pthread_mutex_unlock(&g->challenger->lock);
	return !challenged && proven_ms > now_ms - CHALLENGED_PAID_MS;
}

/* Whether another node may have used one of this one's devices at another time. If that cannot
 * be read, it may have. */
static bool is_disputed(struct registry *g, const char *node, const unsigned char *joint)
{
	struct store *s = registry_db_reader(&g->db);
	sqlite3_stmt *q = NULL;
	bool disputed = false;
	int rc = store_prepare(s, &q, CHALLENGED_TWINS_SQL);

	if (rc == 0)
		store_bind(q, "t", node);
	while (rc >= 0 && !disputed && (rc = store_step(s, q)) == 1)
		disputed = was_elsewhere(g, store_text(q, 0), sqlite3_column_int64(q, 1),
			joint);
	if (rc < 0)
		err_clear();
	sqlite3_finalize(q);
	registry_db_reader_done(&g->db, s);
	return rc < 0 || disputed;
}

/* A device that several nodes claim is proven only by a joint challenge of all of them: any
 * other one could have been challenged while this one was not. */
static void set_disputed(struct registry *g, json_t *verdict)
{
	json_t *unknown = json_object_get(verdict, "unknown");
	unsigned char joint[POC_HASH_BYTES];
	bool is_joint = poc_get_hash(json_object_get(verdict, "joint"), joint);

	if (!json_object_get(verdict, "proven") ||
		!is_disputed(g, json_string_value(json_object_get(verdict, "node")),
			is_joint ? joint : NULL))
		return;
	json_object_del(verdict, "proven");
	if (!unknown) {
		unknown = json_object();
		json_set(verdict, "unknown", unknown);
	}
	json_set_text(unknown, "proven",
		"another node claims one of these devices: a joint challenge decides");
}

/* Signs a verdict (takes it) and stores it as the body of q, which is answered then. */
static void store_verdict(struct registry *g, json_t *verdict, struct httpd_request *q,
	struct httpd_reply *r)
{
	const char *node_record = json_string_value(
		json_object_get(verdict, "node_record"));
	struct registry_put *p = xcalloc(1, sizeof *p);
	unsigned char sha256[CANON_HASH_BYTES];

	p->what = PUT_RECORD;
	p->received_ms = clock_now_ms();
	p->at_ms = p->received_ms;
	p->by_trusted = true;
	strcpy(p->kind, "rnp.verdict");
	if (json_object_get(verdict, "proven") && node_record)
		snprintf(p->proves, sizeof p->proves, "%s", node_record);
	snprintf(p->closes, sizeof p->closes, "%s",
		json_string_value(json_object_get(verdict, "challenge_sha256")));
	snprintf(p->node, sizeof p->node, "%s",
		json_string_value(json_object_get(verdict, "node")));
	memcpy(p->signer, g->config.key->address, sizeof p->signer);
	if (canon_hash_record(sha256, verdict) < 0 ||
		signature_add(verdict, g->config.key, p->at_ms / 1000 * 1000) < 0) {
		prog_error("verdict on %s: %s", p->node, err_get()->text);
		err_clear();
		httpd_error(r, 503, "the verdict cannot be written");
		httpd_finish(q);
		json_decref(verdict);
		free(p);
		return;
	}
	sodium_bin2hex(p->sha256, sizeof p->sha256, sha256, sizeof sha256);
	buf_reset(&q->body);
	json_write(&q->body, verdict);
	p->text = buf_text(&q->body);
	/* one thread has it: jansson counts references of two without a lock */
	if (p->proves[0])
		p->record = verdict;
	else
		json_decref(verdict);
	registry_store(g, p, q, r);
}

/* A request that nobody waits for. */
struct unattended {
	struct httpd_request q; /* first, because httpd_finish gets its address */
	struct httpd_reply r;
};

static void unattended_free(struct httpd_request *q)
{
	struct unattended *u = (struct unattended *)q;

	buf_release(&u->q.body);
	buf_release(&u->r.body);
	free(u);
}

void registry_fail_unanswered(struct registry *g, const struct poc_challenge *c,
	int64_t elapsed_ns, const char *reason)
{
	struct poc_conditions j = { .received_ms = clock_now_ms(),
		.elapsed_ns = elapsed_ns };
	struct unattended *u = xcalloc(1, sizeof *u);
	json_t *verdict = poc_verify_nothing(c, &j, reason);

	u->r.status = 200;
	u->q.finish = unattended_free;
	store_verdict(g, verdict, &u->q, &u->r);
}

/* --- answers that wait -------------------------------------------------------------------- */

static json_t *verify(struct registry *g, const struct poc_challenge *c,
	const json_t *answer, struct poc_conditions *j)
{
	json_t *verdict;
	bool passed;

	j->no_bandwidth = "the node exchanged no bytes with the registry";
	j->policy = g->config.policy;
	j->bandwidth_bps = registry_challenge_bandwidth(g, c);
	verdict = poc_verify(c, answer, j, &passed);
	set_disputed(g, verdict);
	registry_challenge_verified(g, c, passed,
		json_object_get(verdict, "proven") != NULL);
	return verdict;
}

/* Handles one answer: ends with a reply, at once or when the verdict is stored. */
static void take_one(struct registry *g, const struct waiting *w)
{
	struct poc_conditions j = { .received_ms = w->arrived_ms,
		.elapsed_ns = w->arrived_ns,
		.roundtrip_ns = w->roundtrip_ns };
	struct httpd_request *q = w->q;
	struct poc_challenge *c = NULL;
	struct signature_result signature;
	json_t *verdict;
	json_t *answer = poc_answer_parse(buf_text(&q->body), q->body.len, "body");

	if (!answer || schema_check(answer, "body", "rnp.answer") < 0)
		httpd_error(w->r, 400, "%s", err_get()->text);
	else if (signature_verify(answer, &signature), !signature.ok)
		httpd_error(w->r, 401, "%s", signature.reason);
	else
		c = registry_challenge_take(g, answer, w->r, &j);
	err_clear();
	j.signature = &signature;
	challenged_verified(g, q, !c);
	if (c) {
		verdict = verify(g, c, answer, &j);
		store_verdict(g, verdict, q, w->r);
	} else {
		g->refused++;
		httpd_finish(q);
	}
	free(c);
	json_decref(answer);
}

static void *verify_all(void *arg)
{
	struct registry_verdicts *j = arg;

	pthread_mutex_lock(&j->lock);
	for (;;) {
		struct waiting *w;

		while (!j->first && !j->stopping)
			pthread_cond_wait(&j->wake, &j->lock);
		w = j->first;
		if (!w)
			break;
		pthread_mutex_unlock(&j->lock);
		take_one(j->g, w);
		pthread_mutex_lock(&j->lock);
		/* only now: until its challenge is closed, its time counts
		 * (registry_verdicts_now_ns) */
		j->first = w->next;
		if (!j->first)
			j->last = &j->first;
		j->n--;
		free(w);
	}
	pthread_mutex_unlock(&j->lock);
	return NULL;
}

int64_t registry_verdicts_now_ns(struct registry *g)
{
	struct registry_verdicts *j = g->verdicts;
	int64_t now_ns;

	pthread_mutex_lock(&j->lock);
	now_ns = j->first ? j->first->arrived_ns : clock_mono_ns();
	pthread_mutex_unlock(&j->lock);
	return now_ns;
}

int registry_verdicts_waiting(struct registry *g)
{
	struct registry_verdicts *j = g->verdicts;
	int n;

	pthread_mutex_lock(&j->lock);
	n = j->n;
	pthread_mutex_unlock(&j->lock);
	return n;
}

enum httpd_when registry_post_answer(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	struct registry_verdicts *j = g->verdicts;
	struct waiting *w;
	bool full;

	if (!j) {
		g->refused++;
		return httpd_error(r, 404, "this registry issues no challenges");
	}
	if (!challenged_arrived(g, q)) {
		g->refused++;
		r->retry_after_s = RETRY_AFTER_S;
		return httpd_error(r, 429, "an answer to this challenge waits already");
	}
	w = xcalloc(1, sizeof *w);
	w->q = q;
	w->r = r;
	w->roundtrip_ns = httpd_roundtrip_ns(q);
	pthread_mutex_lock(&j->lock);
	full = j->n == WAITING_MAX;
	if (!full) {
		w->arrived_ns = clock_mono_ns();
		w->arrived_ms = clock_now_ms();
		*j->last = w;
		j->last = &w->next;
		j->n++;
		pthread_cond_signal(&j->wake);
	}
	pthread_mutex_unlock(&j->lock);
	if (!full)
		return HTTPD_LATER;
	free(w);
	challenged_verified(g, q, false);
	g->refused++;
	r->retry_after_s = RETRY_AFTER_S;
	return httpd_error(r, 503, "%d answers wait to be verified already", WAITING_MAX);
}

int registry_verdicts_open(struct registry *g)
{
	struct registry_verdicts *j = xcalloc(1, sizeof *j);

	j->g = g;
	j->last = &j->first;
	pthread_mutex_init(&j->lock, NULL);
	pthread_cond_init(&j->wake, NULL);
	if (pthread_create(&j->thread, NULL, verify_all, j) == 0) {
		g->verdicts = j;
		return 0;
	}
	pthread_mutex_destroy(&j->lock);
	pthread_cond_destroy(&j->wake);
	free(j);
	return err_set(EX_OSERR, "cannot start a thread");
}

void registry_verdicts_close(struct registry *g)
{
	struct registry_verdicts *j = g->verdicts;

	if (!j)
		return;
	pthread_mutex_lock(&j->lock);
	j->stopping = true;
	pthread_cond_signal(&j->wake);
	pthread_mutex_unlock(&j->lock);
	pthread_join(j->thread, NULL);
	pthread_mutex_destroy(&j->lock);
	pthread_cond_destroy(&j->wake);
	free(j);
	g->verdicts = NULL;
}
