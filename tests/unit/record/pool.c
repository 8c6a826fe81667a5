/* pool.c - bandwidth tiers and pool paths against section 1 of the network's rules. */
#include "common/record/pool.h"

#include "common/json/json.h"
#include "tests/unit/test.h"

#define MB INT64_C(8000000)

static void path_is(const char *want, const char *node)
{
	json_t *v = json_parse_object(node, strlen(node), "test");
	struct buf text = BUF_INIT;
	struct pool p;

	pool_of_node(v, &p);
	pool_path(&text, &p);
	CHECK_TEXT(want, buf_text(&text));
	buf_release(&text);
	json_decref(v);
}

int main(void)
{
	CHECK_TEXT("ultra-high", pool_tier(1000 * MB, 1000 * MB, 100000)->name);
	CHECK_TEXT("high", pool_tier(1000 * MB, 1000 * MB - 1, 0)->name);
	CHECK_TEXT("high", pool_tier(500 * MB, 900 * MB, -1)->name);
	CHECK_TEXT("med-ii", pool_tier(300 * MB, 499 * MB, 1)->name);
	CHECK_TEXT("med", pool_tier(299 * MB, 499 * MB, 1)->name);
	CHECK_TEXT("low", pool_tier(50 * MB, 50 * MB, 1)->name);
	CHECK_TEXT("none", pool_tier(50 * MB, 50 * MB - 1, 1)->name);
	CHECK_TEXT("none", pool_tier(1000 * MB, 1000 * MB, 100001)->name);
	CHECK_TEXT("none", pool_tier(0, 0, -1)->name);
	CHECK_TEXT("unknown", pool_tier(-1, 1000 * MB, 1)->name);
	CHECK_TEXT("unknown", pool_tier(-1, -1, 200000)->name);
	CHECK_TEXT("med-ii", pool_tier_find("Med II")->name);
	CHECK_TEXT("med-ii", pool_tier_find("MED-II")->name);
	CHECK(!pool_tier_find("medium"));
	path_is("High > US > GPU > NVIDIA > RTX 4090",
		"{\"network\":{\"down_bps\":8000000000,\"up_bps\":4000000000,\"ping_us\":9000},"
		"\"labels\":{\"country\":\"US\"},"
		"\"gpus\":[{\"vendor\":\"NVIDIA\",\"model\":\"NVIDIA GeForce RTX 4090\"}],"
		"\"cpu\":{\"model\":\"AMD EPYC 7313\"}}");
	path_is("Unknown > unknown > CPU > AMD > EPYC 7313",
		"{\"gpus\":[],\"cpu\":{\"model\":\"AMD EPYC 7313\"}}");
	path_is("Unknown > unknown > CPU > unknown > unknown", "{}");
	path_is("Unknown > unknown > GPU > NVIDIA > L4",
		"{\"gpus\":[{\"model\":\"L4\"}]}");
	path_is("Unknown > unknown > GPU > Acme > X1",
		"{\"gpus\":[{\"vendor\":\"Acme\",\"model\":\"ACME X1\",\"memory_bytes\":5}]}");
	path_is("Unknown > unknown > GPU > NVIDIA > RTX 4090",
		"{\"gpus\":[{\"vendor\":\"NVIDIA\",\"model\":\"T1000\",\"memory_bytes\":4294967296},"
		"{\"model\":\"RTX 4090\"}]}");
	TEST_END();
}
