/* coordinate.c - rnp-train coordinate: rounds of training for workers that come and go. */
#include "cmd/rnp-train/coordinate.h"

#include <signal.h>
#include <string.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/coordinate_parent.h"
#include "cmd/rnp-train/coordinate_registry.h"
#include "cmd/rnp-train/options.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/net/http.h"
#include "common/net/httpd_parts.h"

static struct coordinator_options options = { .workers = 1,
	.workers_max = 1024,
	.inner_steps = 50,
	.fragments = 1,
	.batch = 8,
	.warmup = -1,
	.lr = 4e-4,
	.lr_min = 0.1,
	.beta1 = 0.9,
	.beta2 = 0.95,
	.decay = 0.1,
	.clip = 1,
	.outer = "nesterov",
	.aggregate = "mean",
	.grace_ms = 1000,
	.score_min = -0.5,
	.keep_deltas = 1,
	.method = "q4",
	.eval_tokens = 65536,
	.give_up_ms = 600000,
	.precision = "bf16" };
static const char *listen_on, *port_file, *cert_file, *cert_key, *log_file;
static struct opt_list allow;
static const char *policy_name;
static double outer_rate, outer_momentum;

static const struct opt opts[] = {
	{ .name = "model",
		.kind = OPT_TEXT,
		.required = true,
		.to = &options.model,
		.metavar = "DIR",
		.help = "the model's directory: it learns, and holds the run's state" },
	OPT_SHARDS(&options.data, .required = true),
	{ .name = "parent",
		.kind = OPT_TEXT,
		.to = &options.parent,
		.metavar = "URL",
		.help = "be one worker of the coordinator there, with all workers of this one" },
	OPT_GIVE_UP(&options.give_up_ms, "parent"),
	{ .name = "ca",
		.kind = OPT_TEXT,
		.to = &options.ca,
		.metavar = "F",
		.help = "trust these certificates (PEM) for the parent, not the system's" },
	{ .name = "proxy",
		.kind = OPT_TEXT,
		.to = &options.proxy,
		.metavar = "URL",
		.help = "to the parent: http://, https:// or socks5h://" },
	OPT_LISTEN(&listen_on),
	OPT_PORT_FILE(&port_file),
	OPT_CERT(&cert_file),
	OPT_CERT_KEY(&cert_key),
	OPT_LOG_FILE(&log_file),
	OPT_VALID(&options.valid, " after each round"),
	OPT_EVAL_TOKENS(&options.eval_tokens),
	{ .name = "workers",
		.kind = OPT_I64,
		.to = &options.workers,
		.metavar = "K",
		.min = 1,
		.max = 100000,
		.help = "deltas without which no round closes (default 1)" },
	{ .name = "workers-max",
		.kind = OPT_I64,
		.to = &options.workers_max,
		.metavar = "N",
		.min = 1,
		.max = 100000,
		.help = "at a time at most (default 1024)" },
	{ .name = "rounds",
		.kind = OPT_I64,
		.to = &options.rounds,
		.metavar = "R",
		.min = 0,
		.max = 1000000000,
		.help = "end after so many; 0: only when stopped (default)" },
	OPT_INNER_STEPS(&options.inner_steps),
	OPT_FRAGMENTS(&options.fragments),
	OPT_OVERLAP(&options.overlap),
	OPT_WARM(&options.warm),
	OPT_OUTER(&options.outer),
	OPT_AGGREGATE(&options.aggregate),
	OPT_LATE(&options.late),
	OPT_GRACE(&options.grace_ms),
	OPT_OUTER_RATE(&outer_rate),
	OPT_OUTER_MOMENTUM(&outer_momentum),
	OPT_DELTA_METHOD(&options.method),
	OPT_UPDATE_METHOD(&options.method_down),
	{ .name = "registry",
		.kind = OPT_TEXT,
		.to = &options.registry,
		.metavar = "URL",
		.help = "take only nodes that are registered there, and send it the receipts" },
	{ .name = "policy",
		.kind = OPT_TEXT,
		.to = &policy_name,
		.metavar = "P",
		.help = "of these only nodes that qualify: name of a policy, or path of its file" },
	OPT_JUDGE(&options.judge),
	{ .name = "score-min",
		.kind = OPT_F64,
		.to = &options.score_min,
		.metavar = "S",
		.help = "no work for who scores less in judging, -1 to 1 (default -0.5)" },
	{ .name = "keep-deltas",
		.kind = OPT_I64,
		.to = &options.keep_deltas,
		.metavar = "N",
		.min = 0,
		.max = 1000000,
		.help = "rounds for which deltas can be fetched and judged by others (default 1)" },
	{ .name = "allow",
		.kind = OPT_LIST,
		.address = true,
		.to = &allow,
		.metavar = "ADDRESS",
		.help = "take this worker; once given, no others (default: anybody)" },
	{ .name = "uusd-per-million-tokens",
		.kind = OPT_I64,
		.to = &options.uusd_per_million_tokens,
		.metavar = "N",
		.min = 0,
		.max = INT64_C(1000000000000),
		.help = "what receipts say that counted work earns, in 10^-6 USD" },
	{ .name = "credits-per-million-tokens",
		.kind = OPT_I64,
		.to = &options.credits_per_million_tokens,
		.metavar = "N",
		.min = 0,
		.max = INT64_C(1000000000000),
		.help = "work credits for it" },
	OPT_BATCH(&options.batch, "an inner step"),
	OPT_LENGTH(&options.length),
	OPTS_RATE(options),
	OPTS_ADAMW(options),
	OPT_ORDER_SEED(&options.seed, ""),
	OPT_PRECISION(&options.precision),
	OPT_KEY(&options.key),
	OPT_DEVICE(&options.device),
	{ 0 },
};

static bool given(const char *option)
{
	return opt_given(&command_coordinate, option);
}

/* A group begins and ends its rounds whole, and as often as the parent's turns take. */
static int check_tree(void)
{
	static const char *const without[] = { "give-up", "ca", "proxy", NULL };
	static const char *const against[] = { "rounds", "fragments", "overlap", NULL };
	const char *const *names = options.parent ? against : without;

	for (int i = 0; names[i]; i++)
		if (given(names[i]))
			return err_set(EX_USAGE, "--%s goes %s --parent", names[i],
				options.parent ? "without" : "with");
	if (options.parent && strcmp(options.outer, "dn") == 0)
		return err_set(EX_USAGE, "--outer dn goes without --parent");
	return 0;
}

static void tick(void *g)
{
	coordinate_post_receipts(g, false);
}

/* A signal has come: the one that ended serving, or a later one where the run ended by itself. */
static _Atomic bool signalled;

static bool was_signalled(void)
{
	return signalled || httpd_is_signalled();
}

/* Serves until a signal, or until the round's thread ends it. */
static int serve(struct coordinator *g)
{
	const struct httpd_config config = { .listen = listen_on,
		.port_file = port_file,
		.cert_file = cert_file,
		.key_file = cert_key,
		.log_file = log_file,
		.log_off = prog_quiet() && !log_file,
		.routes = coordinate_routes,
		.ctx = g,
		.metrics = coordinate_metrics };
	struct httpd *h = httpd_start(&config);
	pthread_t rounds;

	if (!h)
		return -1;
	g->server = h;
	prog_info("run %.16s: listening on port %d", g->run.name, httpd_port(h));
	if (pthread_create(&rounds, NULL, coordinate_rounds, g) != 0) {
		httpd_stop(h);
		return err_sys(EX_OSERR, "cannot start a thread");
	}
	httpd_wait(h, tick);
	pthread_mutex_lock(&g->lock);
	signalled = !g->stop;
	g->stop = true;
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
	coordinate_parent_stop(g);
	if (out_end_where_blocked(was_signalled) < 0)
		err_clear();
	pthread_join(rounds, NULL);
	coordinate_post_receipts(g, true);
	httpd_stop(h);
	return g->failed.code ? err_restore(&g->failed) : 0;
}

/* What is left to be printed in the end, is; where nobody reads it a signal ends the program, and the next
 * start prints it. */
static int serve_and_print(struct coordinator *g)
{
	int rc;

	if (coordinate_print_begin(g) < 0)
		return -1;
	rc = serve(g);
	return coordinate_print_end(g) < 0 ? -1 : rc;
}

/* policy becomes the options'. */
static int find_policy(struct policy *policy)
{
	struct buf url = BUF_INIT;
	int rc = options.registry ? http_url(&url, options.registry, "") : 0;

	buf_release(&url);
	if (rc < 0)
		return -1;
	if (!policy_name)
		return 0;
	if (!options.registry)
		return err_set(EX_USAGE, "--policy goes with --registry");
	options.policy = policy;
	return policy_load(policy, policy_name);
}

static int run(int n, char **args)
{
	struct policy policy = POLICY_INIT;
	struct coordinator g;
	int rc = -1;

	(void)n, (void)args;
	options.given = given;
	options.outer_rate = outer_rate;
	options.outer_momentum = outer_momentum;
	options.allow = allow.items;
	options.nallow = allow.n;
	/* before there is any thread */
	httpd_block_signals();
	if (check_tree() == 0 && find_policy(&policy) == 0) {
		rc = coordinate_open(&g, &options);
		if (rc == 0)
			rc = serve_and_print(&g);
		coordinate_close_all(&g);
	}
	policy_release(&policy);
	opt_list_release(&allow);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_coordinate = {
	.name = "coordinate",
	.summary = "Coordinate training on machines that are far apart and come and go.",
	.details =
		"Hands out turns over HTTP, sums what comes back, and writes one rnp.round "
		"a round and an\nrnp.receipt for each member's work. The same command goes "
		"on after any end. See join.",
	.columns = "round,workers,dropped,loss_micronats=loss,"
		   "validation_loss_micronats=validation,tokens",
	.opts = opts,
	.run = run,
};
