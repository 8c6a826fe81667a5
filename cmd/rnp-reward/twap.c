/* twap.c - rnp-reward twap: the time-weighted average price of a token, from samples of several
 * sources. */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/twap_core.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define PRICE_MAX INT64_C(1000000000000) /* a million dollars */

static struct {
	int64_t from_ms, to_ms, age_ms, outlier_ppm, quorum;
} opts = { -1, -1, 300000, 200000, 2 };

static const struct opt options[] = {
	{ .name = "from",
		.kind = OPT_TIME,
		.required = true,
		.to = &opts.from_ms,
		.metavar = "T",
		.help = "start of the window (RFC 3339)" },
	{ .name = "to",
		.kind = OPT_TIME,
		.required = true,
		.to = &opts.to_ms,
		.metavar = "T",
		.help = "its end, which is not part of it" },
	{ .name = "age",
		.kind = OPT_DURATION,
		.to = &opts.age_ms,
		.metavar = "TIME",
		.help = "how long a sample holds (default 300s)",
		.min = 1,
		.max = 86400000 },
	{ .name = "outlier",
		.kind = OPT_I64,
		.to = &opts.outlier_ppm,
		.metavar = "PPM",
		.help = "left out when further from the median of sources (default 200000: 20%)",
		.min = 0,
		.max = 1000000 },
	{ .name = "quorum",
		.kind = OPT_I64,
		.to = &opts.quorum,
		.metavar = "N",
		.help = "sources that must remain at every instant (default 2)",
		.min = 1,
		.max = TWAP_SOURCES_MAX },
	{ .kind = OPT_END },
};

struct samples {
	struct twap_sample *list;
	size_t n, cap;
	char *names[TWAP_SOURCES_MAX];
	int nnames;
};

/* Whether two names are one but for case and spaces. */
static bool same_name(const char *a, const char *b)
{
	for (;; a++, b++) {
		while (isspace((unsigned char)*a))
			a++;
		while (isspace((unsigned char)*b))
			b++;
		if (tolower((unsigned char)*a) != tolower((unsigned char)*b))
			return false;
		if (!*a)
			return true;
	}
}

static int source_of(struct samples *s, const char *name, const char *where)
{
	for (int i = 0; i < s->nnames; i++) {
		if (strcmp(s->names[i], name) == 0)
			return i;
		/* it would have two voices */
		if (same_name(s->names[i], name))
			return err_set(EX_DATAERR,
				"%s: source '%.100s' is '%.100s' in other letters", where,
				name, s->names[i]);
	}
	if (s->nnames == TWAP_SOURCES_MAX)
		return err_set(EX_DATAERR, "%s: more than %d sources", where,
			TWAP_SOURCES_MAX);
	s->names[s->nnames] = xstrdup(name);
	return s->nnames++;
}

static int take(void *ctx, const struct record *r)
{
	struct samples *s = ctx;
	struct twap_sample *one;
	const char *source;

	if (schema_check(r->json, r->where, "rnp.price") < 0)
		return -1;
	s->list = xgrow(s->list, &s->cap, s->n + 1, sizeof *s->list);
	one = &s->list[s->n];
	if (json_get_text(r->json, r->where, "source", &source) < 0 ||
		json_get_time(r->json, r->where, "at", &one->at_ms) < 0 ||
		json_get_i64(r->json, r->where, "price_uusd", 1, PRICE_MAX,
			&one->price_uusd) < 0)
		return -1;
	/* an average holds what its sources say already */
	if (strcmp(source, "twap") == 0 || json_object_get(r->json, "used_s"))
		return err_set(EX_DATAERR, "%s: is an average, not a sample of a source",
			r->where);
	one->source = source_of(s, source, r->where);
	s->n++;
	return one->source < 0 ? -1 : 0;
}

/* Returns the source whose name is the k-th in order. */
static int nth_name(const struct samples *s, int k)
{
	for (int i = 0; i < s->nnames; i++) {
		int before = 0;

		for (int j = 0; j < s->nnames; j++)
			before += strcmp(s->names[j], s->names[i]) < 0;
		if (before == k)
			return i;
	}
	bug("names of sources are different");
}

static int write_price(const struct twap *t, const struct samples *s)
{
	json_t *record = json_record("rnp.price"), *used = json_object(),
	       *out = json_object();
	int rc;

	json_set_text(record, "source", "twap");
	json_set_time(record, "at", t->to_ms);
	json_set_time(record, "from", t->from_ms);
	json_set_time(record, "to", t->to_ms);
	json_set_i64(record, "price_uusd", t->price_uusd);
	/* in the order of their names, whatever the order of the input */
	for (int k = 0; k < s->nnames; k++) {
		int i = nth_name(s, k);

		json_set_i64(used, s->names[i], t->used_ms[i] / 1000);
		if (t->left_out_ms[i])
			json_set_i64(out, s->names[i], t->left_out_ms[i] / 1000);
	}
	json_set(record, "used_s", used);
	json_set(record, "left_out_s", out);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

static int run(int n, char **args)
{
	struct samples s = { .list = NULL };
	struct twap t;
	int rc = -1;

	memset(&t, 0, sizeof t);
	t.from_ms = opts.from_ms;
	t.to_ms = opts.to_ms;
	t.age_ms = opts.age_ms;
	t.outlier_ppm = opts.outlier_ppm;
	t.quorum = (int)opts.quorum;
	if (t.from_ms >= t.to_ms)
		err_set(EX_USAGE, "--to must be after --from");
	else if (records_each(args, n, JSON_RECORD_BYTES_MAX, take, &s) == 0 &&
		twap_compute(&t, s.list, s.n) == 0)
		rc = write_price(&t, &s);
	for (int i = 0; i < s.nnames; i++)
		free(s.names[i]);
	free(s.list);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_twap = {
	.name = "twap",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "The time-weighted average price of a token, from several sources.",
	.details =
		"Reads rnp.price records (source, at, price_uusd), writes one. A window with an\n"
		"instant without enough fresh sources that agree has no price (65).",
	.columns = "from,to,price_uusd",
	.opts = options,
	.run = run,
};
