/* simulate.c - rnp-train simulate: a run over a network in virtual time: what it would cost,
 * and with --train what it would learn. This file is long because of the table of options: a
 * quarter of it. */
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/options.h"
#include "cmd/rnp-train/sim/sim.h"
#include "cmd/rnp-train/sim/stream.h"
#include "cmd/rnp-train/sim/train.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/rng.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"
#include "common/hw/device.h"
#include "common/json/json.h"

#define SAMPLE (UINT64_C(1) << 20) /* elements from which a method's size is estimated */

static struct {
	struct session_options s;
	bool train;
	const char *links, *preset, *outer, *method, *method_down, *aggregate, *late,
		*hostile;
	int64_t workers, rounds, inner_steps, warm, start, quorum, grace_ms, slack_ms,
		judge;
	int64_t fragments, overlap;
	int64_t groups, group_rounds, parameters, eval_every;
	int64_t server_up, server_down, trunk_bps;
	double outer_rate, outer_momentum, score_min;
	bool dylu, no_steps;
} options = { .s = { .batch = 8,
		      .warmup = -1,
		      .lr = 4e-4,
		      .lr_min = 0.1,
		      .beta1 = 0.9,
		      .beta2 = 0.95,
		      .decay = 0.1,
		      .clip = 1,
		      .eval_tokens = 65536,
		      .every = 1,
		      .precision = "bf16" },
	.preset = "small",
	.outer = "nesterov",
	.method = "q4",
	.aggregate = "mean",
	.late = "drop",
	.workers = 4,
	.rounds = 10,
	.inner_steps = 50,
	.grace_ms = 1000,
	.slack_ms = 1000,
	.group_rounds = 10,
	.server_up = 1000000000,
	.server_down = 1000000000,
	.trunk_bps = 100000000,
	.outer_rate = -1,
	.outer_momentum = -1,
	.score_min = -2 };

static const struct opt opts[] = {
	OPT_IN(I64, "workers", &options.workers, "K", 1, 1000000,
		"how many (default 4; with --train at most 64)"),
	OPT_IN(I64, "rounds", &options.rounds, "R", 0, 10000000,
		"end after this many rounds (default 10)"),
	OPT_INNER_STEPS(&options.inner_steps),
	OPT(TEXT, "links", &options.links, "F",
		"kinds of workers, rnp.link lines (default 100 Mbit/s, 20 ms, 10000 tokens/s)"),
	OPT_EXAMPLE("kinds of workers for --links"),
	OPT_SWITCH("train", &options.train,
		"make the steps, on --model and --data, one worker after the other"),
	OPT(TEXT, "model", &options.s.model, "M", "the model to begin with"),
	OPT_SHARDS(&options.s.data),
	OPT_RAW_IDS(&options.s.ids),
	OPT_VALID(&options.s.valid, ""),
	OPT_EVAL_EVERY(&options.eval_every, "rounds"),
	OPT_EVAL_TOKENS(&options.s.eval_tokens),
	OPT_IN(I64, "start", &options.start, "N", 0, 100000000,
		"make the first N steps as one machine, with the batch of all workers"),
	OPT_WARM(&options.warm),
	OPT(I64, "steps", &options.s.steps, "N",
		"the step at which the cosine of the learning rate ends (default: that of the run's end)",
		.min = 0),
	OPT_BATCH(&options.s.batch, "a worker's step"),
	OPT_LENGTH(&options.s.length),
	OPTS_RATE(options.s),
	OPT_ORDER_SEED(&options.s.seed, ", and of what comes by chance"),
	OPT_PRECISION(&options.s.precision),
	OPT_OUTER(&options.outer),
	OPT_OUTER_RATE(&options.outer_rate),
	OPT_OUTER_MOMENTUM(&options.outer_momentum),
	OPT_DELTA_METHOD(&options.method),
	OPT_UPDATE_METHOD(&options.method_down),
	OPT_AGGREGATE(&options.aggregate),
	OPT_LATE(&options.late, "drop"),
	OPT_IN(I64, "quorum", &options.quorum, "K", 1, 1000000,
		"deltas that a round needs (default: half of the workers, rounded up)"),
	OPT_IN(DURATION, "slack", &options.slack_ms, "D", 0, 86400000,
		"least time between the usual arrival and the deadline (default 1s)"),
	OPT_GRACE(&options.grace_ms),
	OPT_SWITCH("dynamic-steps", &options.dylu, "slower workers make fewer steps"),
	OPT_FRAGMENTS(&options.fragments),
	OPT_OVERLAP(&options.overlap),
	OPT_JUDGE(&options.judge, ""),
	OPT(F64, "score-min", &options.score_min, "S",
		"deltas of workers with a lower score do not count (-1 to 1; default: all count)"),
	OPT(TEXT, "hostile", &options.hostile, "KIND:N",
		"the last N workers: flip, scale, random, stale, idle or copy"),
	OPT_IN(I64, "groups", &options.groups, "G", 0, 100000,
		"a tree: how many coordinators stand near their workers (default 0: a star)"),
	OPT_IN(I64, "group-rounds", &options.group_rounds, "H2", 1, 1000000,
		"rounds of a group in a round of the root (default 10)"),
	OPT(TEXT, "preset", &options.preset, "P",
		"size of the model without --train (default small)"),
	OPT_IN(I64, "parameters", &options.parameters, "N", 1, INT64_C(1) << 45,
		"or its parameters"),
	OPT_IN(I64, "server-up", &options.server_up, "N", 1, INT64_C(1) << 50,
		"bits/s of a coordinator's link (default 1000000000)"),
	OPT_IN(I64, "server-down", &options.server_down, "N", 1, INT64_C(1) << 50,
		"the other way"),
	OPT_IN(I64, "trunk", &options.trunk_bps, "N", 1, INT64_C(1) << 50,
		"bits/s from a group to the root (default 100000000)"),
	OPT_SWITCH("totals", &options.no_steps, "write the closing record alone"),
	OPT_DEVICE(&options.s.device),
	{ 0 },
};

/* --- without training: sizes ------------------------------------------------------------------ */

/* Returns the bits per element, from a sample whose blocks differ in scale as a model's tensors
 * do. */
static int bits_of(struct dev *cpu, const struct grad *method, double *bits)
{
	float *x = xmalloc(SAMPLE * sizeof *x);
	struct buf out = BUF_INIT;
	struct grad g = *method;
	struct rng rng;
	int rc;

	rng_seed(&rng, 1, 0);
	for (uint64_t i = 0; i < SAMPLE; i++) {
		double sum = 0;

		for (int j = 0; j < 4; j++)
			sum += rng_f64(&rng) - 0.5;
		x[i] = (float)(sum * 1e-3 * (double)(1 + i / 65536 % 4));
	}
	g.elements = SAMPLE;
	rc = grad_encode(cpu, &g, x, NULL, &out, NULL);
	*bits = 8 * (double)out.len / (double)SAMPLE;
	buf_release(&out);
	free(x);
	return rc;
}

struct sizes {
	double up, down, whole; /* bytes of a container */
};

/* --- the simulation --------------------------------------------------------------------------- */

static struct {
	struct sim_train train;
	struct sim_options sim;
	struct sim_train_options t;
	struct sim_link *links, trunk;
	struct grad up, down;
	struct sizes sizes;
	uint64_t parameters;
	struct progress bar;
	double valid_loss;
} sim;

static int64_t work_size(void *arg, uint64_t worker, const struct round_assignment *a)
{
	(void)arg, (void)worker, (void)a;
	return (int64_t)sim.sizes.up;
}

static int64_t update_size(void *arg, struct round *r, const uint64_t *worker_of)
{
	(void)arg, (void)r, (void)worker_of;
	return (int64_t)sim.sizes.down;
}

static json_t *waits_of(const struct round *r)
{
	json_t *waits = json_object();

	for (int i = 0; i < 4; i++)
		if (r->waited[i] > 0)
			json_set_i64(waits, round_waits[i], r->waited[i]);
	return waits;
}

static void add_learning(json_t *o)
{
	const struct sim_train *t = &sim.train;
	char hex[65];

	sodium_bin2hex(hex, sizeof hex, t->model, sizeof t->model);
	json_set_f64(o, "loss", t->loss);
	json_set_text(o, "model", hex);
	json_set_i64(o, "refused", (int64_t)t->refused);
	json_set_i64(o, "copied", (int64_t)t->copied);
	if (t->result.theta_norm > 0)
		json_set_i64(o, "outer_norm_ppm",
			llround(1e6 * t->result.d_norm / t->result.theta_norm));
}

static int report(void *arg, const struct sim_round *s, bool *end)
{
	bool last = s->r->number + 1 == (uint64_t)options.rounds;
	bool measure = options.train && options.s.valid &&
		(last ||
			(options.eval_every &&
				(s->r->number + 1) % (uint64_t)options.eval_every == 0));
	json_t *o;
	int rc;

	(void)arg, (void)end;
	progress_update(&sim.bar, (int64_t)s->r->number + 1);
	if (measure && sim_train_eval(&sim.train, &sim.valid_loss) < 0)
		return -1;
	if (options.no_steps)
		return 0;
	o = json_record("rnp.sim_round");
	json_set_i64(o, "round", (int64_t)s->r->number);
	json_set_f64(o, "from_s", (double)s->from / 1000);
	json_set_f64(o, "to_s", (double)s->to / 1000);
	json_set_i64(o, "workers", (int64_t)s->workers);
	json_set_i64(o, "dropped", (int64_t)s->dropped);
	if (options.train)
		add_learning(o);
	if (measure)
		json_set_f64(o, "validation_loss", sim.valid_loss);
	json_set_i64(o, "tokens", (int64_t)s->tokens);
	json_set_i64(o, "bytes_received", (int64_t)s->received);
	json_set_i64(o, "bytes_sent", (int64_t)s->sent);
	json_set_i64(o, "compute_ppm", s->compute_ppm);
	json_set(o, "waited", waits_of(s->r));
	rc = out_record(o);
	json_decref(o);
	return rc;
}

/* A synchronous parameter server in f32 moves 8 bytes per parameter, worker and step. */
static double fewer(const struct sim_totals *t)
{
	double tokens_of_step = (double)sim.sim.policy.batch *
		(double)sim.sim.policy.length;
	double steps = (double)t->tokens / tokens_of_step; /* of all workers together */
	double bytes = (double)(t->received + t->sent);

	return bytes > 0 ? 8 * (double)sim.parameters * steps / bytes : 0;
}

static int report_totals(const struct sim_totals *t)
{
	json_t *o = json_record("rnp.simulation");
	double seconds = (double)t->ms / 1000;
	int rc;

	json_set_i64(o, "workers", options.workers);
	json_set_i64(o, "parameters", (int64_t)sim.parameters);
	json_set_i64(o, "rounds", (int64_t)t->rounds);
	json_set_f64(o, "seconds", seconds);
	json_set_i64(o, "tokens", (int64_t)t->tokens);
	json_set_i64(o, "tokens_per_s",
		seconds > 0 ? llround((double)t->tokens / seconds) : 0);
	json_set_i64(o, "joins", (int64_t)t->joins);
	json_set_i64(o, "bytes_received", (int64_t)t->received);
	json_set_i64(o, "bytes_sent", (int64_t)t->sent);
	if (options.groups) {
		json_set_i64(o, "near_bytes_received", (int64_t)t->near_received);
		json_set_i64(o, "near_bytes_sent", (int64_t)t->near_sent);
	}
	json_set_f64(o, "fewer_bytes", fewer(t));
	if (t->present_ms > 0)
		json_set_i64(o, "compute_ppm",
			llround(1e6 * t->compute_ms / t->present_ms));
	if (options.train)
		add_learning(o);
	if (options.train && options.s.valid)
		json_set_f64(o, "validation_loss", sim.valid_loss);
	rc = out_record(o);
	json_decref(o);
	return rc;
}

/* --- options ---------------------------------------------------------------------------------- */

static int parse_hostile(struct sim_train_options *t)
{
	char kind[16];
	const char *colon;
	int64_t n;

	if (!options.hostile)
		return 0;
	colon = strchr(options.hostile, ':');
	if (!colon || colon - options.hostile >= (long)sizeof kind)
		return err_set(EX_USAGE,
			"--hostile is a kind and a number, as in flip:2");
	memcpy(kind, options.hostile, (size_t)(colon - options.hostile));
	kind[colon - options.hostile] = '\0';
	if (sim_evil_parse(&t->evil, kind) < 0)
		return -1;
	if (num_i64(colon + 1, "--hostile", 1, options.workers, &n) < 0)
		return err_set(EX_USAGE, "--hostile: at most all of the workers");
	t->n_evil = (uint64_t)n;
	return 0;
}

static int parse_rules(struct update_options *u, struct outer_dn *dn)
{
	if (update_parse(&u->rule, options.outer) < 0 ||
		aggregate_parse(&u->aggregate, options.aggregate) < 0 ||
		grad_parse(&sim.up, options.method, 0) < 0 ||
		grad_parse(&sim.down,
			options.method_down ? options.method_down : options.method,
			0) < 0)
		return -1;
	if (u->rule == UPDATE_DN && u->aggregate.kind != AGGREGATE_MEAN)
		return err_set(EX_USAGE,
			"--outer dn takes deltas one by one: --aggregate mean");
	u->nesterov = outer_nesterov_defaults((uint64_t)options.rounds);
	if (options.fragments > 1 || options.overlap)
		u->nesterov.rate = 0.4; /* arXiv 2501.18512 */
	if (options.outer_rate >= 0)
		u->nesterov.rate = options.outer_rate;
	if (options.outer_momentum >= 0)
		u->nesterov.momentum = options.outer_momentum;
	*dn = (struct outer_dn){ .rate = options.outer_rate >= 0 ? options.outer_rate :
								   0.7,
		.beta = options.outer_momentum >= 0 ? options.outer_momentum : 0.9 };
	u->down = sim.down;
	u->copies = true;
	return 0;
}

static int check_given(void)
{
	size_t smallest;

	if (parse_rules(&sim.t.update, &sim.t.dn) < 0)
		return -1;
	if (options.train && (!options.s.model || !options.s.data))
		return err_set(EX_USAGE, "--train needs --model and --data");
	if (!options.train && (options.s.data || options.s.valid))
		return err_set(EX_USAGE, "--data and --valid go with --train");
	if (options.train && options.workers > SIM_WORKERS_MAX)
		return err_set(EX_USAGE, "--train is for at most %d workers",
			SIM_WORKERS_MAX);
	if (options.train && options.groups)
		return err_set(EX_USAGE, "--groups goes without --train");
	if (!options.train && (options.judge || options.hostile || options.start))
		return err_set(EX_USAGE,
			"--judge, --hostile and --start go with --train");
	if (options.overlap && !options.fragments)
		options.fragments = 1;
	if (options.fragments &&
		(!options.train || options.judge || options.hostile || options.warm ||
			sim.t.update.rule == UPDATE_DN))
		return err_set(EX_USAGE,
			"--fragments and --overlap go with --train, and without --judge, --hostile, --warm and --outer dn");
	if (options.groups > options.workers)
		return err_set(EX_USAGE, "there are more --groups than --workers");
	if (!options.quorum)
		options.quorum = (options.workers + 1) / 2;
	if (options.quorum > options.workers)
		return err_set(EX_USAGE,
			"--quorum %lld of %lld workers never comes together",
			(long long)options.quorum, (long long)options.workers);
	if (parse_hostile(&sim.t) < 0)
		return -1;
	smallest = aggregate_least(&sim.t.update.aggregate);
	if ((size_t)options.quorum < smallest)
		return err_set(EX_USAGE, "--aggregate %s needs a --quorum of %zu",
			options.aggregate, smallest);
	return 0;
}

static void set_policy(void)
{
	struct sim_options *o = &sim.sim;

	o->policy = (struct round_policy){ .quorum = (uint64_t)options.quorum,
		.steps = (uint64_t)options.inner_steps,
		.batch = (uint64_t)options.s.batch,
		.length = (uint64_t)(options.s.length ? options.s.length : 512),
		.late_count = strcmp(options.late, "count") == 0,
		.slack_ms = options.slack_ms,
		.asynchronous = sim.t.update.rule == UPDATE_DN,
		.grace_ms = options.grace_ms,
		.dylu = options.dylu };
	o->warm = (uint64_t)options.warm;
	o->workers = (uint64_t)options.workers;
	o->rounds = (uint64_t)options.rounds;
	o->seed = options.s.seed;
	o->server_up_bps = options.server_up;
	o->server_down_bps = options.server_down;
	o->groups = (uint64_t)options.groups;
	o->group_rounds = (uint64_t)options.group_rounds;
	/* a core decodes and adds about 300 MB/s of each delta's f32 */
	o->update_ns = 5e6;
	sim.trunk = (struct sim_link){ .up_bps = options.trunk_bps,
		.down_bps = options.trunk_bps,
		.latency_ms = 20,
		.tokens_per_s = 1 };
	o->trunk = &sim.trunk;
}

static int read_links(void)
{
	static const struct sim_link usual = { .name = "usual",
		.share = 1,
		.up_bps = 100000000,
		.down_bps = 100000000,
		.latency_ms = 20,
		.tokens_per_s = 10000 };
	size_t n = 1;

	if (options.links) {
		if (sim_links_read(&sim.links, &n, options.links) < 0)
			return -1;
	} else {
		sim.links = xmalloc(sizeof *sim.links);
		*sim.links = usual;
	}
	sim.sim.links = sim.links;
	sim.sim.nlinks = n;
	return 0;
}

/* Sizes of containers: of what is trained they are what comes out; the whole is lossless. */
static int find_sizes(void)
{
	struct lm_config c;
	struct dev cpu = DEV_INIT;
	double bits;
	struct grad whole;
	int rc = -1;

	if (options.train) {
		sim.parameters = sim.train.count;
	} else if (options.parameters) {
		sim.parameters = (uint64_t)options.parameters;
	} else {
		if (lm_config_preset(&c, options.preset, 0) < 0)
			return -1;
		sim.parameters = lm_config_params(&c);
	}
	if (device_open(&cpu, "cpu") < 0 || grad_parse(&whole, "lossless", 0) < 0)
		goto out;
	if (bits_of(&cpu, &sim.up, &bits) < 0)
		goto out;
	sim.sizes.up = ceil((double)sim.parameters * bits / 8);
	if (bits_of(&cpu, &sim.down, &bits) < 0)
		goto out;
	sim.sizes.down = ceil((double)sim.parameters * bits / 8);
	if (bits_of(&cpu, &whole, &bits) < 0)
		goto out;
	sim.sizes.whole = ceil((double)sim.parameters * bits / 8);
	sim.sim.whole_bytes = (uint64_t)sim.sizes.whole;
	/* per incoming byte, for elements of this many bits */
	sim.sim.update_ns_byte = 4 * (double)sim.parameters / sim.sizes.up / 0.3;
	rc = 0;
out:
	dev_close(&cpu);
	return rc;
}

static bool given(const char *option)
{
	return opt_given(&command_simulate, option);
}

static int open_training(void)
{
	int64_t in_rounds = options.rounds * options.inner_steps;

	if (!options.train)
		return 0;
	options.s.given = given;
	if (!options.s.steps)
		options.s.steps = options.start + in_rounds;
	sim.t.method = sim.up;
	sim.t.workers = (uint64_t)options.workers;
	sim.t.judge = (uint64_t)options.judge;
	sim.t.score_min_ppm = options.score_min >= -1 ? llround(1e6 * options.score_min) :
							INT64_MIN;
	sim.t.inner_steps = (uint64_t)options.inner_steps;
	sim.t.seed = options.s.seed;
	if (sim_train_open(&sim.train, &options.s, &sim.t) < 0)
		return -1;
	sim.sim.policy.length = (uint64_t)sim.train.s.o.length;
	sim.sim.first_sequence = (uint64_t)(options.start * options.workers) *
		sim.sim.policy.batch;
	return sim_train_start(&sim.train, (uint64_t)options.start);
}

static int stream(struct sim_totals *totals)
{
	struct sim_stream_options o = { .fragments = (uint32_t)options.fragments,
		.overlap = (uint64_t)options.overlap,
		.keep = options.overlap ? 0.5 : 0,
		.inner_steps = (uint64_t)options.inner_steps,
		.rounds = (uint64_t)options.rounds,
		.first_sequence = sim.sim.first_sequence };

	return sim_stream(&sim.train, &o, &sim.sim, report, &sim.train, totals);
}

static int simulate(void)
{
	struct sim_callbacks c = { work_size, update_size, report, NULL };
	struct sim_totals totals;
	int rc;

	if (options.train)
		c = (struct sim_callbacks){ sim_train_work, sim_train_update, report,
			&sim.train };
	progress_start(&sim.bar, "simulating", "rounds", options.rounds);
	if (options.fragments)
		rc = stream(&totals);
	else
		rc = sim_run(&sim.sim, &c, &totals);
	progress_end(&sim.bar);
	if (rc == 0 && options.train && options.s.valid && !options.rounds)
		rc = sim_train_eval(&sim.train, &sim.valid_loss);
	return rc < 0 ? -1 : report_totals(&totals);
}

static int run(int nargs, char **args)
{
	int rc;

	(void)nargs, (void)args;
	rc = check_given();
	if (!options.train && out_for_people()) /* without steps there is no loss */
		out_columns(
			"round,to_s=time,workers,dropped=lost,tokens,bytes_received=received,"
			"bytes_sent=sent,compute_ppm=busy;rnp.simulation:");
	if (rc == 0) {
		set_policy();
		rc = read_links();
	}
	if (rc == 0)
		rc = open_training();
	if (rc == 0)
		rc = find_sizes();
	if (rc == 0)
		rc = simulate();
	if (options.train)
		sim_train_close(&sim.train);
	free(sim.links);
	return rc < 0 ? err_report() : EX_OK;
}

static const char links_example[] =
	"{\"name\":\"fibre\",\"share\":2,\"up_bps\":100000000,\"down_bps\":300000000,"
	"\"latency_ms\":10,\"tokens_per_s\":9000}\n"
	"{\"name\":\"cable\",\"share\":3,\"up_bps\":20000000,\"down_bps\":100000000,"
	"\"latency_ms\":25,\"loss_ppm\":1000,\"tokens_per_s\":6000,\"up_s\":7200,\"away_s\":900}\n";

const struct command command_simulate = {
	.name = "simulate",
	.example = links_example,
	.args_max = 0,
	.summary = "Play a run over a network in virtual time.",
	.details =
		"Writes one rnp.sim_round record a round and one rnp.simulation record at the end. The same rounds,\n"
		"outer steps and aggregation as of coordinate, in a time that passes as quickly as events come. A\n"
		"worker's line: {\"name\":\"home\",\"share\":3,\"up_bps\":20000000,\"down_bps\":100000000, \"latency_ms\":25, \n"
		"\"loss_ppm\":1000,\"tokens_per_s\":8000,\"up_s\":7200,\"away_s\":600}",
	.columns =
		"round,to_s=time,workers,dropped=lost,validation_loss=loss,tokens,bytes_received=received,"
		"bytes_sent=sent,compute_ppm=busy;rnp.simulation:",
	.opts = opts,
	.run = run,
};
