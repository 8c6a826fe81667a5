/* list.c - rnp-register list: lists the nodes that a registry knows. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/net/registry_client.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

/* The share of its nominal memory that a card may lack and still belong to its class; the next
 * class down (22 of 24, 11 of 12 GB) lacks more. */
#define SOLD_PERCENT 8

static const char *registry, *model, *country, *tier, *device, *maker, *ca_file;
static int64_t min_memory = -1, min_gpus = -1, limit = -1;
static bool online, quotes;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	{ .name = "gpu-model",
		.kind = OPT_TEXT,
		.to = &model,
		.metavar = "M",
		.help = "only this GPU, by any of its names" },
	{ .name = "min-memory",
		.kind = OPT_SIZE,
		.to = &min_memory,
		.metavar = "SIZE",
		.help = "at least this much memory on a GPU" },
	{ .name = "min-gpus",
		.kind = OPT_I64,
		.to = &min_gpus,
		.metavar = "N",
		.help = "at least this many GPUs",
		.min = 0,
		.max = 1024 },
	{ .name = "country",
		.kind = OPT_TEXT,
		.to = &country,
		.metavar = "C",
		.help = "only this country (ISO 3166-1 alpha-2)" },
	{ .name = "tier",
		.kind = OPT_TEXT,
		.to = &tier,
		.metavar = "T",
		.help = "bandwidth tier: ultra-high, high, med-ii, med, low, none, unknown" },
	{ .name = "device",
		.kind = OPT_CHOICE,
		.to = &device,
		.metavar = "D",
		.choices = "gpu|cpu",
		.help = "only nodes with a GPU, or without" },
	{ .name = "maker",
		.kind = OPT_TEXT,
		.to = &maker,
		.metavar = "M",
		.help = "only this maker of GPUs or CPUs" },
	{ .name = "online",
		.kind = OPT_FLAG,
		.to = &online,
		.help = "only nodes whose heartbeats arrive" },
	{ .name = "quotes",
		.kind = OPT_FLAG,
		.to = &quotes,
		.help = "after each node the newest rnp.quote that it has signed" },
	{ .name = "limit",
		.kind = OPT_I64,
		.to = &limit,
		.metavar = "N",
		.help = "end after N nodes (default all)",
		.min = 1,
		.max = INT64_MAX },
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
	/* a card is sold as 24 GB whose driver reports 23.99 GiB, or 22.5 where it corrects errors */
	if (n > FILTER_MEMORY && min_memory >= 0)
		buf_addf(path, "&min_memory=%lld",
			(long long)(min_memory - min_memory / 100 * SOLD_PERCENT));
	if (n > FILTER_GPUS && min_gpus >= 0)
		buf_addf(path, "&min_gpus=%lld", (long long)min_gpus);
	/* people see what a node asks in its row */
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

/* Prints a node and what it asks: two records, or for people one row. */
static int print_with_quote(const json_t *record, const json_t *quote)
{
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
	if (schema_check(record, registry, "rnp.node") < 0 ||
		print_with_quote(record, json_object_get(node, "quote")) < 0)
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
	.columns = "node,name,labels.country,gpus.0.model,gpus.0.memory_bytes,cpu.cores,"
		   "memory_bytes,customer_uusd",
	.opts = opts,
	.run = run,
};
