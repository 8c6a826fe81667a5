/* gpus.c - see gpus.h. */
#include "common/record/gpus.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* 10^9 FLOP/s for each GiB of a card whose data sheet is not in the table: about what the cards of
 * the last years have */
#define GFLOPS_PER_GIB 5000

static int64_t memory_of(const json_t *gpu)
{
	int64_t bytes = json_integer_value(json_object_get(gpu, "memory_bytes"));

	return bytes > 0 ? bytes : 0;
}

/* Returns the group of a GPU, a new one if it is the first of its model. */
static struct gpu_group *group_of(struct gpu_group *groups, int *n, const json_t *gpu,
	const char *model)
{
	const struct gpu_model *known = gpu_find(model, memory_of(gpu));
	struct gpu_group *g = groups;

	/* the record may withhold the memory of some, or state one that no such card has */
	for (; g < groups + *n; g++)
		if (known ? g->known == known : !g->known && strcmp(g->model, model) == 0)
			return g;
	*g = (struct gpu_group){ .known = known, .model = known ? known->name : model };
	(*n)++;
	return g;
}

/* 10^9 FLOP/s of all its GPUs, in half precision */
static int64_t power_of(const struct gpu_group *g)
{
	int64_t one = 0;

	if (g->known)
		one = g->known->tensor_gflops ? g->known->tensor_gflops :
						2 * g->known->f32_gflops;
	if (!one)
		one = (g->memory_bytes >> 20) * GFLOPS_PER_GIB / 1024;
	return one * g->count;
}

static int order(int64_t a, int64_t b)
{
	return (a < b) - (a > b);
}

static int by_power(const void *x, const void *y)
{
	const struct gpu_group *a = x, *b = y;
	int c = order(power_of(a), power_of(b));

	if (!c)
		c = order(a->memory_bytes, b->memory_bytes);
	if (!c)
		c = order(a->count, b->count);
	return c ? c : strcmp(a->model, b->model);
}

int gpus_group(const json_t *node, struct gpu_group out[GPUS_MAX])
{
	const json_t *gpus = json_object_get(node, "gpus"), *gpu;
	int n = 0;
	size_t i;

	json_array_foreach(gpus, i, gpu) {
		const char *model = json_string_value(json_object_get(gpu, "model"));
		int64_t bytes = memory_of(gpu);
		struct gpu_group *g;

		if (!model || i >= GPUS_MAX)
			continue;
		g = group_of(out, &n, gpu, model);
		g->gpus = gpus;
		g->at[g->count++] = (int)i;
		if (bytes && (!g->memory_bytes || bytes < g->memory_bytes))
			g->memory_bytes = bytes;
	}
	qsort(out, (size_t)n, sizeof *out, by_power);
	return n;
}

const char *gpus_why_unpaid(const json_t *gpu)
{
	const char *uuid = json_string_value(json_object_get(gpu, "uuid"));
	const char *vendor = json_string_value(json_object_get(gpu, "vendor"));

	if (vendor && strcmp(vendor, "AMD") == 0)
		return "a GPU of AMD cannot be challenged: proofs of work run on NVIDIA's GPUs and on CPUs";
	if (!uuid || !*uuid)
		return "without a uuid it cannot be challenged";
	if (strlen(uuid) >= GPUS_UUID_MAX || strncasecmp(uuid, "cpu", 3) == 0)
		return "its uuid cannot be a GPU's";
	/* CUDA sees only the slices */
	if (json_is_true(json_object_get(gpu, "mig")))
		return "a GPU in slices (mig) cannot be challenged";
	return NULL;
}

void gpus_others(struct buf *out, const struct gpu_group *groups, int n, int i)
{
	const char *between = "";

	for (int k = 0; k < n; k++) {
		if (k == i)
			continue;
		buf_addf(out, "%s%" PRId64 " %s", between, groups[k].count,
			groups[k].model);
		between = ", ";
	}
}
