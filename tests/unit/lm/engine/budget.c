/* budget.c - the budget of a step on a machine that is reckoned: it comes to what is wanted and
 * stays there, whatever interrupts single steps; where the machine becomes slower or faster it
 * follows; steps that prompts did not fill teach nothing. */
#include "common/lm/engine/budget.h"

#include "tests/unit/test.h"

#define MS        INT64_C(1000000)
#define WANTED_NS (45 * MS)
#define STEP_NS   (80 * MS)

/* A step has much beside its rows. */
static int64_t step_ns(uint32_t rows, int64_t row_ns)
{
	return 4 * MS + rows * row_ns;
}

/* Takes n full steps, every fifth of which something interrupts for so long; returns the rows of
 * all. */
static uint64_t steps(struct lm_budget *b, int n, int64_t row_ns, int64_t interrupted_ns)
{
	uint64_t all = 0;

	for (int i = 0; i < n; i++) {
		uint32_t rows = lm_budget_rows(b, WANTED_NS);

		all += rows;
		lm_budget_learn(b, rows, true,
			step_ns(rows, row_ns) + (i % 5 == 4 ? interrupted_ns : 0),
			WANTED_NS);
	}
	return all;
}

static bool is_wanted(const struct lm_budget *b, int64_t row_ns)
{
	int64_t ns = step_ns(lm_budget_rows(b, WANTED_NS), row_ns);

	return ns > WANTED_NS * 17 / 20 && ns <= WANTED_NS;
}

static void comes_to_what_is_wanted(void)
{
	struct lm_budget b;

	lm_budget_init(&b, STEP_NS, 32);
	steps(&b, 12, MS / 4, 0);
	CHECK(is_wanted(&b, MS / 4));
	steps(&b, 12, MS, 0);
	CHECK(is_wanted(&b, MS));
	steps(&b, 12, MS / 8, 0);
	CHECK(is_wanted(&b, MS / 8));
	/* a machine on which one row takes too long computes some */
	steps(&b, 12, 100 * MS, 0);
	CHECK(lm_budget_rows(&b, STEP_NS) >= 16);
	/* without end: the engine has its own limit of rows */
	steps(&b, 100, 0, 0);
	CHECK(lm_budget_rows(&b, STEP_NS) <= 1U << 20);
	CHECK(lm_budget_rows(&b, INT64_C(3) * STEP_NS) <= 3U << 20);
}

static void keeps_its_rows_when_interrupted(void)
{
	struct lm_budget quiet, busy;
	uint64_t rows;

	lm_budget_init(&quiet, STEP_NS, 32);
	lm_budget_init(&busy, STEP_NS, 32);
	steps(&quiet, 12, MS / 4, 0);
	steps(&busy, 12, MS / 4, 0);
	rows = steps(&quiet, 100, MS / 4, 0);
	CHECK(steps(&busy, 100, MS / 4, 90 * MS) > rows * 95 / 100);
}

static void follows_within_three_steps(void)
{
	struct lm_budget b;

	lm_budget_init(&b, STEP_NS, 32);
	steps(&b, 12, MS / 4, 0);
	steps(&b, 3, MS, 0);
	CHECK(step_ns(lm_budget_rows(&b, WANTED_NS), MS) <= WANTED_NS * 11 / 10);
}

static void learns_of_full_steps(void)
{
	struct lm_budget b;
	uint32_t rows;

	lm_budget_init(&b, STEP_NS, 32);
	steps(&b, 12, MS / 4, 0);
	rows = lm_budget_rows(&b, WANTED_NS);
	for (int i = 0; i < 20; i++)
		lm_budget_learn(&b, 4, false, step_ns(4, MS / 4), WANTED_NS);
	lm_budget_learn(&b, 0, true, WANTED_NS, WANTED_NS);
	CHECK(lm_budget_rows(&b, WANTED_NS) == rows);
	/* too long it was, full or not */
	for (int i = 0; i < 5; i++)
		lm_budget_learn(&b, 4, false, 2 * WANTED_NS, WANTED_NS);
	CHECK(lm_budget_rows(&b, STEP_NS) == 16);
}

int main(void)
{
	comes_to_what_is_wanted();
	keeps_its_rows_when_interrupted();
	follows_within_three_steps();
	learns_of_full_steps();
	TEST_END();
}
