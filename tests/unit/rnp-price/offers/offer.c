/* offer.c - a line that is read without building objects says the same as one that is
 * built. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/offers/offer.h"

#include "common/base/err.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static const char *const plain[] = {
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"vast\",\"offer_id\":\"7\",\"at\":\"2026-11-20T18:00:00Z\","
	"\"gpu_model\":\"RTX 4090\",\"gpu_name\":\"RTX_4090\",\"gpu_count\":2,\"gpu_memory_bytes\":25757220864,"
	"\"uusd_per_gpu_hour\":400000,\"spot\":false,\"cpu_cores\":8,\"memory_bytes\":1,\"down_bps\":2,\"up_bps\":3,"
	"\"reliability_ppm\":990000,\"country\":\"DE\",\"region\":\"Saxony, DE\",\"rentable\":true,\"rented\":false,"
	"\"verified\":true,\"machine\":\"12\",\"host\":\"34\",\"own\":true}",
	"{\"spot\":true,\"uusd_per_gpu_hour\":1,\"gpu_count\":1024,\"gpu_model\":\"3080-12G\",\"offer_id\":\"x\","
	"\"market\":\"m\",\"v\":1,\"kind\":\"rnp.offer\",\"gpu_share_ppm\":500000}",
};

/* Lines that are not plain are left to the other reader, right or wrong. */
static const char *const not_plain[] = {
	"",
	"{",
	"{}",
	"[]",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1,\"uusd_per_gpu_hour\":1}",
	"{\"kind\":\"rnp.offer\",\"v\":2,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1,\"uusd_per_gpu_hour\":1,\"spot\":false}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1,\"uusd_per_gpu_hour\":0,\"spot\":false}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1.5,\"uusd_per_gpu_hour\":1,\"spot\":false}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":01,\"uusd_per_gpu_hour\":1,\"spot\":false}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1,\"gpu_count\":1,\"uusd_per_gpu_hour\":1,\"spot\":false}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L\\u0034\",\"gpu_count\":1,\"uusd_per_gpu_hour\":1,\"spot\":false}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1,\"uusd_per_gpu_hour\":1,\"spot\":false,\"more\":1}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1,\"uusd_per_gpu_hour\":1,\"spot\":false,\"country\":\"DEU\"}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1,\"uusd_per_gpu_hour\":1,\"spot\":0}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1,\"uusd_per_gpu_hour\":1,\"spot\":false,\"at\":\"yesterday\"}",
	"{\"kind\":\"rnp.offer\",\"v\":1,\"market\":\"m\",\"offer_id\":\"x\",\"gpu_model\":\"L4\",\"gpu_count\":1,\"uusd_per_gpu_hour\":1,\"spot\":false}x",
};

static void check_same(const char *line)
{
	struct offer_list fast = { 0 }, slow = { 0 };
	json_t *r = json_parse_object(line, strlen(line), "line"), *a, *b;

	CHECK(offer_list_add_plain(&fast, line, strlen(line)));
	CHECK(offer_list_add_json(&slow, r, "line") == 0);
	a = offer_to_json(&fast.items[0]);
	b = offer_to_json(&slow.items[0]);
	CHECK(json_equal(a, b));
	CHECK(fast.items[0].gpu == slow.items[0].gpu && fast.items[0].gpu);
	json_decref(a);
	json_decref(b);
	json_decref(r);
	offer_list_release(&fast);
	offer_list_release(&slow);
}

int main(void)
{
	struct offer_list l = { 0 };

	for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
		check_same(plain[i]);
	for (size_t i = 0; i < sizeof not_plain / sizeof *not_plain; i++) {
		CHECK(!offer_list_add_plain(&l, not_plain[i], strlen(not_plain[i])));
		CHECK(err_get()->code == 0);
	}
	CHECK(l.n == 0);
	offer_list_release(&l);
	TEST_END();
}
