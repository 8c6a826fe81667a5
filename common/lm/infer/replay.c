/* replay.c - see replay.h. */
#include "common/lm/infer/replay.h"

#include <string.h>

#include "common/base/err.h"

static void drop(struct lm_replays *r, struct dev *d, unsigned kind)
{
	d->ops->graph_free(d, r->kinds[kind].graph);
	memset(&r->kinds[kind], 0, sizeof r->kinds[kind]);
}

static int capture(struct dev *d, void **graph, lm_replay_fn all, void *arg)
{
	if (d->ops->graph_begin(d) < 0)
		return -1;
	if (all(arg) == 0)
		return d->ops->graph_end(d, graph);
	(void)d->ops->graph_end(d, NULL); /* the first error is the one to tell */
	return -1;
}

static void give_up(struct lm_replays *r, struct dev *d, const char *what)
{
	err_warn("the operations of a token are not %s, and launched one by one: %s",
		what, d->error);
	lm_replays_free(r, d);
	r->off = true;
}

void lm_replay_prepare(struct lm_replays *r, struct dev *d, unsigned kind, uint64_t key,
	lm_replay_fn all, void *arg)
{
	if (r->off)
		return;
	if (r->kinds[kind].key != key || !r->kinds[kind].seen) {
		drop(r, d, kind);
		r->kinds[kind].key = key;
		r->kinds[kind].seen = true;
		return;
	}
	if (r->kinds[kind].graph || capture(d, &r->kinds[kind].graph, all, arg) == 0)
		return;
	give_up(r, d, "captured");
}

int lm_replay_run(struct lm_replays *r, struct dev *d, unsigned kind, lm_replay_fn all,
	void *arg)
{
	void *graph = r->kinds[kind].graph;

	if (graph && d->ops->graph_launch(d, graph) == 0)
		return 0;
	/* nothing of it has run; of a device that is lost these fail, too */
	if (graph)
		give_up(r, d, "replayed");
	return all(arg);
}

void lm_replays_free(struct lm_replays *r, struct dev *d)
{
	for (unsigned i = 0; i < LM_REPLAYS; i++)
		drop(r, d, i);
}
