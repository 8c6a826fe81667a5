/* account.c - rnp-register account: what a customer has at a market. */
#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/wishes.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/schema.h"
#include "common/registry/client.h"

static struct customer_options asks;

static const struct opt opts[] = {
	OPTS_CUSTOMER(&asks),
	OPT_WATCH,
	{ 0 },
};

static int run(int n, char **args)
{
	struct key key = KEY_INIT;
	struct customer customer;
	json_t *account = NULL;
	int rc = customer_open(&customer, &key, &asks);

	(void)n, (void)args;
	if (rc == 0)
		account = customer_get(&customer, "/v1/account", 0);
	rc = account && schema_check(account, asks.registry, "rnp.account") == 0 ?
		out_record(account) :
		-1;
	json_decref(account);
	customer_release(&customer);
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_account = {
	.name = "account",
	.summary = "Show what you have at a market, and what is held of it.",
	.details =
		"Writes one rnp.account: deposits less charges, and how long that lasts.",
	.card = true,
	.group = "customer",
	.opts = opts,
	.run = run,
};
