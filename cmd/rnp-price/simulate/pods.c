/* place.c - places pods on nodes with shared GPUs: see place.h. */
#include "cmd/rnp-price/place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

#define CACHE_SLOTS (1u << 18)
#define TYPICAL     0.95 /* fraction of the pods that have a class */
#define TRACE_LOAD  1.3  /* GPUs asked for, of all */
#define TRACE_MAX   100  /* times the pods: a trace that asks for few GPUs ends */
#define SCORE_MAX   100
#define CPU_LARGEST 128000.0 /* milli, of the largest node: the unit of a free share */
#define GPU_LARGEST (PLACE_GPUS_MAX * PLACE_MILLI)

const char *const place_names[PLACE_POLICIES] = { "random", "dot-product",
	"gpu-clustering", "gpu-packing", "best-fit", "fgd" };

/* --- classes -------------------------------------------------------------------------------- */

struct counted {
	struct place_pod pod;
	long n;
};

static int pod_order(const struct place_pod *a, const struct place_pod *b)
{
	if (a->gpus != b->gpus)
		return a->gpus < b->gpus ? -1 : 1;
	if (a->milli != b->milli)
		return a->milli < b->milli ? -1 : 1;
	return a->cpu_milli < b->cpu_milli ? -1 : a->cpu_milli > b->cpu_milli;
}

static int by_pod(const void *a, const void *b)
{
	return pod_order(&((const struct counted *)a)->pod,
		&((const struct counted *)b)->pod);
}

static int by_count(const void *a, const void *b)
{
	const struct counted *x = a, *y = b;

	if (x->n != y->n)
		return x->n > y->n ? -1 : 1;
	return pod_order(&x->pod, &y->pod);
}

void place_classify(struct place_classes *c, struct place_pod *pods, size_t n)
{
	struct counted *all = xcalloc(n + 1, sizeof *all);
	size_t k = 0;
	long sum = 0;

	for (size_t i = 0; i < n; i++)
		all[i] = (struct counted){ pods[i], 1 };
	qsort(all, n, sizeof *all, by_pod);
	for (size_t i = 0; i < n; i++) {
		if (k && pod_order(&all[k - 1].pod, &all[i].pod) == 0)
			all[k - 1].n++;
		else
			all[k++] = all[i];
	}
	qsort(all, k, sizeof *all, by_count);
	memset(c, 0, sizeof *c);
	for (size_t i = 0; i < k && c->n < PLACE_CLASSES_MAX && sum < TYPICAL * (double)n;
		i++) {
		c->pods[c->n] = all[i].pod;
		c->part[c->n++] = (double)all[i].n;
		sum += all[i].n;
	}
	for (int i = 0; i < c->n; i++)
		c->part[i] /= (double)sum;
	for (size_t i = 0; i < n; i++) {
		pods[i].class = -1;
		for (int j = 0; j < c->n && pods[i].class < 0; j++)
			if (pod_order(&pods[i], &c->pods[j]) == 0)
				pods[i].class = j;
	}
	free(all);
}

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

double place_fragments(const struct place_classes *c, const struct place_node *n)
{
	double sum = 0;
	int all = 0;

	for (int g = 0; g < n->ngpus; g++)
		all += n->left[g];
	if (!all)
		return 0;
	for (int i = 0; i < c->n; i++) {
		const struct place_pod *p = &c->pods[i];
		int useless = 0, usable = 0;

		for (int g = 0; g < n->ngpus; g++) {
			usable += n->left[g] >= p->milli;
			useless += n->left[g] < p->milli ? n->left[g] : 0;
		}
		if (!p->gpus || usable < p->gpus || n->cpu_milli < p->cpu_milli)
			useless = all;
		sum += c->part[i] * useless;
	}
	return sum;
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

/* --- what an assignment costs, remembered ------------------------------------------------------ */

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
 * A policy gives each node a whole number from 0 to 100, as the schedulers did whose figures
 * pricing.md states; the first of those with the highest is taken. Whole numbers matter: to the
 * dot product, for example, most nodes are equal. */

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
static int score_best_fit(const struct place_node *n, const struct place_pod *p)
{
	double cpu = (double)(n->cpu_milli - p->cpu_milli) / CPU_LARGEST;
	double gpu = (double)(gpu_free(n) - p->gpus * p->milli) / GPU_LARGEST;

	return (int)((1 - 0.5 * cpu - 0.5 * gpu) * SCORE_MAX);
}

/* Free and requested resources should point in different directions (Tetris, SIGCOMM 2014, turned
 * around: what is plentiful is kept). */
static int score_dot_product(const struct place_node *n, const struct place_pod *p)
{
	double cpu = (double)n->cpu_milli / CPU_LARGEST *
		((double)p->cpu_milli / CPU_LARGEST);
	double gpu = (double)gpu_free(n) / GPU_LARGEST *
		((double)(p->gpus * p->milli) / GPU_LARGEST);

	return (int)((1 - (cpu + gpu) / 2) * SCORE_MAX);
}

/* Pods of one kind go together (Gandiva, OSDI 2018): onto nodes that only run this kind, then
 * those that also run it, then empty ones; within each, the fullest. */
static int score_clustering(const struct place_node *n, const struct place_pod *p)
{
	const int quarter = SCORE_MAX / 4;
	int full = quarter * (GPU_LARGEST - gpu_free(n)) / GPU_LARGEST;

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
static int score_packing(const struct place_node *n, const struct place_pod *p)
{
	int empty = gpus_with(n, PLACE_MILLI), whole, left, score;

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

static int score_of_growth(double growth)
{
	return (int)(SCORE_MAX / (1 + exp(growth / PLACE_MILLI)));
}

/* Returns the node's score; *gpu becomes the GPU for a fraction. */
static int score(struct place_cluster *c, enum place_policy policy,
	const struct place_node *n, const struct place_pod *p, int *gpu)
{
	*gpu = tightest(n, p);
	switch (policy) {
	case PLACE_DOT_PRODUCT:
		return score_dot_product(n, p);
	case PLACE_CLUSTERING:
		return score_clustering(n, p);
	case PLACE_PACKING:
		return score_packing(n, p);
	case PLACE_BEST_FIT:
		return score_best_fit(n, p);
	case PLACE_FGD:
		return score_of_growth(growth(c, n, p, gpu));
	default:
		return 0;
	}
}

void place_open(struct place_cluster *c)
{
	c->gpus = 0;
	c->gpu_left = 0;
	for (size_t i = 0; i < c->n; i++) {
		c->gpus += c->nodes[i].ngpus;
		c->gpu_left += (double)gpu_free(&c->nodes[i]) / PLACE_MILLI;
	}
	c->cache = xcalloc(1, sizeof *c->cache);
}

void place_close(struct place_cluster *c)
{
	free(c->cache);
	c->cache = NULL;
}

bool place_choose(struct place_cluster *c, enum place_policy policy,
	const struct place_pod *pod, uint64_t luck, struct place_choice *out)
{
	int best = -1;
	uint64_t fitting = 0;

	for (size_t i = 0; i < c->n; i++) {
		const struct place_node *n = &c->nodes[i];
		int s, gpu;

		if (!fits(n, pod))
			continue;
		s = score(c, policy, n, pod, &gpu);
		fitting++;
		/* at random, each of k stays with probability 1 / k */
		if (policy == PLACE_RANDOM ? mix(luck, fitting) % fitting != 0 :
					     s <= best)
			continue;
		best = s;
		*out = (struct place_choice){ i, gpu };
	}
	if (best >= 0 && policy == PLACE_RANDOM)
		out->gpu = any_gpu(&c->nodes[out->node], pod, mix(luck, 0));
	return best >= 0;
}

void place_assign(struct place_cluster *c, const struct place_pod *pod,
	const struct place_choice *choice)
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

void place_trace(const struct place_cluster *empty, enum place_policy policy,
	const struct place_pod *pods, size_t npods, uint64_t seed,
	struct place_result *out)
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
	order = arrivals(pods, npods, TRACE_LOAD * all, &r, &n);
	for (size_t i = 0; i < n && arrived < TRACE_LOAD * all; i++) {
		const struct place_pod *p = order[i];
		struct place_choice choice;
		double before = arrived;

		out->pods++;
		if (place_choose(&c, policy, p, rng_u64(&r), &choice))
			place_assign(&c, p, &choice);
		else
			out->failed++;
		arrived += gpus_of(p);
		while (percent < PLACE_PERCENTS && arrived >= (double)percent / 100 * all)
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
