/* clusters.c - rnp-register clusters: what a customer has booked, and how it is. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/wishes.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/registry/client.h"

#define WAIT_S     25
#define TIMEOUT_MS 40000

static struct customer_options asks;
static const char *wanted;
static int64_t timeout_ms;
static bool all;

static const struct opt opts[] = {
	OPTS_CUSTOMER(&asks),
	OPT_SWITCH("all", &all, "also those that are over"),
	OPT(CHOICE, "wait", &wanted, "STATE", "of one cluster: until it is in that state",
		.choices = "proving|pulling|starting|ready|releasing|released"),
	OPT_IN(DURATION, "timeout", &timeout_ms, "D", 1000, INT64_C(31536000000),
		"with --wait: no longer than that (default for ever)"),
	OPT_WATCH,
	{ 0 },
};

/* States in the order in which a cluster goes through them. */
static int order_of(const char *state)
{
	static const char *const order[] = { "reserved", "proving", "pulling", "starting",
		"ready", "releasing", "released", "failed" };

	for (size_t i = 0; state && i < sizeof order / sizeof *order; i++)
		if (strcmp(order[i], state) == 0)
			return (int)i;
	return 0;
}

static json_t *get_one(struct customer *c, const char *name, int64_t wait_s,
	int64_t after)
{
	struct buf path = BUF_INIT;
	json_t *cluster;

	buf_adds(&path, "/v1/clusters/");
	http_escape(&path, name);
	buf_addf(&path, "?wait=%lld&after=%lld", (long long)wait_s, (long long)after);
	cluster = customer_get(c, path.data, TIMEOUT_MS);
	buf_release(&path);
	if (cluster && schema_check(cluster, asks.registry, "rnp.cluster") < 0) {
		json_decref(cluster);
		return NULL;
	}
	return cluster;
}

/* Whether a cluster is where it was to be. Returns 1, 0: not yet, or -1: it never will. */
static int is_there(const json_t *cluster)
{
	const char *state = json_string_value(json_object_get(cluster, "state"));
	const char *cause = json_string_value(json_object_get(cluster, "cause"));
	int at = order_of(state), to = order_of(wanted);

	if (strcmp(state, "failed") == 0 ||
		(at > to && to <= order_of("ready") && at > order_of("ready")))
		return err_set(EXIT_NO, "the cluster is %s: %s", state,
			cause ? cause : "");
	return at >= to;
}

static int wait_for(struct customer *c, const char *name)
{
	int64_t until_ns = timeout_ms ? clock_mono_ns() + timeout_ms * 1000000 :
					INT64_MAX;
	int64_t after = 0;
	int rc = 0;

	while (rc == 0) {
		int64_t left_s = (until_ns - clock_mono_ns()) / 1000000000;
		json_t *cluster = get_one(c, name, left_s < WAIT_S ? left_s : WAIT_S,
			after);

		if (!cluster)
			return -1;
		after = json_integer_value(json_object_get(cluster, "seq"));
		rc = is_there(cluster);
		if (rc == 0 && clock_mono_ns() >= until_ns)
			rc = err_set(EX_TEMPFAIL, "the cluster is %s still",
				json_string_value(json_object_get(cluster, "state")));
		if (rc != 0 && out_record(cluster) < 0)
			rc = -1;
		json_decref(cluster);
	}
	return rc < 0 ? -1 : 0;
}

static int show_one(struct customer *c, const char *name)
{
	json_t *cluster = get_one(c, name, 0, 0);
	int rc = cluster ? out_record(cluster) : -1;

	json_decref(cluster);
	return rc;
}

/* Writes a page, and its successor's path. Returns 1 while there is one, 0, or -1. */
static int show_page(struct customer *c, struct buf *path)
{
	json_t *page = customer_get(c, path->data, 0), *list, *one;
	const char *next = NULL;
	int rc = page ? 0 : -1;
	size_t i;

	if (rc == 0)
		rc = json_get_array(page, asks.registry, "clusters", &list);
	if (rc == 0)
		json_array_foreach(list, i, one)
			if (rc == 0)
				rc = schema_check(one, asks.registry, "rnp.cluster") < 0 ?
					-1 :
					out_record(one);
	if (rc == 0)
		rc = json_opt_text(page, asks.registry, "next", &next);
	if (next) {
		buf_reset(path);
		buf_addf(path, "/v1/clusters?all=%s&cursor=", all ? "true" : "false");
		http_escape(path, next);
	}
	json_decref(page);
	return rc < 0 ? -1 : next != NULL;
}

static int show_all(struct customer *c)
{
	struct buf path = BUF_INIT;
	int rc;

	buf_addf(&path, "/v1/clusters?all=%s", all ? "true" : "false");
	while ((rc = show_page(c, &path)) > 0)
		;
	buf_release(&path);
	return rc;
}

static int run(int n, char **args)
{
	struct key key = KEY_INIT;
	struct customer customer;
	int rc = customer_open(&customer, &key, &asks);

	if (rc == 0 && wanted && !n)
		rc = err_set(EX_USAGE, "--wait: for which cluster?");
	if (rc == 0)
		rc = !n        ? show_all(&customer) :
			wanted ? wait_for(&customer, args[0]) :
				 show_one(&customer, args[0]);
	customer_release(&customer);
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_clusters = {
	.name = "clusters",
	.arguments = "[cluster]",
	.args_max = 1,
	.summary = "Show what you have booked, and wait for it.",
	.details =
		"Writes one rnp.cluster each, of those that are not over. With --wait it writes the\n"
		"cluster when it is there: 1 if it is over before, 75 after --timeout.",
	.columns = "cluster,name,state,cause,uusd_per_hour=$/h,spent_uusd=spent,ends_at",
	.group = "customer",
	.opts = opts,
	.run = run,
};
