/* Challenges of the registry: when each node is asked, what is open, and the judging of answers.
 *
 * What is open lives in memory: a registry that starts anew asks anew. A node is asked at random
 * moments, on average every config.challenge_every_ms, with the answer to its heartbeat; the same
 * challenge is repeated with each heartbeat until it is answered or too late. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/registry.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/json.h"
#include "common/mem.h"
#include "common/poc.h"
#include "common/proof.h"
#include "common/schema.h"

#define BUCKETS   16384
#define NODES_MAX 1000000

/* A node that sent a heartbeat. */
struct asked {
	struct asked *next;
	char node[KEY_ADDRESS_MAX];
	int64_t due_ns;          /* when the next challenge is, on the monotonic clock */
	int64_t asked_ns;        /* when the open one was first handed out */
	struct poc_challenge *c; /* the open one, or NULL */
	json_t *record;
};

struct registry_challenger {
	pthread_mutex_t lock;
	pthread_mutex_t
		judging; /* one at a time: an answer takes up to seconds of a core */
	struct asked *buckets[BUCKETS];
	int64_t nodes;
};

int registry_challenger_open(struct registry *g)
{
	if (!g->config.challenge_every_ms)
		return 0;
	g->challenger = xcalloc(1, sizeof *g->challenger);
	pthread_mutex_init(&g->challenger->lock, NULL);
	pthread_mutex_init(&g->challenger->judging, NULL);
	return 0;
}

static void close_challenge(struct asked *a)
{
	free(a->c);
	json_decref(a->record);
	a->c = NULL;
	a->record = NULL;
}

void registry_challenger_close(struct registry *g)
{
	struct registry_challenger *ch = g->challenger;

	if (!ch)
		return;
	for (int i = 0; i < BUCKETS; i++)
		while (ch->buckets[i]) {
			struct asked *a = ch->buckets[i];

			ch->buckets[i] = a->next;
			close_challenge(a);
			free(a);
		}
	pthread_mutex_destroy(&ch->lock);
	pthread_mutex_destroy(&ch->judging);
	free(ch);
	g->challenger = NULL;
}

/* Nobody can tell when: evenly between now and twice the mean. */
static int64_t random_due_ns(const struct registry *g)
{
	uint64_t r, span = 2000000 * (uint64_t)g->config.challenge_every_ms + 1;

	randombytes_buf(&r, sizeof r);
	return clock_mono_ns() + (int64_t)(r % span);
}

static struct asked **place_of(struct registry_challenger *ch, const char *node)
{
	uint32_t h = 2166136261u; /* FNV-1a */
	struct asked **at;

	for (const char *c = node; *c; c++)
		h = (h ^ (unsigned char)*c) * 16777619u;
	for (at = &ch->buckets[h % BUCKETS]; *at; at = &(*at)->next)
		if (strcmp((*at)->node, node) == 0)
			break;
	return at;
}

static void open_challenge(struct registry *g, struct asked *a)
{
	const struct poc_work work = { .quick = true };
	struct poc_challenge *c = xcalloc(1, sizeof *c);

	memcpy(c->node, a->node, sizeof c->node);
	memcpy(c->signer, g->config.key->address, sizeof c->signer);
	if (key_parse_address(a->node, "node", c->node_key) < 0)
		bug("heartbeat of %s", a->node);
	randombytes_buf(c->nonce, sizeof c->nonce);
	c->issued_ms = clock_now_ms();
	c->ndevices = 1;
	poc_plan_device(&c->devices[0], c, "cpu", &work);
	c->deadline_ms = poc_plan_deadline_ms(c);
	a->c = c;
	a->asked_ns = clock_mono_ns();
	a->record = poc_challenge_write(c);
	if (!a->record ||
		proof_sign(a->record, g->config.key, c->issued_ms / 1000 * 1000) < 0)
		bug("challenge: %s", err_get()->text);
}

json_t *registry_challenge_for(struct registry *g, const char *node)
{
	struct registry_challenger *ch = g->challenger;
	json_t *record = NULL;
	struct asked **at, *a;

	if (!ch)
		return NULL;
	pthread_mutex_lock(&ch->lock);
	at = place_of(ch, node);
	if (!*at && ch->nodes < NODES_MAX) {
		ch->nodes++;
		*at = xcalloc(1, sizeof **at);
		snprintf((*at)->node, KEY_ADDRESS_MAX, "%s", node);
		(*at)->due_ns = random_due_ns(g);
	}
	a = *at;
	if (a && !a->c && a->due_ns <= clock_mono_ns()) {
		open_challenge(g, a);
		a->due_ns = random_due_ns(g);
	}
	if (a)
		record = json_deep_copy(a->record); /* NULL stays NULL */
	pthread_mutex_unlock(&ch->lock);
	return record;
}

/* --- verdicts ----------------------------------------------------------------------------- */

/* Sign a verdict and make it the body of q, ready for the writer. */
static struct registry_put *put_of(struct registry *g, json_t *verdict,
	struct httpd_request *q, struct httpd_reply *r)
{
	struct registry_put *p = xcalloc(1, sizeof *p);

	p->what = PUT_RECORD;
	p->q = q;
	p->r = r;
	p->received_ms = clock_now_ms();
	p->at_ms = p->received_ms;
	strcpy(p->kind, "rnp.verdict");
	strncpy(p->node, json_string_value(json_object_get(verdict, "node")),
		sizeof p->node - 1);
	memcpy(p->signer, g->config.key->address, sizeof p->signer);
	registry_hash_content(verdict, p->sha256);
	if (proof_sign(verdict, g->config.key, p->at_ms / 1000 * 1000) < 0)
		bug("verdict: %s", err_get()->text);
	buf_reset(&q->body);
	json_write(&q->body, verdict);
	return p;
}

static json_t *judge(struct registry *g, const struct poc_challenge *c,
	const json_t *answer, int64_t elapsed_ns)
{
	struct poc_judging j = { .received_ms = clock_now_ms(),
		.elapsed_ns = elapsed_ns,
		.no_bandwidth = "the registry does not measure it",
		.policy = g->config.policy };
	bool passed;
	json_t *verdict;

	pthread_mutex_lock(&g->challenger->judging);
	verdict = poc_judge(c, answer, &j, &passed);
	pthread_mutex_unlock(&g->challenger->judging);
	return verdict;
}

/* Take the open challenge that this answer is to. Returns NULL with the reply filled. The answer
 * has to be the node's own, so that nobody else can use up its challenge. */
static struct poc_challenge *take(struct registry *g, const json_t *answer,
	struct httpd_reply *r, int64_t *elapsed_ns)
{
	const char *node = json_string_value(json_object_get(answer, "node"));
	unsigned char sha256[POC_HASH_BYTES];
	struct poc_challenge *c = NULL;
	struct asked *a;

	if (!poc_get_hash(json_object_get(answer, "challenge_sha256"), sha256))
		bug("challenge_sha256 passed the schema");
	pthread_mutex_lock(&g->challenger->lock);
	a = *place_of(g->challenger, node);
	if (a && a->c && memcmp(a->c->sha256, sha256, sizeof sha256) == 0) {
		*elapsed_ns = clock_mono_ns() - a->asked_ns;
		c = a->c;
		a->c = NULL;
		close_challenge(a);
	}
	pthread_mutex_unlock(&g->challenger->lock);
	if (!c)
		httpd_error(r, 409, "no such challenge to %s is open", node);
	return c;
}

enum httpd_when registry_post_answer(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct registry *g = ctx;
	json_t *answer = json_parse_object(buf_text(&q->body), q->body.len, "body"),
	       *verdict;
	struct registry_put *p = NULL;
	struct poc_challenge *c = NULL;
	struct proof_result proof;
	int64_t elapsed_ns = 0;

	if (!g->challenger)
		httpd_error(r, 404, "this registry issues no challenges");
	else if (!answer || schema_check(answer, "body", "rnp.answer") < 0)
		httpd_error(r, 400, "%s", err_get()->text);
	else if (proof_verify(answer, &proof), !proof.ok)
		httpd_error(r, 401, "%s", proof.reason);
	else
		c = take(g, answer, r, &elapsed_ns);
	if (c) {
		verdict = judge(g, c, answer, elapsed_ns);
		p = put_of(g, verdict, q, r);
		json_decref(verdict);
	} else {
		g->refused++;
	}
	free(c);
	json_decref(answer);
	if (!p)
		return HTTPD_NOW;
	registry_put(g, p);
	return HTTPD_LATER;
}

/* A request that nobody waits for. */
struct unasked {
	struct httpd_request q; /* first: httpd_finish gets its address */
	struct httpd_reply r;
};

static void unasked_free(struct httpd_request *q)
{
	struct unasked *u = (struct unasked *)q;

	buf_release(&u->q.body);
	buf_release(&u->r.body);
	free(u);
}

/* Who did not answer in time has failed. */
static void fail_unanswered(struct registry *g, const struct poc_challenge *c,
	int64_t elapsed_ns)
{
	struct poc_judging j = { .received_ms = clock_now_ms(),
		.elapsed_ns = elapsed_ns };
	json_t *nothing = json_object(), *check = json_object(), *checks = json_array();
	struct unasked *u = xcalloc(1, sizeof *u);
	bool passed;
	json_t *verdict = poc_judge(c, nothing, &j, &passed);

	json_set_text(check, "check", "answer");
	json_set_bool(check, "passed", false);
	json_set_text(check, "reason", "no answer came within the deadline");
	json_push(checks, check);
	json_set(verdict, "checks", checks);
	u->r.status = 200;
	u->q.finish = unasked_free;
	registry_put(g, put_of(g, verdict, &u->q, &u->r));
	json_decref(verdict);
	json_decref(nothing);
}

void registry_challenges_tick(void *ctx)
{
	struct registry *g = ctx;
	struct registry_challenger *ch = g->challenger;
	int64_t now_ns = clock_mono_ns();

	for (int i = 0; ch && i < BUCKETS; i++) {
		pthread_mutex_lock(&ch->lock);
		for (struct asked *a = ch->buckets[i]; a; a = a->next) {
			int64_t elapsed_ns = now_ns - a->asked_ns;

			if (!a->c || elapsed_ns / 1000000 <= a->c->deadline_ms)
				continue;
			fail_unanswered(g, a->c, elapsed_ns);
			close_challenge(a);
		}
		pthread_mutex_unlock(&ch->lock);
	}
}
