/* budget.c - the median of what rows cost lately. */
#include "common/lm/engine/budget.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_MIN 16
#define ROWS_MAX (1U << 20)

void lm_budget_init(struct lm_budget *b, int64_t step_ns, uint32_t rows)
{
	*b = (struct lm_budget){ .step_ns = step_ns, .rows = rows };
}

static int by_size(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* Adds what a row cost in a step, and returns what it usually costs: the median, as a step that
 * something else on the machine interrupted says nothing of the next ones. */
static int64_t usual_cost(struct lm_budget *b, int64_t ns)
{
	int64_t sorted[LM_BUDGET_COSTS];

	b->cost_ns[b->next_cost] = ns;
	b->next_cost = (b->next_cost + 1) % LM_BUDGET_COSTS;
	b->costs += b->costs < LM_BUDGET_COSTS;
	memcpy(sorted, b->cost_ns, sizeof sorted);
	qsort(sorted, b->costs, sizeof *sorted, by_size);
	return sorted[b->costs / 2];
}

void lm_budget_learn(struct lm_budget *b, uint32_t load, bool full, int64_t ns,
	int64_t wanted_ns)
{
	uint64_t rows, most = 2 * (uint64_t)b->rows;

	/* one that prompts did not fill says little of what their rows cost, unless it was too
	 * long */
	if (!load || (!full && ns <= wanted_ns))
		return;
	rows = (uint64_t)(b->step_ns / (usual_cost(b, ns / load) + 1));
	/* short steps have much beside their rows: more rows make each of them cheaper */
	if (rows > most)
		rows = most;
	if (rows < ROWS_MIN)
		rows = ROWS_MIN;
	b->rows = rows < ROWS_MAX ? (uint32_t)rows : ROWS_MAX;
}

uint32_t lm_budget_rows(const struct lm_budget *b, int64_t wanted_ns)
{
	uint64_t rows = b->rows * (uint64_t)wanted_ns / (uint64_t)b->step_ns;

	return rows < UINT32_MAX ? (uint32_t)rows : UINT32_MAX;
}
