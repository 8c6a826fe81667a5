/* keys.c - rnp-register keys: who may log in. */
#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/wishes.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/registry/client.h"

static struct customer_options asks;
static struct opt_list ssh_keys;
static bool none;

static const struct opt opts[] = {
	OPTS_CUSTOMER(&asks),
	OPT(LIST, "ssh-key", &ssh_keys, "F", "a public key that may log in; several"),
	OPT_SWITCH("none", &none, "nobody may"),
	{ 0 },
};

static int fill(json_t *action)
{
	if (none == (ssh_keys.n > 0))
		return err_set(EX_USAGE,
			"say who may log in: either --ssh-key F, or --none");
	return customer_add_keys(action, &ssh_keys);
}

static int run(int n, char **args)
{
	int code = customer_change(&asks, args[0], "keys", fill);

	(void)n;
	opt_list_release(&ssh_keys);
	return code;
}

const struct command command_keys = {
	.name = "keys",
	.arguments = "cluster",
	.args_min = 1,
	.args_max = 1,
	.summary = "Say who may log in to what you have booked, and nobody else.",
	.details =
		"Of the keys that were booked these, and no other: whoever is not named any more cannot\n"
		"log in, and his open sessions end within 10 s. Writes the rnp.cluster.",
	.columns = "cluster,name,state,cause,uusd_per_hour=$/h,spent_uusd=spent,ends_at",
	.group = "customer",
	.opts = opts,
	.run = run,
};
