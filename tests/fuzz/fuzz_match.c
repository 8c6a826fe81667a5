/* fuzz_match.c - fuzz target: what strangers give rnp-price match and backtest - jobs, nodes for
 * sale, reputations, matches that run; clusters and pods.
 *
 * The first byte selects matching or placing. The rest are files, divided by lines "==". It checks
 * that every job is matched or waits, once; that nobody pays more than his limit or runs
 * backwards in time; and that no more of a cluster is in use than there is. */
/* uses: cmd/rnp-price */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cmd/rnp-price/match/read.h"
#include "cmd/rnp-price/simulate/trace.h"
#include "common/base/err.h"

#define FILES     4
#define NOW_MS    INT64_C(1700000000000)
#define FUZZ_JOBS 80

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void be_quiet(const char *text)
{
	(void)text;
}

struct counted {
	const struct match_market *m;
	int balance[FUZZ_JOBS]; /* of each job: starts and waits less stops */
};

static int count_match(void *ctx, const struct match_result *r)
{
	struct counted *c = ctx;
	const struct match_job *j = &c->m->jobs[r->job];

	c->balance[r->job] += r->stopped_for ? -1 : 1;
	must(!r->stopped_for || (j->spot && r->left_ms > 0));
	if (r->nparts && !j->elsewhere) {
		must(r->uusd_per_hour >= 0 && r->uusd_per_hour <= j->limit_uusd);
		must(r->stopped_for || r->start_ms >= j->at_ms);
		must(r->end_ms >= r->start_ms);
	}
	for (int i = 0; i < r->nparts; i++)
		must(r->parts[i].node < c->m->nnodes);
	return 0;
}

static void match_all(struct match_market *m, const char *running)
{
	for (int i = 0; i < 2 * MATCH_ALGORITHMS; i++) {
		int a = i / 2;
		struct match *run;
		struct counted c = { .m = m };

		for (size_t k = 0; k < m->nnodes && a == MATCH_FGD; k++)
			if (m->nodes[k].gpus > PLACE_GPUS_MAX)
				return;
		run = match_open((enum match_algorithm)a, m->nodes, m->nnodes);
		if (i % 2)
			match_preempt(run);
		if ((!running || match_read_running(m, running, NOW_MS, run) >= 0) &&
			m->njobs < FUZZ_JOBS) {
			match_run(run, m->jobs, m->njobs, NOW_MS + 86400000, count_match,
				&c);
			for (size_t k = 0; k < m->njobs; k++)
				must(c.balance[k] == !m->jobs[k].begun ||
					(m->jobs[k].elsewhere && c.balance[k] == -1));
			for (size_t k = 0; k < m->nnodes; k++)
				for (int g = 0; g < m->nodes[k].gpus; g++)
					must(m->nodes[k].left[g] >= 0 &&
						m->nodes[k].left[g] <= MATCH_MILLI);
		}
		match_close(run);
	}
}

/* Some throughputs, for gavel. */
static void set_throughputs(struct match_market *m)
{
	for (size_t i = 0; i < m->njobs; i++)
		for (int k = 0; k < m->jobs[i].nmodels; k++)
			m->jobs[i].throughput[k] = (double)((i + 3 * (size_t)k) % 5) / 2;
}

static void read_market(char paths[FILES][40], int n)
{
	struct match_market m = { 0 };
	char *nodes = paths[1];

	if (n > 1 && match_read_jobs(&m, paths[0], NOW_MS) == 0 &&
		match_read_nodes(&m, &nodes, 1) == 0 && m.njobs < 40 && m.nnodes < 40 &&
		(n < 3 || match_read_reputations(&m, paths[2]) == 0)) {
		set_throughputs(&m);
		match_all(&m, n > 3 ? paths[3] : NULL);
	}
	match_market_release(&m);
}

static void read_cluster(char paths[FILES][40], int n)
{
	static struct place_cluster c;
	struct pods pods = { 0 };

	memset(&c, 0, sizeof c);
	if (n > 1 && trace_read_nodes(&c, paths[0]) == 0 &&
		trace_read_pods(&pods, paths[1]) == 0 && c.n < 10 && pods.n < 50) {
		place_classify(&c.classes, pods.items, pods.n);
		for (int a = 0; a < PLACE_POLICIES; a++) {
			struct pods_result r;

			pods_play(&c, &place_policies[a], &pods, 1, &r);
			must(r.allocated_130 >= 0 && r.allocated_130 <= 1 + 1e-9);
			must(r.failed >= 0 && r.failed <= r.pods);
		}
	}
	free(c.nodes);
	free(pods.items);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *at = (const char *)data + 1, *end = (const char *)data + size;
	char paths[FILES][40];
	int fds[FILES], n = 0;

	err_listen(be_quiet);
	if (size < 1 || size > 100000)
		return 0;
	while (n < FILES && at <= end) {
		const char *next = memmem(at, (size_t)(end - at), "\n==\n", 4);
		size_t len = (size_t)((next ? next + 1 : end) - at);

		fds[n] = memfd_create("fuzz", 0);
		must(fds[n] >= 0 && write(fds[n], at, len) == (ssize_t)len);
		snprintf(paths[n], sizeof paths[n], "/proc/self/fd/%d", fds[n]);
		n++;
		if (!next)
			break;
		at = next + 4;
	}
	if (data[0] % 2)
		read_cluster(paths, n);
	else
		read_market(paths, n);
	while (n--)
		close(fds[n]);
	err_clear();
	return 0;
}
