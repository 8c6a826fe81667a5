/* market_plan.c - benchmark: a registry's signed proposals out of 100,000 nodes for sale, from the
 * customer's job as text to the answer as text, in turns with heartbeats.
 *
 * uses: cmd/rnp-register
 *
 * Arguments: nodes (100000). Prints rnp.bench records, with high the 99th percentile; times are
 * the processor's. Exit 1 when a median is above 5 ms for 8 GPUs, also where nothing fits and the
 * nearest wish is looked for, or 50 ms for 1,000, or a heartbeat takes more than 10 us. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/plan.h"
#include "cmd/rnp-register/market/supply.h"
#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/rng.h"
#include "common/base/stats.h"
#include "common/cli/out.h"
#include "common/json/json.h"
#include "common/record/bench.h"

#define TIMES 100
#define BEATS 50 /* between two questions */

static struct registry registry;
static struct market market;
static struct key registry_key;
static struct rng rng;
static int failed;

static const char *const models[] = { "NVIDIA GeForce RTX 4090", "NVIDIA H100 80GB HBM3",
	"NVIDIA A100-SXM4-80GB", "NVIDIA L40S", "NVIDIA GeForce RTX 3090" };
static const char *const countries[] = { "US", "DE", "FR", "GB", "NL", "SE", "SI", "CA" };

static void record(const char *test, double *samples, size_t n, double limit)
{
	struct stats s;
	json_t *r;

	stats_of(samples, n, &s);
	s.high = stats_percentile(samples, n, 99);
	r = bench_record("market", test, "cpu", "ns", &s);
	json_set_i64(bench_params(r), "limit", (int64_t)limit);
	out_record(r);
	json_decref(r);
	if (s.median <= limit)
		return;
	fprintf(stderr, "market_plan: %s: %.0f ns, more than %.0f\n", test, s.median,
		limit);
	failed = 1;
}

/* --- nodes ---------------------------------------------------------------------------------- */

static const char *address_of(size_t i)
{
	static char text[ADDRESS_MAX];
	unsigned char key[ADDRESS_BYTES];

	crypto_generichash(key, sizeof key, (const unsigned char *)&i, sizeof i, NULL, 0);
	address_format(key, text);
	return text;
}

static json_t *node_json(size_t i, int gpus)
{
	json_t *r = json_record("rnp.node"), *list = json_array(),
	       *labels = json_object();
	const char *model = models[rng_below(&rng, 5)];

	json_set_text(r, "node", address_of(i));
	for (int k = 0; k < gpus; k++) {
		json_t *gpu = json_object();
		char uuid[60];

		snprintf(uuid, sizeof uuid, "GPU-%08zx-%04x-4000-8000-000000000000", i,
			(unsigned)k);
		json_set_text(gpu, "model", model);
		json_set_text(gpu, "uuid", uuid);
		json_push(list, gpu);
	}
	json_set(r, "gpus", list);
	json_set_text(labels, "country", countries[rng_below(&rng, 8)]);
	json_set(r, "labels", labels);
	return r;
}

static void add_node(size_t i, int64_t now_ms)
{
	static const char hash[] =
		"00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";
	int gpus = 1 << rng_below(&rng, 4);
	json_t *node = node_json(i, gpus), *quote = json_record("rnp.quote"),
	       *listing = json_record("rnp.listing");
	int64_t ask = (int64_t)(100000 + rng_below(&rng, 1000000)) * gpus;

	json_set_text(quote, "node", address_of(i));
	json_set_time(quote, "at", now_ms);
	json_set_i64(quote, "ask_uusd", ask);
	json_set_i64(quote, "customer_uusd", ask + ask / 20);
	json_set_text(listing, "node", address_of(i));
	json_set_time(listing, "at", now_ms);
	json_set_time(listing, "until", now_ms + 86400000);
	json_set_i64(listing, "cpu_cores", (int64_t)(1 + rng_below(&rng, 16)) * 8);
	json_set_i64(listing, "memory_bytes", (int64_t)(1 + rng_below(&rng, 32)) << 35);
	json_set_i64(listing, "disk_bytes",
		(int64_t)(1 + rng_below(&rng, 40)) * 100000000000);
	json_set_i64(listing, "part_gpus", (int64_t)rng_below(&rng, 2));
	supply_node(market.supply, node);
	supply_quote(market.supply, quote, hash);
	supply_listing(market.supply, listing);
	supply_beat(market.supply, address_of(i), now_ms, 3600000, false);
	json_decref(node);
	json_decref(quote);
	json_decref(listing);
}

/* --- questions -------------------------------------------------------------------------------- */

static double beat(size_t n)
{
	const char *nodes[BEATS];
	char copies[BEATS][ADDRESS_MAX];
	int64_t from, now_ms = clock_now_ms();

	for (int i = 0; i < BEATS; i++) {
		snprintf(copies[i], sizeof copies[i], "%s",
			address_of(rng_below(&rng, n)));
		nodes[i] = copies[i];
	}
	from = clock_thread_ns();
	for (int i = 0; i < BEATS; i++)
		supply_beat(market.supply, nodes[i], now_ms, 3600000, i % 10 == 0);
	return (double)(clock_thread_ns() - from) / BEATS;
}

static void ask(const char *test, const char *text, size_t n, bool expect, double limit)
{
	static double samples[TIMES], beats[TIMES];
	struct buf out = BUF_INIT;

	for (int t = 0; t < TIMES; t++) {
		int64_t from;
		json_t *job;

		beats[t] = beat(n);
		from = clock_thread_ns();
		buf_reset(&out);
		job = json_parse_object(text, strlen(text), "job");
		if (!job || plan_write(&registry, job, &out) < 0) {
			fprintf(stderr, "market_plan: %s: %s\n", test, err_get()->text);
			exit(70);
		}
		json_decref(job);
		samples[t] = (double)(clock_thread_ns() - from);
		if (expect != !strstr(buf_text(&out), "\"offers\":[]"))
			failed = 1;
	}
	record(test, samples, TIMES, limit);
	record("a heartbeat beside that", beats, TIMES, 10e3);
	buf_release(&out);
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;
	int64_t now_ms = clock_now_ms();

	if (sodium_init() < 0 || key_generate(&registry_key) < 0)
		return 71;
	rng_seed(&rng, 1, 0);
	registry.config.key = &registry_key;
	registry.market = &market;
	market.supply = supply_new();
	for (size_t i = 0; i < n; i++)
		add_node(i, now_ms);
	ask("plan, 8 GPUs",
		"{\"kind\":\"rnp.job\",\"v\":1,\"job\":\"j\",\"gpu_count\":8}", n, true,
		5e6);
	ask("plan, 8 GPUs on 8 nodes",
		"{\"kind\":\"rnp.job\",\"v\":1,\"job\":\"j\",\"gpu_count\":8,\"nodes\":8}",
		n, true, 5e6);
	ask("plan, 8 GPUs, many wishes",
		"{\"kind\":\"rnp.job\",\"v\":1,\"job\":\"j\",\"gpu_model\":\"H100\",\"gpu_count\":8,\"cpu_cores\":64,\"memory_bytes\":549755813888,\"disk_bytes\":1000000000000,\"region\":\"SI\",\"max_uusd\":90000000,\"hours\":4}",
		n, true, 5e6);
	ask("plan, nothing fits",
		"{\"kind\":\"rnp.job\",\"v\":1,\"job\":\"j\",\"gpu_model\":\"H100\",\"gpu_count\":8,\"cpu_cores\":640}",
		n, false, 5e6);
	ask("plan, nothing is so cheap",
		"{\"kind\":\"rnp.job\",\"v\":1,\"job\":\"j\",\"gpu_model\":\"H100\",\"gpu_count\":8,\"cpu_cores\":64,\"max_uusd_per_hour\":1000}",
		n, false, 5e6);
	ask("plan, 1,000 GPUs",
		"{\"kind\":\"rnp.job\",\"v\":1,\"job\":\"j\",\"gpu_count\":1000,\"nodes\":125}",
		n, true, 50e6);
	ask("plan, 1,000 GPUs in three places",
		"{\"kind\":\"rnp.job\",\"v\":1,\"job\":\"j\",\"gpu_count\":1000,\"nodes\":125,\"places\":[{\"country\":\"US\",\"share_ppm\":800000},{\"country\":\"DE\",\"share_ppm\":150000},{\"country\":\"SI\",\"share_ppm\":50000}]}",
		n, true, 50e6);
	supply_free(market.supply);
	key_release(&registry_key);
	return failed;
}
