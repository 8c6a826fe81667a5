/* fit.c - rnp-price fit: estimates what a GPU-hour costs by hardware, place and market. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/quote/fit.h"
#include "cmd/rnp-price/offers/offer.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/base/sha256.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

struct fit_command {
	struct offer_list offers;
	struct fit fit;
	struct sha256_state hash;
	long used;
};

static int read_line(struct fit_command *s, struct lines *in, const char *line,
	size_t len)
{
	const char *where;
	json_t *record;
	int rc;

	sha256_update(&s->hash, line, len);
	sha256_update(&s->hash, "\n", 1);
	if (offer_list_add_plain(&s->offers, line, len))
		return 0;
	where = lines_where(in);
	record = json_parse_object(line, len, where);
	rc = record ? offer_list_add_json(&s->offers, record, where) : -1;
	json_decref(record);
	return rc;
}

static int read_offers(struct fit_command *s, int n, char **args)
{
	struct lines in;
	char *line;
	size_t len;
	int rc;

	sha256_init(&s->hash);
	lines_open(&in, args, n, JSON_RECORD_BYTES_MAX);
	while ((rc = lines_next(&in, &line, &len)) > 0)
		if (read_line(s, &in, line, len) < 0) {
			rc = -1;
			break;
		}
	lines_close(&in);
	return rc;
}

static int write_fit(struct fit_command *s)
{
	unsigned char hash[SHA256_BYTES];
	struct buf hex = BUF_INIT;
	json_t *r = fit_to_json(&s->fit), *body = json_record("rnp.fit");
	int rc;

	sha256_final(&s->hash, hash);
	buf_add_hex(&hex, hash, sizeof hash);
	json_set_time(body, "at", clock_now_ms());
	json_set_i64(body, "offers", (int64_t)s->offers.n);
	json_set_i64(body, "used", s->used);
	json_set_text(body, "data_sha256", buf_text(&hex));
	json_object_update(body, r);
	rc = out_record(body);
	json_decref(r);
	json_decref(body);
	buf_release(&hex);
	return rc;
}

/* What people want of a fit: the price of each model that it has seen, on demand and alone in its
 * machine, dearest first, and how far off it is. */
struct fitted {
	const char *name;
	struct fit_price price;
	long offers;
};

static int by_price(const void *a, const void *b)
{
	const struct fitted *x = a, *y = b;

	if (x->price.mid_uusd != y->price.mid_uusd)
		return x->price.mid_uusd > y->price.mid_uusd ? -1 : 1;
	return strcmp(x->name, y->name);
}

static int show_prices(const struct fit_command *s)
{
	struct fitted *all = xcalloc(s->fit.ncolumns + 1, sizeof *all);
	size_t n = 0;
	int rc = 0;

	for (size_t i = FIT_NUMBERS; i < s->fit.ncolumns; i++) {
		const struct fit_column *c = &s->fit.columns[i];
		struct fit_question q = { .gpu_count = 1 };

		if (c->effect != FIT_MODEL)
			continue;
		q.model = gpu_find(c->name, 0);
		if (q.model && fit_price(&s->fit, &q, &all[n].price)) {
			all[n].name = c->name;
			all[n++].offers = c->rows;
		}
	}
	qsort(all, n, sizeof *all, by_price);
	for (size_t i = 0; i < n && rc == 0; i++) {
		json_t *r = json_object();

		json_set_text(r, "gpu_model", all[i].name);
		json_set_i64(r, "price_uusd", all[i].price.mid_uusd);
		json_set_i64(r, "low_uusd", all[i].price.low_uusd);
		json_set_i64(r, "high_uusd", all[i].price.high_uusd);
		json_set_i64(r, "offers", all[i].offers);
		json_set_text(r, "kind", "price");
		rc = out_record(r);
		json_decref(r);
	}
	free(all);
	return rc;
}

static int fit(struct fit_command *s, int n, char **args)
{
	if (read_offers(s, n, args) < 0)
		return -1;
	for (size_t i = 0; i < s->offers.n; i++)
		s->used += fit_add(&s->fit, &s->offers.items[i]);
	if (fit_solve(&s->fit) < 0)
		return -1;
	fit_leave_out(&s->fit);
	if (out_for_people() && show_prices(s) < 0)
		return -1;
	return write_fit(s);
}

static int run(int n, char **args)
{
	struct fit_command s = { .fit = FIT_INIT };
	int rc;

	if (sodium_init() < 0)
		bug("libsodium does not start");
	rc = fit(&s, n, args);
	fit_release(&s.fit);
	offer_list_release(&s.offers);
	return rc < 0 ? err_report() : 0;
}

const struct command command_fit = {
	.name = "fit",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "What a GPU-hour costs by hardware, place and market.",
	.details =
		"Reads rnp.offer records, writes one rnp.fit record: coefficients, a level for each\n"
		"market, how far prices spread, and how wrong the fit is in sample, with a model left\n"
		"out, and with a market left out.",
	.columns =
		"price:gpu_model=GPU,price_uusd=$/h,low_uusd=from,high_uusd=to,offers;"
		"used,error_ppm.in_sample=error in sample,error_ppm.model_left_out=error model left "
		"out,error_ppm.market_left_out=error market left out",
	.run = run,
};
