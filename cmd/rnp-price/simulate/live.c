/* live.c - the policy of player.h that the live matcher is.
 *
 * The cluster is for sale as nodes at one price, and each job is of a customer of its own, saved
 * every round and to be stopped for one that was served less: when jobs come or end, one that was
 * served less stops one that was served more, which goes on elsewhere from its last round; until
 * then a job stays where it began. */
#include <math.h>
#include <stdlib.h>

#include "common/market/core.h"
#include "cmd/rnp-price/simulate/player.h"
#include "common/base/mem.h"

#define NODE_GPUS 64

struct live {
	struct player *player;
	struct match_node *nodes;
	size_t nnodes;
	struct match_job *jobs;
	size_t njobs;
	size_t *index;   /* of the player's jobs, by the matcher's */
	int64_t *end_ms; /* when each of the matcher's jobs is to end */
};

/* Adds a span of a job's time, as far as it counts: sign 1, or -1 for what is not used. */
static void add_used(struct player *p, const struct player_job *j, int sign,
	int64_t from_ms, int64_t to_ms)
{
	double zero = (double)p->jobs[0].arrival_s, from = (double)from_ms / 1000 - zero,
	       to = fmin((double)to_ms / 1000 - zero, p->last_s);

	p->used_s += sign * fmax(0, to - from) * (double)j->gpus;
}

static int keep_match(void *ctx, const struct match_result *r)
{
	struct live *l = ctx;
	struct player_job *j = &l->player->jobs[l->index[r->job]];

	if (!r->nparts)
		return 0;
	if (r->stopped_for) {
		j->finish_s = -1;
		add_used(l->player, j, -1, r->end_ms, l->end_ms[r->job]);
		return 0;
	}
	j->finish_s = (double)r->end_ms / 1000;
	l->end_ms[r->job] = r->end_ms;
	add_used(l->player, j, 1, r->start_ms, r->end_ms);
	return 0;
}

static void add_nodes(struct live *l, const char *model, int64_t gpus)
{
	size_t n = (size_t)(gpus + NODE_GPUS - 1) / NODE_GPUS;

	l->nodes = xrealloc(l->nodes, (l->nnodes + n) * sizeof *l->nodes);
	for (; gpus > 0; gpus -= NODE_GPUS)
		l->nodes[l->nnodes++] = (struct match_node){ .id = model,
			.model = model,
			.uusd = 1000000,
			.reputation_ppm = -1,
			.uptime_ppm = 1000000,
			.gpus = (int)(gpus < NODE_GPUS ? gpus : NODE_GPUS) };
}

/* owner: a name that only its place tells apart. */
static void add_job(struct live *l, size_t job, const char *owner)
{
	const struct player_cluster *c = l->player->cluster;
	const struct player_job *j = &l->player->jobs[job];
	struct match_job *to = &l->jobs[l->njobs];

	*to = (struct match_job){ .id = "",
		.owner = owner,
		.limit_uusd = MATCH_NO_LIMIT,
		.at_ms = j->arrival_s * 1000,
		.since_ms = j->arrival_s * 1000,
		.order = l->njobs,
		.checkpoint_ms = (int64_t)l->player->policy->round_s * 1000,
		.spot = true,
		.length_ms = (int64_t)(j->duration_s * 1000),
		.share_ppm = 1000000,
		.gpus = (int)j->gpus,
		.milli = MATCH_MILLI,
		.nodes_max = 1 };
	for (int k = 0; k < c->models; k++)
		if (player_runs_on(c, j, k)) {
			to->throughput[to->nmodels] = player_speed(c, j, k);
			to->models[to->nmodels++] = c->names[k];
		}
	/* the length is that on the first model of the list */
	to->length_ms = (int64_t)fmin((double)to->length_ms / to->throughput[0],
		MATCH_MS_MAX);
	l->index[l->njobs++] = job;
}

void live_play(struct player *p)
{
	struct live l = { .player = p,
		.jobs = xcalloc(p->n + 1, sizeof *l.jobs),
		.index = xmalloc((p->n + 1) * sizeof *l.index),
		.end_ms = xcalloc(p->n + 1, sizeof *l.end_ms) };
	char *owners = xcalloc(p->n + 1, 1);
	struct match *m;

	for (int k = 0; k < p->cluster->models; k++)
		add_nodes(&l, p->cluster->names[k], p->cluster->gpus[k]);
	for (size_t i = 0; i < p->n; i++) {
		struct player_job *j = &p->jobs[i];

		if (j->gpus <= 0 || j->duration_s <= 0)
			j->finish_s = (double)j->arrival_s;
		else if (player_is_possible(p->cluster, j))
			add_job(&l, i, &owners[i]);
	}
	m = match_open(MATCH_GAVEL, l.nodes, l.nnodes);
	match_preempt(m);
	match_run(m, l.jobs, l.njobs, INT64_MAX, keep_match, &l);
	match_close(m);
	free(l.nodes);
	free(l.jobs);
	free(l.index);
	free(l.end_ms);
	free(owners);
}
