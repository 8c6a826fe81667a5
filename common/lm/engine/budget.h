/* budget.h - how many rows of prompts a step may have, so that it takes as long as wanted: what
 * rows cost is learnt from the last steps. Pure. */
#ifndef RNP_COMMON_LM_ENGINE_BUDGET_H
#define RNP_COMMON_LM_ENGINE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

#define LM_BUDGET_COSTS 5 /* steps whose median says what a row costs */

struct lm_budget {
	int64_t step_ns; /* that a step may take */
	uint32_t rows;   /* that one of step_ns may have, in the unit of lm_engine_load */
	/* what a row cost in the last steps: a ring, of which `costs` are there */
	int64_t cost_ns[LM_BUDGET_COSTS];
	uint32_t costs, next_cost;
};

/* Begins with so many rows, until their speed is known. */
void lm_budget_init(struct lm_budget *b, int64_t step_ns, uint32_t rows);

/* Learns from a step of this load that took ns, of wanted_ns. full: prompts had more rows than it
 * allowed. */
void lm_budget_learn(struct lm_budget *b, uint32_t load, bool full, int64_t ns,
	int64_t wanted_ns);

/* Returns how many rows a step of wanted_ns may have. */
uint32_t lm_budget_rows(const struct lm_budget *b, int64_t wanted_ns);

#endif
