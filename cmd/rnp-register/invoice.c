/* invoice.c - rnp-register invoice: what a cluster cost, and whether that follows from what others
 * have signed. */
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/customer/invoice.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/http/http.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/key.h"
#include "common/registry/client.h"

#define REPLY_BYTES_MAX (INT64_C(64) << 20)

static const char *registry, *ca_file, *key_path, *passphrase_file;
static bool check;

static const struct opt opts[] = {
	OPT_REGISTRY(&registry),
	OPT_CA(&ca_file),
	OPT_SWITCH("check", &check,
		"recompute it from the booking, the nodes' events and the receipts"),
	OPT_KEY(&key_path),
	OPT_PASSPHRASE(&passphrase_file),
	{ 0 },
};

/* Gets an object by a signed request. Returns it, or NULL with err_set. */
static json_t *get(struct http *http, const struct key *key, const char *path)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT;
	json_t *reply = NULL;

	if (http_url(&url, registry, path) == 0) {
		const struct http_request q = { .url = url.data,
			.ca_file = ca_file,
			.signer = key,
			.response_bytes_max = REPLY_BYTES_MAX };

		if (http_fetch(http, &q, &r) == 0)
			reply = json_parse_object_to(buf_text(&r.body), r.body.len,
				JSON_DEPTH_MAX_LIST, registry);
	}
	http_response_release(&r);
	buf_release(&url);
	return reply;
}

/* Adds the events of a page to the list. Returns how many, or -1. */
static int add_page(const json_t *page, json_t *list, int64_t *after)
{
	json_t *events, *one;
	size_t i;

	if (json_get_array(page, registry, "events", &events) < 0 ||
		json_opt_i64(page, registry, "after", 0, JSON_SAFE_INTEGER_MAX, after) <
			0)
		return -1;
	json_array_foreach(events, i, one)
		json_array_append(list, json_object_get(one, "event"));
	return (int)json_array_size(events);
}

/* Gets all events of a cluster, one behind the other. Returns an array, or NULL with err_set. */
static json_t *get_events(struct http *http, const struct key *key, const char *cluster)
{
	json_t *list = json_array();
	int64_t after = 0;
	int n = 1;

	while (n > 0) {
		struct buf path = BUF_INIT;
		int64_t before = after;
		json_t *page;

		buf_adds(&path, "/v1/events?cluster=");
		http_escape(&path, cluster);
		buf_addf(&path, "&after=%lld", (long long)after);
		page = get(http, key, path.data);
		n = page ? add_page(page, list, &after) : -1;
		if (n > 0 && after <= before)
			n = err_set(EX_UNAVAILABLE, "%s: events do not go on", registry);
		json_decref(page);
		buf_release(&path);
	}
	if (n == 0)
		return list;
	json_decref(list);
	return NULL;
}

/* Returns 0, 1: it does not agree, or -1. */
static int check_reply(struct http *http, const struct key *key, const char *cluster,
	const json_t *reply)
{
	json_t *events = get_events(http, key, cluster);
	const struct invoice_parts parts = { .cluster = cluster,
		.customer = key->address,
		.invoice = json_object_get(reply, "invoice"),
		.booking = json_object_get(reply, "booking"),
		.receipts = json_object_get(reply, "receipts"),
		.events = events };
	struct buf why = BUF_INIT;
	int rc = 0;

	if (!events)
		return -1;
	if (!invoice_agrees(&parts, &why))
		rc = err_set(EXIT_NO, "the invoice does not follow: %s", buf_text(&why));
	else if (!json_is_true(json_object_get(parts.invoice, "final")))
		prog_info("the invoice follows so far; the cluster is not over");
	else
		prog_info("the invoice follows from booking, events and receipts");
	json_decref(events);
	buf_release(&why);
	return rc;
}

static int run(int n, char **args)
{
	struct http http = HTTP_INIT;
	struct key key = KEY_INIT;
	struct buf path = BUF_INIT;
	json_t *reply = NULL;
	const json_t *invoice;
	int rc = -1;

	(void)n;
	buf_adds(&path, "/v1/invoices/");
	http_escape(&path, args[0]);
	if (key_load(&key, key_path, passphrase_file) == 0)
		reply = get(&http, &key, path.data);
	invoice = json_object_get(reply, "invoice");
	if (reply && !json_is_object(invoice))
		err_set(EX_UNAVAILABLE, "%s: sends no invoice", registry);
	else if (reply && schema_check(invoice, registry, "rnp.invoice") == 0)
		rc = out_record(invoice);
	if (rc == 0 && check)
		rc = check_reply(&http, &key, args[0], reply);
	json_decref(reply);
	buf_release(&path);
	http_release(&http);
	key_release(&key);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_invoice = {
	.name = "invoice",
	.arguments = "cluster",
	.args_min = 1,
	.args_max = 1,
	.summary = "What a cluster cost.",
	.details =
		"Writes the rnp.invoice that the registry has signed: of each node the time that it "
		"was ready, and\nits price. --check holds it against what the customer, the nodes and "
		"the registry have signed before.\nThe exit status is 1 when it does not follow; the "
		"first difference is named.",
	.card = true,
	.group = "customer",
	.opts = opts,
	.run = run,
};
