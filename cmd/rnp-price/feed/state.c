/* state.c - stores earlier results of a feed: the last good offers, and medians over time. */
#include "cmd/rnp-price/feed/state.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/lines.h"
#include "common/json/json.h"

#define WRITE_BYTES ((size_t)64 << 10)

void feed_state_release(struct feed_state *s)
{
	json_decref(s->doc);
	s->doc = NULL;
}

int feed_state_load(struct feed_state *s, const char *path, const char *market)
{
	struct lines in;
	const char *of = NULL;
	char *files[] = { (char *)path }, *line;
	size_t len;
	int rc;

	s->doc = NULL;
	s->path = path;
	lines_open(&in, files, 1, FEED_STATE_BYTES_MAX);
	rc = lines_next(&in, &line, &len);
	if (rc < 0 && err_get()->code == EX_NOINPUT) {
		err_clear();
		rc = 0;
		goto out;
	}
	if (rc == 0)
		err_set(EX_DATAERR, "%s: the state is empty", path);
	if (rc > 0)
		s->doc = json_parse_object(line, len, path);
	rc = -1;
	if (!s->doc || json_get_text(s->doc, path, "market", &of) < 0)
		goto out;
	if (strcmp(of, market) != 0) {
		err_set(EX_DATAERR, "%s: the state of market '%s', not of '%s'", path, of,
			market);
		goto out;
	}
	rc = 0;
out:
	if (rc < 0)
		feed_state_release(s);
	lines_close(&in);
	return rc;
}

/* A file of an earlier version has the offers themselves in its only line. */
static int64_t offers_stored(const struct feed_state *s)
{
	const json_t *offers = json_object_get(s->doc, "offers");

	return json_is_array(offers) ? (int64_t)json_array_size(offers) :
				       json_integer_value(offers);
}

int64_t feed_state_at(const struct feed_state *s)
{
	int64_t at = OFFER_UNKNOWN;
	struct err pending;

	if (offers_stored(s) == 0)
		return OFFER_UNKNOWN;
	err_save(&pending); /* this check must not disturb the error that led to it */
	(void)json_opt_time(s->doc, "state", "at", &at);
	err_restore(&pending);
	return at;
}

bool feed_state_own_time(const struct feed_state *s)
{
	return json_is_true(json_object_get(s->doc, "own_time"));
}

const char *feed_state_etag(const struct feed_state *s)
{
	return json_string_value(json_object_get(s->doc, "etag"));
}

static int offers_inside(const json_t *offers, struct offer_list *l)
{
	char where[64];

	for (size_t i = 0; i < json_array_size(offers); i++) {
		snprintf(where, sizeof where, "state: offers[%zu]", i);
		if (offer_list_add_json(l, json_array_get(offers, i), where) < 0)
			return -1;
	}
	return 0;
}

int feed_state_offers(const struct feed_state *s, struct offer_list *l)
{
	const json_t *inside = json_object_get(s->doc, "offers");
	struct lines in;
	char *files[] = { (char *)s->path }, *line;
	size_t len, before = l->n;
	int rc;

	if (json_is_array(inside))
		return offers_inside(inside, l);
	lines_open(&in, files, 1, FEED_STATE_BYTES_MAX);
	rc = lines_next(&in, &line, &len); /* the first is s->doc */
	while (rc > 0 && (rc = lines_next(&in, &line, &len)) > 0)
		rc = offer_list_add_line(l, line, len, lines_where(&in)) < 0 ? -1 : 1;
	lines_close(&in);
	if (rc == 0 && (int64_t)(l->n - before) != offers_stored(s))
		return err_set(EX_DATAERR, "%s: the state has %zu offers of %lld",
			s->path, l->n - before, (long long)offers_stored(s));
	return rc;
}

/* --- medians ------------------------------------------------------------------------------ */

static int by_value(const void *a, const void *b)
{
	int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;

	return (x > y) - (x < y);
}

/* lower median; v is sorted in place */
static int64_t median(int64_t *v, size_t n)
{
	qsort(v, n, sizeof *v, by_value);
	return v[(n - 1) / 2];
}

static int by_model(const void *a, const void *b)
{
	const struct offer *x = *(const struct offer *const *)a;
	const struct offer *y = *(const struct offer *const *)b;
	int c = strcmp(x->model, y->model);

	return c ? c : x->spot - y->spot;
}

/* {"RTX 4090":350000,"RTX 4090 spot":200000,...,"":300000} of the models with enough offers, and of
 * all together: many markets have one price a model. */
static json_t *medians_of(const struct offer_list *l)
{
	json_t *out = json_object();
	const struct offer **sorted = xmalloc((l->n + 1) * sizeof *sorted);
	int64_t *prices = xmalloc((l->n + 1) * sizeof *prices);
	char key[300];

	for (size_t i = 0; i < l->n; i++)
		sorted[i] = &l->items[i];
	qsort(sorted, l->n, sizeof *sorted, by_model);
	for (size_t i = 0, n; i < l->n; i += n) {
		for (n = 0; i + n < l->n && by_model(&sorted[i], &sorted[i + n]) == 0;
			n++)
			prices[n] = sorted[i + n]->uusd_per_gpu_hour;
		snprintf(key, sizeof key, "%s%s", sorted[i]->model,
			sorted[i]->spot ? " spot" : "");
		if (n >= FEED_OFFERS_MIN)
			json_set_i64(out, key, median(prices, n));
	}
	for (size_t i = 0; i < l->n; i++)
		prices[i] = l->items[i].uusd_per_gpu_hour;
	if (l->n >= FEED_OFFERS_MIN)
		json_set_i64(out, "", median(prices, l->n));
	free(prices);
	free(sorted);
	return out;
}

void feed_state_accept(struct feed_state *s, const char *market, const struct feed *f,
	const char *etag)
{
	json_t *history, *entry = json_object();

	if (!s->doc)
		s->doc = json_record("rnp.feed-state");
	json_set_text(s->doc, "market", market);
	json_set_time(s->doc, "at", f->at_ms);
	json_set_bool(s->doc, "own_time", f->own_time);
	json_object_del(s->doc, "etag");
	if (etag && *etag)
		json_set_text(s->doc, "etag", etag);
	history = json_object_get(s->doc, "history");
	if (!json_is_array(history)) {
		history = json_array();
		json_set(s->doc, "history", history);
	}
	json_set_time(entry, "at", f->at_ms);
	json_set_i64(entry, "offers", (int64_t)f->offers.n);
	json_set(entry, "medians", medians_of(&f->offers));
	json_push(history, entry);
	while (json_array_size(history) > FEED_HISTORY_MAX)
		json_array_remove(history, 0);
	json_set_i64(s->doc, "offers", (int64_t)f->offers.n);
}

void feed_state_confirm(struct feed_state *s, int64_t at_ms)
{
	if (!feed_state_own_time(s))
		json_set_time(s->doc, "at", at_ms);
}

int feed_state_save(const struct feed_state *s, const char *path,
	const struct offer_list *offers)
{
	struct io_part part = { 0 };
	struct buf text = BUF_INIT;
	int rc = io_part_open(&part, path, 0644);

	json_set_i64(s->doc, "offers", (int64_t)offers->n);
	json_write(&text, s->doc);
	buf_addc(&text, '\n');
	for (size_t i = 0; rc == 0 && i < offers->n; i++) {
		offer_write(&text, &offers->items[i]);
		buf_addc(&text, '\n');
		if (text.len >= WRITE_BYTES) {
			rc = io_part_write(&part, text.data, text.len);
			buf_reset(&text);
		}
	}
	if (rc == 0)
		rc = io_part_write(&part, text.data, text.len);
	if (rc == 0)
		rc = io_part_close(&part);
	io_part_drop(&part);
	buf_release(&text);
	return rc;
}

/* --- outliers ----------------------------------------------------------------------------- */

/* Returns the median of one figure over the history; 0: the history lacks it. */
static int64_t usual(const json_t *history, const char *object, const char *key)
{
	int64_t v[FEED_HISTORY_MAX];
	size_t n = 0, i;
	json_t *entry;

	json_array_foreach(history, i, entry) {
		const json_t *in = object ? json_object_get(entry, object) : entry;
		const json_t *x = json_object_get(in, key);

		if (json_is_integer(x) && n < FEED_HISTORY_MAX)
			v[n++] = json_integer_value(x);
	}
	return n ? median(v, n) : 0;
}

int feed_check(const struct feed_state *s, const struct offer_list *l, int64_t factor)
{
	const json_t *history = json_object_get(s->doc, "history");
	int64_t offers = usual(history, NULL, "offers");
	json_t *now = medians_of(l), *v;
	const char *key;
	int rc = 0;

	if ((int64_t)l->n * 10 < offers)
		rc = err_set(EX_DATAERR, "an outlier: %zu offers, usually %lld", l->n,
			(long long)offers);
	json_object_foreach(now, key, v) {
		int64_t was = usual(history, "medians", key), is = json_integer_value(v);

		if (rc < 0 || was <= 0)
			continue;
		if ((__int128)is > (__int128)was * factor || (__int128)is * factor < was)
			rc = err_set(EX_DATAERR,
				"an outlier: the median of %.100s is %lld uusd, "
				"usually %lld: more than %lld times as %s",
				*key ? key : "all models", (long long)is, (long long)was,
				(long long)factor, is > was ? "much" : "little");
	}
	json_decref(now);
	return rc;
}
