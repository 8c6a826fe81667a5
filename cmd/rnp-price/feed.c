/* feed.c - rnp-price feed: writes the prices of a market, or of all, as rnp.offer records. */
#include "cmd/rnp-price/feed/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/feed/config.h"
#include "cmd/rnp-price/feed/run.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

static const char *market, *state_path, *market_name, *config_path, *key_path, *ca_path;
static int64_t max_age_ms, max_move = 3;
static struct opt_list own;
static bool example;

static const char example_text[] =
	"{\n"
	"  \"kind\": \"rnp.markets\",\n"
	"  \"v\": 1,\n"
	"  \"markets\": [\n"
	"    {\"market\": \"vast\", \"url\": \"https://console.vast.ai/api/v0/bundles/\",\n"
	"     \"key_file\": \"/etc/rnp/vast.key\", \"max_age\": \"1h\"},\n"
	"    {\"market\": \"runpod\", \"url\": \"https://api.runpod.io/graphql\",\n"
	"     \"key_file\": \"/etc/rnp/runpod.key\"},\n"
	"    {\"market\": \"prime\", \"key_file\": \"/etc/rnp/prime.key\",\n"
	"     \"url\": \"https://api.primeintellect.ai/api/v1/availability/gpus\"},\n"
	"    {\"market\": \"akash\", \"url\": \"https://console-api.akash.network/v1/gpu-prices\"},\n"
	"    {\"market\": \"rnp\", \"url\": \"https://registry.example\"},\n"
	"    {\"market\": \"skypilot\", \"name\": \"lambda\", \"file\": \"/var/lib/rnp/lambda.csv\"}\n"
	"  ]\n"
	"}\n";

static const struct opt options[] = {
	OPT(CHOICE, "market", &market, "M", "whose feed it is; all: those of --config",
		.letter = 'm', .choices = FEED_MARKETS "|all"),
	OPT(TEXT, "config", &config_path, "F",
		"with --market all: the markets, see --example"),
	OPT(TEXT, "name", &market_name, "NAME",
		"the market's name in the records (default that of --market)"),
	OPT_MAX_AGE(&max_age_ms,
		"refuse a feed that is older (default: any age; a last good feed: 1d)"),
	OPT_IN(I64, "max-move", &max_move, "N", 2, 1000,
		"refuse a feed in which a model's median moved by more than a factor N (default 3)"),
	OPT(LIST, "own", &own, "ID",
		"offer, machine or host that is ours; may be given several times"),
	OPT(TEXT, "key-file", &key_path, "F",
		"the market's API key, in a file of mode 0600"),
	OPT_MARKET_CA(&ca_path),
	OPT(TEXT, "state", &state_path, "F",
		"keep the last good feed here (URL default: in $XDG_CACHE_HOME/rnp)"),
	OPT_SWITCH("example", &example,
		"print a file for --config to begin with, and nothing else"),
	{ .kind = OPT_END },
};

/* --- all markets -------------------------------------------------------------------------- */

/* A market that fails is named, and the others count. Returns 0, 75 when some failed, and what
 * the first said when all did. */
static int feed_all(const struct feed_config *c)
{
	int failed = 0, first = 0;

	for (int i = 0; i < c->n; i++) {
		if (feed_run(&c->jobs[i]) == 0)
			continue;
		if (!failed++)
			first = err_get()->code;
		if (err_get()->code == EX_IOERR && out_reader_left())
			return err_report();
		prog_error("%s: %s", feed_job_label(&c->jobs[i]), err_get()->text);
		err_clear();
	}
	return failed == c->n ? first : failed ? EX_TEMPFAIL : 0;
}

static int read_config(struct feed_config *c)
{
	const struct feed_job defaults = { .max_age_ms = max_age_ms,
		.max_move = max_move };
	struct buf text = BUF_INIT;
	int rc = io_read(&text, config_path, FEED_CONFIG_BYTES_MAX);

	if (rc == 0)
		rc = feed_config_parse(c, buf_text(&text), text.len, config_path,
			&defaults);
	buf_release(&text);
	return rc;
}

static int run_all(int n)
{
	struct feed_config c = { .n = 0 };
	int rc;

	if (!config_path || n || market_name || key_path || state_path || own.n)
		rc = err_set(EX_USAGE,
			!config_path ?
				"--market all needs --config" :
				"with --market all, places, names, keys, states and own "
				"ids are in --config");
	else
		rc = read_config(&c);
	rc = rc < 0 ? err_report() : feed_all(&c);
	feed_config_release(&c);
	return rc;
}

/* --- one ---------------------------------------------------------------------------------- */

/* Whoever types the command alone wants the market's prices, not to type them. Returns NULL with
 * err_set(EX_USAGE) where they have no one place. */
static const char *usual_place(const struct feed_market *m)
{
	if (!isatty(STDIN_FILENO))
		return "-";
	if (m->url)
		prog_info("asks %s", m->url);
	else
		err_set(EX_USAGE,
			"market %s has no one address: name a URL or a file, or - to type the feed",
			m->name);
	return m->url;
}

static int run_one(int n, char **args)
{
	const struct feed_market *m = feed_market_find(market);
	const char *place = n ? args[0] : usual_place(m);
	struct feed_job job = {
		.source = { .market = m,
			.place = place,
			.key_file = key_path,
			.ca = ca_path },
		.name = market_name,
		.state_path = state_path,
		.max_age_ms = max_age_ms,
		.max_move = max_move,
		.own = own.items,
		.nown = own.n,
	};

	if (!place)
		return -1;
	if (config_path)
		return err_set(EX_USAGE, "--config is for --market all");
	if (key_path && !feed_is_url(job.source.place))
		return err_set(EX_USAGE, "--key-file is for a URL");
	if (feed_name_check(market_name, "--name", EX_USAGE) < 0)
		return -1;
	if (out_for_people()) /* every row would have the same market */
		out_columns(
			"gpu_model=GPU,gpu_count=n,uusd_per_gpu_hour=$/h,spot,country=in,"
			"offer_id=offer");
	return feed_run(&job);
}

static int run(int n, char **args)
{
	int rc;

	if (example)
		return out_text(example_text, strlen(example_text)) < 0 ? err_report() :
									  0;
	if (!market) {
		err_set(EX_USAGE, "whose feed? --market is needed");
		rc = err_report();
	} else if (strcmp(market, "all") == 0) {
		rc = run_all(n);
	} else {
		rc = run_one(n, args) < 0 ? err_report() : 0;
	}
	opt_list_release(&own);
	return rc;
}

const struct command command_feed = {
	.name = "feed",
	.arguments = "[URL or file]",
	.args_max = 1,
	.summary = "The prices of a market, per GPU and hour.",
	.details =
		"Without an argument a terminal gets the market's own address (akash, vast, and with a key prime,\n"
		"runpod), and a pipe is read. Reads one feed, whole; writes one rnp.offer record per offer and kind of price (on\n"
		"demand, spot). A feed that is malformed, empty, stale or far from its own history is\n"
		"refused; with a state the last good prices are written instead, and the exit code\n"
		"is 75.",
	.columns =
		"market,gpu_model=GPU,gpu_count=n,uusd_per_gpu_hour=$/h,spot,country=in,offer_id=offer",
	.opts = options,
	.run = run,
};
