/* groups.c - see groups.h. */
#include "cmd/rnp-reward/epoch/groups.h"

#include <stddef.h>

#define GPU_FACTORS                                                  \
	(1u << FACTOR_GPU | 1u << FACTOR_VRAM | 1u << FACTOR_CLOCK | \
		1u << FACTOR_MEMORY_BANDWIDTH)

void groups_init(struct groups *g, const struct usage_rows *rows, size_t i,
	const struct usage *node)
{
	g->node = node;
	g->n = 1 + usage_rows_groups(rows, i, &g->more);
	g->next = 0;
}

const struct usage *groups_next(struct groups *g)
{
	const struct usage_group *group;

	if (g->next == g->n)
		return NULL;
	if (!g->next++)
		return g->node;
	group = &g->more[g->next - 2];
	g->one = *g->node;
	g->one.model = group->model;
	/* what overrides the factors of GPUs was written for the first group */
	g->one.overridden &= (uint8_t)~GPU_FACTORS;
	for (int k = 0; k < FIELD_GROUP_N; k++) {
		uint32_t bit = UINT32_C(1) << field_of_group[k];

		g->one.known = (g->one.known & ~bit) | (group->known & bit);
		g->one.value[field_of_group[k]] = group->value[k];
	}
	return &g->one;
}

void groups_idle(const struct usage *group, struct usage *idle)
{
	*idle = *group;
	idle->value[FIELD_GPU_COUNT] = 0;
	idle->value[FIELD_WORKED_S] = 0;
	idle->value[FIELD_GPU_WORKED_S] = 0;
}
