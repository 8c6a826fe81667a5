/* graph.c - runs the passes of a step as graphs of the device: operations are launched
 * one by one at first, which loads what they need, captured the second time, and replayed from
 * then on. Values that vary from step to step lie in the device's memory. */
#include <stdio.h>
#include <stdlib.h>

#include "common/base/err.h"
#include "common/lm/train/parts.h"
#include "common/base/mem.h"

static void drop(struct lm_train *t, struct lm_captured *c)
{
	for (size_t i = 0; i < c->n; i++)
		t->d->ops->graph_free(t->d, c->parts[i].graph);
	free(c->parts);
	c->parts = NULL;
	c->n = c->cap = 0;
}

void lm_train_drop(struct lm_train *t)
{
	for (int i = 0; i < LM_PASSES; i++)
		drop(t, &t->passes[i]);
}

/* Ends the capture and appends the operations since the last part as a new one. The capture has
 * ended even on failure. */
static int end_part(struct lm_train *t, uint64_t from, uint64_t count)
{
	struct lm_captured *c = t->capturing;
	void *graph = NULL;

	if (t->d->ops->graph_end(t->d, &graph) < 0)
		return -1;
	c->parts = xgrow(c->parts, &c->cap, c->n + 1, sizeof *c->parts);
	c->parts[c->n++] = (struct lm_captured_part){ graph, from, count };
	return 0;
}

int lm_train_ready(struct lm_train *t, uint64_t from, uint64_t count)
{
	if (!t->capturing)
		return t->o.grad_ready(t->o.arg, from, count);
	if (end_part(t, from, count) < 0 || t->d->ops->graph_begin(t->d) < 0) {
		lm_train_failed(t);
		t->capturing = NULL; /* marks the capture as ended */
		return -1;
	}
	return 0;
}

/* Captures a pass without running it. On failure, this pass and all others are launched
 * operation by operation from now on. */
static int capture(struct lm_train *t, struct lm_captured *c,
	int (*all)(struct lm_train *t, bool last), bool last)
{
	int rc = t->d->ops->graph_begin(t->d);

	if (rc < 0)
		lm_train_failed(t);
	t->capturing = rc == 0 ? c : NULL;
	if (rc == 0)
		rc = all(t, last);
	if (rc == 0 && end_part(t, 0, 0) < 0)
		rc = lm_train_failed(t);
	else if (rc < 0 && t->capturing)
		(void)t->d->ops->graph_end(t->d,
			NULL); /* the first error is the one to report */
	t->capturing = NULL;
	if (rc == 0)
		return 0;
	snprintf(t->why, sizeof t->why, "%.250s", err_get()->text);
	err_clear();
	lm_train_drop(t);
	for (int i = 0; i < LM_PASSES; i++)
		t->passes[i].state = LM_PASS_LAUNCH;
	return -1;
}

static int replay(struct lm_train *t, const struct lm_captured *c)
{
	for (size_t i = 0; i < c->n; i++) {
		const struct lm_captured_part *p = &c->parts[i];

		if (p->graph && t->d->ops->graph_launch(t->d, p->graph) < 0)
			return lm_train_failed(t);
		if (p->count && t->o.grad_ready(t->o.arg, p->from, p->count) < 0)
			return -1;
	}
	return 0;
}

int lm_train_pass(struct lm_train *t, enum lm_pass pass,
	int (*all)(struct lm_train *t, bool last), bool last)
{
	struct lm_captured *c = &t->passes[pass];

	if (t->o.no_graph)
		return all(t, last);
	if (c->state == LM_PASS_WARM && capture(t, c, all, last) == 0)
		c->state = LM_PASS_CAPTURED;
	if (c->state == LM_PASS_CAPTURED)
		return replay(t, c);
	if (c->state == LM_PASS_NEW)
		c->state = LM_PASS_WARM;
	return all(t, last);
}

bool lm_train_captured(const struct lm_train *t)
{
	for (int i = 0; i < LM_PASSES; i++)
		if (t->passes[i].state == LM_PASS_CAPTURED)
			return true;
	return false;
}

const char *lm_train_why(const struct lm_train *t)
{
	return t->why;
}
