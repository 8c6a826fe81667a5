/* update.c - measures what a round's outer step costs a coordinator: update [MILLIONS [WORKERS
 * [METHOD[,RULE] ...]]]. Without arguments 4 million parameters, 64 workers, q4 and ecq:0.5 under
 * the mean, q4 under the trimmed mean. Prints one rnp.bench line each: nanoseconds of processor
 * time for a parameter and worker, the median of three; wall time, and what 125 million parameters
 * would take with it, stand beside. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/base/stats.h"
#include "common/hw/device.h"
#include "common/lm/rounds/update.h"

#define ROUNDS     3
#define CONTAINERS 4 /* different ones, which the workers share */

static struct dev dev = DEV_INIT;

static void must(int rc)
{
	if (rc == 0)
		return;
	fprintf(stderr, "update: %s\n", err_get()->text);
	exit(1);
}

static double seconds(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static int drop(void *ctx, const void *data, size_t len)
{
	(void)ctx, (void)data, (void)len;
	return 0;
}

static void make_container(struct buf *out, const char *method, uint64_t n, uint64_t seed)
{
	float *x = xmalloc(n * sizeof *x);
	struct rng rng;
	struct grad g;

	rng_seed(&rng, seed, 0);
	for (uint64_t i = 0; i < n; i++) {
		double sum = 0;

		for (int j = 0; j < 4; j++)
			sum += rng_f64(&rng) - 0.5;
		x[i] = (float)(1e-3 * sum);
	}
	must(grad_parse(&g, method, 0));
	g.elements = n;
	must(grad_encode(&dev, &g, x, NULL, out, NULL));
	free(x);
}

struct arrays {
	struct update_range all;
	struct update_arrays a;
};

static void make_arrays(struct arrays *s, uint64_t n)
{
	s->all = (struct update_range){ 0, n };
	s->a = (struct update_arrays){ .theta = xcalloc(n, sizeof(float)),
		.published = xcalloc(n, sizeof(float)),
		.v = xcalloc(n, sizeof(float)),
		.ranges = &s->all,
		.nranges = 1 };
	for (uint64_t i = 0; i < n; i++)
		s->a.theta[i] = s->a.published[i] = 0.02f * (float)(i % 7);
}

static void measure(const char *method, const char *rule, uint64_t n, uint64_t workers)
{
	struct buf in[CONTAINERS] = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };
	struct update_delta *deltas = xcalloc(workers, sizeof *deltas);
	struct update_options o = { .rule = UPDATE_NESTEROV,
		.nesterov = { .rate = 0.7, .momentum = 0.9 },
		.copies = true,
		.copies_seed = 1 };
	double cpu[ROUNDS], wall[ROUNDS], each = 1e9 / (double)(n * workers);
	struct stats c, t;
	struct arrays s;

	for (uint64_t i = 0; i < CONTAINERS; i++)
		make_container(&in[i], method, n, i + 1);
	for (uint64_t i = 0; i < workers; i++)
		deltas[i] = (struct update_delta){ grad_read_buf, &in[i % CONTAINERS],
			in[i % CONTAINERS].len, 1000 };
	must(aggregate_parse(&o.aggregate, rule));
	must(grad_parse(&o.down, method, 0));
	make_arrays(&s, n);
	for (int r = 0; r < ROUNDS; r++) {
		struct update_result result;

		cpu[r] = -seconds(CLOCK_PROCESS_CPUTIME_ID);
		wall[r] = -seconds(CLOCK_MONOTONIC);
		must(update_make(&dev, &o, NULL, &s.a, deltas, workers, drop, NULL,
			&result));
		cpu[r] += seconds(CLOCK_PROCESS_CPUTIME_ID);
		wall[r] += seconds(CLOCK_MONOTONIC);
		update_result_release(&result);
	}
	stats_of(cpu, ROUNDS, &c);
	stats_of(wall, ROUNDS, &t);
	printf("{\"kind\":\"rnp.bench\",\"v\":1,\"suite\":\"train\",\"test\":\"outer-step\",\"device\":\"cpu\","
	       "\"unit\":\"ns\",\"median\":%.3f,\"low\":%.3f,\"high\":%.3f,\"samples\":%d,\"params\":{"
	       "\"method\":\"%s\",\"aggregate\":\"%s\",\"parameters\":%llu,\"workers\":%llu,"
	       "\"wall_ms\":%.0f,\"wall_s_of_125m\":%.1f}}\n",
		each * c.median, each * c.low, each * c.high, ROUNDS, method, rule,
		(unsigned long long)n, (unsigned long long)workers, 1e3 * t.median,
		t.median * 125e6 / (double)n);
	fflush(stdout);
	for (int i = 0; i < CONTAINERS; i++)
		buf_release(&in[i]);
	free(s.a.theta);
	free(s.a.published);
	free(s.a.v);
	free(deltas);
}

int main(int argc, char **argv)
{
	static const char *const usual[] = { "q4", "ecq:0.5", "q4,trimmed:0.25" };
	uint64_t n = (argc > 1 ? strtoull(argv[1], NULL, 10) : 4) * 1000000;
	uint64_t workers = argc > 2 ? strtoull(argv[2], NULL, 10) : 64;
	const char *const *methods = argc > 3 ? (const char *const *)argv + 3 : usual;
	int count = argc > 3 ? argc - 3 : 3;

	must(device_open(&dev, "cpu"));
	for (int i = 0; i < count; i++) {
		char method[64], *rule;

		snprintf(method, sizeof method, "%s", methods[i]);
		rule = strchr(method, ',');
		if (rule)
			*rule++ = '\0';
		measure(method, rule ? rule : "mean", n, workers);
	}
	dev_close(&dev);
	return 0;
}
