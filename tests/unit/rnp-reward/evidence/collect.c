/* collect.c - usage of nodes whose records are given: what is kept of a node's record says what the
 * record says, the order of records does not matter, and what is left out leaves nothing behind. */
/* uses: cmd/rnp-reward */
#include "cmd/rnp-reward/evidence/collect.h"

#include <stdlib.h>

#include "cmd/rnp-reward/evidence/collect_item.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/facts.h"
#include "tests/unit/test.h"

#define EPOCH_MS INT64_C(86400000)
#define NODE     "7Rs4zKWK8KxYTDqjWZTDyQhrbj3H8BrYxYzHLxYnJ6Gb"

/* --- facts ----------------------------------------------------------------------------------- */

static void check_fact(const json_t *whole, const json_t *kept, const char *name)
{
	struct fact a, b;

	CHECK(fact_read(whole, name, &a) && fact_read(kept, name, &b));
	CHECK(a.known == b.known && a.none == b.none && a.value == b.value);
	CHECK(!a.text == !b.text && (!a.text || strcmp(a.text, b.text) == 0));
	CHECK(strcmp(a.cause, b.cause) == 0);
}

/* All that cmd/rnp-reward/evidence/collect_usage.c reads of a node record, of this one and with
 * each field taken out. */
static void check_facts(json_t *node)
{
	static const char *const names[] = { "wallet", "gpu_model", "gpu_count",
		"gpu_memory_bytes", "gpu_clock_mhz", "gpu_memory_bandwidth_bps",
		"cpu_cores", "cpu_clock_mhz", "down_bps", "up_bps" };
	struct buf text = BUF_INIT;
	json_t *kept;

	collect_item_facts(node, &text);
	kept = json_parse_object(text.data, text.len, "facts");
	CHECK(kept != NULL);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		check_fact(node, kept, names[i]);
	CHECK(!json_object_get(node, "at") ||
		json_equal(json_object_get(node, "at"), json_object_get(kept, "at")));
	json_decref(kept);
	buf_release(&text);
}

static void check_without_each(json_t *root, json_t *object)
{
	json_t *copy = json_copy(object), *value;
	const char *key;

	json_object_foreach(copy, key, value) {
		json_object_del(object, key);
		check_facts(root);
		json_object_set(object, key, value);
	}
	json_decref(copy);
}

static void test_facts(void)
{
	json_t *node = json_load_file("tests/data/rtx4090.node.json", 0, NULL);
	json_t *gpus = json_object_get(node, "gpus");

	CHECK(json_array_size(gpus) > 0);
	json_array_append_new(gpus, json_deep_copy(json_array_get(gpus, 0)));
	json_object_set_new(node, "unknown",
		json_pack("{s:s,s:s,s:s}", "gpus", "no driver", "cpu.cores", "hidden",
			"wallet", "none yet"));
	json_object_set_new(node, "withheld", json_pack("[s,s]", "network", "cpu"));
	check_facts(node);
	check_without_each(node, node);
	check_without_each(node, json_array_get(gpus, 0));
	check_without_each(node, json_object_get(node, "cpu"));
	check_without_each(node, json_object_get(node, "network"));
	check_without_each(node, json_object_get(node, "unknown"));
	json_object_set_new(node, "gpus", json_array());
	check_facts(node);
	json_decref(node);
}

/* --- receipts and uptimes -------------------------------------------------------------------- */

static struct collect_item receipt(int64_t from_ms, int64_t to_ms, int64_t gpu_s)
{
	struct collect_item item = { .kind = COLLECT_RECEIPT,
		.node = NODE,
		.from_ms = from_ms,
		.to_ms = to_ms,
		.gpu_s = gpu_s,
		.earned_uusd = 1,
		.credits = -1 };

	/* another receipt each */
	memcpy(item.sha256, &item.from_ms, 8);
	memcpy(item.sha256 + 8, &item.to_ms, 8);
	memcpy(item.sha256 + 16, &item.gpu_s, 8);
	for (int i = 0; i < 24; i++)
		item.sha256[i % 16] ^= (unsigned char)(item.sha256[i] * 37 + i);
	return item;
}

/* Returns a field of the only node's usage. */
static int64_t usage_of(struct collect *g, const char *key)
{
	struct buf text = BUF_INIT;
	json_t *usage;
	int64_t v;

	if (!g->order)
		collect_finish(g);
	CHECK(g->n == 1);
	collect_usage_write(g, 0, -1, &text);
	usage = json_parse_object(text.data, text.len, "usage");
	v = json_integer_value(json_object_get(usage, key));
	json_decref(usage);
	buf_release(&text);
	return v;
}

/* One GPU, which is proven. */
static void prove_gpu(struct collect *g)
{
	struct collect_item node = {
		.kind = COLLECT_NODE,
		.node = NODE,
		.text = "{\"at\":\"1970-01-01T00:00:00Z\",\"gpus\":[{\"model\":\"x\",\"uuid\":\"GPU-1\"}]}"
	};
	struct collect_item verdict = { .kind = COLLECT_VERDICT,
		.node = NODE,
		.passed = true,
		.names_record = true,
		.score_ppm = -1,
		.nproven = 1 };

	node.sha256[0] = 1;
	verdict.sha256[0] = 2;
	verdict.node_record[0] = 1;
	collect_device_key("GPU-1", &verdict.proven[0]);
	CHECK(collect_take(g, &node, "node") == 0);
	CHECK(collect_take(g, &verdict, "verdict") == 0);
}

/* Of two records of one instant the one of the greater hash counts, whichever comes first. */
static void test_one_instant(void)
{
	struct collect_item a = { .kind = COLLECT_NODE,
		.node = NODE,
		.text = "{\"at\":\"1970-01-01T00:00:00Z\",\"cpu\":{\"cores\":3},\"wallet\":\"" NODE
			"\"}" };
	struct collect_item b = a, *first[2] = { &a, &b };

	a.sha256[0] = 1;
	b.sha256[0] = 2;
	b.text = "{\"at\":\"1970-01-01T00:00:00Z\"}";
	for (int i = 0; i < 2; i++) {
		struct buf text = BUF_INIT;
		struct collect g;

		collect_init(&g, 0, EPOCH_MS, NULL);
		CHECK(collect_take(&g, first[i], "a") == 0);
		CHECK(collect_take(&g, first[1 - i], "b") == 0);
		collect_finish(&g);
		collect_usage_write(&g, 0, -1, &text);
		CHECK(!strstr(text.data, "\"wallet\":\"" NODE));
		buf_release(&text);
		collect_release(&g);
	}
}

/* Three receipts of one start: one GPU cannot have done both short ones, whichever comes first. */
static void test_order(void)
{
	const struct collect_item some[] = { receipt(0, 1000000, 1000),
		receipt(0, 1000000, 999), receipt(0, 5000000, 3000) };
	static const int orders[][3] = { { 0, 1, 2 }, { 0, 2, 1 }, { 1, 0, 2 },
		{ 1, 2, 0 }, { 2, 0, 1 }, { 2, 1, 0 } };

	for (size_t k = 0; k < sizeof orders / sizeof *orders; k++) {
		struct collect g;

		collect_init(&g, 0, EPOCH_MS, NULL);
		prove_gpu(&g);
		for (int i = 0; i < 3; i++)
			CHECK(collect_take(&g, &some[orders[k][i]], "receipt") == 0);
		CHECK(collect_take(&g, &some[0], "again") == 0);
		CHECK(usage_of(&g, "gpu_worked_s") == 4000);
		collect_release(&g);
	}
}

/* A record that is refused, which a registry's reader skips, changes nothing. */
static void test_refused(void)
{
	const struct span good[] = { { 0, 1000 }, { 1000, 3000 } },
			  bad[] = { { 5000, 60000 }, { 6000, 7000 } };
	struct collect_item up = { .kind = COLLECT_UPTIME,
		.node = NODE,
		.to_ms = EPOCH_MS,
		.spans = good,
		.nspans = 2 };
	struct collect_item all = receipt(0, 1000, 1);
	struct collect g;

	collect_init(&g, 0, EPOCH_MS, NULL);
	CHECK(collect_take(&g, &up, "up") == 0);
	up.spans = bad;
	CHECK(collect_take(&g, &up, "up") < 0);
	all.credits = JSON_SAFE_INTEGER_MAX;
	CHECK(collect_take(&g, &all, "first") == 0);
	all.sha256[0]++;
	CHECK(collect_take(&g, &all, "too much") < 0);
	err_clear();
	CHECK(usage_of(&g, "up_s") == 3);
	CHECK(usage_of(&g, "earned_uusd") == 1);
	CHECK(usage_of(&g, "worked_s") == 1);
	collect_release(&g);
}

/* --- many ------------------------------------------------------------------------------------ */

#define MANY 20000

/* Each node is found again, whatever else has come since, and they come out in order. */
static void test_many(void)
{
	struct collect_item up = { .kind = COLLECT_UPTIME, .to_ms = EPOCH_MS };
	struct collect g;

	collect_init(&g, 0, EPOCH_MS, NULL);
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < MANY; i++) {
			snprintf(up.node, sizeof up.node, "%d",
				(int)((unsigned)i * 7919 % MANY));
			CHECK(collect_take(&g, &up, "up") == 0);
		}
	CHECK(g.n == MANY);
	collect_finish(&g);
	for (int i = 1; i < MANY; i++)
		CHECK(strcmp(collect_address(&g, (size_t)i - 1),
			      collect_address(&g, (size_t)i)) < 0);
	collect_release(&g);
}

int main(void)
{
	test_facts();
	test_one_instant();
	test_order();
	test_refused();
	test_many();
	TEST_END();
}
