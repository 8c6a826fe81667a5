/* fuzz_publish.c - fuzz target: what markets answer to rnp-price publish.
 *
 * The first byte selects: Vast's list of machines, Vast's answer to a change, a registry's answer
 * about a node. It checks that a refused answer has its reason; that an accepted listing has a
 * possible price; and that the request which it leads to says the price for this machine, and,
 * once the market lists it, is not sent again. */
/* uses: cmd/rnp-price */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/publish/market.h"
#include "common/base/err.h"
#include "common/json/json.h"

/* The node of the signed quote in the corpus, whose key is nowhere. */
#define NODE "HeJ14opZMiTGWZLeCr84R4tCCG6fRf7ZyhjnJs1TxTkw"
#define GPUS 2

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

/* Whatever the market said, the request is well-formed, and listed as sent it is not repeated. */
static void check_request(struct publish_target *t)
{
	static const char *const sent[] = { "machine", "price_gpu", "price_disk",
		"price_inetu", "price_inetd", "price_min_bid", "min_chunk", "end_date" };
	const struct publish_price price = { 600001, 500000, false };
	size_t known = 0;
	json_t *answer, *machine;
	struct buf text = BUF_INIT;

	must(publish_vast.plan(t, &price, 0) == 0);
	must(json_integer_value(json_object_get(t->wanted, "machine")) == 77);
	must(json_number_value(json_object_get(t->wanted, "price_gpu")) == 0.300001);
	for (size_t i = 0; i < sizeof sent / sizeof *sent; i++)
		known += json_object_get(t->wanted, sent[i]) != NULL;
	must(json_object_size(t->wanted) == known);

	machine = json_deep_copy(t->before);
	json_object_set(machine, "listed_gpu_cost",
		json_object_get(t->wanted, "price_gpu"));
	json_object_del(machine, "listed");
	answer = json_pack("{s:[o]}", "machines", machine);
	json_write(&text, answer);
	must(publish_vast.read_listed(t, text.data, text.len) == 0);
	must(publish_vast.plan(t, &price, 0) == 0 && t->same);
	json_decref(answer);
	buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct publish_target t = PUBLISH_TARGET_INIT;
	char *text;
	json_t *quote;
	int rc;

	if (!size)
		return 0;
	text = malloc(size - 1); /* exactly so long: a byte too far is seen */
	memcpy(text, data + 1, size - 1);
	quote = json_pack("{s:s}", "node", NODE);
	t.url = "https://fuzz.example";
	t.machine = "77";
	t.quote = quote;
	t.gpus = GPUS;
	if (*data % 3 == 0) {
		rc = publish_vast.read_listed(&t, text, size - 1);
		must(t.listed_uusd == PUBLISH_NONE ||
			(t.listed_uusd > 0 && t.listed_uusd % GPUS == 0));
		if (rc == 0)
			check_request(&t);
	} else if (*data % 3 == 1) {
		rc = publish_vast.read_sent(&t, text, size - 1);
	} else {
		rc = publish_rnp.read_listed(&t, text, size - 1);
		must(rc < 0 || (t.listed_uusd == PUBLISH_NONE) == !t.before);
		must(t.listed_uusd >= PUBLISH_NONE);
	}
	must(rc == 0 || (err_get()->code != 0 && *err_get()->text));
	err_clear();
	publish_target_release(&t);
	json_decref(quote);
	free(text);
	return 0;
}
