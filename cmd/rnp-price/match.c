/* match.c - rnp-price match: jobs and nodes in, matches out. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/match/auction.h"
#include "cmd/rnp-price/commands.h"
#include "common/market/core.h"
#include "cmd/rnp-price/match/read.h"
#include "common/market/place.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define AUCTION "auction"

static const char *algorithm = "cheapest", *running_path, *reputation_path,
		  *throughputs_path;
static bool preempt;
static int64_t at_ms = -1, until_ms = -1;

static const struct opt options[] = {
	OPT(CHOICE, "algorithm", &algorithm, "A",
		"who comes first and goes where (default cheapest), see rnp-price(1)",
		.choices = "cheapest|rotation|las|gavel|fgd|auction"),
	OPT(TEXT, "running", &running_path, "F",
		"rnp.match records of earlier calls: those that still run keep their GPUs"),
	OPT_SWITCH("preempt", &preempt,
		"stop jobs that may be interrupted for jobs that come before them"),
	OPT(TIME, "at", &at_ms, "T",
		"when jobs without a time were submitted (default now)"),
	OPT(TIME, "until", &until_ms, "T",
		"play on until then: jobs that wait start as others end (default: the last job's submission)"),
	OPT(TEXT, "reputation", &reputation_path, "F",
		"rnp.reputation records of the nodes"),
	OPT(TEXT, "throughputs", &throughputs_path, "F",
		"for gavel: {\"TYPE\": {\"GPU model\": work per hour}}"),
	{ 0 },
};

struct match_command {
	struct match_market market;
	struct match *match;
};

static json_t *new_record(const struct match_job *j)
{
	json_t *r = json_record("rnp.match");

	json_set_text(r, "job", j->id);
	json_set_text(r, "owner", j->owner);
	json_set_text(r, "algorithm", algorithm);
	if (j->render)
		json_set_text(r, "work", "render");
	if (j->spot)
		json_set(r, "spot", json_true());
	if (j->spot && j->checkpoint_ms)
		json_set_i64(r, "checkpoint_s", j->checkpoint_ms / 1000);
	if (j->share_ppm != 1000000)
		json_set_i64(r, "share_ppm", j->share_ppm);
	return r;
}

static json_t *part_json(const struct match_node *nodes, const struct match_part *p)
{
	json_t *o = json_object(), *gpus = json_array();

	json_set_text(o, "node", nodes[p->node].id);
	for (int i = 0; i < p->gpus; i++)
		json_push(gpus, json_integer(match_place_of(&nodes[p->node], p->gpu[i])));
	json_set(o, "gpus", gpus);
	return o;
}

static int write_waiting(const struct match_job *j, const char *why)
{
	json_t *r = new_record(j);
	int rc;

	json_set(r, "nodes", json_array());
	json_set_text(r, "waiting", why);
	rc = out_record(r);
	json_decref(r);
	return rc;
}

static int write_match(void *ctx, const struct match_result *result)
{
	struct match_command *s = ctx;
	const struct match_job *j = &s->market.jobs[result->job];
	json_t *r, *nodes;
	char why[256];
	int rc, gpus = 0;

	if (!result->nparts && j->start_by_ms && until_ms > j->start_by_ms)
		return write_waiting(j, "it was to start by then, and had no place");
	if (!result->nparts) {
		match_why(s->match, j, why, sizeof why);
		return write_waiting(j, why);
	}
	r = new_record(j);
	nodes = json_array();
	for (int i = 0; i < result->nparts; i++)
		json_push(nodes, part_json(s->market.nodes, &result->parts[i]));
	json_set(r, "nodes", nodes);
	json_set_text(r, "gpu_model", s->market.nodes[result->parts[0].node].model);
	for (int i = 0; i < result->nparts; i++)
		gpus += result->parts[i].gpus;
	if (gpus)
		json_set_i64(r, "gpu_count", gpus);
	if (j->milli < MATCH_MILLI)
		json_set_i64(r, "gpu_share_ppm", (int64_t)j->milli * 1000);
	json_set_i64(r, "uusd_per_hour", result->uusd_per_hour);
	json_set_time(r, "start", result->start_ms);
	json_set_time(r, "end", result->end_ms);
	if (result->stopped_for) {
		json_set_text(r, "stopped_for", result->stopped_for->id);
		json_set_text(r, "why", result->why);
		json_set_i64(r, "left_ms", result->left_ms);
	}
	rc = out_record(r);
	json_decref(r);
	return rc;
}

/* --- auction ------------------------------------------------------------------------------ */

/* Bids and asks for one model; id: index of the job or node. */
struct book {
	struct auction_order *bids, *asks;
	size_t nbids, nasks;
	size_t ask; /* the first whose units are not all delivered */
};

static const char *refusal(const struct match_job *j)
{
	if (j->named != 1)
		return "an auction is for one GPU model: the job names none, or several";
	if (j->limit_uusd == MATCH_NO_LIMIT)
		return "an auction takes bids: the job has no max_uusd_per_hour";
	if (j->milli < MATCH_MILLI || j->nplaces || j->nshares || j->compliance ||
		j->gpu_memory_bytes || j->nodes_min > 1 || match_asks_nodes(j))
		return "in an auction GPUs of a model are alike: parts, nodes, places, memory, compliance, reputation and what a host has cannot be asked for";
	return NULL;
}

/* A job or a node in a list by model, and of one model in the order of the input. */
struct listed {
	const char *model;
	size_t at;
};

static int by_model(const void *a, const void *b)
{
	const struct listed *x = a, *y = b;

	if (x->model != y->model)
		return (uintptr_t)x->model < (uintptr_t)y->model ? -1 : 1;
	return x->at < y->at ? -1 : x->at > y->at;
}

/* Where a model begins in a list of n, or would. */
static size_t first_of(const struct listed *list, size_t n, const char *model)
{
	size_t low = 0;

	while (low < n) {
		size_t mid = low + (n - low) / 2;

		if ((uintptr_t)list[mid].model < (uintptr_t)model)
			low = mid + 1;
		else
			n = mid;
	}
	return low;
}

struct auction {
	const struct match_market *m;
	struct listed *jobs, *nodes;
	size_t njobs, nnodes;
	struct book book;
};

static void list_all(struct auction *a)
{
	const struct match_market *m = a->m;

	for (size_t i = 0; i < m->njobs; i++)
		if (!m->jobs[i].begun && !refusal(&m->jobs[i]))
			a->jobs[a->njobs++] = (struct listed){ m->jobs[i].models[0], i };
	for (size_t i = 0; i < m->nnodes; i++)
		if (m->nodes[i].free_gpus && !m->nodes[i].spot &&
			m->nodes[i].part_gpus <= 1)
			a->nodes[a->nnodes++] = (struct listed){ m->nodes[i].model, i };
	qsort(a->jobs, a->njobs, sizeof *a->jobs, by_model);
	qsort(a->nodes, a->nnodes, sizeof *a->nodes, by_model);
}

/* The bids of the model that begins at `from` in the list, and its asks. */
static void fill_book(struct auction *a, size_t from)
{
	const struct match_market *m = a->m;
	const char *model = a->jobs[from].model;
	struct book *b = &a->book;

	b->nbids = b->nasks = b->ask = 0;
	for (size_t i = from; i < a->njobs && a->jobs[i].model == model; i++) {
		const struct match_job *j = &m->jobs[a->jobs[i].at];

		b->bids[b->nbids++] = (struct auction_order){
			.uusd = j->limit_uusd / j->gpus,
			.units = j->gpus,
			.id = a->jobs[i].at,
		};
	}
	for (size_t i = first_of(a->nodes, a->nnodes, model);
		i < a->nnodes && a->nodes[i].model == model; i++) {
		const struct match_node *n = &m->nodes[a->nodes[i].at];

		b->asks[b->nasks++] = (struct auction_order){ .uusd = n->uusd,
			.units = n->free_gpus,
			.id = a->nodes[i].at };
	}
}

/* The GPUs of a served bid: the next units that the asks sell. */
static json_t *deliver(const struct match_market *m, struct book *b, int64_t units)
{
	json_t *nodes = json_array();

	for (; b->ask < b->nasks && units; b->ask += !b->asks[b->ask].traded) {
		struct auction_order *ask = &b->asks[b->ask];
		struct match_node *n = &m->nodes[ask->id];
		struct match_part p = { .node = ask->id };

		for (int g = 0; g < n->gpus && units && ask->traded; g++)
			if (n->left[g] == MATCH_MILLI) {
				n->left[g] = 0;
				p.gpu[p.gpus++] = g;
				units--;
				ask->traded--;
			}
		if (p.gpus)
			json_push(nodes, part_json(m->nodes, &p));
	}
	return nodes;
}

static int write_trade(const struct match_market *m, struct book *b,
	const struct auction_order *bid, const struct auction_result *cleared)
{
	const struct match_job *j = &m->jobs[bid->id];
	json_t *r;
	int rc;

	if (!bid->traded)
		return write_waiting(j,
			cleared->units ?
				"others bid more, or its bid is the last one, which sets the price" :
				"no bid meets an ask");
	r = new_record(j);
	json_set(r, "nodes", deliver(m, b, bid->units));
	json_set_text(r, "gpu_model", j->models[0]);
	json_set_i64(r, "gpu_count", j->gpus);
	json_set_i64(r, "uusd_per_hour", cleared->buyers_uusd * j->gpus);
	json_set_i64(r, "node_uusd_per_hour", cleared->sellers_uusd * j->gpus);
	json_set_time(r, "start", at_ms);
	json_set_time(r, "end", at_ms + j->length_ms);
	rc = out_record(r);
	json_decref(r);
	return rc;
}

static int clear_model(struct auction *a, size_t from)
{
	struct auction_result cleared;
	struct book *b = &a->book;

	fill_book(a, from);
	auction_clear(b->bids, b->nbids, b->asks, b->nasks, &cleared);
	for (size_t i = 0; i < b->nbids; i++)
		if (write_trade(a->m, b, &b->bids[i], &cleared) < 0)
			return -1;
	return 0;
}

/* All jobs and nodes of a model meet at one instant, at the place of its first job. */
static int hold_auction(const struct match_market *m)
{
	struct auction a = { .m = m,
		.jobs = xcalloc(m->njobs + 1, sizeof *a.jobs),
		.nodes = xcalloc(m->nnodes + 1, sizeof *a.nodes),
		.book = { .bids = xcalloc(m->njobs + 1, sizeof *a.book.bids),
			.asks = xcalloc(m->nnodes + 1, sizeof *a.book.asks) } };
	int rc = 0;

	list_all(&a);
	for (size_t i = 0; i < m->njobs && rc == 0; i++) {
		const char *why = refusal(&m->jobs[i]);
		size_t from;

		if (m->jobs[i].begun)
			continue;
		if (why) {
			rc = write_waiting(&m->jobs[i], why);
			continue;
		}
		from = first_of(a.jobs, a.njobs, m->jobs[i].models[0]);
		if (a.jobs[from].at == i)
			rc = clear_model(&a, from);
	}
	free(a.jobs);
	free(a.nodes);
	free(a.book.bids);
	free(a.book.asks);
	return rc;
}

/* --- run ---------------------------------------------------------------------------------- */

static int read_all(struct match_command *s, int n, char **args)
{
	struct match_market *m = &s->market;

	if (match_read_jobs(m, args[0], at_ms) < 0 ||
		match_read_nodes(m, args + 1, n - 1) < 0)
		return -1;
	if (m->unpriced)
		prog_warn("%zu node%s without a quote or without GPUs: not for sale",
			m->unpriced, m->unpriced == 1 ? "" : "s");
	if (!m->nnodes)
		return err_set(EX_DATAERR,
			"no node is for sale: rnp.offer records are, and rnp.node records with an rnp.quote");
	if (reputation_path && match_read_reputations(m, reputation_path) < 0)
		return -1;
	return throughputs_path ? match_read_throughputs(m, throughputs_path) : 0;
}

static enum match_algorithm chosen(void)
{
	for (int i = 0; i < MATCH_ALGORITHMS; i++)
		if (strcmp(match_names[i], algorithm) == 0)
			return (enum match_algorithm)i;
	return MATCH_CHEAPEST; /* the auction, which orders nothing */
}

static int check_options(const struct match_command *s)
{
	if (chosen() == MATCH_GAVEL && !throughputs_path)
		return err_set(EX_USAGE, "gavel needs --throughputs");
	if (preempt && strcmp(algorithm, AUCTION) == 0)
		return err_set(EX_USAGE,
			"an auction stops nobody: --preempt is of the others");
	for (size_t i = 0; i < s->market.njobs && chosen() == MATCH_FGD; i++)
		if (s->market.jobs[i].nodes_min > 1 || s->market.jobs[i].nshares)
			return err_set(EX_DATAERR,
				"fgd: job %.80s wants several nodes, or shares of places",
				s->market.jobs[i].id);
	for (size_t i = 0; i < s->market.nnodes && chosen() == MATCH_FGD; i++)
		if (s->market.nodes[i].gpus > PLACE_GPUS_MAX)
			return err_set(EX_DATAERR,
				"fgd: %.80s has %d GPUs, at most %d are known to it",
				s->market.nodes[i].id, s->market.nodes[i].gpus,
				PLACE_GPUS_MAX);
	return 0;
}

static int match(struct match_command *s, int n, char **args)
{
	const bool until_given = until_ms >= 0;

	if (read_all(s, n, args) < 0 || check_options(s) < 0)
		return -1;
	s->match = match_open(chosen(), s->market.nodes, s->market.nnodes);
	if (running_path &&
		match_read_running(&s->market, running_path, at_ms, s->match) < 0)
		return -1;
	for (size_t i = 0; i < s->market.njobs && !until_given; i++)
		if (s->market.jobs[i].at_ms > until_ms && !s->market.jobs[i].begun)
			until_ms = s->market.jobs[i].at_ms;
	if (preempt)
		match_preempt(s->match);
	if (strcmp(algorithm, AUCTION) == 0)
		return hold_auction(&s->market);
	return match_run(s->match, s->market.jobs, s->market.njobs, until_ms, write_match,
		s);
}

static int run(int n, char **args)
{
	struct match_command s = { 0 };
	int rc;

	if (at_ms < 0)
		at_ms = clock_now_ms();
	rc = match(&s, n, args);
	if (s.match)
		match_close(s.match);
	match_market_release(&s.market);
	return rc < 0 ? err_report() : 0;
}

const struct command command_match = {
	.name = "match",
	.arguments = "jobs nodes ...",
	.args_min = 2,
	.args_max = -1,
	.summary = "Pair jobs with nodes.",
	.details =
		"Reads rnp.job records from the first file and what is for sale from the others:\n"
		"rnp.offer records, or rnp.node records with their rnp.quote, and with their rnp.listing\n"
		"if they have one. Writes one rnp.match\n"
		"record a job: its GPUs, price and times, or why it waits.",
	.columns =
		"job,nodes.0.node=node,gpu_model,gpu_count=gpus,uusd_per_hour,start,end,waiting",
	.opts = options,
	.run = run,
};
