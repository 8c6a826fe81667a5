/* burn.c - rnp-reward burn: splits a job's dollars into burned tokens, fee and credits, and
 * computes when they are burned. */
#include <stdint.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "common/base/err.h"
#include "common/base/money.h"
#include "common/base/utf8.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/policy.h"

#define JOB_CHARACTERS_MAX 120                       /* the schema's */
#define BURN_CHARGEBACK_MS (INT64_C(120) * 86400000) /* RNP-023 */
#define BASE_UNITS         INT64_C(100000000)
#define DAY_MS             INT64_C(86400000)

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
	OPT(TEXT, "policy", &opts.policy, "P",
		"name of a policy that has a burn, or path of its file", .required = true,
		.words = POLICY_NAMES),
	OPT(USD, "usd", &opts.usd, "USD", "what the customer uses of the network"),
	OPT_IN(USD, "price", &opts.price, "USD", 1, INT64_C(1000000000000),
		"price of a token, see twap"),
	OPT(TEXT, "job", &opts.job, "ID", "the job, so that pay --burn burns it once"),
	OPT(USD, "grant", &opts.grant, "USD",
		"how much of --usd is a matching grant; it changes neither burn nor fee"),
	OPT(CHOICE, "payment", &opts.payment, "HOW",
		"how it was paid: render, card or transfer (default render)",
		.choices = "render|card|transfer"),
	OPT(TIME, "at", &opts.at_ms, "T", "when the payment arrived"),
	OPT(TIME, "used", &opts.used_ms, "T",
		"when credit that was paid by card was used"),
	OPT(USD, "rewarded", &opts.rewarded, "USD",
		"instead of --usd: all rewards of a time, for the top-up burn; --price gives its tokens"),
	OPT(USD, "burned", &opts.burned, "USD", "all burns of the same time"),
	{ .kind = OPT_END },
};

/* --- the arithmetic: pure, integers only ---------------------------------------------------- */

enum burn_payment { BURN_RENDER, BURN_CARD, BURN_TRANSFER };

/* How a policy divides a customer's payment, in 10^-6: burned, the network's fee, and the rest,
 * which is the operator's. */
struct burn_split {
	int64_t burned_ppm, fee_ppm;
};

struct burn {
	int64_t fee_uusd, burned_uusd, operator_uusd; /* their sum is what was paid */
	int64_t base_units; /* burned_uusd at the price, rounded down */
	int64_t credits;    /* one for each burned USD, in 10^-6 */
};

/* Converts USD into tokens at a price > 0, rounded down. Returns 0, or -1 (65): it does not fit. */
static int burn_base_units(int64_t uusd, int64_t price_uusd, int64_t *base_units)
{
	return money_muldiv(uusd, BASE_UNITS, price_uusd, MONEY_FLOOR, base_units);
}

/* Splits usd at a price (both in 10^-6 USD, price > 0). The fee and the operator's part are
 * rounded down; the remainder is burned. Returns 0, or -1 (65): it does not fit. */
static int burn_compute(struct burn *b, const struct burn_split *s, int64_t usd_uusd,
	int64_t price_uusd)
{
	int64_t rest_ppm = MONEY_PPM - s->burned_ppm - s->fee_ppm;

	b->fee_uusd = muldiv_floor(usd_uusd, s->fee_ppm, MONEY_PPM);
	b->operator_uusd = muldiv_floor(usd_uusd, rest_ppm, MONEY_PPM);
	b->burned_uusd = usd_uusd - b->fee_uusd - b->operator_uusd;
	b->credits = b->burned_uusd;
	return burn_base_units(b->burned_uusd, price_uusd, &b->base_units);
}

/* Returns when a payment is burned. Tokens and a bank transfer: when they arrive. A card
 * payment: at the end of the day on which its credit is used; unused credit, once no chargeback
 * is possible any more, and nothing later than that. paid_ms: when the payment arrived; used_ms:
 * when the credit was used, -1: it is unused. */
static int64_t burn_due(enum burn_payment how, int64_t paid_ms, int64_t used_ms)
{
	int64_t unused = paid_ms + BURN_CHARGEBACK_MS;
	int64_t day_end = used_ms - used_ms % DAY_MS + DAY_MS;

	if (how != BURN_CARD)
		return paid_ms;
	/* credit that is used on the last day is burned no later than unused credit */
	return used_ms >= 0 && used_ms < unused && day_end < unused ? day_end : unused;
}

/* Computes how much more must be burned so that burns exceed rewards by `over_ppm`; 0: enough is
 * burned. Returns 0, or -1 (65): it does not fit. */
static int burn_top_up(int64_t rewarded_uusd, int64_t burned_uusd, int64_t over_ppm,
	int64_t *more_uusd)
{
	int64_t wanted;

	if (money_muldiv(rewarded_uusd, MONEY_PPM + over_ppm, MONEY_PPM, MONEY_CEIL,
		    &wanted) < 0)
		return -1;
	*more_uusd = wanted > burned_uusd ? wanted - burned_uusd : 0;
	return 0;
}

/* --- the command ---------------------------------------------------------------------------- */

/* Reads the burn rules of a policy. */
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

/* Checks --job. A ledger burns for a job once, so two jobs must not look the same to it. */
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
	/* a burn cannot be undone if the card's owner takes the payment back */
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
