/* plan.c - rnp-register plan: what a market offers for a job. Nothing is reserved. */
#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/offer.h"
#include "cmd/rnp-register/customer/wishes.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/registry/client.h"

static const char *registry, *ca_file;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT_CA(&ca_file),
	{ 0 },
};

static int run(int n, char **args)
{
	struct customer customer = { .registry = registry, .ca = ca_file };
	json_t *proposal = customer_propose(&customer, n ? args[0] : "-");
	struct buf why = BUF_INIT;
	int rc = proposal ? out_record(proposal) : -1;

	if (rc == 0 && !offer_first(proposal)) {
		offer_none_words(&why, proposal);
		rc = err_set(EX_UNAVAILABLE, "%s", buf_text(&why));
	}
	buf_release(&why);
	json_decref(proposal);
	customer_release(&customer);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_plan = {
	.name = "plan",
	.arguments = "[file]",
	.args_max = 1,
	.summary = "Ask a market what it offers for a job; nothing is reserved.",
	.details =
		"Reads a job file (rnp-job(5)) or an rnp.job, writes one rnp.proposal: up to three\n"
		"offers, the cheapest first, and who was left out for what. 69 if nothing fits.",
	.card = true,
	.group = "customer",
	.opts = opts,
	.run = run,
};
