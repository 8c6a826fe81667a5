/* publish.c - rnp-price publish: lists a quote's price on a market, and reads back that it is.
 *
 * The order of the steps makes an end at any of them harmless: what is listed is stored before
 * it is changed, the request can be sent twice, and a run that finds its price listed sends
 * nothing. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/cost/cost.h"
#include "cmd/rnp-price/publish/market.h"
#include "cmd/rnp-price/publish/state.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define HOUR_MS        INT64_C(3600000)
#define CLOCK_SKEW_MS  INT64_C(300000)
#define READ_BACKS     5 /* a market may take some seconds */
#define READ_BACK_WAIT 1 /* s */
#define STOP_FILE      "/etc/rnp/publish.stop"

static const char *market, *url, *key_file, *machine, *ca, *state_path, *stop_file;
static int64_t max_change_ppm = 300000, max_age_ms = HOUR_MS;
static bool dry_run;

static const struct opt options[] = {
	OPT(CHOICE, "market", &market, "M", "where to list the price", .letter = 'm',
		.required = true, .choices = "rnp|vast"),
	OPT(TEXT, "key-file", &key_file, "F",
		"the market's API key, or for rnp the node's key; mode 0600",
		.required = true),
	OPT(TEXT, "state", &state_path, "DB",
		"remember here what was listed; needed without --dry-run"),
	OPT_SWITCH("dry-run", &dry_run, "say what would be sent, and send nothing"),
	OPT(TEXT, "machine", &machine, "N", "with vast: its number of the machine"),
	OPT(TEXT, "url", &url, "URL", "the market, or for rnp the registry"),
	OPT_IN(PPM, "max-change", &max_change_ppm, "PPM", 1000, 900000,
		"how far a price may move in a day (default 300000: 30%)"),
	OPT_MAX_AGE(&max_age_ms, "refuse a quote that is older (default 1h)"),
	OPT(TEXT, "stop-file", &stop_file, "F",
		"send nothing while this file exists (always: " STOP_FILE ")"),
	OPT_MARKET_CA(&ca),
	{ .kind = OPT_END },
};

struct publish_command {
	const struct publish_market *market;
	struct publish_target target;
	struct publish_state state;
	struct publish_input in;
	struct publish_price price;
	json_t *quote;
	int64_t now_ms, was_uusd;
};

/* --- what stands in the way ----------------------------------------------------------------- */

static int check_stop(void)
{
	const char *const files[] = { STOP_FILE, stop_file };

	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (files[i] && access(files[i], F_OK) == 0)
			return err_set(EXIT_NO, "stopped: there is '%s'", files[i]);
	return 0;
}

static int check_usage(void)
{
	bool vast = strcmp(market, "vast") == 0;

	if (vast &&
		(!machine || !*machine || strlen(machine) > 18 || *machine == '0' ||
			strspn(machine, "0123456789") != strlen(machine)))
		return err_set(EX_USAGE, "--machine is the number of a machine on Vast");
	if (!vast && machine)
		return err_set(EX_USAGE, "--machine is for vast");
	if (!vast && !url)
		return err_set(EX_USAGE, "--url of the registry is needed");
	if (!state_path && !dry_run)
		return err_set(EX_USAGE, "--state is needed, or --dry-run");
	return 0;
}

static int read_quote(struct publish_command *s, const char *path)
{
	struct buf text = BUF_INIT;
	const char *where = strcmp(path, "-") == 0 ? "standard input" : path;
	const json_t *spec;
	int64_t at = 0;
	int rc = io_read(&text, path, JSON_RECORD_BYTES_MAX);

	if (rc == 0)
		s->quote = json_parse_object(buf_text(&text), text.len, where);
	buf_release(&text);
	if (!s->quote || schema_check(s->quote, where, "rnp.quote") < 0 ||
		json_get_i64(s->quote, where, "ask_uusd", 0, JSON_SAFE_INTEGER_MAX,
			&s->in.ask_uusd) < 0 ||
		json_get_i64(s->quote, where, "customer_uusd", 0, JSON_SAFE_INTEGER_MAX,
			&s->in.customer_uusd) < 0 ||
		json_get_i64(s->quote, where, "floor_uusd", 0, JSON_SAFE_INTEGER_MAX,
			&s->in.floor_uusd) < 0 ||
		json_get_time(s->quote, where, "at", &at) < 0)
		return -1;
	spec = json_object_get(s->quote, "spec");
	/* our own market sells nodes without GPUs, too */
	if (!spec ||
		json_get_i64(spec, where, "gpu_count", s->market == &publish_vast, 1024,
			&s->target.gpus) < 0)
		return err_set(EX_DATAERR, "%s: the quote says of no GPUs", where);
	if (at > s->now_ms + CLOCK_SKEW_MS)
		return err_set(EX_DATAERR, "%s: the quote is of the future", where);
	if (s->now_ms - at > max_age_ms)
		return err_set(EX_TEMPFAIL,
			"%s: stale: the quote is %lld s old, and %lld s are allowed",
			where, (long long)((s->now_ms - at) / 1000),
			(long long)(max_age_ms / 1000));
	return 0;
}

/* --- what goes out -------------------------------------------------------------------------- */

static int write_result(const struct publish_command *s, bool sent)
{
	json_t *r = json_record("rnp.publication");
	int rc;

	json_set_text(r, "market", s->market->name);
	json_set_text(r, "unit", s->target.unit);
	json_set_time(r, "at", s->now_ms);
	json_set_i64(r, "quoted_uusd", s->in.customer_uusd);
	json_set_i64(r, "listed_uusd", s->price.customer_uusd);
	if (s->was_uusd >= 0) {
		json_set_i64(r, "was_uusd", s->was_uusd);
		json_set_i64(r, "difference_uusd", s->price.customer_uusd - s->was_uusd);
	}
	json_set_bool(r, "limited", s->price.limited);
	json_set_bool(r, "sent", sent);
	if (dry_run)
		json_set_bool(r, "dry_run", true);
	if (dry_run && !s->target.same)
		json_object_set(r, "request", s->target.wanted);
	rc = out_record(r);
	json_decref(r);
	return rc;
}

/* Whether the market shows the price that was sent; it may take some seconds. */
static int read_back(struct publish_command *s)
{
	for (int i = 0; i < READ_BACKS; i++) {
		if (i)
			sleep(READ_BACK_WAIT);
		if (s->market->look(&s->target) < 0 ||
			s->market->plan(&s->target, &s->price, s->now_ms) < 0)
			return -1;
		if (s->target.same)
			return 0;
	}
	return err_set(EX_TEMPFAIL, "%s lists %lld uusd, not the %lld that were sent",
		s->market->name, (long long)s->target.listed_uusd,
		(long long)s->price.customer_uusd);
}

/* The first one makes the file; but so does each whose name is mistyped, so that it is said. */
static void note_state(void)
{
	if (!state_path || access(state_path, F_OK) == 0)
		return;
	prog_warn("'%s' is new: what was listed before is not known", state_path);
	if (dry_run)
		state_path = NULL;
}

static int publish(struct publish_command *s, const char *path)
{
	struct publish_target *t = &s->target;
	bool send;

	if (check_usage() < 0 || check_stop() < 0 || read_quote(s, path) < 0)
		return -1;
	note_state();
	if (state_path && publish_state_open(&s->state, state_path) < 0)
		return -1;
	t->quote = s->quote;
	if (s->market->look(t) < 0)
		return -1;
	s->was_uusd = s->in.day_before_uusd = t->listed_uusd;
	if (state_path &&
		publish_state_day_before(&s->state, s->market->name, t->unit, s->now_ms,
			&s->in.day_before_uusd) < 0)
		return -1;
	if (publish_price(&s->in, &s->price) < 0 ||
		s->market->plan(t, &s->price, s->now_ms) < 0)
		return -1;
	send = !t->same && !dry_run;
	if (!dry_run && t->listed_uusd > 0 &&
		publish_state_saw(&s->state, s->market->name, t->unit, s->now_ms,
			t->listed_uusd) < 0)
		return -1;
	if (send && (check_stop() < 0 || s->market->send(t) < 0 || read_back(s) < 0))
		return -1;
	if (s->price.limited)
		prog_warn("the quote is %s $: a day's change is at most %s",
			cost_usd(s->in.customer_uusd), cost_percent(max_change_ppm));
	return write_result(s, send);
}

static int run(int n, char **args)
{
	struct publish_command s = { .target = PUBLISH_TARGET_INIT,
		.state = PUBLISH_STATE_INIT,
		.was_uusd = PUBLISH_NONE };
	int rc;

	s.now_ms = clock_now_ms();
	s.market = strcmp(market, "vast") == 0 ? &publish_vast : &publish_rnp;
	s.in.max_change_ppm = max_change_ppm;
	s.target.url = url ? url : s.market->url;
	s.target.key_file = key_file;
	s.target.machine = machine;
	s.target.ca = ca;
	rc = publish(&s, n ? args[0] : "-");
	publish_target_release(&s.target);
	publish_state_close(&s.state);
	json_decref(s.quote);
	return rc < 0 ? err_report() : 0;
}

const struct command command_publish = {
	.name = "publish",
	.arguments = "[file]",
	.args_max = 1,
	.summary = "List a quote's price on a market.",
	.details =
		"Reads one rnp.quote, lists what its customer pays, reads back that it is listed, and\n"
		"writes one rnp.publication record. What is listed already is not sent again; a price\n"
		"moves by --max-change a day at most, and never under the quote's floor.",
	.columns = "market,unit,was_uusd,listed_uusd,quoted_uusd,sent",
	.card = true,
	.opts = options,
	.run = run,
};
