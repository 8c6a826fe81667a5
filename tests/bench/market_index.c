/* market_index.c - benchmark: an index of 100,000 nodes for sale: memory, changes, and questions of
 * several kinds, the hardest included: what nobody has, what one node at the dear end has, and so
 * many regions and models that hardly two nodes are alike. Times are of the processor, so that
 * what else runs on the machine counts less.
 *
 * Arguments: nodes (100000). Prints rnp.bench records, with high the 99th percentile of each
 * question; exit 1 when a limit of the market's is exceeded: 100 MB, 10 us a change, 5 ms for 8
 * GPUs, 50 ms for 1,000, by median. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/rng.h"
#include "common/base/stats.h"
#include "common/cli/out.h"
#include "common/json/json.h"
#include "common/market/index.h"
#include "common/record/bench.h"

#define CHANGES    20000
#define GIB        (INT64_C(1) << 30)
#define MEMORY_MAX 100e6
#define CHANGE_MAX 10e3
#define FEW_MAX    5e6
#define MANY_MAX   50e6

static int failed;
static struct rng rng;

static const char *const models[] = { "RTX 4090", "RTX 3090", "H100 SXM", "A100 80GB SXM",
	"A100 40GB PCIe", "L40S", "RTX A6000", "RTX 3080", "RTX 4080", "RTX 5090", "H200",
	"RTX 6000 Ada" };
static const char *const countries[] = { "US", "DE", "FR", "GB", "NL", "SE", "SI", "CA",
	"JP", "IN", "BR", "AU", "PL", "ES", "IT", "FI" };

static void record(const char *test, const char *unit, double *samples, size_t n,
	double limit)
{
	struct stats s;
	json_t *r;

	stats_of(samples, n, &s);
	s.high = stats_percentile(samples, n, 99);
	r = bench_record("market", test, "cpu", unit, &s);
	json_set_i64(bench_params(r), "limit", (int64_t)limit);
	out_record(r);
	json_decref(r);
	if (s.median > limit) {
		fprintf(stderr, "market_index: %s: %.0f %s, more than %.0f\n", test,
			s.median, unit, limit);
		failed = 1;
	}
}

static double resident_bytes(void)
{
	long pages = 0, skip;
	FILE *f = fopen("/proc/self/statm", "r");

	if (!f || fscanf(f, "%ld %ld", &skip, &pages) != 2)
		exit(71);
	fclose(f);
	return (double)pages * (double)sysconf(_SC_PAGESIZE);
}

static const char *id_of(size_t i)
{
	static char id[64];

	snprintf(id, sizeof id, "%08zx-node-with-an-address-of-44-bytes-----",
		i * 2654435761u % 4294967291u);
	return id;
}

/* odd: each with a model and region that few others have */
static struct match_node draw_node(size_t i, bool odd)
{
	static char model[64], region[64];
	int gpus = 1 << rng_below(&rng, 4);

	snprintf(model, sizeof model, "GPU %zu", i % 1000);
	snprintf(region, sizeof region, "Region %zu", odd ? i : i % 40);
	return (struct match_node){ .id = id_of(i),
		.model = odd ? model : models[rng_below(&rng, 12)],
		.country = countries[rng_below(&rng, 16)],
		.region = region,
		.gpu_memory_bytes = 24 * GIB,
		.memory_bytes = (int64_t)(1 + rng_below(&rng, 32)) * 32 * GIB,
		.disk_bytes = (int64_t)(1 + rng_below(&rng, 1000)) * 10 * GIB,
		.cpu_cores = (int64_t)(1 + rng_below(&rng, 16)) * 8,
		.ping_us = (int64_t)(1 + rng_below(&rng, 200000)),
		.all_uusd = (int64_t)(100000 + rng_below(&rng, 1000000)) * gpus,
		.reputation_ppm = (int64_t)rng_below(&rng, 1000001),
		.compliance = (uint32_t)rng_below(&rng, 16),
		.tier = (int)rng_below(&rng, 7),
		.host_type = (enum match_host)rng_below(&rng, MATCH_HOSTS),
		.spot = rng_below(&rng, 10) == 0,
		.gpus = gpus,
		.part_gpus = rng_below(&rng, 2) ? 1 : gpus };
}

/* --- changes -------------------------------------------------------------------------------- */

static void one_change(struct match_index *ix, size_t n, int kind, bool odd)
{
	size_t i = rng_below(&rng, n);
	struct match_node node;

	switch (kind) {
	case 0:
		node = draw_node(i, odd);
		match_index_put(ix, &node);
		break;
	case 1:
		match_index_price(ix, id_of(i),
			(int64_t)(100000 + rng_below(&rng, 1000000)));
		break;
	case 2:
		match_index_lease(ix, id_of(i), 1);
		break;
	default:
		match_index_release(ix, id_of(i), 1);
	}
}

static void time_changes(struct match_index *ix, size_t n, bool odd)
{
	static const char *const names[] = { "put", "price", "lease", "release" };
	static double samples[CHANGES / 100];

	for (int kind = 0; kind < 4; kind++) {
		char test[60];

		for (size_t t = 0; t < CHANGES / 100; t++) {
			int64_t from = clock_thread_ns();

			for (int k = 0; k < 100; k++)
				one_change(ix, n, kind, odd);
			samples[t] = (double)(clock_thread_ns() - from) / 100;
		}
		snprintf(test, sizeof test, "index.%s%s", names[kind],
			odd ? " (odd)" : "");
		record(test, "ns", samples, CHANGES / 100, CHANGE_MAX);
	}
}

/* --- questions ----------------------------------------------------------------------------- */

static struct match_job job_of(int gpus, int nodes)
{
	return (struct match_job){ .limit_uusd = MATCH_NO_LIMIT,
		.milli = MATCH_MILLI,
		.gpus = gpus,
		.nodes_min = nodes,
		.nodes_max = nodes };
}

static void time_question(struct match_index *ix, const char *test,
	const struct match_job *j, int times, bool expect, double limit)
{
	static double samples[400];
	struct match_answer a;

	for (int t = 0; t < times; t++) {
		int64_t from = clock_thread_ns();

		match_index_ask(ix, j, 3, 16, &a);
		samples[t] = (double)(clock_thread_ns() - from);
		if ((a.noffers > 0) != expect) {
			fprintf(stderr, "market_index: %s: %zu offers\n", test,
				a.noffers);
			failed = 1;
		}
		match_answer_release(&a);
	}
	record(test, "ns", samples, (size_t)times, limit);
}

/* A node like no other, and dearer than all. */
static void put_rare(struct match_index *ix)
{
	struct match_node n = draw_node(1, false);

	n.id = "rare";
	n.model = models[0];
	n.gpus = 8;
	n.part_gpus = 1;
	n.memory_bytes = 4096 * GIB;
	n.all_uusd = INT64_C(1000000000);
	n.spot = false;
	match_index_put(ix, &n);
}

static void ask_few(struct match_index *ix)
{
	struct match_job j = job_of(8, 1);

	time_question(ix, "8 GPUs", &j, 400, true, FEW_MAX);
	j = job_of(8, 8);
	time_question(ix, "8 nodes", &j, 400, true, FEW_MAX);
	j = job_of(8, 0);
	j.nodes_max = 1;
	j.models[j.nmodels++] = match_index_text(ix, models[2]);
	j.places[j.nplaces++] = match_index_text(ix, "SI");
	j.cpu_cores = 64;
	j.memory_bytes = 512 * GIB;
	j.disk_bytes = 2000 * GIB;
	j.reputation_ppm = 500000;
	time_question(ix, "8 GPUs, all wishes", &j, 400, true, FEW_MAX);
	j = job_of(8, 1);
	j.memory_bytes = 4000 * GIB;
	time_question(ix, "8 GPUs, one node has the memory", &j, 100, true, FEW_MAX);
	j = job_of(8, 1);
	j.memory_bytes = 5000 * GIB;
	time_question(ix, "8 GPUs, nobody has the memory", &j, 100, false, FEW_MAX * 10);
	j = job_of(8, 1);
	j.limit_uusd = 1;
	j.ping_us = 1;
	time_question(ix, "8 GPUs, nothing fits", &j, 100, false, FEW_MAX * 10);
}

static void ask_many(struct match_index *ix)
{
	struct match_job j = job_of(1000, 125);

	time_question(ix, "1,000 GPUs", &j, 100, true, MANY_MAX);
	j.cpu_cores = 64;
	j.memory_bytes = 512 * GIB;
	time_question(ix, "1,000 GPUs, cores and memory", &j, 100, true, MANY_MAX);
	j = job_of(1000, 1000);
	for (int i = 0; i < 3; i++)
		j.shares[j.nshares++] = (struct match_place){ .country = i < 2 ?
				match_index_text(ix, countries[i]) :
				NULL,
			.region = i ? match_index_text(ix, "Region 7") : NULL,
			.share_ppm = (int64_t[]){ 900000, 50000, 50000 }[i] };
	time_question(ix, "1,000 nodes, shares of places", &j, 100, false, MANY_MAX);
	for (int i = 0; i < 3; i++)
		j.shares[i].share_ppm = (int64_t[]){ 80000, 20000, 900000 }[i];
	j.shares[2].region = NULL;
	j.shares[2].country = match_index_text(ix, countries[2]);
	j.gpus = 200;
	j.nodes_min = j.nodes_max = 200;
	time_question(ix, "200 nodes, shares of places", &j, 100, true, MANY_MAX);
}

static void measure(size_t n, bool odd)
{
	double before = resident_bytes(), after;
	struct match_index *ix = match_index_new();
	struct match_job j = job_of(8, 1);

	for (size_t i = 0; i < n; i++) {
		struct match_node node = draw_node(i, odd);

		match_index_put(ix, &node);
	}
	time_changes(ix, n, odd);
	after = resident_bytes() - before;
	record(odd ? "index.memory (odd)" : "index.memory", "B", &after, 1, MEMORY_MAX);
	put_rare(ix);
	if (odd) {
		time_question(ix, "8 GPUs (odd)", &j, 100, true, FEW_MAX);
		/* of a thousand models each is tried; that there are as many is not expected */
		j = job_of(8, 8);
		time_question(ix, "8 nodes (odd)", &j, 100, true, 4 * FEW_MAX);
		j = job_of(1000, 125);
		time_question(ix, "1,000 GPUs (odd)", &j, 100, false, 4 * MANY_MAX);
	} else {
		ask_few(ix);
		ask_many(ix);
	}
	match_index_free(ix);
}

int main(int argc, char **argv)
{
	size_t n = argc > 1 ? strtoul(argv[1], NULL, 10) : 100000;

	rng_seed(&rng, 1, 0);
	measure(n, false);
	measure(n, true);
	return failed;
}
