/* fit.c - rnp-price fit: estimates what a GPU-hour costs by hardware, place and market. */
#include <sodium.h>

#include "cmd/rnp-price/commands.h"
#include "cmd/rnp-price/fit_core.h"
#include "cmd/rnp-price/fit_record.h"
#include "cmd/rnp-price/offer.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

struct session {
	struct offer_list offers;
	struct fit fit;
	crypto_hash_sha256_state hash;
	long used;
};

static int read_line(struct session *s, struct lines *in, const char *line, size_t len)
{
	const char *where;
	json_t *record;
	int rc;

	crypto_hash_sha256_update(&s->hash, (const unsigned char *)line, len);
	crypto_hash_sha256_update(&s->hash, (const unsigned char *)"\n", 1);
	if (offer_list_add_plain(&s->offers, line, len))
		return 0;
	where = lines_where(in);
	record = json_parse_object(line, len, where);
	rc = record ? offer_list_add_json(&s->offers, record, where) : -1;
	json_decref(record);
	return rc;
}

static int read_offers(struct session *s, int n, char **args)
{
	struct lines in;
	char *line;
	size_t len;
	int rc;

	crypto_hash_sha256_init(&s->hash);
	lines_open(&in, args, n, JSON_RECORD_BYTES_MAX);
	while ((rc = lines_next(&in, &line, &len)) > 0)
		if (read_line(s, &in, line, len) < 0) {
			rc = -1;
			break;
		}
	lines_close(&in);
	return rc;
}

static int write_fit(struct session *s)
{
	unsigned char hash[crypto_hash_sha256_BYTES];
	struct buf hex = BUF_INIT;
	json_t *r = fit_to_json(&s->fit), *body = json_record("rnp.fit");
	int rc;

	crypto_hash_sha256_final(&s->hash, hash);
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

static int fit(struct session *s, int n, char **args)
{
	if (read_offers(s, n, args) < 0)
		return -1;
	for (size_t i = 0; i < s->offers.n; i++)
		s->used += fit_add(&s->fit, &s->offers.items[i]);
	if (fit_solve(&s->fit) < 0)
		return -1;
	fit_leave_out(&s->fit);
	return write_fit(s);
}

static int run(int n, char **args)
{
	struct session s = { .fit = FIT_INIT };
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
		"used,error_ppm.in_sample=error in sample,error_ppm.model_left_out=error model left "
		"out,error_ppm.market_left_out=error market left out",
	.run = run,
};
