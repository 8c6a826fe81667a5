/* stake.c - the rule for stakes, case by case. uses: cmd/rnp-reward */
#include "cmd/rnp-reward/ledger/stake_moves.h"
#include "tests/unit/test.h"

static enum stake_move decide(bool challenged, int64_t passed_ppm, bool up,
	int64_t absent_ms)
{
	return stake_decide(500000, 1000,
		&(struct stake_view){ challenged, passed_ppm, up, absent_ms });
}

int main(void)
{
	struct stake_view gone = { false, 0, false, INT64_MAX };
	struct stake_view failed = { true, 0, true, 0 };

	CHECK(decide(false, 0, true, 0) == STAKE_STAYS);
	CHECK(decide(true, 500000, true, 0) == STAKE_STAYS);
	CHECK(decide(true, 499999, true, 0) == STAKE_SLASH);
	CHECK(decide(false, 0, false, 999999) == STAKE_STAYS);
	CHECK(decide(false, 0, false, 1000000) == STAKE_RELEASE);
	/* a node that is up again has not left, whenever it was seen before */
	CHECK(decide(false, 0, true, 1000000) == STAKE_STAYS);
	/* nobody escapes by leaving */
	CHECK(decide(true, 0, false, 1000000) == STAKE_SLASH);
	/* a policy without rules moves nothing */
	CHECK(stake_decide(-1, -1, &gone) == STAKE_STAYS);
	CHECK(stake_decide(-1, -1, &failed) == STAKE_STAYS);
	TEST_END();
}
