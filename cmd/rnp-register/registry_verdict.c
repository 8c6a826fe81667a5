/* The verification of answers: a thread of its own, because one answer takes up to seconds of a
 * core and each thread of the HTTP server has many connections. An answer is late or not by
 * when its body had arrived, however long it waits here. */
#include "cmd/rnp-register/registry_verdict.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/registry_challenge.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/net/bandwidth_test.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/poc/poc.h"
#include "common/record/signature.h"
#include "common/json/schema.h"

/* Answers that wait, the one that is verified included. They are those of full size that the
 * HTTP server has memory for, about twice: a flood of small ones must not make the wait longer. */
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
	struct waiting *first, **last; /* in order of arrival; first: in hand */
	int n;
	bool stopping;
};

static json_t *verify(struct registry *g, const struct poc_challenge *c,
	const json_t *answer, struct poc_conditions *j)
{
	bool passed;

	j->no_bandwidth = "the node exchanged no bytes with the registry";
	j->policy = g->config.policy;
	j->bandwidth_bps = registry_challenge_bandwidth(g, c);
	return poc_verify(c, answer, j, &passed);
}

/* The whole of one answer: it ends with a reply, at once or when the verdict is stored. */
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
	if (c) {
		verdict = verify(g, c, answer, &j);
		registry_store_verdict(g, verdict, q, w->r);
		json_decref(verdict);
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
