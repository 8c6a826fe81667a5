/* list.c - rnp-register list: lists the nodes that a registry knows. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/registry/client.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/schema.h"
#include "common/record/gpus.h"
#include "common/record/signature.h"

/* The share of its nominal memory that a card may lack and still belong to its class; the next
 * class down (22 of 24, 11 of 12 GB) lacks more. */
#define SOLD_PERCENT 8

static const char *registry, *model, *country, *tier, *device, *maker, *ca_file;
static int64_t min_memory = -1, min_gpus = -1, limit = -1;
static bool online, quotes;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT(TEXT, "gpu-model", &model, "M", "only this GPU, by any of its names"),
	OPT(SIZE, "min-memory", &min_memory, "SIZE",
		"at least this much memory on a GPU"),
	OPT_IN(I64, "min-gpus", &min_gpus, "N", 0, 1024, "at least this many GPUs"),
	OPT(TEXT, "country", &country, "C", "only this country (ISO 3166-1 alpha-2)"),
	OPT(TEXT, "tier", &tier, "T",
		"bandwidth tier: ultra-high, high, med-ii, med, low, none, unknown"),
	OPT(CHOICE, "device", &device, "D", "only nodes with a GPU, or without",
		.choices = "gpu|cpu"),
	OPT(TEXT, "maker", &maker, "M", "only this maker of GPUs or CPUs"),
	OPT_SWITCH("online", &online, "only nodes whose heartbeats arrive"),
	OPT_SWITCH("quotes", &quotes,
		"after each node the newest rnp.quote that it has signed"),
	OPT_IN(I64, "limit", &limit, "N", 1, INT64_MAX,
		"end after N nodes (default all)"),
	OPT_WATCH,
	OPT_CA(&ca_file),
	{ 0 },
};

static int64_t limit_left, printed;

static void add_text(struct buf *path, const char *key, const char *value)
{
	if (!value)
		return;
	buf_addf(path, "&%s=", key);
	http_escape(path, value);
}

/* The options that choose nodes, in the order in which they are applied. */
enum {
	FILTER_MODEL,
	FILTER_COUNTRY,
	FILTER_TIER,
	FILTER_DEVICE,
	FILTER_MAKER,
	FILTER_MEMORY,
	FILTER_GPUS,
	FILTER_ONLINE,
	FILTERS
};

static const char *const filter_names[FILTERS] = { "gpu-model", "country", "tier",
	"device", "maker", "min-memory", "min-gpus", "online" };

/* The query of the first n filters. */
static void make_path(struct buf *path, int n)
{
	buf_adds(path, "/v1/nodes?limit=500");
	add_text(path, "gpu_model", n > FILTER_MODEL ? model : NULL);
	add_text(path, "country", n > FILTER_COUNTRY ? country : NULL);
	add_text(path, "tier", n > FILTER_TIER ? tier : NULL);
	add_text(path, "device", n > FILTER_DEVICE ? device : NULL);
	add_text(path, "maker", n > FILTER_MAKER ? maker : NULL);
	/* a card is sold as 24 GB whose driver reports 23.99 GiB, or 22.5 where it corrects
	 * errors */
	if (n > FILTER_MEMORY && min_memory >= 0)
		buf_addf(path, "&min_memory=%lld",
			(long long)(min_memory - min_memory / 100 * SOLD_PERCENT));
	if (n > FILTER_GPUS && min_gpus >= 0)
		buf_addf(path, "&min_gpus=%lld", (long long)min_gpus);
	/* people see what a node asks, and its verdict, in its row */
	if (quotes || out_for_people())
		buf_adds(path, "&quotes=true");
}

/* Whether the node itself has signed this quote: a registry is a stranger too. */
static bool is_signed(const json_t *quote, const char *node)
{
	const char *of = json_string_value(json_object_get(quote, "node"));
	struct signature_result r;

	if (!of || !node || strcmp(of, node) != 0)
		return false;
	signature_verify(quote, &r);
	return r.ok;
}

/* Adds to a row all GPUs, the most powerful first. */
static void add_gpus(json_t *row)
{
	struct gpu_group groups[GPUS_MAX];
	struct buf text = BUF_INIT;
	int n = gpus_group(row, groups);

	gpus_others(&text, groups, n, -1);
	if (n)
		json_set_text(row, "gpu", buf_text(&text));
	buf_release(&text);
}

/* Adds what people look for in a list to a row: state, how long ago the node was seen, whether its
 * claims are proven. */
static void add_for_people(json_t *row, const json_t *entry)
{
	bool is_online = json_is_true(json_object_get(entry, "online"));
	const char *verdict = json_string_value(json_object_get(entry, "verdict"));
	int64_t seen_ms = -1;

	json_set_text(row, "state",
		is_online ? json_string_value(json_object_get(entry, "state")) :
			    "offline");
	if (json_opt_time(entry, registry, "seen_at", &seen_ms) == 0 && seen_ms >= 0)
		json_set_i64(row, "seen_s", (clock_now_ms() - seen_ms) / 1000);
	err_clear();
	/* registries before this word say only what was passed */
	if (!verdict && json_object_get(entry, "proven_at"))
		verdict = "passed";
	json_set_text(row, "verdict", verdict ? verdict : "none yet");
}

/* Prints a node and what it asks: two records, or for people one row. */
static int print_with_quote(const json_t *entry)
{
	const json_t *record = json_object_get(entry, "record"),
		     *quote = json_object_get(entry, "quote");
	const char *node = json_string_value(json_object_get(record, "node"));
	json_t *row;
	int rc;

	if (quote && !is_signed(quote, node)) {
		prog_warn("%s: a quote of %s that it has not signed, left out", registry,
			node ? node : "a node without an address");
		quote = NULL;
	}
	if (quote && schema_check(quote, registry, "rnp.quote") < 0)
		return -1;
	if (!out_for_people())
		return out_record(record) < 0 || (quote && out_record(quote) < 0) ? -1 :
										    0;
	row = json_copy((json_t *)record);
	add_gpus(row);
	add_for_people(row, entry);
	if (quote)
		json_object_set(row, "customer_uusd",
			json_object_get(quote, "customer_uusd"));
	rc = out_record(row);
	json_decref(row);
	return rc;
}

/* Prints the record of one node, unless it is filtered out. */
static int print_node(void *ctx, const json_t *node)
{
	const json_t *record = json_object_get(node, "record");

	(void)ctx;
	if (online && !json_is_true(json_object_get(node, "online")))
		return 0;
	if (limit_left == 0)
		return 1;
	if (schema_check(record, registry, "rnp.node") < 0 || print_with_quote(node) < 0)
		return -1;
	printed++;
	if (limit_left > 0)
		limit_left--;
	return limit_left == 0;
}

/* --- nothing fits -------------------------------------------------------------------------- */

static int note_node(void *ctx, const json_t *node)
{
	(void)node;
	*(bool *)ctx = true;
	return 1;
}

/* Names the filter that left nothing of what those before it had left. */
static int say_why_empty(struct http *http)
{
	struct buf path = BUF_INIT;
	bool any = true;
	int n = 0, rc = 0;

	for (; n < FILTERS && any && rc == 0; n++) {
		if (n && !opt_given(&command_list, filter_names[n - 1]))
			continue;
		any = false;
		buf_reset(&path);
		make_path(&path, n);
		rc = registry_each(http, registry, ca_file, path.data, "nodes", note_node,
			&any);
	}
	buf_release(&path);
	if (rc < 0)
		return -1;
	if (!any && n == 1)
		prog_info("the registry has no nodes yet");
	else
		prog_info("no node fits: --%s leaves none",
			filter_names[any ? FILTER_ONLINE : n - 2]);
	return 0;
}

static int run(int n, char **args)
{
	struct http http = HTTP_INIT;
	struct buf path = BUF_INIT;
	int rc;

	(void)n, (void)args;
	limit_left = limit;
	make_path(&path, FILTERS);
	rc = registry_each(&http, registry, ca_file, path.data, "nodes", print_node,
		NULL);
	if (rc == 0 && !printed)
		rc = say_why_empty(&http);
	buf_release(&path);
	http_release(&http);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_list = {
	.name = "list",
	.summary = "List the nodes that a registry knows.",
	.details =
		"Writes the signed rnp.node record of each node that fits, in the order of "
		"their registration;\nwith --quotes also what it asks, which rnp-price match reads.",
	.columns = "name,state,seen_s=last seen,verdict,gpu=GPU,customer_uusd=$/h,node",
	.group = "registry",
	.opts = opts,
	.run = run,
};
