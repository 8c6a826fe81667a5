/* rnp-register list - the nodes that a registry knows. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/net/http.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/schema.h"

#define PAGE_BYTES_MAX ((size_t)300 << 20) /* 1000 nodes of the largest kind */
#define CURSOR_MAX     128

static const char *registry, *model, *country, *tier, *device, *maker, *ca_file;
static int64_t min_memory = -1, min_gpus = -1, limit = -1;
static bool online;

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
	{ .name = "limit",
		.kind = OPT_I64,
		.to = &limit,
		.metavar = "N",
		.help = "end after N nodes (default all)",
		.min = 1,
		.max = INT64_MAX },
	OPT_CA(&ca_file),
	{ 0 },
};

static void add_text(struct buf *url, const char *key, const char *value)
{
	if (!value)
		return;
	buf_addf(url, "&%s=", key);
	http_escape(url, value);
}

static int make_url(struct buf *url, const char *cursor)
{
	buf_reset(url);
	if (http_url(url, registry, "/v1/nodes?limit=500") < 0)
		return -1;
	add_text(url, "gpu_model", model);
	add_text(url, "country", country);
	add_text(url, "tier", tier);
	add_text(url, "device", device);
	add_text(url, "maker", maker);
	if (min_memory >= 0)
		buf_addf(url, "&min_memory=%lld", (long long)min_memory);
	if (min_gpus >= 0)
		buf_addf(url, "&min_gpus=%lld", (long long)min_gpus);
	add_text(url, "cursor", cursor[0] ? cursor : NULL);
	return 0;
}

/* Print the records of one page. Returns 0 or -1. */
static int print_page(const json_t *nodes)
{
	const json_t *node;
	size_t i;

	json_array_foreach(nodes, i, node) {
		const json_t *record = json_object_get(node, "record");

		if (online && !json_is_true(json_object_get(node, "online")))
			continue;
		if (limit == 0)
			break;
		if (schema_check(record, registry, "rnp.node") < 0 ||
			out_record(record) < 0)
			return -1;
		if (limit > 0)
			limit--;
	}
	return 0;
}

/* Fetch and print one page; cursor is replaced by that of the next, "" at the end. */
static int list_page(struct http *http, struct buf *url, char cursor[CURSOR_MAX])
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .ca_file = ca_file,
		.response_bytes_max = PAGE_BYTES_MAX };
	json_t *page = NULL, *nodes;
	const char *next = "";
	int rc = -1;

	if (make_url(url, cursor) < 0)
		goto out;
	q.url = url->data;
	if (http_fetch(http, &q, &r) < 0)
		goto out;
	page = json_parse_object(buf_text(&r.body), r.body.len, registry);
	if (!page || json_get_array(page, registry, "nodes", &nodes) < 0 ||
		json_opt_text(page, registry, "next", &next) < 0)
		goto out;
	if (strlen(next) >= CURSOR_MAX || (next[0] && strcmp(next, cursor) == 0)) {
		err_set(EX_DATAERR, "%s: the cursor of the next page is no good",
			registry);
		goto out;
	}
	strcpy(cursor, next);
	rc = print_page(nodes);
out:
	json_decref(page);
	http_response_release(&r);
	return rc;
}

static int run(int n, char **args)
{
	struct http http = HTTP_INIT;
	struct buf url = BUF_INIT;
	char cursor[CURSOR_MAX] = "";
	int rc;

	(void)n, (void)args;
	do
		rc = list_page(&http, &url, cursor);
	while (rc == 0 && cursor[0] && limit != 0);
	buf_release(&url);
	http_release(&http);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_list = {
	.name = "list",
	.summary = "List the nodes that a registry knows.",
	.details =
		"Writes the signed rnp.node record of each node that fits, in the order of "
		"their registration.",
	.columns = "node,name,labels.country,gpus.0.model,gpus.0.memory_bytes,cpu.cores,"
		   "memory_bytes",
	.opts = opts,
	.run = run,
};
