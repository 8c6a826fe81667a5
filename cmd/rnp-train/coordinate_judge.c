/* coordinate_judge.c - some deltas of a closed round are judged by what they do to the loss, on the
 * text that the member was given and on text that nobody was. What is decided is judge.h's. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/container.h"
#include "cmd/rnp-train/coordinate.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/train/flat.h"
#include "common/lm/train/judge.h"

#define WINDOWS 16 /* of each text, for a delta */

struct judging {
	struct coordinator *g;
	struct flatfile pub, delta;
	uint64_t fresh; /* the first sequence that nobody was given */
};

static int read_train(void *arg, uint64_t n, uint32_t *ids)
{
	struct coordinator *g = arg;

	return lm_shards_get(&g->data, shuffle_at(&g->shuffle, n),
		(uint64_t)g->run.length + 1, ids);
}

static uint64_t draw(uint64_t below)
{
	uint64_t v;

	randombytes_buf(&v, sizeof v);
	return below ? v % below : 0;
}

static int decode(struct judging *j, const struct counted *c)
{
	struct coordinator *g = j->g;
	struct container in = CONTAINER_INIT;
	char *path = coordinate_path(g, "delta-%llu.rnpg", (unsigned long long)c->turn);
	int rc = container_open(&in, &g->cpu, path, g->run.method, g->run.parameters);

	if (rc == 0)
		rc = container_read(&in, j->delta.x, j->delta.n);
	container_close(&in);
	free(path);
	return rc;
}

/* Windows are drawn now, so that nobody could train on them alone. */
static int measure(struct judging *j, struct counted *c)
{
	struct coordinator *g = j->g;
	uint64_t own[WINDOWS], other[WINDOWS];
	struct judge_windows w = { .sequence = read_train,
		.arg = g,
		.own = own,
		.other = other,
		.count = WINDOWS };
	struct judge_losses losses;

	for (int i = 0; i < WINDOWS; i++) {
		own[i] = c->first + draw(c->sequences);
		other[i] = j->fresh + draw(UINT64_C(1) << 20);
	}
	if (decode(j, c) < 0 ||
		judge_measure(&g->eval, j->pub.x, j->delta.x, &w, &losses) < 0)
		return -1;
	c->judged = true;
	c->own = losses.own;
	c->other = losses.other;
	return 0;
}

static void decide(struct counted *c, size_t k)
{
	struct judge_losses *losses = xcalloc(k + 1, sizeof *losses);
	enum judge_verdict *verdicts = xcalloc(k + 1, sizeof *verdicts);
	size_t n = 0;

	for (size_t i = 0; i < k; i++)
		if (c[i].judged)
			losses[n++] = (struct judge_losses){ c[i].own, c[i].other };
	judge_decide(verdicts, losses, n);
	for (size_t i = 0, at = 0; i < k; i++) {
		if (!c[i].judged)
			continue;
		c[i].verdict = verdicts[at++];
		c[i].refused = c[i].verdict != JUDGE_GOOD;
	}
	free(losses);
	free(verdicts);
}

/* A round needs deltas: of those that were refused the ones that helped most are taken after all,
 * until there are as many as the rule needs. */
static void keep_enough(struct counted *c, size_t k, size_t min)
{
	for (;;) {
		struct counted *best = NULL;
		size_t good = 0;

		for (size_t i = 0; i < k; i++) {
			good += !c[i].refused;
			if (c[i].refused && (!best || c[i].own > best->own))
				best = &c[i];
		}
		if (!best || good >= min)
			return;
		best->refused = false;
	}
}

/* Those that count first, both parts in the order of members. */
static void part(struct closed *x)
{
	struct counted *all = xcalloc(x->k + 1, sizeof *all);
	size_t n = 0;

	for (int refused = 0; refused < 2; refused++)
		for (size_t i = 0; i < x->k; i++)
			if (x->c[i].refused == (refused == 1))
				all[n++] = x->c[i];
	memcpy(x->c, all, n * sizeof *all);
	free(all);
	for (size_t i = 0; i < n; i++)
		x->refused += x->c[i].refused;
	x->k -= x->refused;
}

static int judge(struct judging *j, struct closed *x)
{
	struct coordinator *g = j->g;
	bool *chosen = xcalloc(x->k + 1, sizeof *chosen);
	char name[64];
	int rc;

	judge_draw(chosen, x->k, (size_t)g->o.judge, draw(UINT64_MAX));
	snprintf(name, sizeof name, "pub-%llu.f32", (unsigned long long)g->round - 1);
	rc = flatfile_open(&j->pub, g->dir, name, g->run.parameters);
	if (rc == 0)
		rc = flatfile_make(&j->delta, g->dir, "judged", g->run.parameters);
	if (rc == 0)
		rc = lm_flat_set(g->eval.train, LM_STATE_PARAMETER, 0, j->pub.n,
			j->pub.x);
	for (size_t i = 0; rc == 0 && i < x->k; i++)
		if (chosen[i])
			rc = measure(j, &x->c[i]);
	flatfile_close(&j->pub);
	flatfile_close(&j->delta);
	free(chosen);
	return rc;
}

int coordinate_judge(struct coordinator *g, struct closed *x)
{
	struct judging j = { .g = g, .fresh = round_fresh(&g->r) };
	size_t min = aggregate_least(&g->run.aggregate);

	if (!g->o.judge)
		return 0;
	if (judge(&j, x) < 0)
		return -1;
	decide(x->c, x->k);
	keep_enough(x->c, x->k, min ? min : 1);
	part(x);
	return 0;
}
