/* place.c - classes of pods, and the fragments that they leave: see place.h. */
#include "common/market/place.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

#define TYPICAL 0.95 /* fraction of the pods that have a class */

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
