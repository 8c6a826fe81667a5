/* epoch.c - every worked example of the proposals, to the last base unit. */
/* uses: cmd/rnp-reward */
#include <stdlib.h>

#include "cmd/rnp-reward/epoch/core.h"
#include "cmd/rnp-reward/policy/expr.h"
#include "common/base/buf.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "tests/unit/rnp-reward/epoch/usages.h"
#include "tests/unit/test.h"

#define WEEK 604800

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
	check_bad_epochs();
	rules_release(&rules);
	usage_rows_release(&usages);
	check_shares();
	TEST_END();
}
