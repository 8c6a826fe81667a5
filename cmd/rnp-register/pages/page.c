/* page.c - the registry in a browser. Each page calls the handlers of the API and
 * shows their replies, so that people and programs see the same. Filters are links; there is no
 * script.
 *
 * This file is long because both pages show the same values with the same functions. */
#include "cmd/rnp-register/pages/page.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/storage/registry.h"
#include "cmd/rnp-register/storage/query.h"
#include "cmd/rnp-register/pages/reads.h"
#include "cmd/rnp-register/pages/uptime.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/html.h"
#include "common/cli/human.h"
#include "common/json/json.h"
#include "common/http/http.h"
#include "common/record/gpus.h"
#include "common/record/pool.h"

#define NODES_PER_PAGE "25"
#define VERDICTS_SHOWN 20
#define WEEK_MS        INT64_C(604800000)
#define SHORT_ADDRESS  8
#define POOLS_SHOWN    200
/* What strangers say can fill no more of a page than this, and the uptimes of one page take no
 * more time: a node may have sent a heartbeat a second for a week. */
#define BYTES_SHOWN ((size_t)1 << 20)
#define UPTIMES_NS  INT64_C(1000000000)

/* The filters that a page has links for. */
static const char *const filters[] = { "tier", "country", "device", "maker", "gpu_model",
	"min_memory", "min_gpus", NULL };

struct page {
	struct registry *g;
	struct httpd_request *q;
	struct httpd_reply *r;
	struct buf *out; /* the reply's body */
	int64_t now_ms, uptimes_ns;
};

/* --- what the API says -------------------------------------------------------------------- */

/* Calls a handler of the API. Returns its reply, an object that the caller owns; or NULL, and
 * *r is its error. */
static json_t *ask_api(struct page *p, httpd_handler handler, struct httpd_request *q,
	struct httpd_reply *r)
{
	json_t *reply = NULL;

	*r = (struct httpd_reply){ .status = 200 };
	handler(p->g, q, r);
	if (r->status == 200)
		reply = json_parse_object_to(buf_text(&r->body), r->body.len,
			JSON_DEPTH_MAX_LIST, "registry");
	return reply;
}

/* The same, if an error only means that there is nothing to show. */
static json_t *ask_quietly(struct page *p, httpd_handler handler, struct httpd_request *q)
{
	struct httpd_reply r;
	json_t *reply = ask_api(p, handler, q, &r);

	if (!reply)
		err_clear();
	buf_release(&r.body);
	buf_release(&r.headers);
	return reply;
}

/* Returns the milliseconds that the node was up in the last week. */
static int64_t up_ms_of(struct page *p, const char *node)
{
	struct httpd_request q = { .method = "GET", .path = "/v1/uptime" };
	char from[CLOCK_TEXT_MAX], to[CLOCK_TEXT_MAX];
	json_t *reply;
	int64_t up;

	clock_format(from, p->now_ms - WEEK_MS);
	clock_format(to, p->now_ms);
	q.query[q.nquery++] = (struct httpd_pair){ "node", node };
	q.query[q.nquery++] = (struct httpd_pair){ "from", from };
	q.query[q.nquery++] = (struct httpd_pair){ "to", to };
	reply = ask_quietly(p, registry_get_uptime, &q);
	up = json_integer_value(
		json_object_get(json_array_get(json_object_get(reply, "uptime"), 0),
			"up_ms"));
	json_decref(reply);
	return up;
}

/* Returns the newest records of a kind about a node, newest first: a new array. */
static json_t *newest(struct page *p, const char *node, const char *kind, int64_t n)
{
	struct store *s = registry_db_reader(&p->g->db);
	json_t *list = json_array();
	sqlite3_stmt *rows = NULL;
	int rc = store_prepare(s, &rows,
		"SELECT body FROM records WHERE node = ? AND kind = ? "
		"ORDER BY id DESC LIMIT ?");

	if (rc == 0)
		store_bind(rows, "tti", node, kind, n);
	while (rc == 0 && store_step(s, rows) == 1) {
		const char *text = store_text(rows, 0);
		json_t *record = json_parse_object(text, strlen(text), "registry");

		if (record)
			json_push(list, record);
	}
	sqlite3_finalize(rows);
	registry_db_reader_done(&p->g->db, s);
	err_clear();
	return list;
}

/* --- links -------------------------------------------------------------------------------- */

static void add_pair(struct buf *url, const char *key, const char *value)
{
	buf_addf(url, "%s%s=", strchr(url->data, '?') ? "&" : "?", key);
	http_escape(url, value);
}

/* Writes "./", which stays below a proxy's path, with the filters that are set; this one is
 * replaced by value, or removed if it is NULL. */
static void filter_url(struct page *p, struct buf *url, const char *but,
	const char *value)
{
	buf_adds(url, "./");
	for (int i = 0; filters[i]; i++) {
		const char *set = httpd_query(p->q, filters[i]);

		if (but && strcmp(filters[i], but) == 0)
			set = value;
		if (set)
			add_pair(url, filters[i], set);
	}
}

static void add_link(struct page *p, const struct buf *url, const char *text)
{
	buf_adds(p->out, "<a href=\"");
	html_text(p->out, buf_text(url));
	buf_adds(p->out, "\">");
	html_name(p->out, text);
	buf_adds(p->out, "</a>");
}

/* Writes a value as a link to the other nodes that have it. */
static void filter_link(struct page *p, const char *filter, const char *value,
	const char *text)
{
	struct buf url = BUF_INIT;

	filter_url(p, &url, filter, value);
	add_link(p, &url, text);
	buf_release(&url);
}

/* --- values ------------------------------------------------------------------------------- */

static const char *text_of(const json_t *o, const char *key)
{
	const char *text = json_string_value(json_object_get(o, key));

	return text ? text : "";
}

static void add_value(struct page *p, const char *key, const json_t *v)
{
	struct buf text = BUF_INIT;

	human_value(&text, key, v, NULL, p->now_ms);
	html_text(p->out, buf_text(&text));
	buf_release(&text);
}

/* Writes the first check that failed, as "check: reason". */
static void add_reason(struct page *p, const json_t *verdict)
{
	json_t *check;
	size_t i;

	json_array_foreach(json_object_get(verdict, "checks"), i, check) {
		if (json_is_true(json_object_get(check, "passed")))
			continue;
		buf_adds(p->out, ": ");
		html_text(p->out, text_of(check, "check"));
		buf_adds(p->out, *text_of(check, "reason") ? ": " : "");
		html_text(p->out, text_of(check, "reason"));
		return;
	}
}

/* Writes "passed 3 min ago", "failed 2 h ago: deadline: ...". */
static void add_verdict(struct page *p, const json_t *verdict)
{
	bool passed = json_is_true(json_object_get(verdict, "passed"));

	if (!verdict) {
		buf_adds(p->out, "<span class=\"soft\">none yet</span>");
		return;
	}
	buf_addf(p->out, "<span class=\"%s\">%s</span> ", passed ? "good" : "bad",
		passed ? "passed" : "failed");
	add_value(p, "at", json_object_get(verdict, "at"));
	if (!passed)
		add_reason(p, verdict);
}

static void add_state(struct page *p, const json_t *node)
{
	bool online = json_is_true(json_object_get(node, "online"));

	buf_addf(p->out, "<span class=\"%s\">%s</span>", online ? "good" : "bad",
		online ? text_of(node, "state") : "offline");
	if (!online && json_object_get(node, "seen_at")) {
		buf_adds(p->out, ", seen ");
		add_value(p, "seen_at", json_object_get(node, "seen_at"));
	}
	if (json_is_true(json_object_get(node, "pending")))
		buf_adds(p->out, ", <span class=\"soft\">not proven yet</span>");
	if (json_object_get(node, "twin_ms"))
		buf_adds(p->out,
			", <span class=\"bad\">two machines use this key</span>");
}

static void add_uptime(struct page *p, const char *node)
{
	int64_t from_ns = clock_mono_ns();

	if (p->uptimes_ns > UPTIMES_NS) {
		buf_adds(p->out, "<span class=\"soft\">not counted</span>");
		return;
	}
	buf_addf(p->out, "%.1f %%", (double)up_ms_of(p, node) * 100 / (double)WEEK_MS);
	p->uptimes_ns += clock_mono_ns() - from_ns;
}

/* Writes what the node asks for an hour, by its newest quote. */
static void add_price(struct page *p, const char *node)
{
	json_t *quotes = newest(p, node, "rnp.quote", 1);
	const json_t *ask = json_object_get(json_array_get(quotes, 0), "ask_uusd");

	if (ask)
		add_value(p, "ask_uusd", ask);
	else
		buf_adds(p->out, "<span class=\"soft\">none</span>");
	json_decref(quotes);
}

/* --- / ------------------------------------------------------------------------------------ */

static void add_node_link(struct page *p, const json_t *node)
{
	const char *address = text_of(node, "node"),
		   *name = text_of(json_object_get(node, "record"), "name");
	struct buf url = BUF_INIT;

	buf_addf(&url, "nodes/%s", address);
	add_link(p, &url, *name ? name : address);
	if (*name)
		buf_addf(p->out, " <small>%.*s&hellip;</small>", SHORT_ADDRESS, address);
	buf_release(&url);
}

static void add_device(struct page *p, const json_t *node)
{
	const json_t *pool = json_object_get(node, "pool");
	struct gpu_group groups[GPUS_MAX];
	int n = gpus_group(json_object_get(node, "record"), groups);
	bool gpu = strcmp(text_of(pool, "device"), "GPU") == 0;
	struct buf others = BUF_INIT;

	if (n && groups->count > 1)
		buf_addf(p->out, "%" PRId64 " &times; ", groups->count);
	if (gpu)
		filter_link(p, "gpu_model", text_of(pool, "model"),
			text_of(pool, "model"));
	else
		html_name(p->out, text_of(pool, "model"));
	if (gpu && n && groups->memory_bytes) {
		json_t *memory = json_integer(groups->memory_bytes);

		buf_adds(p->out, ", ");
		add_value(p, "memory_bytes", memory);
		json_decref(memory);
	}
	gpus_others(&others, groups, n, 0);
	if (others.len) {
		buf_adds(p->out, " <small>and ");
		html_text(p->out, buf_text(&others));
		buf_adds(p->out, "</small>");
	}
	buf_release(&others);
}

static void add_node(struct page *p, const json_t *node)
{
	const json_t *pool = json_object_get(node, "pool");
	const char *address = text_of(node, "node");
	json_t *verdicts = newest(p, address, "rnp.verdict", 1);
	const json_t *verdict = json_array_get(verdicts, 0);
	const json_t *score = json_object_get(verdict, "score_ppm");

	buf_adds(p->out, "<tr>");
	html_open_cell(p->out, "Node");
	add_node_link(p, node);
	buf_adds(p->out, "</td>");
	html_open_cell(p->out, "State");
	add_state(p, node);
	buf_adds(p->out, "</td>");
	html_open_cell(p->out, "Device");
	add_device(p, node);
	buf_adds(p->out, "</td>");
	html_open_cell(p->out, "Country");
	filter_link(p, "country", text_of(pool, "country"), text_of(pool, "country"));
	buf_adds(p->out, "</td>");
	html_open_cell(p->out, "Tier");
	filter_link(p, "tier", text_of(pool, "tier"), text_of(pool, "tier"));
	buf_adds(p->out, "</td>");
	html_open_cell(p->out, "Last verdict");
	add_verdict(p, verdict);
	buf_adds(p->out, "</td>");
	html_open_cell(p->out, "Score");
	if (score)
		add_value(p, "score_ppm", score);
	buf_adds(p->out, "</td>");
	html_open_cell(p->out, "Up, 7 days");
	add_uptime(p, address);
	buf_adds(p->out, "</td>");
	html_open_cell(p->out, "Asks per hour");
	add_price(p, address);
	buf_adds(p->out, "</td></tr>\n");
	json_decref(verdicts);
}

static void add_nodes(struct page *p, const json_t *reply)
{
	const json_t *nodes = json_object_get(reply, "nodes");
	struct buf url = BUF_INIT;
	json_t *node;
	size_t i;

	buf_adds(p->out, "<h2>Nodes</h2>\n");
	if (!json_array_size(nodes)) {
		buf_adds(p->out, "<p>No node fits. <a href=\"./\">Show all</a>.</p>\n");
		return;
	}
	html_table(p->out,
		"Node|State|Device|Country|Tier|Last verdict|Score|Up, 7 days|Asks per hour");
	json_array_foreach(nodes, i, node)
		add_node(p, node);
	html_table_end(p->out);
	if (json_object_get(reply, "next")) {
		filter_url(p, &url, NULL, NULL);
		add_pair(&url, "cursor", text_of(reply, "next"));
		buf_adds(p->out, "<p>");
		add_link(p, &url, "Next page");
		buf_adds(p->out, "</p>\n");
	}
	buf_release(&url);
}

static void add_filters(struct page *p)
{
	bool any = false;

	for (int i = 0; filters[i]; i++) {
		const char *value = httpd_query(p->q, filters[i]);

		if (!value)
			continue;
		buf_adds(p->out, any ? ", " : "<p>Only ");
		html_text(p->out, filters[i]);
		buf_addc(p->out, ' ');
		html_name(p->out, value);
		buf_adds(p->out, " (");
		filter_link(p, filters[i], NULL, "without");
		buf_addc(p->out, ')');
		any = true;
	}
	buf_adds(p->out, any ? "</p>\n" : "");
}

static void add_count(struct page *p, const char *heading, const json_t *item,
	const char *key)
{
	html_open_cell(p->out, heading);
	buf_addf(p->out, "%lld</td>",
		(long long)json_integer_value(json_object_get(item, key)));
}

/* Writes one pool with a link for each of its levels. */
static void add_pool(struct page *p, const char *const names[], const json_t *model)
{
	struct buf url = BUF_INIT;
	bool gpu = strcmp(names[2], "GPU") == 0;
	const struct pool_tier *tier = pool_tier_find(names[0]);

	buf_adds(&url, "./");
	buf_adds(p->out, "<tr>");
	for (int i = 0; i < 5; i++) {
		static const char *const headings[] = { "Tier", "Country", "Device",
			"Maker", "Model" };

		html_open_cell(p->out, headings[i]);
		/* the filter gpu_model applies only to GPUs */
		if (i < 4 || gpu)
			add_pair(&url, filters[i], names[i]);
		add_link(p, &url, i == 0 && tier ? tier->label : names[i]);
		buf_adds(p->out, "</td>");
	}
	add_count(p, "Nodes", model, "nodes");
	add_count(p, "GPUs", model, "gpus");
	buf_adds(p->out, "</tr>\n");
	buf_release(&url);
}

static void add_pools(struct page *p, const json_t *pools)
{
	int shown = 0;
	static const char *const lists[] = { "countries", "devices", "makers", "models" },
				 *const keys[] = { "tier", "country", "device", "maker",
					 "model" };
	const char *names[5];
	json_t *item[5];
	size_t i, j, k, l, m;

	buf_adds(p->out, "<h2>Pools</h2>\n");
	html_table(p->out, "Tier|Country|Device|Maker|Model|Nodes|GPUs");
	json_array_foreach(json_object_get(pools, "pools"), i, item[0])
		json_array_foreach(json_object_get(item[0], lists[0]), j, item[1])
			json_array_foreach(json_object_get(item[1], lists[1]), k, item[2])
				json_array_foreach(json_object_get(item[2], lists[2]), l,
					item[3])
					json_array_foreach(json_object_get(item[3],
								   lists[3]),
						m, item[4]) {
						if (shown++ >= POOLS_SHOWN)
							continue;
						for (int n = 0; n < 5; n++)
							names[n] = text_of(item[n],
								keys[n]);
						add_pool(p, names, item[4]);
					}
	html_table_end(p->out);
	if (shown > POOLS_SHOWN)
		buf_addf(p->out,
			"<p>and %d more: <a href=\"v1/pools\">/v1/pools</a></p>\n",
			shown - POOLS_SHOWN);
}

static void add_join(struct page *p)
{
	struct buf url = BUF_INIT;

	buf_adds(p->out,
		"<h2>Join</h2>\n<p>On the machine that is to earn, with "
		"<code>rnp</code> installed:</p>\n<pre>sudo rnp-register setup --registry ");
	httpd_own_url(&url, p->q);
	html_text(p->out, buf_text(&url));
	buf_release(&url);
	buf_adds(p->out,
		"</pre>\n<p>For programs: <a href=\"v1/nodes\">/v1/nodes</a>, "
		"<a href=\"v1/pools\">/v1/pools</a>, <a href=\"openapi.json\">/openapi.json</a>, "
		"<a href=\"metrics\">/metrics</a>.</p>\n");
}

static void add_totals(struct page *p, const json_t *pools)
{
	long long nodes = 0, gpus = 0;
	json_t *tier;
	size_t i;

	json_array_foreach(json_object_get(pools, "pools"), i, tier) {
		nodes += json_integer_value(json_object_get(tier, "nodes"));
		gpus += json_integer_value(json_object_get(tier, "gpus"));
	}
	buf_addf(p->out,
		"<p>%lld node%s with %lld GPU%s. What a node says of itself is a "
		"claim until it has passed a challenge.</p>\n",
		nodes, nodes == 1 ? "" : "s", gpus, gpus == 1 ? "" : "s");
}

static void begin(struct page *p, const char *title)
{
	p->r->content_type = "text/html; charset=utf-8";
	httpd_add_header(p->r, "Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'; "
		"form-action 'none'; base-uri 'none'");
	httpd_add_header(p->r, "Referrer-Policy", "no-referrer");
	httpd_add_header(p->r, "X-Content-Type-Options", "nosniff");
	html_begin(p->out, title);
}

/* Turns an error of the API into that of the page. */
static enum httpd_when pass_refusal(struct page *p, struct httpd_reply *from)
{
	buf_release(&p->r->body);
	buf_release(&p->r->headers);
	*p->r = *from;
	return HTTPD_NOW;
}

enum httpd_when registry_get_page(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct page p = { .g = ctx,
		.q = q,
		.r = r,
		.out = &r->body,
		.now_ms = clock_now_ms() };
	struct httpd_request limited = *q,
			     plain = { .method = "GET", .path = "/v1/pools" };
	struct httpd_reply api;
	json_t *nodes, *pools;

	if (httpd_query(q, "limit"))
		return httpd_error(r, 400, "limit: a page has " NODES_PER_PAGE " nodes");
	if (limited.nquery < HTTPD_QUERY_MAX)
		limited.query[limited.nquery++] = (struct httpd_pair){ "limit",
			NODES_PER_PAGE };
	nodes = ask_api(&p, registry_get_nodes, &limited, &api);
	if (!nodes)
		return pass_refusal(&p, &api);
	buf_release(&api.body);
	buf_release(&api.headers);
	pools = ask_quietly(&p, registry_get_pools, &plain);
	begin(&p, "rnp registry");
	add_totals(&p, pools);
	add_filters(&p);
	add_nodes(&p, nodes);
	add_pools(&p, pools);
	add_join(&p);
	html_end(p.out);
	registry_etag(r);
	json_decref(nodes);
	json_decref(pools);
	return HTTPD_NOW;
}

/* --- /nodes/{address} --------------------------------------------------------------------- */

static void add_field(struct page *p, const char *heading, const char *key,
	const json_t *v)
{
	if (!v || json_is_object(v))
		return;
	buf_adds(p->out, "<tr>");
	html_cell(p->out, "", heading);
	html_open_cell(p->out, "");
	add_value(p, key, v);
	buf_adds(p->out, "</td></tr>\n");
}

/* Writes all fields of an object, those of nested objects with their path; nothing that is
 * signed is left out before the page is full. */
static void add_fields(struct page *p, const char *path, const json_t *o)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)o, key, v) {
		struct buf name = BUF_INIT;

		if (strcmp(key, "proof") == 0 || strcmp(key, "kind") == 0 ||
			strcmp(key, "v") == 0)
			continue;
		if (p->out->len > BYTES_SHOWN)
			return;
		buf_addf(&name, "%s%s", path, key);
		for (size_t i = 0; i < name.len; i++)
			name.data[i] = name.data[i] == '_' ? ' ' : name.data[i];
		add_field(p, name.data, key, v);
		if (json_is_object(v)) {
			buf_addc(&name, ' ');
			add_fields(p, name.data, v);
		}
		buf_release(&name);
	}
}

static void add_verdicts(struct page *p, const char *node)
{
	json_t *list = newest(p, node, "rnp.verdict", VERDICTS_SHOWN), *verdict;
	size_t i;

	buf_adds(p->out, "<h2>Verdicts</h2>\n");
	if (!json_array_size(list))
		buf_adds(p->out, "<p>This node has answered no challenge yet.</p>\n");
	else
		html_table(p->out, "Verdict|Score|By");
	json_array_foreach(list, i, verdict) {
		buf_adds(p->out, "<tr>");
		html_open_cell(p->out, "Verdict");
		add_verdict(p, verdict);
		buf_adds(p->out, "</td>");
		html_open_cell(p->out, "Score");
		if (json_object_get(verdict, "score_ppm"))
			add_value(p, "score_ppm", json_object_get(verdict, "score_ppm"));
		buf_adds(p->out, "</td>");
		html_open_cell(p->out, "By");
		html_name(p->out, text_of(verdict, "signer"));
		buf_adds(p->out, "</td>");
		buf_adds(p->out, "</tr>\n");
	}
	if (json_array_size(list))
		html_table_end(p->out);
	json_decref(list);
}

static void add_summary(struct page *p, const json_t *node)
{
	const char *address = text_of(node, "node");

	buf_adds(p->out, "<p>");
	add_state(p, node);
	buf_adds(p->out, "; up ");
	add_uptime(p, address);
	buf_adds(p->out, " of the last seven days; asks per hour: ");
	add_price(p, address);
	buf_addf(p->out,
		".</p>\n<p><a href=\"../\">All nodes</a>; for programs "
		"<a href=\"../v1/nodes/%s\">/v1/nodes/%s</a></p>\n",
		address, address);
}

enum httpd_when registry_get_node_page(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	struct page p = { .g = ctx,
		.q = q,
		.r = r,
		.out = &r->body,
		.now_ms = clock_now_ms() };
	struct httpd_reply api;
	json_t *node = ask_api(&p, registry_get_node, q, &api);
	const json_t *record = json_object_get(node, "record");

	if (!node)
		return pass_refusal(&p, &api);
	buf_release(&api.body);
	buf_release(&api.headers);
	begin(&p,
		*text_of(record, "name") ? text_of(record, "name") :
					   text_of(node, "node"));
	add_summary(&p, node);
	add_verdicts(&p, text_of(node, "node"));
	buf_adds(p.out, "<h2>What it says of itself</h2>\n");
	html_table(p.out, "|");
	add_fields(&p, "", record);
	html_table_end(p.out);
	if (p.out->len > BYTES_SHOWN)
		buf_adds(p.out, "<p>It says more: see the page for programs.</p>\n");
	html_end(p.out);
	registry_etag(r);
	json_decref(node);
	return HTTPD_NOW;
}
