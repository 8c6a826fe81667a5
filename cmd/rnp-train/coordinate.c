/* coordinate.c - rnp-train coordinate: rounds of training for workers that come and go. */
#include "cmd/rnp-train/coordinator/coordinator.h"

#include <signal.h>
#include <string.h>

#include "cmd/rnp-train/commands.h"
#include "cmd/rnp-train/coordinator/page.h"
#include "cmd/rnp-train/coordinator/parent.h"
#include "cmd/rnp-train/coordinator/registry.h"
#include "cmd/rnp-train/options.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/http/http.h"
#include "common/httpd/parts.h"
#include "common/record/policy.h"

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
static const char *listen_on, *port_file, *cert_file, *cert_key, *log_file, *external_url,
	*proxy_header;
static struct opt_list allow, proxies;
static const char *policy_name;
static bool open_to_all;
static double outer_rate, outer_momentum;

static const struct opt opts[] = {
	OPT(TEXT, "model", &options.model, "DIR",
		"the model's directory: it learns, and holds the run's state",
		.required = true),
	OPT(TEXT, "data", &options.data, "SHARDS", "token shards that tokenize wrote",
		.required = true),
	OPT(TEXT, "parent", &options.parent, "URL",
		"be one worker of the coordinator there, with all workers of this one"),
	OPT_GIVE_UP(&options.give_up_ms, "parent"),
	OPT(TEXT, "ca", &options.ca, "F",
		"trust these certificates (PEM) for the parent, not the system's"),
	OPT(TEXT, "proxy", &options.proxy, "URL",
		"to the parent: http://, https:// or socks5h://"),
	OPT_LISTEN(&listen_on),
	OPT_PORT_FILE(&port_file),
	OPT_CERT(&cert_file),
	OPT_CERT_KEY(&cert_key),
	OPT_LOG_FILE(&log_file),
	OPTS_PROXIED(&external_url, &proxies, &proxy_header),
	OPT_VALID(&options.valid, " after each round"),
	OPT_EVAL_TOKENS(&options.eval_tokens),
	OPT_IN(I64, "workers", &options.workers, "K", 1, 100000,
		"how many workers a round needs (default 1)"),
	OPT_IN(I64, "workers-max", &options.workers_max, "N", 1, 100000,
		"at a time at most (default 1024)"),
	OPT_IN(I64, "workers-per-address", &options.per_address, "N", 1, 100000,
		"of one address, without --allow and --registry (default: a sixteenth of all, at least 8)"),
	OPT_IN(I64, "rounds", &options.rounds, "R", 0, 1000000000,
		"end after this many rounds; 0: only when stopped (default)"),
	OPT_INNER_STEPS(&options.inner_steps),
	OPT_FRAGMENTS(&options.fragments),
	OPT_OVERLAP(&options.overlap),
	OPT_WARM(&options.warm),
	OPT_OUTER(&options.outer),
	OPT_AGGREGATE(&options.aggregate),
	OPT_LATE(&options.late, "count, where the rule allows it"),
	OPT_GRACE(&options.grace_ms),
	OPT_OUTER_RATE(&outer_rate),
	OPT_OUTER_MOMENTUM(&outer_momentum),
	OPT_DELTA_METHOD(&options.method),
	OPT_UPDATE_METHOD(&options.method_down),
	OPT(TEXT, "registry", &options.registry, "URL",
		"take only nodes that are registered there, and send it the receipts"),
	OPT(TEXT, "policy", &policy_name, "P",
		"of these only nodes that qualify: name of a policy, or path of its file",
		.words = POLICY_NAMES),
	OPT_JUDGE(&options.judge, " (default: a tenth where work is paid)"),
	OPT(F64, "score-min", &options.score_min, "S",
		"give no work to workers whose score in judging is lower, -1 to 1 (default -0.5)"),
	OPT_IN(I64, "keep-deltas", &options.keep_deltas, "N", 0, 1000000,
		"rounds for which deltas can be fetched and judged by others (default 1)"),
	OPT(LIST, "allow", &allow, "ADDRESS",
		"take only the workers that are named so (default: anybody)",
		.address = true),
	OPT_SWITCH("open", &open_to_all,
		"without --allow and --registry, be reached from other machines"),
	OPT_IN(I64, "uusd-per-million-tokens", &options.uusd_per_million_tokens, "N", 0,
		INT64_C(1000000000000),
		"what receipts say that counted work earns, in 10^-6 USD"),
	OPT_IN(I64, "credits-per-million-tokens", &options.credits_per_million_tokens,
		"N", 0, INT64_C(1000000000000), "work credits for it"),
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

/* Whoever reaches it takes turns, and where there are rates is owed for them. */
static int check_access(void)
{
	if (open_to_all || allow.n || options.registry || httpd_listens_alone(listen_on))
		return 0;
	err_set(EX_USAGE,
		"--listen %s is reached from other machines: who may take part?",
		listen_on);
	return err_hint("name workers with --allow, a --registry, or say --open");
}

static void tick(void *g)
{
	coordinate_post_receipts(g, false);
}

/* A signal has come: the one that ended serving, or a later one where the run ended by itself. */
static _Atomic bool signalled;

/* What is left, and what can be done with it. */
static void say_end(struct coordinator *g)
{
	struct buf model = BUF_INIT;

	if (coordinate_keep_page(g) == 0)
		prog_info("the run's page is kept: %s/%s", g->dir, COORDINATE_PAGE);
	else
		prog_warn("the run's page is not kept: %s", err_get()->text);
	err_clear();
	buf_add_shell(&model, g->o.model);
	if (g->rounds.over)
		prog_info("next: rnp-train export --model %s --gguf model.gguf",
			model.data);
	buf_release(&model);
}

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
		.external_url = external_url,
		.trusted_proxies = proxies.items,
		.ntrusted = proxies.n,
		.proxy_header = proxy_header,
		.log_off = prog_quiet() && !log_file,
		.routes = coordinate_routes,
		.ctx = g,
		.metrics = coordinate_metrics };
	struct buf url = BUF_INIT;
	struct httpd *h = httpd_start(&config);
	pthread_t rounds;

	if (!h)
		return -1;
	g->server = h;
	httpd_url(&url, h);
	prog_info("%s is the page of run %.16s; to take part: rnp-train join %.*s",
		url.data, g->run.name, (int)url.len - 1, url.data);
	buf_release(&url);
	if (pthread_create(&rounds, NULL, coordinate_rounds, g) != 0) {
		httpd_stop(h);
		return err_sys(EX_OSERR, "cannot start a thread");
	}
	httpd_wait(h, tick);
	pthread_mutex_lock(&g->rounds.lock);
	signalled = !g->rounds.stop;
	g->rounds.stop = true;
	pthread_cond_signal(&g->rounds.wake);
	pthread_mutex_unlock(&g->rounds.lock);
	coordinate_parent_stop(g);
	if (out_end_where_blocked(was_signalled) < 0)
		err_clear();
	pthread_join(rounds, NULL);
	coordinate_post_receipts(g, true);
	httpd_stop(h);
	say_end(g);
	return g->rounds.failed.code ? err_restore(&g->rounds.failed) : 0;
}

/* Serves, and prints all records before it returns. Where nobody reads standard output a signal
 * ends the program, and the next start prints what is left. */
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
	if (check_tree() == 0 && check_access() == 0 && find_policy(&policy) == 0) {
		rc = coordinate_open(&g, &options);
		if (rc == 0)
			rc = serve_and_print(&g);
		coordinate_close_all(&g);
	}
	policy_release(&policy);
	opt_list_release(&allow);
	opt_list_release(&proxies);
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
		   "validation_loss_micronats=validation,tokens;"
		   "rnp.receipt:node=receipt of,tokens,earned_uusd=earned,credits",
	.opts = opts,
	.run = run,
};
