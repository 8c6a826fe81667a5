/* feed.c - rnp-price feed: writes the prices of a market, or of all, as rnp.offer records. */
#include "cmd/rnp-price/feed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/feed_run.h"
#include "cmd/rnp-price/keys.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/num.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define CONFIG_BYTES_MAX ((size_t)1 << 20)
#define MARKETS_MAX      64

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
	{ .name = "market",
		.letter = 'm',
		.kind = OPT_CHOICE,
		.to = &market,
		.metavar = "M",
		.choices = "akash|nosana|prime|rnp|runpod|salad|skypilot|vast|all",
		.help = "whose feed it is; all: those of --config" },
	{ .name = "config",
		.kind = OPT_TEXT,
		.to = &config_path,
		.metavar = "F",
		.help = "with --market all: the markets, see --example" },
	{ .name = "name",
		.kind = OPT_TEXT,
		.to = &market_name,
		.metavar = "NAME",
		.help = "the market's name in the records (default that of --market)" },
	OPT_MAX_AGE(&max_age_ms,
		"refuse a feed that is older (default: any age; a last good feed: 1d)"),
	{ .name = "max-move",
		.kind = OPT_I64,
		.to = &max_move,
		.metavar = "N",
		.min = 2,
		.max = 1000,
		.help = "refuse a feed in which a model's median moved by more than a factor N (default 3)" },
	{ .name = "own",
		.kind = OPT_LIST,
		.to = &own,
		.metavar = "ID",
		.help = "offer, machine or host that is ours; may be given several times" },
	{ .name = "key-file",
		.kind = OPT_TEXT,
		.to = &key_path,
		.metavar = "F",
		.help = "the market's API key, in a file of mode 0600" },
	OPT_MARKET_CA(&ca_path),
	{ .name = "state",
		.kind = OPT_TEXT,
		.to = &state_path,
		.metavar = "F",
		.help = "keep the last good feed here (URL default: in $XDG_CACHE_HOME/rnp)" },
	{ .name = "example",
		.kind = OPT_FLAG,
		.to = &example,
		.help = "print a file for --config to begin with, and nothing else" },
	{ .kind = OPT_END },
};

/* --- all markets -------------------------------------------------------------------------- */

static const char *const entry_keys[] = { "market", "name", "url", "file", "key_file",
	"ca", "max_age", "own", "state", NULL };

static int text_of(const json_t *obj, const char *where, const char *key,
	const char **out)
{
	if (json_opt_text(obj, where, key, out) < 0)
		return -1;
	return *out && !**out ? err_set(EX_DATAERR, "%s: %s is empty", where, key) : 0;
}

/* own: the array is the caller's, the texts belong to the entry */
static int own_of(const json_t *obj, const char *where, struct feed_job *job,
	const char ***own_ids)
{
	const json_t *list = json_object_get(obj, "own"), *id;
	size_t i;

	if (!list)
		return 0;
	if (!json_is_array(list))
		return err_set(EX_DATAERR, "%s: own: not an array of ids", where);
	*own_ids = xcalloc(json_array_size(list) + 1, sizeof **own_ids);
	job->own = *own_ids;
	json_array_foreach(list, i, id) {
		if (!json_is_string(id))
			return err_set(EX_DATAERR, "%s: own[%zu]: not a text", where, i);
		(*own_ids)[job->nown++] = json_string_value(id);
	}
	return 0;
}

static int check_name(const char *name, const char *where)
{
	if (!name || (*name && strlen(name) <= FEED_NAME_MAX))
		return 0;
	return err_set(EX_USAGE, "%s has 1 to %d bytes", where, FEED_NAME_MAX);
}

/* Reads one entry. *own_ids is freed by the caller. */
static int job_of(const json_t *entry, const char *where, struct feed_job *job,
	const char ***own_ids)
{
	const char *of = NULL, *url = NULL, *file = NULL, *age = NULL;
	char what[400];

	*job = (struct feed_job){ .max_age_ms = max_age_ms, .max_move = max_move };
	if (!json_is_object(entry))
		return err_set(EX_DATAERR, "%s: not an object", where);
	if (keys_check(entry, where, entry_keys) < 0 ||
		json_get_text(entry, where, "market", &of) < 0 ||
		text_of(entry, where, "name", &job->name) < 0 ||
		text_of(entry, where, "url", &url) < 0 ||
		text_of(entry, where, "file", &file) < 0 ||
		text_of(entry, where, "key_file", &job->source.key_file) < 0 ||
		text_of(entry, where, "ca", &job->source.ca) < 0 ||
		text_of(entry, where, "max_age", &age) < 0 ||
		text_of(entry, where, "state", &job->state_path) < 0 ||
		own_of(entry, where, job, own_ids) < 0)
		return -1;
	job->source.market = feed_market_find(of);
	if (!job->source.market)
		return err_set(EX_DATAERR, "%s: market: '%.40s' is none of %s", where, of,
			feed_market_choices);
	snprintf(what, sizeof what, "%.300s: name", where);
	if (check_name(job->name, what) < 0)
		return -1;
	if (!url == !file)
		return err_set(EX_DATAERR, "%s: either url or file", where);
	if (url && !feed_is_url(url))
		return err_set(EX_DATAERR, "%s: url: '%.80s' is neither http nor https",
			where, url);
	job->source.place = url ? url : file;
	snprintf(what, sizeof what, "%.300s: max_age", where);
	if (age && num_duration_ms(age, what, &job->max_age_ms) < 0)
		return -1;
	return 0;
}

/* Two entries with one name would be one market with two states. */
static const char *label(const struct feed_job *job)
{
	return job->name ? job->name : job->source.market->name;
}

struct all {
	json_t *doc;
	struct feed_job jobs[MARKETS_MAX];
	const char **own[MARKETS_MAX];
	int n;
};

static int read_config(struct all *a)
{
	static const char *const keys[] = { "kind", "v", "markets", NULL };
	struct buf text = BUF_INIT;
	json_t *list = NULL, *entry;
	char where[400];
	size_t i;
	int rc = io_read(&text, config_path, CONFIG_BYTES_MAX);

	if (rc == 0)
		a->doc = json_parse_object(buf_text(&text), text.len, config_path);
	buf_release(&text);
	if (!a->doc || keys_check(a->doc, config_path, keys) < 0 ||
		(json_object_get(a->doc, "kind") &&
			json_check_kind(a->doc, config_path, "rnp.markets") < 0) ||
		json_get_array(a->doc, config_path, "markets", &list) < 0)
		return -1;
	if (!json_array_size(list) || json_array_size(list) > MARKETS_MAX)
		return err_set(EX_DATAERR, "%s: markets: not 1 to %d of them",
			config_path, MARKETS_MAX);
	json_array_foreach(list, i, entry) {
		snprintf(where, sizeof where, "%.300s: markets[%zu]", config_path, i);
		if (job_of(entry, where, &a->jobs[i], &a->own[i]) < 0) {
			a->n = (int)i + 1;
			return -1;
		}
		a->n = (int)i + 1;
		for (size_t k = 0; k < i; k++)
			if (strcmp(label(&a->jobs[k]), label(&a->jobs[i])) == 0)
				return err_set(EX_DATAERR,
					"%s: another market is called '%s': give it a name",
					where, label(&a->jobs[i]));
	}
	return 0;
}

/* A market that fails is named, and the others count. Returns 0, 75 when some failed, and what
 * the first said when all did. */
static int feed_all(const struct all *a)
{
	int failed = 0, first = 0;

	for (int i = 0; i < a->n; i++) {
		if (feed_run(&a->jobs[i]) == 0)
			continue;
		if (!failed++)
			first = err_get()->code;
		if (err_get()->code == EX_IOERR && out_reader_left())
			return err_report();
		prog_error("%s: %s", label(&a->jobs[i]), err_get()->text);
		err_clear();
	}
	return failed == a->n ? first : failed ? EX_TEMPFAIL : 0;
}

static int run_all(int n)
{
	struct all a = { .n = 0 };
	int rc;

	if (!config_path || n || market_name || key_path || state_path || own.n)
		rc = err_set(EX_USAGE,
			!config_path ?
				"--market all needs --config" :
				"with --market all, places, names, keys, states and own "
				"ids are in --config");
	else
		rc = read_config(&a);
	rc = rc < 0 ? err_report() : feed_all(&a);
	for (int i = 0; i < a.n; i++)
		free(a.own[i]);
	json_decref(a.doc);
	return rc;
}

/* --- one ---------------------------------------------------------------------------------- */

static int run_one(int n, char **args)
{
	struct feed_job job = {
		.source = { .market = feed_market_find(market),
			.place = n ? args[0] : "-",
			.key_file = key_path,
			.ca = ca_path },
		.name = market_name,
		.state_path = state_path,
		.max_age_ms = max_age_ms,
		.max_move = max_move,
		.own = own.items,
		.nown = own.n,
	};

	if (config_path)
		return err_set(EX_USAGE, "--config is for --market all");
	if (key_path && !feed_is_url(job.source.place))
		return err_set(EX_USAGE, "--key-file is for a URL");
	return check_name(market_name, "--name") < 0 ? -1 : feed_run(&job);
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
		"Reads one feed, whole; writes one rnp.offer record per offer and kind of price (on\n"
		"demand, spot). A feed that is malformed, empty, stale or far from its own history is\n"
		"refused; with a state the last good prices are written instead, and the exit code\n"
		"is 75.",
	.columns = "market,gpu_model,gpu_count,uusd_per_gpu_hour,spot,country,offer_id",
	.opts = options,
	.run = run,
};
