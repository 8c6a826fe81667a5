/* states.c - which state follows which, when one is late, and what a cluster's is. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/market/states.h"

#include "tests/unit/test.h"

static void names(void)
{
	for (int i = 0; i < NODE_STATES; i++)
		CHECK_I64(i, node_state_find(node_state_names[i]));
	CHECK_I64(-1, node_state_find("idle"));
	CHECK_I64(-1, node_state_find(NULL));
}

static void steps(void)
{
	/* no node proves itself, skips its image, or comes back */
	CHECK(!node_state_may(NODE_RESERVED, NODE_READY));
	CHECK(!node_state_may(NODE_PROVING, NODE_PULLING));
	CHECK(!node_state_may(NODE_PULLING, NODE_READY));
	CHECK(!node_state_may(NODE_READY, NODE_STARTING));
	CHECK(!node_state_may(NODE_RELEASING, NODE_READY));
	CHECK(node_state_may(NODE_READY, NODE_READY));
	for (int from = 0; from < NODE_STATES; from++) {
		CHECK(node_state_may(from, NODE_FAILED) == node_state_live(from));
		CHECK(!node_state_may(from, NODE_REPLACED));
		CHECK(!node_state_may(from, NODE_RESERVED));
		for (int to = 0; to < NODE_STATES; to++)
			CHECK(node_state_live(from) || !node_state_may(from, to));
	}
}

static void deadlines(void)
{
	CHECK_I64(1045000, node_state_deadline(NODE_RESERVED, 1000000, 1040000));
	CHECK_I64(1000000 + 600000, node_state_deadline(NODE_PULLING, 1000000, 1000000));
	CHECK_I64(2000000 + 600000, node_state_deadline(NODE_PULLING, 1000000, 2000000));
	/* bytes that trickle in do not make it wait for ever */
	CHECK_I64(1000000 + 7200000, node_state_deadline(NODE_PULLING, 1000000, 8000000));
	CHECK_I64(0, node_state_deadline(NODE_READY, 1000000, 1000000));
	CHECK_I64(0, node_state_deadline(NODE_RELEASED, 1000000, 1000000));
}

static void clusters(void)
{
	const enum node_state mixed[] = { NODE_READY, NODE_PULLING, NODE_REPLACED },
			      over[] = { NODE_RELEASED, NODE_REPLACED, NODE_RELEASED },
			      broken[] = { NODE_RELEASED, NODE_FAILED },
			      ending[] = { NODE_RELEASING, NODE_FAILED };

	CHECK_I64(NODE_PULLING, cluster_state(mixed, 3));
	CHECK_I64(NODE_RELEASED, cluster_state(over, 3));
	CHECK_I64(NODE_FAILED, cluster_state(broken, 2));
	CHECK_I64(NODE_RELEASING, cluster_state(ending, 2));
}

int main(void)
{
	names();
	steps();
	deadlines();
	clusters();
	TEST_END();
}
