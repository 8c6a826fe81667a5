/* pods.c - pods that share GPUs: see pods.h. */
#include "cmd/rnp-price/simulate/pods.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/simulate/backtest.h"
#include "cmd/rnp-price/simulate/trace.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/cli/out.h"
#include "common/json/json.h"

#define CACHE_SLOTS (1u << 18)
#define SCORE_MAX   100
#define CPU_LARGEST 128000.0 /* milli, of the largest node: the unit of a free share */
#define GPU_LARGEST (PLACE_GPUS_MAX * PLACE_MILLI)
#define TRACE_LOAD  1.3 /* GPUs asked for, of all */
#define TRACE_MAX   100 /* times the pods: a trace that asks for few GPUs ends */

/* --- nodes ---------------------------------------------------------------------------------- */

static int gpus_with(const struct place_node *n, int milli)
{
	int k = 0;

	for (int g = 0; g < n->ngpus; g++)
		k += n->left[g] >= milli;
	return k;
}

static bool fits(const struct place_node *n, const struct place_pod *p)
{
	return n->cpu_milli >= p->cpu_milli && n->memory_mib >= p->memory_mib &&
		(!p->gpus || gpus_with(n, p->milli) >= p->gpus);
}

static bool is_part(const struct place_pod *p)
{
	return p->gpus == 1 && p->milli < PLACE_MILLI;
}

/* Returns the bit of a pod's kind: a part of a GPU, one GPU, two, ... */
static uint16_t kind_of(const struct place_pod *p)
{
	return (uint16_t)(1u << (is_part(p) ? 0 : p->gpus));
}

/* Takes the pod's resources from the node. gpu: which one, for a fraction of a GPU. */
static void take(struct place_node *n, const struct place_pod *p, int gpu)
{
	int wanted = p->gpus;

	n->cpu_milli -= p->cpu_milli;
	n->memory_mib -= p->memory_mib;
	if (p->gpus)
		n->kinds |= kind_of(p);
	if (gpu >= 0) {
		n->left[gpu] -= p->milli;
		return;
	}
	for (int g = 0; g < n->ngpus && wanted; g++)
		if (n->left[g] >= p->milli) {
			n->left[g] -= p->milli;
			wanted--;
		}
}

/* --- what an assignment costs, remembered ------------------------------------------------- */

struct place_cache {
	struct {
		uint64_t key;
		float cost;
		int gpu;
	} slots[CACHE_SLOTS];
};

static uint64_t mix(uint64_t h, uint64_t v)
{
	h = (h ^ v) * 0x9e3779b97f4a7c15u;
	return h ^ (h >> 29);
}

static uint64_t key_of(const struct place_node *n, const struct place_pod *p)
{
	uint64_t h = mix(mix(1, (uint64_t)n->cpu_milli), (uint64_t)n->ngpus);

	for (int g = 0; g < n->ngpus; g++)
		h = mix(h, (uint64_t)n->left[g]);
	h = mix(mix(h, (uint64_t)p->cpu_milli), (uint64_t)(p->gpus * 4096 + p->milli));
	return h ? h : 1;
}

/* Returns how much fragmentation grows if the pod goes to this node, and which GPU is best for
 * a fraction. */
static double growth(struct place_cluster *c, const struct place_node *n,
	const struct place_pod *p, int *gpu)
{
	uint64_t key = key_of(n, p);
	uint32_t slot = (uint32_t)key & (CACHE_SLOTS - 1);
	double before, best = INFINITY;
	int seen[PLACE_GPUS_MAX], nseen = 0;

	if (c->cache->slots[slot].key == key) {
		*gpu = c->cache->slots[slot].gpu;
		return (double)c->cache->slots[slot].cost;
	}
	before = place_fragments(&c->classes, n);
	*gpu = -1;
	for (int g = 0; g < (is_part(p) ? n->ngpus : 1); g++) {
		struct place_node after = *n;
		bool again = false;
		double cost;

		if (is_part(p)) {
			for (int k = 0; k < nseen; k++)
				again |= seen[k] == n->left[g];
			if (again || n->left[g] < p->milli)
				continue;
			seen[nseen++] = n->left[g];
		}
		take(&after, p, is_part(p) ? g : -1);
		cost = place_fragments(&c->classes, &after) - before;
		if (cost < best) {
			best = cost;
			*gpu = is_part(p) ? g : -1;
		}
	}
	c->cache->slots[slot].key = key;
	c->cache->slots[slot].cost = (float)best;
	c->cache->slots[slot].gpu = *gpu;
	return (double)(float)best;
}

/* --- policies ---------------------------------------------------------------------------------
 *
 * Scores are whole numbers, as those of the schedulers were whose figures Weng et al. publish.
 * That matters: to the dot product, for example, most nodes are equal. */

static int gpu_free(const struct place_node *n)
{
	int sum = 0;

	for (int g = 0; g < n->ngpus; g++)
		sum += n->left[g];
	return sum;
}

/* Returns the fullest GPU on which a fraction fits. */
static int tightest(const struct place_node *n, const struct place_pod *p)
{
	int best = -1;

	if (!is_part(p))
		return -1;
	for (int g = 0; g < n->ngpus; g++)
		if (n->left[g] >= p->milli && (best < 0 || n->left[g] < n->left[best]))
			best = g;
	return best;
}

/* Returns one of the GPUs on which a fraction fits. */
static int any_gpu(const struct place_node *n, const struct place_pod *p, uint64_t luck)
{
	int fitting = is_part(p) ? gpus_with(n, p->milli) : 0, wanted;

	if (!fitting)
		return -1;
	wanted = (int)(luck % (uint64_t)fitting);
	for (int g = 0; g < n->ngpus; g++)
		if (n->left[g] >= p->milli && wanted-- == 0)
			return g;
	return -1;
}

/* Little left is good: of CPU and GPUs, relative to the largest node. */
static int score_best_fit(struct place_cluster *c, const struct place_node *n,
	const struct place_pod *p, int *gpu)
{
	double cpus = (double)(n->cpu_milli - p->cpu_milli) / CPU_LARGEST;
	double gpus = (double)(gpu_free(n) - p->gpus * p->milli) / GPU_LARGEST;

	(void)c;
	(void)gpu;
	return (int)((1 - 0.5 * cpus - 0.5 * gpus) * SCORE_MAX);
}

/* Free and requested resources should point in different directions (Tetris, SIGCOMM 2014, turned
 * around: what is plentiful is kept). */
static int score_dot_product(struct place_cluster *c, const struct place_node *n,
	const struct place_pod *p, int *gpu)
{
	double cpus = (double)n->cpu_milli / CPU_LARGEST *
		((double)p->cpu_milli / CPU_LARGEST);
	double gpus = (double)gpu_free(n) / GPU_LARGEST *
		((double)(p->gpus * p->milli) / GPU_LARGEST);

	(void)c;
	(void)gpu;
	return (int)((1 - (cpus + gpus) / 2) * SCORE_MAX);
}

/* Pods of one kind go together (Gandiva, OSDI 2018): onto nodes that only run this kind, then
 * those that also run it, then empty ones; within each, the fullest. */
static int score_clustering(struct place_cluster *c, const struct place_node *n,
	const struct place_pod *p, int *gpu)
{
	const int quarter = SCORE_MAX / 4;
	int full = quarter * (GPU_LARGEST - gpu_free(n)) / GPU_LARGEST;

	(void)c;
	(void)gpu;
	if (!p->gpus)
		return 0;
	if (n->kinds & kind_of(p))
		return full + (n->kinds == kind_of(p) ? 3 : 2) * quarter;
	return n->kinds ? full : full + quarter;
}

/* Returns the free thousandths of the fullest GPUs that the pod fits on, and how many of these are
 * wholly free. */
static int fullest(const struct place_node *n, const struct place_pod *p, int *whole)
{
	bool used[PLACE_GPUS_MAX] = { false };
	int sum = 0;

	*whole = 0;
	for (int k = 0; k < p->gpus; k++) {
		int best = -1;

		for (int g = 0; g < n->ngpus; g++)
			if (!used[g] && n->left[g] >= p->milli &&
				(best < 0 || n->left[g] < n->left[best]))
				best = g;
		if (best < 0)
			break;
		used[best] = true;
		sum += n->left[best];
		*whole += n->left[best] == PLACE_MILLI;
	}
	return sum;
}

/* GPUs that are in use, then free ones of nodes in use, then those of empty nodes (Themis,
 * MLaaS in the Wild, NSDI 2022). */
static int score_packing(struct place_cluster *c, const struct place_node *n,
	const struct place_pod *p, int *gpu)
{
	int empty = gpus_with(n, PLACE_MILLI), whole, left, score;

	(void)c;
	(void)gpu;
	if (!p->gpus)
		return 0;
	if (empty == n->ngpus) {
		score = SCORE_MAX / 3 - empty;
		return score > empty ? score : empty;
	}
	left = fullest(n, p, &whole);
	if (whole) {
		score = SCORE_MAX / 2 - whole;
		return score > SCORE_MAX / 3 ? score : SCORE_MAX / 3;
	}
	score = SCORE_MAX - left * 100 / PLACE_MILLI / 10;
	return score > SCORE_MAX / 2 ? score : SCORE_MAX / 2;
}

static int score_fgd(struct place_cluster *c, const struct place_node *n,
	const struct place_pod *p, int *gpu)
{
	return (int)(SCORE_MAX / (1 + exp(growth(c, n, p, gpu) / PLACE_MILLI)));
}

const struct place_policy place_policies[PLACE_POLICIES] = {
	{ "random", NULL },
	{ "dot-product",
		score_dot_product }, /* the smallest product of free and requested */
	{ "gpu-clustering", score_clustering }, /* pods of one kind together */
	{ "gpu-packing", score_packing },       /* GPUs in use first, then nodes in use */
	{ "best-fit", score_best_fit },         /* the smallest remainder */
	{ "fgd", score_fgd },
};

/* Computes what follows from nodes and classes. */
static void place_open(struct place_cluster *c)
{
	c->gpus = 0;
	c->gpu_left = 0;
	for (size_t i = 0; i < c->n; i++) {
		c->gpus += c->nodes[i].ngpus;
		c->gpu_left += (double)gpu_free(&c->nodes[i]) / PLACE_MILLI;
	}
	c->cache = xcalloc(1, sizeof *c->cache);
}

static void place_close(struct place_cluster *c)
{
	free(c->cache);
	c->cache = NULL;
}

/* Where a pod goes; gpu: for a fraction of a GPU, else -1: the first free whole ones. */
struct choice {
	size_t node;
	int gpu;
};

/* Chooses the node for a pod. luck: a random number for the choice at random. Returns false if the
 * pod fits nowhere. */
static bool place_choose(struct place_cluster *c, const struct place_policy *policy,
	const struct place_pod *pod, uint64_t luck, struct choice *out)
{
	int best = -1;
	uint64_t fitting = 0;

	for (size_t i = 0; i < c->n; i++) {
		const struct place_node *n = &c->nodes[i];
		int s, gpu;

		if (!fits(n, pod))
			continue;
		gpu = tightest(n, pod);
		s = policy->score ? policy->score(c, n, pod, &gpu) : 0;
		fitting++;
		/* at random, each of k stays with probability 1 / k */
		if (!policy->score ? mix(luck, fitting) % fitting != 0 : s <= best)
			continue;
		best = s;
		*out = (struct choice){ i, gpu };
	}
	if (best >= 0 && !policy->score)
		out->gpu = any_gpu(&c->nodes[out->node], pod, mix(luck, 0));
	return best >= 0;
}

static void place_assign(struct place_cluster *c, const struct place_pod *pod,
	const struct choice *choice)
{
	struct place_node *n = &c->nodes[choice->node];

	take(n, pod, choice->gpu);
	c->gpu_left -= pod->gpus * pod->milli / (double)PLACE_MILLI;
}

/* --- a trace -------------------------------------------------------------------------------- */

static double all_fragments(const struct place_cluster *c)
{
	double sum = 0;

	for (size_t i = 0; i < c->n; i++)
		sum += place_fragments(&c->classes, &c->nodes[i]);
	return sum / PLACE_MILLI / (double)c->gpus;
}

static double gpus_of(const struct place_pod *p)
{
	return p->gpus * p->milli / (double)PLACE_MILLI;
}

/* Returns the arrivals: each pod once, as many more as ask for `wanted` GPUs together, drawn from
 * them, all shuffled. */
static const struct place_pod **arrivals(const struct place_pod *pods, size_t npods,
	double wanted, struct rng *r, size_t *n)
{
	size_t max = TRACE_MAX * npods, cap = 0;
	const struct place_pod **all = NULL;
	double sum = 0;

	for (*n = 0; *n < npods || (sum < wanted && *n < max); ++*n) {
		all = xgrow(all, &cap, *n + 1, sizeof *all);
		all[*n] = &pods[*n < npods ? *n : rng_below(r, npods)];
		sum += gpus_of(all[*n]);
	}
	for (size_t i = *n; i > 1; i--) {
		size_t j = rng_below(r, i);
		const struct place_pod *p = all[i - 1];

		all[i - 1] = all[j];
		all[j] = p;
	}
	return all;
}

/* Equal nodes are taken in the order of the list, which should therefore not be that of a file
 * sorted by model. */
static void shuffle_nodes(struct place_cluster *c, struct rng *r)
{
	for (size_t i = c->n; i > 1; i--) {
		size_t j = rng_below(r, i);
		struct place_node n = c->nodes[i - 1];

		c->nodes[i - 1] = c->nodes[j];
		c->nodes[j] = n;
	}
}

void pods_play(const struct place_cluster *empty, const struct place_policy *policy,
	const struct pods *pods, uint64_t seed, struct pods_result *out)
{
	struct place_cluster c = *empty;
	const struct place_pod **order;
	double arrived = 0, all;
	struct rng r;
	size_t n, percent = 0;

	memset(out, 0, sizeof *out);
	c.nodes = xmalloc((c.n + 1) * sizeof *c.nodes);
	memcpy(c.nodes, empty->nodes, c.n * sizeof *c.nodes);
	place_open(&c);
	all = c.gpu_left;
	rng_seed(&r, seed, 17);
	shuffle_nodes(&c, &r);
	order = arrivals(pods->items, pods->n, TRACE_LOAD * all, &r, &n);
	for (size_t i = 0; i < n && arrived < TRACE_LOAD * all; i++) {
		const struct place_pod *p = order[i];
		struct choice choice;
		double before = arrived;

		out->pods++;
		if (place_choose(&c, policy, p, rng_u64(&r), &choice))
			place_assign(&c, p, &choice);
		else
			out->failed++;
		arrived += gpus_of(p);
		while (percent < PODS_PERCENTS && arrived >= (double)percent / 100 * all)
			out->allocated[percent++] = 1 - c.gpu_left / all;
		if (before < 0.8 * all && arrived >= 0.8 * all)
			out->fragments_80 = all_fragments(&c);
		if (before < all && arrived >= all)
			out->allocated_100 = 1 - c.gpu_left / all;
	}
	out->allocated_130 = 1 - c.gpu_left / all;
	place_close(&c);
	free(c.nodes);
	free(order);
}

/* --- records -------------------------------------------------------------------------------- */

static int write_pods(struct backtest *b, const struct place_policy *policy,
	const struct place_cluster *c, const struct pods_result *all)
{
	struct pods_result sum = { 0 };
	json_t *r = json_record("rnp.backtest");
	double n = (double)b->runs;
	int64_t count = 0;

	for (size_t i = 0; i < c->n; i++)
		count += c->nodes[i].ngpus;
	for (int64_t i = 0; i < b->runs; i++) {
		sum.allocated_100 += all[i].allocated_100 / n;
		sum.allocated_130 += all[i].allocated_130 / n;
		sum.fragments_80 += all[i].fragments_80 / n;
		sum.pods += all[i].pods;
		sum.failed += all[i].failed;
	}
	json_set_text(r, "mode", "pods");
	json_set_text(r, "algorithm", policy->name);
	json_set_i64(r, "gpus", count);
	json_set_i64(r, "runs", b->runs);
	json_set_i64(r, "seed", b->seed);
	json_set_i64(r, "pods", sum.pods);
	json_set_i64(r, "refused", sum.failed);
	json_set_i64(r, "allocated_100_ppm", llround(sum.allocated_100 * 1e6));
	json_set_i64(r, "allocated_130_ppm", llround(sum.allocated_130 * 1e6));
	json_set_i64(r, "fragments_80_ppm", llround(sum.fragments_80 * 1e6));
	return backtest_report_write(&b->report, r);
}

/* curve: becomes the mean part of the GPUs that is in use after each percent has arrived. */
static int run_pods(struct backtest *b, const struct place_cluster *c,
	const struct pods *p, const struct place_policy *policy,
	double curve[PODS_PERCENTS])
{
	struct pods_result *all = xcalloc((size_t)b->runs, sizeof *all);
	int rc;

#pragma omp parallel for schedule(dynamic)
	for (int64_t i = 0; i < b->runs; i++)
		pods_play(c, policy, p, (uint64_t)(b->seed * 1000 + i), &all[i]);
	for (int k = 0; k < PODS_PERCENTS; k++) {
		curve[k] = 0;
		for (int64_t i = 0; i < b->runs; i++)
			curve[k] += all[i].allocated[k] * 100 / (double)b->runs;
	}
	rc = write_pods(b, policy, c, all);
	free(all);
	return rc;
}

int backtest_pods(struct backtest *b)
{
	struct place_cluster *c = xcalloc(1, sizeof *c);
	struct pods pods = { 0 };
	struct backtest_curve curves[PLACE_POLICIES];
	static double y[PLACE_POLICIES][PODS_PERCENTS], x[PODS_PERCENTS];
	size_t n = 0;
	int rc = trace_read_nodes(c, b->nodes_path);

	out_columns(
		"algorithm,gpus,runs,allocated_100_ppm,allocated_130_ppm,fragments_80_ppm,"
		"pods,refused");
	if (rc == 0)
		rc = trace_read_pods(&pods, b->pods_path);
	if (rc == 0)
		place_classify(&c->classes, pods.items, pods.n);
	for (int a = 0; rc == 0 && a < PLACE_POLICIES; a++) {
		const struct place_policy *policy = &place_policies[a];

		if (strcmp(b->algorithm, "all") != 0 &&
			strcmp(b->algorithm, policy->name) != 0)
			continue;
		rc = run_pods(b, c, &pods, policy, y[n]);
		curves[n] = (struct backtest_curve){ policy->name, y[n] };
		n++;
	}
	for (int k = 0; k < PODS_PERCENTS; k++)
		x[k] = k;
	backtest_report_curves(&b->report, "GPUs in use as pods arrive",
		"GPUs asked for, %", "GPUs in use, %", x, PODS_PERCENTS, curves, n);
	free(c->nodes);
	free(pods.items);
	free(c);
	return rc;
}
