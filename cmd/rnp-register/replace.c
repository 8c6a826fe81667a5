/* replace.c - rnp-register replace: another node for a rank. */
#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/wishes.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/registry/client.h"

static struct customer_options asks;
static int64_t rank = -1;

static const struct opt opts[] = {
	OPTS_CUSTOMER(&asks),
	OPT_IN(I64, "rank", &rank, "N", 0, 63, "which of its nodes"),
	{ 0 },
};

static int fill(json_t *action)
{
	if (rank < 0)
		return err_set(EX_USAGE, "--rank is missing");
	json_set_i64(action, "rank", rank);
	return 0;
}

static int run(int n, char **args)
{
	(void)n;
	return customer_change(&asks, args[0], "replace", fill);
}

const struct command command_replace = {
	.name = "replace",
	.arguments = "cluster",
	.args_min = 1,
	.args_max = 1,
	.summary = "Give the rank of a node to a spare of the booking.",
	.details =
		"The node is released, and another that the booking names as a spare takes its rank, as\n"
		"if it had failed. 75 if none is free. Writes the rnp.cluster.",
	.columns = "cluster,name,state,cause,uusd_per_hour=$/h,spent_uusd=spent,ends_at",
	.group = "customer",
	.opts = opts,
	.run = run,
};
