/* place.c - places pods on nodes with shared GPUs: see place.h. */
#include "cmd/rnp-price/place.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/base/rng.h"

#define CACHE_SLOTS (1u << 18)
#define TYPICAL     0.999 /* fraction of the pods that have a class */

const char *const place_names[PLACE_POLICIES] = { "random", "dot-product", "best-fit",
	"fgd" };

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

/* --- policies: what is smallest goes first ------------------------------------------------------ */

static double gpu_free(const struct place_node *n)
{
	int sum = 0;

	for (int g = 0; g < n->ngpus; g++)
		sum += n->left[g];
	return (double)sum / PLACE_MILLI;
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

/* Returns the free resources of a node in all dimensions, each relative to the largest machine. */
static double rest_after(const struct place_node *n, const struct place_pod *p)
{
	return (double)(n->cpu_milli - p->cpu_milli) / 128000 +
		(gpu_free(n) - p->gpus * p->milli / (double)PLACE_MILLI) /
		PLACE_GPUS_MAX +
		(double)(n->memory_mib - p->memory_mib) / 1048576;
}

static double dot_product(const struct place_node *n, const struct place_pod *p)
{
	return (double)n->cpu_milli / 128000 * ((double)p->cpu_milli / 128000) +
		gpu_free(n) / PLACE_GPUS_MAX *
		(p->gpus * p->milli / (double)PLACE_MILLI / PLACE_GPUS_MAX) +
		(double)n->memory_mib / 1048576 * ((double)p->memory_mib / 1048576);
}

static double score(struct place_cluster *c, enum place_policy policy,
	const struct place_node *n, const struct place_pod *p, int *gpu)
{
	*gpu = tightest(n, p);
	switch (policy) {
	case PLACE_DOT_PRODUCT:
		return dot_product(n, p);
	case PLACE_BEST_FIT:
		return rest_after(n, p);
	case PLACE_FGD:
		return growth(c, n, p, gpu);
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
		c->gpu_left += gpu_free(&c->nodes[i]);
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
	double best = INFINITY;
	size_t fitting = 0, wanted = 0;
	bool found = false;

	if (policy == PLACE_RANDOM) {
		for (size_t i = 0; i < c->n; i++)
			fitting += fits(&c->nodes[i], pod);
		wanted = fitting ? luck % fitting : 0;
		fitting = 0;
	}
	for (size_t i = 0; i < c->n; i++) {
		const struct place_node *n = &c->nodes[i];
		double s;
		int gpu;

		if (!fits(n, pod))
			continue;
		s = policy == PLACE_RANDOM ? (fitting++ == wanted ? 0 : 1) :
					     score(c, policy, n, pod, &gpu);
		if (policy == PLACE_RANDOM)
			gpu = tightest(n, pod);
		if (s < best) {
			best = s;
			*out = (struct place_choice){ i, gpu };
			found = true;
		}
	}
	return found;
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

void place_trace(const struct place_cluster *empty, enum place_policy policy,
	const struct place_pod *pods, size_t npods, uint64_t seed,
	struct place_result *out)
{
	struct place_cluster c = *empty;
	size_t *order = xmalloc((npods + 1) * sizeof *order), at = 0;
	double arrived = 0, all;
	struct rng r;

	memset(out, 0, sizeof *out);
	c.nodes = xmalloc((c.n + 1) * sizeof *c.nodes);
	memcpy(c.nodes, empty->nodes, c.n * sizeof *c.nodes);
	place_open(&c);
	all = c.gpu_left;
	rng_seed(&r, seed, 17);
	for (size_t i = 0; i < npods; i++) {
		size_t j = rng_below(&r, i + 1);

		order[i] = order[j];
		order[j] = i;
	}
	while (arrived < 1.3 * all && out->pods < 100 * (long)npods) {
		const struct place_pod *p =
			&pods[at < npods ? order[at] : rng_below(&r, npods)];
		struct place_choice choice;
		double before = arrived;

		at++;
		out->pods++;
		if (place_choose(&c, policy, p, rng_u64(&r), &choice))
			place_assign(&c, p, &choice);
		else
			out->failed++;
		arrived += p->gpus * p->milli / (double)PLACE_MILLI;
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
