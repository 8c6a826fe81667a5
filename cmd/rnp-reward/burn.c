/* burn.c - rnp-reward burn: splits a job's dollars into burned tokens, fee and credits, and
 * computes when they are burned. */
#include <string.h>

#include "cmd/rnp-reward/burn_core.h"
#include "cmd/rnp-reward/commands.h"
#include "common/base/err.h"
#include "common/base/money.h"
#include "common/base/utf8.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/policy.h"

#define JOB_CHARACTERS_MAX 120 /* the schema's */

static struct {
	const char *policy, *payment, *job;
	int64_t usd, price, grant, at_ms, used_ms, rewarded, burned;
} opts = { .payment = "render",
	.usd = -1,
	.at_ms = -1,
	.used_ms = -1,
	.rewarded = -1,
	.burned = -1 };

static const struct opt options[] = {
	{ .name = "policy",
		.kind = OPT_TEXT,
		.required = true,
		.to = &opts.policy,
		.metavar = "P",
		.help = "name of a policy that has a burn, or path of its file" },
	{ .name = "usd",
		.kind = OPT_USD,
		.to = &opts.usd,
		.metavar = "USD",
		.help = "what the customer uses of the network" },
	{ .name = "price",
		.kind = OPT_USD,
		.to = &opts.price,
		.metavar = "USD",
		.help = "price of a token, see twap",
		.min = 1,
		.max = INT64_C(1000000000000) },
	{ .name = "job",
		.kind = OPT_TEXT,
		.to = &opts.job,
		.metavar = "ID",
		.help = "the job, so that pay --burn burns it once" },
	{ .name = "grant",
		.kind = OPT_USD,
		.to = &opts.grant,
		.metavar = "USD",
		.help = "how much of --usd is a matching grant; it changes neither burn nor fee" },
	{ .name = "payment",
		.kind = OPT_CHOICE,
		.to = &opts.payment,
		.metavar = "HOW",
		.choices = "render|card|transfer",
		.help = "how it was paid: render, card or transfer (default render)" },
	{ .name = "at",
		.kind = OPT_TIME,
		.to = &opts.at_ms,
		.metavar = "T",
		.help = "when the payment arrived" },
	{ .name = "used",
		.kind = OPT_TIME,
		.to = &opts.used_ms,
		.metavar = "T",
		.help = "when credit that was paid by card was used" },
	{ .name = "rewarded",
		.kind = OPT_USD,
		.to = &opts.rewarded,
		.metavar = "USD",
		.help = "instead of --usd: all rewards of a time, for the top-up burn; --price gives its tokens" },
	{ .name = "burned",
		.kind = OPT_USD,
		.to = &opts.burned,
		.metavar = "USD",
		.help = "all burns of the same time" },
	{ .kind = OPT_END },
};

/* The burn rules of a policy: decimals as text. */
static int read_split(const struct policy *p, struct burn_split *s, int64_t *over_ppm)
{
	const json_t *burn = json_object_get(p->doc, "burn");
	int64_t fee = 0;

	*over_ppm = 0;
	if (!burn)
		return err_set(EX_USAGE, "policy %s says nothing of burns", p->name);
	if (json_get_i64(burn, "burn", "burned_ppm", 0, MONEY_PPM, &s->burned_ppm) < 0 ||
		json_opt_i64(burn, "burn", "fee_ppm", 0, MONEY_PPM, &fee) < 0 ||
		json_opt_i64(burn, "burn", "over_rewards_ppm", 0, MONEY_PPM, over_ppm) <
			0)
		return -1;
	s->fee_ppm = fee;
	return s->burned_ppm + fee > MONEY_PPM ?
		err_set(EX_DATAERR, "policy %s: burn and fee are more than all",
			p->name) :
		0;
}

static enum burn_payment payment(void)
{
	static const char *const names[] = { "render", "card", "transfer" };
	int i = 0;

	/* opt_parse has checked that it is one of these */
	while (i < 2 && strcmp(opts.payment, names[i]) != 0)
		i++;
	return (enum burn_payment)i;
}

static json_t *burn_record(const struct policy *p, const struct burn *b)
{
	json_t *record = json_record("rnp.burn");

	json_set_text(record, "policy", p->name);
	json_set_text(record, "job", opts.job);
	json_set_i64(record, "usd_uusd", opts.usd);
	json_set_i64(record, "price_uusd", opts.price);
	if (opts.grant)
		json_set_i64(record, "grant_uusd", opts.grant);
	json_set_i64(record, "burned_uusd", b->burned_uusd);
	json_set_i64(record, "fee_uusd", b->fee_uusd);
	json_set_i64(record, "operator_uusd", b->operator_uusd);
	json_set_i64(record, "burned_base_units", b->base_units);
	json_set_i64(record, "credits", b->credits);
	json_set_text(record, "payment", opts.payment);
	if (opts.at_ms >= 0)
		json_set_time(record, "burn_at",
			burn_due(payment(), opts.at_ms, opts.used_ms));
	return record;
}

/* Returns NULL with err_set when it does not fit. */
static json_t *top_up_record(const struct policy *p, int64_t over_ppm)
{
	json_t *record;
	int64_t more, base_units = 0;

	if (burn_top_up(opts.rewarded, opts.burned, over_ppm, &more) < 0 ||
		(opts.price && burn_base_units(more, opts.price, &base_units) < 0))
		return NULL;
	record = json_record("rnp.burn");
	json_set_text(record, "policy", p->name);
	json_set_text(record, "job", opts.job);
	json_set_i64(record, "rewarded_uusd", opts.rewarded);
	json_set_i64(record, "burned_before_uusd", opts.burned);
	json_set_i64(record, "burned_uusd", more);
	if (opts.price) {
		json_set_i64(record, "price_uusd", opts.price);
		json_set_i64(record, "burned_base_units", base_units);
	}
	return record;
}

/* A ledger burns for a job once: jobs that it could take for one another are no jobs. */
static int check_job(void)
{
	size_t bytes = opts.job ? strlen(opts.job) : 0;

	if (!opts.job)
		return 0;
	if (!bytes || utf8_count(opts.job, bytes) > JOB_CHARACTERS_MAX ||
		!utf8_valid(opts.job, bytes))
		return err_set(EX_USAGE, "--job: has to be 1 to %d characters of UTF-8",
			JOB_CHARACTERS_MAX);
	return 0;
}

static int check_options(void)
{
	bool job = opts.usd >= 0, top_up = opts.rewarded >= 0;

	if (job == top_up || (job && !opts.price) || top_up != (opts.burned >= 0))
		return err_set(EX_USAGE,
			"give --usd and --price, or --rewarded and --burned");
	if (top_up && (opts.grant || opts.at_ms >= 0 || payment() != BURN_RENDER))
		return err_set(EX_USAGE, "--grant, --payment and --at go with --usd");
	if (opts.grant < 0 || (opts.grant && opts.grant > opts.usd))
		return err_set(EX_USAGE, "--grant is a part of --usd");
	/* what is burned before its time cannot be taken back when the card's owner does */
	if (job && payment() == BURN_CARD && opts.at_ms < 0)
		return err_set(EX_USAGE,
			"--payment card needs --at: when it is burned follows from it");
	if (opts.used_ms >= 0 && payment() != BURN_CARD)
		return err_set(EX_USAGE, "--used goes with --payment card");
	if (opts.used_ms >= 0 && opts.used_ms < opts.at_ms)
		return err_set(EX_USAGE, "--used is before --at");
	return check_job();
}

static int compute(const struct policy *p)
{
	struct burn_split split;
	int64_t over_ppm;
	struct burn b;
	json_t *record;
	int rc;

	if (read_split(p, &split, &over_ppm) < 0 ||
		(opts.usd >= 0 && burn_compute(&b, &split, opts.usd, opts.price) < 0))
		return -1;
	record = opts.usd >= 0 ? burn_record(p, &b) : top_up_record(p, over_ppm);
	rc = record ? out_record(record) : -1;
	json_decref(record);
	return rc;
}

static int run(int n, char **args)
{
	struct policy p = POLICY_INIT;
	int rc = -1;

	(void)n;
	(void)args;
	if (check_options() == 0 && policy_load(&p, opts.policy) == 0)
		rc = compute(&p);
	policy_release(&p);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_burn = {
	.name = "burn",
	.summary = "A job's dollars into burned tokens, fee and credits.",
	.details =
		"Writes one rnp.burn: for a job (--usd, --price), or the top-up burn of a time\n"
		"(--rewarded, --burned).",
	.columns =
		"policy,usd_uusd,burned_uusd,fee_uusd,operator_uusd,burned_base_units,credits,burn_at",
	.opts = options,
	.run = run,
};
