/* epoch.c - every worked example of the proposals, to the last base unit. */
/* uses: cmd/rnp-reward */
#include <stdlib.h>

#include "cmd/rnp-reward/epoch/core.h"
#include "cmd/rnp-reward/policy/expr.h"
#include "cmd/rnp-reward/epoch/usage_read.h"
#include "common/base/buf.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

#define WEEK 604800

static struct rules rules;
static struct usage_rows usages;

static void start(const char *policy)
{
	rules_release(&rules);
	CHECK(rules_load(&rules, policy) == 0);
	usage_rows_release(&usages);
}

/* A usage of a new node, as rnp.usage has it: `"worked_s":7` and so on. */
static void add(const char *fields)
{
	unsigned char bytes[32] = { 9 };
	char node[KEY_ADDRESS_MAX];
	struct buf text = BUF_INIT;
	json_t *record;

	bytes[1] = (unsigned char)(usages.n >> 8);
	bytes[2] = (unsigned char)usages.n;
	address_format(bytes, node);
	buf_addf(&text,
		"{\"kind\":\"rnp.usage\",\"v\":1,\"node\":\"%s\",\"wallet\":\"%s\",%s}",
		node, node, fields);
	record = json_parse_object(text.data, text.len, "usage");
	CHECK(usage_rows_add_json(&usages, &rules, record, "usage") == 0);
	json_decref(record);
	buf_release(&text);
}

static int compute(struct epoch *e, int64_t pool)
{
	size_t bad;

	epoch_init(e, &rules, &usages);
	e->scheduled_base_units = pool;
	return epoch_compute(e, &bad);
}

static int64_t term_ppm(const struct epoch *e, size_t i, const char *name)
{
	struct outcome o;

	epoch_outcome(e, i, &o);
	for (int t = 0; t < rules.nterms; t++)
		if (strcmp(rules.terms[t].name, name) == 0)
			return o.terms_ppm[t];
	return -1;
}

static bool qualified(const struct epoch *e, size_t i)
{
	struct outcome o;

	epoch_outcome(e, i, &o);
	return outcome_qualified(&o);
}

/* --- section 4.3 --------------------------------------------------------------------------- */

#define FACTORS(g, v, n, c, m, p)                                                      \
	"\"factors\":{\"gpu\":" #g ",\"vram\":" #v ",\"network\":" #n ",\"clock\":" #c \
	",\"memory_bandwidth\":" #m ",\"cpu\":" #p "},\"worked_s\":360000"

static void check_rnp019(void)
{
	struct epoch e;

	start("rnp-019");
	add(FACTORS(1, 1, 1, 1, 1, 1));
	add(FACTORS(1.7, 1.33, 4, 1.12, 1.28, 1.5));
	add(FACTORS(1, 1, 0.25, 0.68, 0.66, 1));
	CHECK(compute(&e, -1) == 0);
	CHECK_I64(970000, term_ppm(&e, 0, "multiplier"));
	CHECK_I64(577380952, e.pay[0][PAY_JOB]); /* 5.7738 */
	CHECK_I64(1809800, term_ppm(&e, 1, "multiplier"));
	CHECK_I64(1077261904, e.pay[1][PAY_JOB]); /* 10.7726 */
	CHECK_I64(804700, term_ppm(&e, 2, "multiplier"));
	CHECK_I64(478988095, e.pay[2][PAY_JOB]); /* 4.7899 */
	CHECK_I64(577380952 + 1077261904 + 478988095, e.total_base_units);
	epoch_release(&e);
}

static void check_rnp021(void)
{
	struct epoch e;

	start("rnp-021");
	add("\"gpu_model\":\"H200\",\"gpu_count\":1,\"gpu_worked_s\":360000");
	add("\"gpu_model\":\"NVIDIA GeForce RTX 4090\",\"gpu_memory_bytes\":25769803776,"
	    "\"gpu_clock_mhz\":2500,\"gpu_memory_bandwidth_bps\":1008000000000,\"cpu_cores\":8,"
	    "\"cpu_clock_mhz\":3000,\"gpu_count\":1,\"gpu_worked_s\":360000,\"up_s\":601776");
	add("\"gpu_model\":\"NVIDIA H100 80GB HBM3\",\"gpu_count\":1,\"gpu_worked_s\":360000,\"up_s\":604800");
	add("\"up_s\":604800");                            /* no GPU */
	add("\"gpu_model\":\"GTX 1660\",\"up_s\":604800"); /* not in the tables */
	add("\"gpu_model\":\"L4\",\"up_s\":604800,\"down_bps\":100000000,\"up_bps\":90000000");
	CHECK(compute(&e, -1) == 0);
	CHECK_I64(5000000, term_ppm(&e, 0, "multiplier"));
	CHECK_I64(7440476190, e.pay[0][PAY_JOB]); /* 74.4048 */
	CHECK_I64(1000000, term_ppm(&e, 1, "multiplier"));
	CHECK_I64(1488095238, e.pay[1][PAY_JOB]);         /* 14.8810 */
	CHECK_I64(199000000, e.pay[1][PAY_AVAILABILITY]); /* 1.99 */
	CHECK_I64(1687095238, epoch_total(&e, 1));        /* 16.8710 */
	CHECK_I64(4000000, term_ppm(&e, 2, "multiplier"));
	CHECK_I64(5952380952, e.pay[2][PAY_JOB]);
	for (size_t i = 3; i < 6; i++) {
		CHECK(!qualified(&e, i));
		CHECK_I64(0, epoch_total(&e, i));
	}
	CHECK_I64(3, (int64_t)e.qualified);
	CHECK_I64(3, (int64_t)e.claimants);
	epoch_release(&e);
}

/* --- section 4.2 --------------------------------------------------------------------------- */

static void check_rnp006(void)
{
	struct epoch e;

	start("rnp-006");
	add("\"gpu_model\":\"RTX 4090\",\"earned_uusd\":2500000000,\"up_s\":604800,"
	    "\"down_bps\":1700000000,\"up_bps\":1300000000");
	add("\"gpu_model\":\"RTX 3060\",\"earned_uusd\":100000000,\"up_s\":574560,"
	    "\"down_bps\":500000000,\"up_bps\":400000000");
	/* above the highest earnings, but not qualified: does not count as the highest */
	add("\"gpu_model\":\"RTX 4090\",\"earned_uusd\":9900000000,\"up_s\":604800,"
	    "\"down_bps\":100000000,\"up_bps\":1300000000");
	/* half of the epoch; only the lower tier that both readings exceed */
	add("\"gpu_model\":\"3080-12G\",\"up_s\":302400,\"earned_uusd\":0,"
	    "\"down_bps\":400000000,\"up_bps\":1300000000");
	CHECK(compute(&e, 8408520000000) == 0);
	CHECK_I64(136000, term_ppm(&e, 1, "a"));
	CHECK_I64(484000, term_ppm(&e, 1, "s"));
	CHECK_I64(930000, term_ppm(&e, 0, "s"));
	CHECK(!qualified(&e, 2));
	CHECK_I64(100000, term_ppm(&e, 3, "a"));
	CHECK_I64(200000, term_ppm(&e, 3, "b"));
	CHECK_I64(800000, term_ppm(&e, 3, "c"));
	CHECK_I64(500000, term_ppm(&e, 3, "d"));
	/* 75 RENDER x 3 qualified nodes is lower than 84,085.2 */
	CHECK_I64(22500000000, e.pool_base_units);
	CHECK_I64(22500000000, e.total_base_units);
	epoch_release(&e);
	CHECK(compute(&e, 22400000000) == 0);
	CHECK_I64(22400000000, e.pool_base_units);
	epoch_release(&e);
	CHECK_FAILS(EX_USAGE, compute(&e, -1));
	epoch_release(&e);
}

static void check_rnp006_pool(void)
{
	struct epoch e;

	start("rnp-006");
	for (int i = 0; i < 1000; i++)
		add("\"gpu_model\":\"RTX 3060\",\"earned_uusd\":7,\"up_s\":604800,"
		    "\"down_bps\":500000000,\"up_bps\":400000000");
	CHECK(compute(&e, 9000000000000) == 0);
	CHECK_I64(7500000000000, e.pool_base_units); /* 75,000 */
	CHECK_I64(7500000000, epoch_total(&e, 999));
	epoch_release(&e);
	CHECK(compute(&e, 8408520000000 - 1000) == 0);
	CHECK_I64(7500000000000, e.total_base_units);
	epoch_release(&e);
}

/* --- section 4.1, splits ------------------------------------------------------------------- */

static void check_rnp004(void)
{
	struct epoch e;

	start("rnp-004");
	add("\"credits\":1");
	add("\"credits\":1");
	add("\"credits\":1");
	add("\"credits\":0");
	CHECK(compute(&e, 100) == 0);
	CHECK_I64(34, epoch_total(&e, 0)); /* largest remainder, ties to the first */
	CHECK_I64(33, epoch_total(&e, 1));
	CHECK_I64(33, epoch_total(&e, 2));
	CHECK_I64(0, epoch_total(&e, 3));
	CHECK_I64(3, (int64_t)e.claimants);
	epoch_release(&e);
}

/* Fixed rates beyond the pool are cut in proportion, to the last unit. */
static void check_cut(void)
{
	struct epoch e;

	start("rnp-021");
	add("\"gpu_model\":\"H200\",\"gpu_count\":1,\"gpu_worked_s\":360000,\"up_s\":604800");
	add("\"gpu_model\":\"L4\",\"gpu_count\":1,\"gpu_worked_s\":1,\"up_s\":604800");
	CHECK(compute(&e, 1000000007) == 0);
	CHECK_I64(1000000007, e.total_base_units);
	CHECK(e.pay[0][PAY_JOB] > e.pay[1][PAY_JOB]);
	epoch_release(&e);
	CHECK(compute(&e, 100000000000) == 0);
	CHECK_I64(7440476190 + 200000000 + 200000000 + 6200, e.total_base_units);
	epoch_release(&e);
}

static void check_scale(void)
{
	struct epoch e;
	size_t bad;

	start("rnp-021");
	add("\"gpu_model\":\"H200\",\"gpu_count\":1,\"gpu_worked_s\":360000,\"up_s\":604800");
	epoch_init(&e, &rules, &usages);
	e.scale[PAY_JOB] = frac_of(3, 1);
	CHECK(epoch_compute(&e, &bad) == 0);
	CHECK_I64(22321428571, e.pay[0][PAY_JOB]);
	CHECK_I64(200000000, e.pay[0][PAY_AVAILABILITY]);
	e.scale[PAY_JOB] = frac_of(31, 10);
	CHECK_FAILS(EX_USAGE, epoch_compute(&e, &bad));
	epoch_release(&e);
}

/* --- scales of section 4.3 ------------------------------------------------------------------ */

static void check_scales(void)
{
	struct epoch e;

	start("rnp-019");
	add("\"gpu_memory_bytes\":19327352832,\"gpu_clock_mhz\":2100,\"down_bps\":800000000,"
	    "\"up_bps\":600000000,\"cpu_cores\":6,\"cpu_clock_mhz\":4500"); /* 18 GiB */
	add("\"gpu_memory_bytes\":68719476736,\"gpu_clock_mhz\":3500,\"down_bps\":3200000000,"
	    "\"up_bps\":9900000000,\"cpu_cores\":64,\"cpu_clock_mhz\":6000"); /* 64 GiB */
	add("\"gpu_memory_bytes\":4294967296,\"gpu_clock_mhz\":900,\"down_bps\":99999999,"
	    "\"up_bps\":600000000,\"cpu_cores\":1,\"cpu_clock_mhz\":1000");
	add("\"down_bps\":250000000,\"up_bps\":600000000");
	CHECK(compute(&e, -1) == 0);
	CHECK_I64(750000, term_ppm(&e, 0, "vram"));
	CHECK_I64(840000, term_ppm(&e, 0, "clock"));
	CHECK_I64(2000000, term_ppm(&e, 0, "network"));
	CHECK_I64(750000, term_ppm(&e, 0, "cpu"));   /* 6 cores 0.75, 4.5 GHz 1.5 */
	CHECK_I64(2660000, term_ppm(&e, 1, "vram")); /* in proportion beyond 32 */
	CHECK_I64(1400000, term_ppm(&e, 1, "clock"));
	CHECK_I64(8000000, term_ppm(&e, 1, "network"));
	CHECK_I64(1500000, term_ppm(&e, 1, "cpu")); /* held */
	CHECK_I64(0, term_ppm(&e, 2, "vram"));
	CHECK_I64(0, term_ppm(&e, 2, "clock"));
	CHECK_I64(0, term_ppm(&e, 2, "network"));
	CHECK_I64(0, term_ppm(&e, 2, "cpu"));
	CHECK_I64(625000, term_ppm(&e, 3, "network"));
	epoch_release(&e);
}

/* Every row of a policy's tables is a name that usages can have. */
static void check_tables(void)
{
	static const char *const names[] = { "rnp-006", "rnp-019", "rnp-021" };
	const char *row;
	json_t *value;

	for (size_t i = 0; i < 3; i++) {
		start(names[i]);
		for (int t = 0; t < rules.scope.ntables; t++) {
			json_object_foreach((json_t *)rules.tables[t], row, value) {
				uint32_t m = rules_model(&rules, row, 0);

				CHECK_TEXT(row, rules.models[m].name);
				CHECK(rules.models[m].rows.present[t]);
			}
		}
	}
}

/* --- section 2 ----------------------------------------------------------------------------- */

static int64_t score(const char *readings)
{
	json_t *v = json_parse_object(readings, strlen(readings), "readings");
	int64_t ppm = policy_score_ppm(&rules.policy, v);

	json_decref(v);
	return ppm;
}

static void check_score(void)
{
	start("rnp-004");
	CHECK_I64(1000000,
		score("{\"bandwidth\":500000000,\"teraflops\":82580000000000,"
		      "\"memory\":25769803776,\"clock\":10000000}"));
	CHECK_I64(16000000,
		score("{\"bandwidth\":1000000000,\"teraflops\":82580000000000,"
		      "\"memory\":25769803776,\"clock\":10000000}"));
	CHECK_I64(125000,
		score("{\"bandwidth\":500000000,\"teraflops\":41290000000000,"
		      "\"memory\":25769803776,\"clock\":10000000}"));
	CHECK_I64(375000,
		score("{\"bandwidth\":500000000,\"teraflops\":82580000000000,"
		      "\"memory\":12884901888,\"clock\":15000000}"));
	CHECK_I64(0,
		score("{\"bandwidth\":500000000,\"teraflops\":0,"
		      "\"memory\":12884901888,\"clock\":15000000}"));
	CHECK_I64(1000000000000000,
		score("{\"bandwidth\":4000000000000000000,"
		      "\"teraflops\":82580000000000,\"memory\":25769803776,\"clock\":10000000}"));
	CHECK_I64(-1, score("{\"bandwidth\":500000000,\"memory\":25769803776}"));
	/* by Python's fractions */
	CHECK_I64(480,
		score("{\"bandwidth\":462500000,\"teraflops\":12740000000000,"
		      "\"memory\":9203501348,\"clock\":14000000}"));
	start("rnp-021");
	CHECK_I64(-1, score("{}"));
}

/* --- arithmetic ---------------------------------------------------------------------------- */

static void check_fractions(void)
{
	struct frac big = { (u128)1 << 100, ((u128)1 << 90) + 1 }, out;
	u128 rest;
	int64_t v;

	CHECK(frac_cmp(frac_of(1, 3), frac_of(333333333, 1000000000)) > 0);
	CHECK(frac_cmp(frac_of(2, 6), frac_of(1, 3)) == 0);
	CHECK(frac_cmp(big, (struct frac){ ((u128)1 << 100) + 1, ((u128)1 << 90) + 1 }) <
		0);
	CHECK(!frac_mul(&out, big, big));
	CHECK(frac_div(&out, big, big) && frac_cmp(out, frac_of(1, 1)) == 0);
	CHECK(frac_add(&out, frac_of(1, 6), frac_of(1, 10)));
	CHECK(frac_cmp(out, frac_of(4, 15)) == 0);
	CHECK(frac_floor(frac_of(2, 3), 100000000, &v) && v == 66666666);
	CHECK(!frac_floor((struct frac){ (u128)1 << 90, 1 }, 1, &v));
	/* a product of 186 bits, checked with Python */
	CHECK_I64(5270498306774157604,
		frac_share(INT64_MAX, (u128)1 << 123, ((u128)1 << 123) / 4 * 7, &rest));
	CHECK(rest == 0);
}

static void check_bad_policies(void)
{
	static const char *const bad[] = { "{\"nothing\":1}", "{\"field\":\"nothing\"}",
		"{\"term\":\"later\"}", "0.5", "-1", "\"-1\"", "\"1e99\"", "null", "[]",
		"{\"sum\":[]}", "{\"divide\":[1]}", "{\"scale\":1,\"points\":[]}",
		"{\"scale\":1,\"points\":[[2,1],[1,1]]}",
		"{\"scale\":1,\"points\":[[0,1]],"
		"\"above\":\"proportion\"}",
		"{\"sum\":[1],\"extra\":1}",
		"{\"table\":\"none\",\"of\":\"gpu_model\",\"otherwise\":0}",
		"{\"tiers\":[{\"name\":\"a\",\"more_than\":{\"none\":1},\"value\":1}],"
		"\"otherwise\":0}" };
	static const char *const needs[] = { "\"field\":\"gpu_model\",\"at_least\":1",
		"\"field\":\"up_s\",\"one_of\":[\"1\"]",
		"\"field\":\"up_s\",\"known\":true,\"override\":\"nothing\"" };
	struct buf text = BUF_INIT;
	struct policy p;
	struct rules r;

	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		buf_reset(&text);
		buf_addf(&text,
			"{\"kind\":\"rnp.policy\",\"v\":1,\"name\":\"x\",\"title\":\"t\","
			"\"epoch\":{\"seconds\":60},\"requires\":[],\"terms\":[{\"name\":\"a\","
			"\"value\":%s}],\"pay\":{}}",
			bad[i]);
		CHECK(policy_parse(&p, text.data, text.len, "x") == 0);
		CHECK_FAILS(EX_DATAERR, rules_compile(&r, &p));
	}
	for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
		buf_reset(&text);
		buf_addf(&text,
			"{\"kind\":\"rnp.policy\",\"v\":1,\"name\":\"x\",\"title\":\"t\","
			"\"epoch\":{\"seconds\":60},\"requires\":[{\"name\":\"a\",%s}],"
			"\"terms\":[],\"pay\":{}}",
			needs[i]);
		CHECK(policy_parse(&p, text.data, text.len, "x") == 0);
		CHECK_FAILS(EX_DATAERR, rules_compile(&r, &p));
	}
	buf_release(&text);
}

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

static void check_bad_epochs(void)
{
	struct epoch e;
	struct usage one;
	size_t a, b;

	start("rnp-021");
	add("\"gpu_model\":\"H200\",\"gpu_count\":1,\"gpu_worked_s\":604801");
	CHECK_FAILS(EX_DATAERR, compute(&e, -1));
	epoch_release(&e);
	start("rnp-021");
	add("\"from\":\"2026-01-05T00:00:00Z\",\"to\":\"2026-01-12T00:00:00Z\"");
	add("\"from\":\"2026-01-05T00:00:00Z\",\"to\":\"2026-01-12T00:00:01Z\"");
	CHECK_FAILS(EX_DATAERR, compute(&e, -1));
	epoch_release(&e);
	CHECK(!usage_rows_duplicate(&usages, &a, &b));
	usage_rows_get(&usages, 1, &one);
	usage_rows_add(&usages, &one);
	usage_rows_add(&usages, &one);
	usage_rows_get(&usages, 0, &one);
	usage_rows_add(&usages, &one);
	CHECK(usage_rows_duplicate(&usages, &a, &b) && a == 1 && b == 2);
}

/* --- shares --------------------------------------------------------------------------------- */

static uint64_t state = 1;

static uint64_t random_below(uint64_t n)
{
	state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (state >> 16) % n;
}

/* One random split: the parts are the whole, and each is its share rounded down, or one more. */
static bool split_is_exact(void)
{
	struct frac weights[8];
	int64_t parts[8],
		total = (int64_t)random_below(UINT64_C(1) << (1 + random_below(40)));
	uint64_t whole[8], sum = 0;
	size_t n = 1 + random_below(8);
	int64_t left = total;
	bool good = true;

	/* 5040 is a multiple of every denominator below 11, so that shares are whole of it */
	for (size_t i = 0; i < n; i++) {
		uint64_t den = 1 + random_below(10);

		weights[i] = (struct frac){ random_below(4) ? random_below(1000) : 0,
			den };
		whole[i] = (uint64_t)weights[i].num * (5040 / den);
		sum += whole[i];
	}
	if (split_fracs(total, weights, n, parts) < 0)
		return false;
	for (size_t i = 0; i < n; i++) {
		int64_t floor = sum ?
			(int64_t)((unsigned __int128)total * whole[i] / sum) :
			0;

		good = good && (parts[i] == floor || parts[i] == floor + 1);
		left -= parts[i];
	}
	return good && left == (sum ? 0 : total);
}

static void check_shares(void)
{
	struct frac largest[2] = { { (u128)1 << 124, 1 }, FRAC_ZERO };
	int64_t parts[2];
	long bad = 0;

	/* the largest sum that there may be, and one more */
	CHECK(split_fracs(7, largest, 2, parts) == 0);
	CHECK_I64(7, parts[0]);
	largest[0] = (struct frac){ (u128)1 << 124, 1 };
	largest[1] = (struct frac){ 1, 1 };
	CHECK_FAILS(EX_DATAERR, split_fracs(7, largest, 2, parts));

	for (long i = 0; i < 1000000; i++)
		bad += !split_is_exact();
	CHECK_I64(0, bad);
}

int main(void)
{
	check_rnp019();
	check_rnp021();
	check_rnp006();
	check_rnp006_pool();
	check_rnp004();
	check_cut();
	check_scale();
	check_scales();
	check_tables();
	check_score();
	check_fractions();
	check_bad_policies();
	check_limits();
	check_slices();
	check_rows();
	check_groups();
	check_bad_epochs();
	rules_release(&rules);
	usage_rows_release(&usages);
	check_shares();
	TEST_END();
}
