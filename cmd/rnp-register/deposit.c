/* deposit.c - rnp-register deposit: tells a market that a customer has paid. */
#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/wishes.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/registry/client.h"

static struct customer_options asks;
static const char *to, *id, *source = "paid";
static int64_t uusd;

static const struct opt opts[] = {
	OPTS_CUSTOMER(&asks),
	OPT(TEXT, "to", &to, "ADDRESS", "the customer", .required = true,
		.address = true),
	OPT(USD, "usd", &uusd, "USD", "how much", .required = true, .min = 1),
	OPT(TEXT, "id", &id, "TEXT", "of the payment: it counts once", .required = true),
	OPT(CHOICE, "source", &source, "S", "(default paid)", .choices = "paid|grant"),
	{ 0 },
};

static int run(int n, char **args)
{
	struct key key = KEY_INIT;
	struct customer customer;
	json_t *deposit = json_record("rnp.deposit"), *stored = NULL;
	int rc = customer_open(&customer, &key, &asks);

	(void)n, (void)args;
	json_set_text(deposit, "customer", to);
	json_set_i64(deposit, "uusd", uusd);
	json_set_text(deposit, "source", source);
	json_set_text(deposit, "id", id);
	if (rc == 0)
		stored = customer_post(&customer, "/v1/deposits", deposit, true, NULL);
	rc = stored ? out_record(stored) : -1;
	json_decref(stored);
	json_decref(deposit);
	customer_release(&customer);
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_deposit = {
	.name = "deposit",
	.summary = "Give a customer credit at a market, as somebody whom it trusts.",
	.details =
		"Signs an rnp.deposit and sends it; writes one rnp.stored. The registry's --trust names\n"
		"whose deposits count. An id that is there with another content is refused.",
	.card = true,
	.group = "registry",
	.opts = opts,
	.run = run,
};
