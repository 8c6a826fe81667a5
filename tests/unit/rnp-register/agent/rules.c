/* rules.c - what goes into the rules of leases. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/agent/rules.h"

#include <string.h>

#include "tests/unit/test.h"

static void networks(void)
{
	CHECK(rules_is_network("1.2.3.4"));
	CHECK(rules_is_network("10.0.0.0/8"));
	CHECK(rules_is_network("0.0.0.0/0"));
	CHECK(!rules_is_network(""));
	CHECK(!rules_is_network("/8"));
	CHECK(!rules_is_network("10.0.0.0/"));
	CHECK(!rules_is_network("10.0.0.0/33"));
	CHECK(!rules_is_network("10.0.0.0/-1"));
	CHECK(!rules_is_network("10.0.0.0/+1"));
	CHECK(!rules_is_network("10.0.0.0/8 "));
	CHECK(!rules_is_network("10.0.0.0/99999999999999999999"));
	CHECK(!rules_is_network("10.0.0"));
	CHECK(!rules_is_network("1.2.3.4 }; flush ruleset"));
	CHECK(!rules_is_network("::1"));
	CHECK(!rules_is_network("111111111111111111111111111111"));
}

static void texts(void)
{
	static const char *const resolvers[] = { "9.9.9.9" },
				 *const own[] = { "5.6.7.8", "1.2.3.4" },
				 *const uplinks[] = { "up0", "up1" };
	struct rules r = { .pool = 0x0a090000, .pool_bits = 24 };
	struct buf out = BUF_INIT;

	rules_of_host(&out, &r);
	CHECK(strstr(out.data, "ip saddr 10.9.0.0/24 masquerade"));
	CHECK(!strstr(out.data, "iifname {"));
	CHECK(strstr(out.data, "169.254.0.0/16"));
	buf_reset(&out);
	r.resolvers = resolvers;
	r.nresolvers = 1;
	r.own = own;
	r.nown = 2;
	r.uplinks = uplinks;
	r.nuplinks = 2;
	rules_of_host(&out, &r);
	CHECK(strstr(out.data, "iifname { \"up0\", \"up1\" } drop"));
	CHECK(strstr(out.data, "elements = { 9.9.9.9 }"));
	buf_reset(&out);
	rules_of_lease(&out, &r);
	CHECK(strstr(out.data, "elements = { 5.6.7.8, 1.2.3.4 }"));
	CHECK(strstr(out.data, "hook output priority -200; policy drop;"));
	buf_release(&out);
}

int main(void)
{
	networks();
	texts();
	TEST_END();
}
