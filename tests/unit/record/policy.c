/* policy.c - found by name, read with limits, and what it requires. */
#include "common/record/policy.h"

#include "common/base/buf.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static const char minimal[] =
	"{\"kind\":\"rnp.policy\",\"v\":1,\"name\":\"x\",\"title\":\"t\","
	"\"epoch\":{\"seconds\":60},\"requires\":[%s],\"terms\":[],\"pay\":{}}";

static int parse(struct policy *p, const char *need)
{
	struct buf text = BUF_INIT;
	int rc;

	buf_addf(&text, minimal, need);
	rc = policy_parse(p, text.data, text.len, "x.json");
	buf_release(&text);
	return rc;
}

static void check_all_load(void)
{
	static const char *const names[] = { "rnp-004", "rnp-006", "rnp-019", "rnp-021",
		"testnet" };
	struct policy p;

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		CHECK(policy_load(&p, names[i]) == 0);
		CHECK_TEXT(names[i], p.name);
		CHECK_TEXT(i == 4 ? "TEST" : "RENDER", p.token);
		CHECK_I64(64, (int64_t)strlen(p.sha256));
		policy_release(&p);
	}
	CHECK_FAILS(EX_USAGE, policy_load(&p, "rnp-999"));
	CHECK_FAILS(EX_NOINPUT, policy_load(&p, "./nowhere.json"));
	CHECK_FAILS(EX_NOINPUT, policy_load(&p, "../policies/rnp-021"));
}

static void check_needs(void)
{
	struct policy_need needs[POLICY_NEEDS_MAX];
	struct policy p;

	CHECK(policy_load(&p, "rnp-021") == 0);
	CHECK_I64(5, policy_needs(&p, "requires", needs));
	CHECK(policy_met_text(&p, &needs[1], "H200"));
	CHECK(policy_met_text(&p, &needs[1], "RTX 4090"));
	CHECK(!policy_met_text(&p, &needs[1], "GTX 1660"));
	CHECK(!policy_met_i64(&needs[1], 7));
	CHECK(!policy_met_i64(&needs[2], 100000000)); /* must be exceeded */
	CHECK(policy_met_i64(&needs[2], 100000001));
	CHECK(!policy_met_text(&p, &needs[2], "RTX 4090"));
	policy_release(&p);
}

static void check_refused(void)
{
	struct policy p;

	CHECK(parse(&p, "") == 0);
	policy_release(&p);
	CHECK_FAILS(EX_DATAERR, parse(&p, "{\"name\":\"a\",\"field\":\"up_s\"}"));
	CHECK_FAILS(EX_DATAERR,
		parse(&p,
			"{\"name\":\"a\",\"field\":\"up_s\",\"known\":true,"
			"\"more_than\":1}"));
	CHECK_FAILS(EX_DATAERR,
		parse(&p, "{\"name\":\"a\",\"field\":\"up_s\",\"more_than\":1.5}"));
	CHECK_FAILS(EX_DATAERR,
		parse(&p, "{\"name\":\"a\",\"field\":\"m\",\"in_tables\":[\"t\"]}"));
	CHECK_FAILS(EX_DATAERR,
		parse(&p, "{\"name\":\"a\",\"field\":\"m\",\"known\":true,\"z\":1}"));
	CHECK_FAILS(EX_DATAERR, policy_parse(&p, "{}", 2, "x.json"));
	CHECK_FAILS(EX_DATAERR, policy_parse(&p, "[", 1, "x.json"));
}

int main(void)
{
	check_all_load();
	check_needs();
	check_refused();
	TEST_END();
}
