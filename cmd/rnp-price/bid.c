/* bid.c - rnp-price bid: a marketplace's own contract, an order on stdin, one price on stdout, exit
 * 1 for no bid. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/publish/akash.h"
#include "cmd/rnp-price/commands.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define FILE_BYTES_MAX  ((size_t)1 << 20)
#define ORDER_BYTES_MAX ((size_t)1 << 20)
#define ORDER_DEPTH_MAX 16

static const char *market = "akash", *prices_path, *owner;
static struct opt_list quotes;
static bool example;

static const struct opt options[] = {
	OPT(TEXT, "prices", &prices_path, "F",
		"what is asked a month, and what is free (default: the market's own defaults, no GPUs)"),
	OPT(LIST, "quote", &quotes, "F",
		"an rnp.quote: price of its GPU model, unless F has one; may be given several times"),
	OPT(TEXT, "owner", &owner, "A", "who orders (default $AKASH_OWNER)"),
	OPT(CHOICE, "market", &market, "M", "whose contract: akash", .choices = "akash"),
	OPT_SWITCH("example", &example,
		"print a file of prices to begin with, and nothing else"),
	{ .kind = OPT_END },
};

static json_t *read_object(const char *path, size_t max)
{
	struct buf text = BUF_INIT;
	json_t *obj = NULL;

	if (io_read(&text, path, max) == 0)
		obj = json_parse_object(buf_text(&text), text.len,
			strcmp(path, "-") == 0 ? "standard input" : path);
	buf_release(&text);
	return obj;
}

/* Akash's word for a model: "RTX 4090" is rtx4090, "A100 80GB SXM" a100.80gi.sxm. */
static void model_key(const char *model, char *out, size_t size)
{
	size_t n = 0;
	bool first = true;

	for (const char *p = model; *p && n + 2 < size; p++) {
		if (*p == ' ') {
			const char *rest = p + 1;
			size_t digits = strspn(rest, "0123456789");

			if (digits && strncmp(rest + digits, "GB", 2) == 0)
				first = false;
			if (!first || strcmp(rest, "SXM") == 0 ||
				strcmp(rest, "PCIe") == 0)
				out[n++] = '.';
			continue;
		}
		out[n++] = *p == 'B' && p > model && p[-1] == 'G' ? 'i' : *p;
	}
	out[n] = '\0';
}

static int add_quote(struct bid_prices *p, const char *path)
{
	json_t *quote = read_object(path, FILE_BYTES_MAX), *spec;
	const char *model;
	char key[96];
	int64_t ask = 0, count = 0;
	int rc = -1;

	if (quote && schema_check(quote, path, "rnp.quote") == 0) {
		spec = json_object_get(quote, "spec");
		model = json_string_value(json_object_get(spec, "gpu_model"));
		count = json_integer_value(json_object_get(spec, "gpu_count"));
		ask = json_integer_value(json_object_get(quote, "ask_uusd"));
		rc = model && count > 0 ?
			0 :
			err_set(EX_DATAERR, "%s: the quote names no GPU", path);
	}
	if (rc == 0) {
		model_key(model, key, sizeof key);
		rc = bid_set_hourly(p, key, (ask + count - 1) / count);
	}
	json_decref(quote);
	return rc;
}

static int load_prices(struct bid_prices *p)
{
	json_t *obj = prices_path ? read_object(prices_path, FILE_BYTES_MAX) :
				    json_object();
	int rc = obj ? bid_parse(p, obj, prices_path ? prices_path : "defaults") : -1;

	json_decref(obj);
	for (int i = 0; i < quotes.n && rc == 0; i++)
		rc = add_quote(p, quotes.items[i]);
	return rc;
}

/* Returns an exit code: 0, or 1 for no bid. */
static int bid(const struct bid_prices *p)
{
	json_t *order;
	char rate[BID_RATE_MAX + 1], why[256];
	int rc;

	if (!owner)
		owner = getenv("AKASH_OWNER");
	if (!bid_owner_allowed(p, owner ? owner : "")) {
		prog_warn("no bid: %.80s may not deploy here",
			owner && *owner ? owner : "nobody");
		return 1;
	}
	order = read_object("-", ORDER_BYTES_MAX);
	rc = order ? bid_rate(p, order, "standard input", rate, why, sizeof why) : -1;
	json_decref(order);
	if (rc < 0)
		return err_report();
	if (rc == 0) {
		prog_warn("no bid: %s", why);
		return 1;
	}
	strcat(rate, "\n");
	return out_text(rate, strlen(rate)) < 0 ? err_report() : 0;
}

static int run(int n, char **args)
{
	struct bid_prices p = { 0 };
	int rc;

	(void)n, (void)args;
	if (example)
		return out_text(bid_example, strlen(bid_example)) < 0 ? err_report() : 0;
	rc = load_prices(&p) < 0 ? err_report() : bid(&p);
	bid_release(&p);
	opt_list_release(&quotes);
	return rc;
}

const struct command command_bid = {
	.name = "bid",
	.args_max = 0,
	.summary = "Answer an order as a marketplace's price script.",
	.details =
		"Reads the order as JSON on standard input and writes the rate per block, rounded up;\n"
		"exit 1 is no bid, with the reason on standard error.",
	.opts = options,
	.run = run,
};
