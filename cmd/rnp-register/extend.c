/* extend.c - rnp-register extend: more hours, or another budget, for what runs. */
#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/wishes.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/registry/client.h"

static struct customer_options asks;
static int64_t hours = -1, budget_uusd = -1;

static const struct opt opts[] = {
	OPTS_CUSTOMER(&asks),
	OPT_IN(I64, "hours", &hours, "N", 1, 876000, "by so many"),
	OPT(USD, "budget", &budget_uusd, "USD", "what it may cost in all from now on"),
	{ 0 },
};

static int fill(json_t *action)
{
	if (hours < 0 && budget_uusd < 0)
		return err_set(EX_USAGE, "--hours is missing, or --budget");
	if (hours >= 0)
		json_set_i64(action, "hours", hours);
	if (budget_uusd >= 0)
		json_set_i64(action, "budget_uusd", budget_uusd);
	return 0;
}

static int run(int n, char **args)
{
	(void)n;
	return customer_change(&asks, args[0], "extend", fill);
}

const struct command command_extend = {
	.name = "extend",
	.arguments = "cluster",
	.args_min = 1,
	.args_max = 1,
	.summary = "Let what you have booked go on for longer, or cost more.",
	.details =
		"It keeps its nodes and their prices. With more hours what it may cost grows as they do.\n"
		"Writes the rnp.cluster.",
	.columns = "cluster,name,state,cause,uusd_per_hour=$/h,spent_uusd=spent,ends_at",
	.group = "customer",
	.opts = opts,
	.run = run,
};
