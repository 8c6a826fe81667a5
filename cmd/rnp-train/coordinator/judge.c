/* coordinate_judge.c - some deltas of a closed round are judged by what they do to the loss, on the
 * text that the member was given and on text that nobody was. What is decided is judge.h's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/coordinate.h"
#include "cmd/rnp-train/judging.h"
#include "common/base/mem.h"

static int measure(struct judging *j, struct coordinator *g, struct counted *c)
{
	char *path = coordinate_path(g, "delta-%llu.rnpg", (unsigned long long)c->turn);
	int rc = judging_measure(j, path, c->first, c->sequences, &c->losses);

	free(path);
	if (rc < 0)
		return -1;
	c->judged = true;
	return 0;
}

static void decide(struct counted *c, size_t k)
{
	struct judge_losses *losses = xcalloc(k + 1, sizeof *losses);
	enum judge_verdict *verdicts = xcalloc(k + 1, sizeof *verdicts);
	size_t n = 0;

	for (size_t i = 0; i < k; i++)
		if (c[i].judged)
			losses[n++] = c[i].losses;
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
			if (c[i].refused && (!best || c[i].losses.own > best->losses.own))
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

static int judge(struct coordinator *g, struct closed *x)
{
	struct judging j = { .run = &g->run,
		.data = &g->data,
		.shuffle = &g->shuffle,
		.cpu = &g->cpu,
		.eval = &g->eval,
		.fresh = round_fresh(&g->r) };
	bool *chosen = xcalloc(x->k + 1, sizeof *chosen);
	char name[64];
	int rc;

	judge_draw(chosen, x->k, (size_t)g->o.judge, judging_draw(UINT64_MAX));
	snprintf(name, sizeof name, "pub-%llu.f32", (unsigned long long)g->round - 1);
	rc = judging_open(&j, g->dir, name, g->round);
	for (size_t i = 0; rc == 0 && i < x->k; i++)
		if (chosen[i])
			rc = measure(&j, g, &x->c[i]);
	judging_close(&j);
	free(chosen);
	return rc;
}

int coordinate_judge(struct coordinator *g, struct closed *x)
{
	size_t min = aggregate_least(&g->run.aggregate);

	if (!g->o.judge)
		return 0;
	if (judge(g, x) < 0)
		return -1;
	decide(x->c, x->k);
	keep_enough(x->c, x->k, min ? min : 1);
	part(x);
	return 0;
}
