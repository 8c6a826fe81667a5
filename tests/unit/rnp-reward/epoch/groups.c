/* groups.c - limits of pay, leaves in slices, the largest rows, and nodes with GPUs of several
 * models. */
/* uses: cmd/rnp-reward */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/epoch/core.h"
#include "tests/unit/rnp-reward/epoch/usages.h"
#include "tests/unit/test.h"

/* --- limits --------------------------------------------------------------------------------- */

/* Compiles a policy that pays worked_s x 1 token, with more of its own. */
static void start_with(const char *pay, const char *more)
{
	struct buf text = BUF_INIT;
	struct policy p;

	rules_release(&rules);
	usage_rows_release(&usages);
	buf_addf(&text,
		"{\"kind\":\"rnp.policy\",\"v\":1,\"name\":\"x\",\"title\":\"t\","
		"\"epoch\":{\"seconds\":604800},\"requires\":[],\"terms\":[{\"name\":\"a\","
		"\"value\":{\"field\":\"worked_s\"}}],\"pay\":{\"job\":{\"%s\":{\"term\":\"a\"}}}%s}",
		pay, more);
	CHECK(policy_parse(&p, text.data, text.len, "x") == 0);
	CHECK(rules_compile(&rules, &p) == 0);
	buf_release(&text);
}

#define TOKEN INT64_C(100000000)

static void check_limits(void)
{
	struct epoch e;

	/* a claimant's cap, of the last one, too; without a pool what is above was never minted */
	start_with("amount", ",\"caps\":{\"wallet\":\"5\"}");
	add("\"worked_s\":3");
	add("\"worked_s\":4");
	add("\"worked_s\":7");
	CHECK(compute(&e, -1) == 0);
	CHECK_I64(3 * TOKEN, epoch_total(&e, 0));
	CHECK_I64(5 * TOKEN, epoch_total(&e, 2));
	CHECK_I64(1, (int64_t)e.capped);
	CHECK_I64(12 * TOKEN, e.total_base_units);
	CHECK_I64(12 * TOKEN, e.pool_base_units);
	epoch_release(&e);
	/* with one it stays in the pool */
	CHECK(compute(&e, 20 * TOKEN) == 0);
	CHECK_I64(12 * TOKEN, e.total_base_units);
	CHECK_I64(20 * TOKEN, e.pool_base_units);
	epoch_release(&e);
	/* nothing for each node is a limit, too */
	start_with("share", ",\"pool\":{\"per_qualified_node\":\"0\"}");
	add("\"worked_s\":3");
	CHECK(compute(&e, 1000) == 0);
	CHECK_I64(0, e.pool_base_units);
	CHECK_I64(0, epoch_total(&e, 0));
	CHECK_I64(0, (int64_t)e.claimants);
	epoch_release(&e);
	start_with("share", ",\"pool\":{\"per_month\":\"0\"}");
	add("\"worked_s\":3");
	CHECK(compute(&e, 1000) == 0);
	CHECK_I64(0, e.pool_base_units);
	epoch_release(&e);
}

/* Leaves are made in slices: of some claimants nothing is paid, and some have two nodes. */
static void check_slices(void)
{
	unsigned char root[MERKLE_HASH_BYTES];
	struct usage u = { .model = RULES_NO_MODEL,
		.has_wallet = true,
		.known = UINT32_C(1) << FIELD_WORKED_S,
		.from_ms = -1,
		.to_ms = -1 };
	struct merkle_leaf *leaves;
	struct epoch e;
	size_t n;

	for (int more = -1; more <= 1; more++) {
		start_with("amount", "");
		for (int i = 0; i < 3 * (2 * MERKLE_SLICE + more); i++) {
			u.node[0] = (unsigned char)(i >> 8);
			u.node[1] = (unsigned char)i;
			/* a claimant of two nodes, and one that is not paid, in turns */
			memcpy(u.wallet, u.node, sizeof u.wallet);
			if (i % 3 == 1)
				u.wallet[1]--;
			if (i % 3 == 1 && !(i & 255))
				u.wallet[0]--;
			u.value[FIELD_WORKED_S] = i % 3 == 2 ? 0 : 1 + i % 7;
			usage_rows_add(&usages, &u);
		}
		CHECK(compute(&e, -1) == 0);
		CHECK_I64(2 * MERKLE_SLICE + more, (int64_t)e.claimants);
		n = epoch_leaves(&e, &leaves);
		CHECK_I64((int64_t)e.claimants, (int64_t)n);
		merkle_root(leaves, n, root, 0, NULL, NULL);
		CHECK(memcmp(root, e.root, sizeof root) == 0);
		free(leaves);
		epoch_release(&e);
	}
}

/* --- rows ----------------------------------------------------------------------------------- */

/* What is packed is what was added: the largest rows, pages full of them, times that only one end
 * has, and all addresses in their order. */
static void check_rows(void)
{
	struct usage u, back;
	struct usage_ref *refs;

	usage_rows_release(&usages);
	memset(&u, 255, sizeof u);
	u.has_wallet = true;
	u.overridden = (1u << FACTOR_N) - 1;
	u.known = (UINT32_C(1) << FIELD_USAGE) - 1;
	u.model = RULES_NO_MODEL - 1;
	for (int k = 0; k < FIELD_USAGE; k++)
		u.value[k] = INT64_MAX;
	for (int k = 0; k < FACTOR_N; k++)
		u.factor_nano[k] = INT64_MAX;
	for (int i = 0; i < 300; i++) {
		u.from_ms = i;
		u.to_ms = i % 3 ? -1 : i + 1;
		u.node[0] = (unsigned char)(i % 5);
		u.node[31] = (unsigned char)(255 - i % 251);
		usage_rows_add(&usages, &u);
	}
	for (int i = 0; i < 300; i++) {
		usage_rows_get(&usages, (size_t)i, &back);
		CHECK(back.from_ms == i && back.to_ms == (i % 3 ? -1 : i + 1));
		CHECK(back.node[0] == i % 5 && back.node[31] == 255 - i % 251);
		CHECK(back.model == u.model && back.known == u.known);
		CHECK(memcmp(back.value, u.value, sizeof u.value) == 0);
		CHECK(memcmp(back.factor_nano, u.factor_nano, sizeof u.factor_nano) == 0);
	}
	refs = usage_rows_sort(&usages, usage_rows_node);
	for (size_t i = 1; i < usages.n; i++) {
		int order = memcmp(usage_rows_node(&usages, refs[i - 1].row),
			usage_rows_node(&usages, refs[i].row), ADDRESS_BYTES);

		CHECK(order < 0 || (order == 0 && refs[i - 1].row < refs[i].row));
		CHECK(refs[i].first == (order != 0));
	}
	free(refs);
	usage_rows_release(&usages);
}

/* --- groups of GPUs ------------------------------------------------------------------------- */

#define H200S \
	"\"gpu_model\":\"H200\",\"gpu_count\":2,\"gpu_worked_s\":720000,\"worked_s\":360000"
#define L4S \
	"\"gpu_model\":\"L4\",\"gpu_count\":4,\"gpu_worked_s\":604800,\"worked_s\":100000"
#define DISPLAY \
	"\"gpu_model\":\"T400 4GB\",\"gpu_count\":1,\"gpu_worked_s\":0,\"worked_s\":0"
#define NODE_UP     ",\"up_s\":604800,\"down_bps\":900000000,\"up_bps\":900000000"
#define MORE(x)     ",\"more_gpus\":[{" x "}]"
#define MORE2(x, y) ",\"more_gpus\":[{" x "},{" y "}]"

static void check_groups(void)
{
	struct outcome groups[EPOCH_GROUPS_MAX], o;
	int64_t pay[4][PAY_N];
	struct epoch e;

	start("rnp-021");
	add(H200S NODE_UP);
	add(L4S NODE_UP);
	add(H200S NODE_UP MORE2(DISPLAY, L4S));
	add(DISPLAY NODE_UP MORE(L4S));
	CHECK(compute(&e, -1) == 0);
	memcpy(pay, e.pay, sizeof pay);
	CHECK(pay[0][PAY_JOB] > 0 && pay[1][PAY_JOB] > 0);
	CHECK_I64(pay[0][PAY_JOB] + pay[1][PAY_JOB], pay[2][PAY_JOB]);
	CHECK_I64(pay[0][PAY_AVAILABILITY], pay[2][PAY_AVAILABILITY]);
	CHECK_I64(pay[1][PAY_JOB], pay[3][PAY_JOB]);
	CHECK_I64(pay[1][PAY_AVAILABILITY], pay[3][PAY_AVAILABILITY]);
	CHECK_I64(4, (int64_t)e.qualified);
	CHECK_I64(1, (int64_t)epoch_groups(&e, 0, groups));
	CHECK_I64(3, (int64_t)epoch_groups(&e, 2, groups));
	CHECK(outcome_qualified(&groups[0]) && !outcome_qualified(&groups[1]) &&
		outcome_qualified(&groups[2]));
	CHECK_I64(pay[0][PAY_JOB], groups[0].pay[PAY_JOB]);
	CHECK_I64(pay[0][PAY_AVAILABILITY], groups[0].pay[PAY_AVAILABILITY]);
	CHECK_I64(0, outcome_total(&groups[1]));
	CHECK_I64(pay[1][PAY_JOB], groups[2].pay[PAY_JOB]);
	CHECK_I64(0, groups[2].pay[PAY_AVAILABILITY]);
	/* the node's own result is of the first that qualifies */
	epoch_outcome(&e, 3, &o);
	CHECK(outcome_qualified(&o));
	CHECK_TEXT("L4", rules.models[o.usage.model].name);
	CHECK_I64(pay[1][PAY_JOB], o.pay[PAY_JOB]);
	epoch_release(&e);

	/* a share of a pool, whose weight no work moves, is the node's once */
	start("rnp-006");
	add("\"gpu_model\":\"RTX 4090\",\"gpu_count\":1" NODE_UP);
	add("\"gpu_model\":\"RTX 4090\",\"gpu_count\":1" NODE_UP MORE(
		"\"gpu_model\":\"RTX 3090\",\"gpu_count\":1"));
	CHECK(compute(&e, 1000) == 0);
	CHECK_I64(e.pay[0][PAY_JOB], e.pay[1][PAY_JOB]);
	CHECK_I64(2, (int64_t)e.qualified);
	epoch_release(&e);

	/* hours beyond the epoch in no group, and not in all together */
	start("rnp-021");
	add("\"gpu_model\":\"H200\",\"gpu_count\":1,\"worked_s\":300000" MORE(
		"\"gpu_model\":\"L4\",\"gpu_count\":1,\"worked_s\":304800"));
	CHECK(compute(&e, -1) == 0);
	epoch_release(&e);
	add("\"gpu_model\":\"H200\",\"gpu_count\":1,\"worked_s\":300000" MORE(
		"\"gpu_model\":\"L4\",\"gpu_count\":1,\"worked_s\":304801"));
	CHECK_FAILS(EX_DATAERR, compute(&e, -1));
	epoch_release(&e);
	start("rnp-021");
	add("\"gpu_model\":\"H200\",\"gpu_count\":1" MORE(
		"\"gpu_model\":\"L4\",\"gpu_count\":1,\"gpu_worked_s\":604801"));
	CHECK_FAILS(EX_DATAERR, compute(&e, -1));
	epoch_release(&e);
}

int main(void)
{
	check_limits();
	check_slices();
	check_rows();
	check_groups();
	rules_release(&rules);
	usage_rows_release(&usages);
	TEST_END();
}
