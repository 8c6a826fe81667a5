/* release.c - rnp-register release: ends what a customer has booked. */
#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/wishes.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/registry/client.h"

static struct customer_options asks;
static const char *cause;
static int64_t rank = -1;

static const struct opt opts[] = {
	OPTS_CUSTOMER(&asks),
	OPT_IN(I64, "rank", &rank, "N", 0, 63, "only this node of it"),
	OPT(TEXT, "cause", &cause, "TEXT", "why, for its events"),
	{ 0 },
};

static int release_one(struct customer *c, const char *name)
{
	json_t *action = json_record("rnp.action"), *cluster;
	int rc;

	json_set_text(action, "cause", cause);
	if (rank >= 0)
		json_set_i64(action, "rank", rank);
	cluster = customer_act(c, name, "release", action);
	rc = cluster ? out_record(cluster) : -1;
	json_decref(cluster);
	return rc;
}

static int run(int n, char **args)
{
	struct key key = KEY_INIT;
	struct customer customer;
	int rc = customer_open(&customer, &key, &asks);

	for (int i = 0; i < n && rc == 0; i++)
		rc = release_one(&customer, args[i]);
	customer_release(&customer);
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_release = {
	.name = "release",
	.arguments = "cluster ...",
	.args_min = 1,
	.args_max = -1,
	.summary = "End what you have booked: nothing of it is charged any more.",
	.details =
		"Programs hear SIGTERM, and have 30 s; then container and volume are removed. Writes one\n"
		"rnp.cluster each.",
	.columns = "cluster,name,state,cause,spent_uusd=spent",
	.group = "customer",
	.opts = opts,
	.run = run,
};
