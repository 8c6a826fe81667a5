/* coordinate.c - rnp-train coordinate: rounds of training for workers that come and go. */
#include "cmd/rnp-train/coordinate.h"

#include <signal.h>
#include <string.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/coordinate_parent.h"
#include "cmd/rnp-train/coordinate_registry.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
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
static double outer_rate, outer_momentum;

static const struct opt opts[] = {
	{ .name = "model",
		.kind = OPT_TEXT,
		.required = true,
		.to = &options.model,
		.metavar = "DIR",
		.help = "the model's directory: it learns, and holds the run's state" },
	{ .name = "data",
		.kind = OPT_TEXT,
		.required = true,
		.to = &options.data,
		.metavar = "SHARDS",
		.help = "token shards that tokenize wrote" },
	{ .name = "parent",
		.kind = OPT_TEXT,
		.to = &options.parent,
		.metavar = "URL",
		.help = "be one worker of the coordinator there, with all workers of this one" },
	{ .name = "give-up",
		.kind = OPT_DURATION,
		.to = &options.give_up_ms,
		.metavar = "D",
		.min = 1000,
		.max = INT64_C(31536000000),
		.help = "end when the parent is away for so long (default 600s)" },
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
	{ .name = "cert",
		.kind = OPT_TEXT,
		.to = &cert_file,
		.metavar = "F",
		.help = "serve HTTPS with this certificate (PEM)" },
	{ .name = "cert-key",
		.kind = OPT_TEXT,
		.to = &cert_key,
		.metavar = "F",
		.help = "the certificate's key (PEM)" },
	OPT_LOG_FILE(&log_file),
	{ .name = "valid",
		.kind = OPT_TEXT,
		.to = &options.valid,
		.metavar = "SHARDS",
		.help = "text to measure the loss on after each round" },
	{ .name = "eval-tokens",
		.kind = OPT_I64,
		.to = &options.eval_tokens,
		.metavar = "N",
		.min = 1,
		.help = "on so many of its tokens (default 65536)" },
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
	{ .name = "inner-steps",
		.kind = OPT_I64,
		.to = &options.inner_steps,
		.metavar = "H",
		.min = 1,
		.max = 1000000,
		.help = "of each worker in a round (default 50)" },
	{ .name = "fragments",
		.kind = OPT_I64,
		.to = &options.fragments,
		.metavar = "P",
		.min = 1,
		.max = 1000000,
		.help = "exchange the layers in P parts, one after the other (default 1)" },
	{ .name = "overlap",
		.kind = OPT_I64,
		.to = &options.overlap,
		.metavar = "TAU",
		.min = 0,
		.max = 1000000,
		.help = "workers make so many steps until they need an update (default 0)" },
	{ .name = "warm",
		.kind = OPT_I64,
		.to = &options.warm,
		.metavar = "N",
		.min = 0,
		.max = PROTOCOL_WARM_MAX,
		.help = "the first N inner steps in rounds of H/10 to 4H/5 (default 0)" },
	{ .name = "outer",
		.kind = OPT_CHOICE,
		.to = &options.outer,
		.metavar = "RULE",
		.choices = "nesterov|sparse|dn|mean",
		.help = "the outer rule (default nesterov)" },
	{ .name = "aggregate",
		.kind = OPT_TEXT,
		.to = &options.aggregate,
		.metavar = "RULE",
		.help = "mean, clip, trimmed:F, cclip or krum:F (default mean)" },
	{ .name = "late",
		.kind = OPT_CHOICE,
		.to = &options.late,
		.metavar = "L",
		.choices = "drop|count",
		.help = "what comes behind the deadline: drop (default), or count half in the "
			"next round" },
	{ .name = "grace",
		.kind = OPT_DURATION,
		.to = &options.grace_ms,
		.metavar = "D",
		.min = 0,
		.max = 86400000,
		.help = "of dn: take who comes so soon behind the first (default 1s)" },
	{ .name = "outer-rate",
		.kind = OPT_F64,
		.to = &outer_rate,
		.metavar = "R",
		.help = "of nesterov (default 0.7; 0.9 for fewer than 100 rounds)" },
	{ .name = "outer-momentum",
		.kind = OPT_F64,
		.to = &outer_momentum,
		.metavar = "M",
		.help = "of nesterov (default 0.9; 0.6 for fewer than 100 rounds)" },
	{ .name = "method",
		.kind = OPT_TEXT,
		.to = &options.method,
		.metavar = "M",
		.help = "how deltas are compressed, see compress (default q4)" },
	{ .name = "method-down",
		.kind = OPT_TEXT,
		.to = &options.method_down,
		.metavar = "M",
		.help = "how updates are (default: as deltas)" },
	{ .name = "registry",
		.kind = OPT_TEXT,
		.to = &options.registry,
		.metavar = "URL",
		.help = "take only nodes that are registered there, and send it the receipts" },
	{ .name = "judge",
		.kind = OPT_I64,
		.to = &options.judge,
		.metavar = "N",
		.min = 0,
		.max = 100000,
		.help = "judge so many deltas a round by what they do to the loss" },
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
	{ .name = "batch",
		.kind = OPT_I64,
		.to = &options.batch,
		.metavar = "B",
		.min = 1,
		.max = 1 << 20,
		.help = "sequences of an inner step (default 8)" },
	{ .name = "length",
		.kind = OPT_I64,
		.to = &options.length,
		.metavar = "T",
		.min = 1,
		.max = LM_CONTEXT_MAX,
		.help = "tokens of a sequence (default: the model's context, at most 512)" },
	{ .name = "lr",
		.kind = OPT_F64,
		.to = &options.lr,
		.metavar = "R",
		.help = "learning rate (default 4e-4)" },
	{ .name = "lr-min",
		.kind = OPT_F64,
		.to = &options.lr_min,
		.metavar = "P",
		.help = "part of it that the cosine ends with (default 0.1)" },
	{ .name = "warmup",
		.kind = OPT_I64,
		.to = &options.warmup,
		.metavar = "N",
		.min = 0,
		.help = "inner steps of linear warm-up (default: a tenth, at most 100)" },
	{ .name = "weight-decay",
		.kind = OPT_F64,
		.to = &options.decay,
		.metavar = "W",
		.help = "of matrices (default 0.1)" },
	{ .name = "beta1",
		.kind = OPT_F64,
		.to = &options.beta1,
		.metavar = "B",
		.help = "of AdamW (default 0.9)" },
	{ .name = "beta2",
		.kind = OPT_F64,
		.to = &options.beta2,
		.metavar = "B",
		.help = "of AdamW (default 0.95)" },
	{ .name = "clip",
		.kind = OPT_F64,
		.to = &options.clip,
		.metavar = "N",
		.help = "largest norm of the gradient; 0: any (default 1)" },
	{ .name = "seed",
		.kind = OPT_U64,
		.to = &options.seed,
		.metavar = "S",
		.help = "of the order of the data (default 0)" },
	{ .name = "precision",
		.kind = OPT_CHOICE,
		.to = &options.precision,
		.metavar = "P",
		.choices = "bf16|f32",
		.help = "of products and activations (default bf16)" },
	OPT_KEY(&options.key),
	OPT_DEVICE(&options.device),
	{ 0 },
};

static bool given(const char *option)
{
	return opt_given(&command_coordinate, option);
}

static int check_allowed(void)
{
	unsigned char key[ADDRESS_BYTES];

	for (int i = 0; i < allow.n; i++)
		if (address_parse(allow.items[i], "--allow", key) < 0)
			return err_set(EX_USAGE, "--allow: '%.60s' is not an address",
				allow.items[i]);
	return 0;
}

/* A group begins and ends its rounds whole, and as often as the parent's turns take. */
static int check_tree(void)
{
	static const char *const without[] = { "give-up", "ca", "proxy", NULL };
	static const char *const against[] = { "rounds", "warm", "fragments", "overlap",
		NULL };
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
	g->stop = true;
	pthread_cond_signal(&g->wake);
	pthread_mutex_unlock(&g->lock);
	coordinate_parent_stop(g);
	pthread_join(rounds, NULL);
	coordinate_post_receipts(g, true);
	httpd_stop(h);
	return g->failed.code ? err_restore(&g->failed) : 0;
}

static int run(int n, char **args)
{
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
	if (check_allowed() == 0 && check_tree() == 0) {
		rc = coordinate_open(&g, &options);
		if (rc == 0)
			rc = serve(&g);
		coordinate_close_all(&g);
	}
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
