/* judge.c - some deltas of a closed round are judged by what they do to the loss, on the
 * text that the member was given and on text that nobody was. What is decided is judge.h's. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/coordinator/coordinator.h"
#include "cmd/rnp-train/coordinator/judging.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "common/base/clock.h"
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

/* Measures those that were drawn; and those that are not good once more, on other windows, with
 * other controls. It is the second time that counts: an honest delta is not good in some of a
 * hundred measurements, and seldom twice. Noise is found good in 4 of 100 cases, not in 2. */
static int judge(struct coordinator *g, struct closed *x)
{
	struct judging j = { .run = &g->run,
		.data = &g->data,
		.shuffle = &g->shuffle,
		.cpu = &g->cpu,
		.eval = &g->eval,
		.fresh = round_fresh(&g->rounds.r) };
	char name[64];
	int rc;

	snprintf(name, sizeof name, "pub-%llu.f32",
		(unsigned long long)g->rounds.round - 1);
	rc = judging_open(&j, g->dir, name, g->rounds.round);
	for (size_t i = 0; rc == 0 && i < x->k; i++)
		if (x->c[i].drawn)
			rc = measure(&j, g, &x->c[i]);
	decide(x->c, x->k);
	for (size_t i = 0; rc == 0 && i < x->k; i++)
		if (x->c[i].refused)
			rc = measure(&j, g, &x->c[i]);
	judging_close(&j);
	decide(x->c, x->k);
	return rc;
}

/* What is paid, in the order of members and turns. */
static void settle(struct closed *x)
{
	for (size_t i = 0; i < x->k; i++) {
		struct counted *c = &x->c[i], *before = i ? c - 1 : NULL;
		bool same = before && strcmp(before->node, c->node) == 0;

		/* its member's turn before, in the same round */
		if (same && before->pay == JUDGE_WAITS)
			c->block.good = before->block.good;
		c->pay = judge_block_pay(&c->block, c->judged, c->verdict);
		if (same && before->pay == JUDGE_FORFEIT) {
			c->pay = JUDGE_FORFEIT;
			c->block = (struct judge_block){ 0 };
		}
		x->njudged += c->judged && c->pay != JUDGE_WAITS;
	}
}

int coordinate_judge(struct coordinator *g, struct closed *x)
{
	size_t min = aggregate_least(&g->run.aggregate);
	int64_t from_ns = clock_mono_ns();

	if (!g->o.judge)
		return 0;
	if (judge(g, x) < 0)
		return -1;
	x->judging_ns = clock_mono_ns() - from_ns;
	settle(x);
	keep_enough(x->c, x->k, min ? min : 1);
	part(x);
	return 0;
}

void coordinate_judge_copies(struct closed *x)
{
	for (size_t i = 0; i < x->k; i++) {
		struct counted *c = &x->c[i];

		if (!c->copied || !c->judged)
			continue;
		c->pay = JUDGE_FORFEIT;
		for (size_t j = 0; j < x->k + x->refused; j++)
			if (strcmp(x->c[j].node, c->node) == 0)
				x->c[j].block = (struct judge_block){ 0 };
	}
}
