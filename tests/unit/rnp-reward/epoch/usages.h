/* usages.h - the usages of an epoch for unit tests of the core: one policy, rows as rnp.usage has
 * them. */
#ifndef RNP_TESTS_UNIT_RNP_REWARD_EPOCH_USAGES_H
#define RNP_TESTS_UNIT_RNP_REWARD_EPOCH_USAGES_H

#include "cmd/rnp-reward/epoch/core.h"
#include "cmd/rnp-reward/epoch/usage_read.h"
#include "common/base/buf.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

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

#endif
