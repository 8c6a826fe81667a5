/* twap.c - rnp-reward twap: the time-weighted average price of a token, from samples of several
 * sources. */
#include <ctype.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define TWAP_SOURCES_MAX 32
#define PRICE_MAX        INT64_C(1000000000000) /* a million dollars */

static struct {
	int64_t from_ms, to_ms, age_ms, outlier_ppm, quorum;
} opts = { -1, -1, 300000, 200000, 2 };

static const struct opt options[] = {
	OPT(TIME, "from", &opts.from_ms, "T",
		"start of the window: 2026-11-20T18:00:00Z, 2026-11-20, today, -7d",
		.required = true),
	OPT(TIME, "to", &opts.to_ms, "T", "its end, which is not part of it",
		.required = true),
	OPT_IN(DURATION, "age", &opts.age_ms, "TIME", 1, 86400000,
		"how long a sample holds (default 300s)"),
	OPT_IN(PPM, "outlier", &opts.outlier_ppm, "PPM", 0, 1000000,
		"left out when further from the median of sources (default 200000: 20%)"),
	OPT_IN(I64, "quorum", &opts.quorum, "N", 1, TWAP_SOURCES_MAX,
		"sources that must remain at every instant (default 2)"),
	{ .kind = OPT_END },
};

/* --- the average: pure, integers only ------------------------------------------------------- */

typedef unsigned __int128 u128;

struct twap_sample {
	int64_t at_ms;
	int64_t price_uusd; /* > 0 */
	int source;         /* below TWAP_SOURCES_MAX */
};

struct twap {
	int64_t from_ms, to_ms; /* the window, [from, to) */
	int64_t age_ms; /* a sample is valid until its source's next one, and at most this long */
	int64_t outlier_ppm; /* sources further than this from the median are ignored */
	int quorum;          /* sources that must remain at every instant */

	/* results of twap_compute */
	int64_t price_uusd;                    /* half to even */
	int64_t used_ms[TWAP_SOURCES_MAX];     /* how long each source counted */
	int64_t left_out_ms[TWAP_SOURCES_MAX]; /* how long it was an outlier */
	int64_t gap_ms; /* start of the first time without a quorum, or -1 */
};

static int by_time(const void *a, const void *b)
{
	const struct twap_sample *x = a, *y = b;

	if (x->at_ms != y->at_ms)
		return x->at_ms < y->at_ms ? -1 : 1;
	if (x->source != y->source)
		return x->source < y->source ? -1 : 1;
	return (x->price_uusd > y->price_uusd) - (x->price_uusd < y->price_uusd);
}

static int by_price(const void *a, const void *b)
{
	const struct twap_sample *x = *(const struct twap_sample *const *)a;
	const struct twap_sample *y = *(const struct twap_sample *const *)b;

	return (x->price_uusd > y->price_uusd) - (x->price_uusd < y->price_uusd);
}

struct sweep {
	struct twap *t;
	/* of each source; NULL: none yet */
	const struct twap_sample *last[TWAP_SOURCES_MAX];
	u128 sum; /* 2 x price x ms */
};

static bool is_near(const struct twap *t, int64_t price, int64_t middle)
{
	return (u128)llabs(price - middle) * 1000000 <=
		(u128)middle * (u128)t->outlier_ppm;
}

/* Accounts for [from, to), in which nothing changes. */
static int account(struct sweep *s, int64_t from, int64_t to)
{
	const struct twap_sample *fresh[TWAP_SOURCES_MAX], *kept[TWAP_SOURCES_MAX];
	struct twap *t = s->t;
	int n = 0, m = 0;
	int64_t low, high; /* the two in the middle, or twice the one */

	if (from >= to)
		return 0;
	for (int i = 0; i < TWAP_SOURCES_MAX; i++)
		if (s->last[i] && from - s->last[i]->at_ms < t->age_ms)
			fresh[n++] = s->last[i];
	if (n)
		qsort(fresh, (size_t)n, sizeof *fresh, by_price);
	low = n ? fresh[(n - 1) / 2]->price_uusd : 0;
	high = n ? fresh[n / 2]->price_uusd : 0;
	for (int i = 0; i < n; i++)
		/* near both: if two halves contradict each other, neither of them is right */
		if (is_near(t, fresh[i]->price_uusd, low) &&
			is_near(t, fresh[i]->price_uusd, high))
			kept[m++] = fresh[i];
		else
			t->left_out_ms[fresh[i]->source] += to - from;
	if (m < t->quorum) {
		char text[CLOCK_TEXT_MAX];

		t->gap_ms = from;
		clock_format(text, from);
		return err_set(EX_DATAERR,
			"at %s %d sources are fresh and agree, %d are needed: no price",
			text, m, t->quorum);
	}
	for (int i = 0; i < m; i++)
		t->used_ms[kept[i]->source] += to - from;
	s->sum += ((u128)kept[(m - 1) / 2]->price_uusd + (u128)kept[m / 2]->price_uusd) *
		(u128)(to - from);
	return 0;
}

/* Returns the next instant after now at which some sample becomes too old; INT64_MAX: none. */
static int64_t next_expiry(const struct sweep *s, int64_t now)
{
	int64_t first = INT64_MAX;

	for (int i = 0; i < TWAP_SOURCES_MAX; i++) {
		int64_t end = s->last[i] ? s->last[i]->at_ms + s->t->age_ms : 0;

		if (end > now && end < first)
			first = end;
	}
	return first;
}

/* Advances from now to `until`, stopping where samples become too old. */
static int advance(struct sweep *s, int64_t *now, int64_t until)
{
	while (*now < until) {
		int64_t stop = next_expiry(s, *now);

		stop = stop < until ? stop : until;
		if (account(s, *now, stop) < 0)
			return -1;
		*now = stop;
	}
	return 0;
}

/* Sorts samples by time. At each instant it takes the sources whose sample is not too old, of
 * these the ones within outlier_ppm of their median (of each of two middle ones: half of the
 * sources cannot outvote the other half), and of these the median again (of two middle ones the
 * mean). Of two samples of a source at one instant the higher counts. The average over the
 * window is the sum of price x time, divided once. Returns 0, or -1 with EX_DATAERR: at some
 * instant (gap_ms) fewer than quorum remain. */
static int twap_compute(struct twap *t, struct twap_sample *samples, size_t n)
{
	struct sweep s = { .t = t };
	int64_t now = t->from_ms;
	u128 length = 2 * (u128)(t->to_ms - t->from_ms), rest;

	memset(t->used_ms, 0, sizeof t->used_ms);
	memset(t->left_out_ms, 0, sizeof t->left_out_ms);
	t->gap_ms = -1;
	if (n)
		qsort(samples, n, sizeof *samples, by_time);
	for (size_t i = 0; i < n && samples[i].at_ms < t->to_ms; i++) {
		if (samples[i].at_ms > now && advance(&s, &now, samples[i].at_ms) < 0)
			return -1;
		s.last[samples[i].source] = &samples[i];
	}
	if (advance(&s, &now, t->to_ms) < 0)
		return -1;
	t->price_uusd = (int64_t)(s.sum / length);
	rest = s.sum % length;
	if (2 * rest > length || (2 * rest == length && t->price_uusd % 2))
		t->price_uusd++;
	return 0;
}

/* --- the command ---------------------------------------------------------------------------- */

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
		/* otherwise one source could vote twice */
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

static int add_record(void *ctx, const struct record *r)
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
	/* its sources would count twice */
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
	else if (records_each(args, n, JSON_RECORD_BYTES_MAX, add_record, &s) == 0 &&
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
