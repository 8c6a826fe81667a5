/* metrics_text.c - reads Prometheus' text format line by line; the lines of a histogram are
 * collected until the next one begins. */
#include "common/registry/metrics_text.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/utf8.h"
#include "common/json/json.h"

/* The buckets, sum and count of one set of labels. */
struct histogram {
	json_t *labels; /* NULL: there is none */
	double upto[METRICS_BUCKETS_MAX], below[METRICS_BUCKETS_MAX];
	int n;
	double sum, count;
	bool counted;
};

struct metrics {
	const char *where;
	long line;
	char *name, *help, *type; /* of the family */
	struct histogram h;
	metrics_fn fn;
	void *ctx;
};

static int refuse(const struct metrics *m, const char *what)
{
	return err_set(EX_DATAERR, "%s: line %ld: %s", m->where, m->line, what);
}

/* --- writing ------------------------------------------------------------------------------- */

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), k = strlen(end);

	return n >= k && strcmp(text + n - k, end) == 0;
}

/* By Prometheus' convention a name ends in its base unit, before "_total". */
static const char *unit_of(const char *name)
{
	if (ends_with(name, "_seconds") || ends_with(name, "_seconds_total"))
		return "s";
	if (ends_with(name, "_bytes") || ends_with(name, "_bytes_total"))
		return "B";
	return NULL;
}

static void set_number(json_t *record, const char *key, double v)
{
	if (!isfinite(v))
		return;
	if (v == floor(v) && fabs(v) <= (double)JSON_SAFE_INTEGER_MAX)
		json_set_i64(record, key, (int64_t)v);
	else
		json_set_f64(record, key, v);
}

static json_t *new_record(const struct metrics *m, const char *name, json_t *takes_labels)
{
	json_t *record = json_record("rnp.metric");

	json_set_text(record, "name", name);
	json_set_text(record, "type", m->type ? m->type : "untyped");
	json_set_text(record, "unit", unit_of(name));
	if (json_object_size(takes_labels))
		json_set(record, "labels", takes_labels);
	else
		json_decref(takes_labels);
	return record;
}

static int write_record(const struct metrics *m, json_t *takes_record)
{
	int rc;

	json_set_text(takes_record, "help", m->help);
	rc = m->fn(m->ctx, takes_record);
	json_decref(takes_record);
	return rc;
}

/* Returns the value below which a part q of what was counted lies, as Prometheus'
 * histogram_quantile does: linear within a bucket, and the last finite bound beyond it. */
static double quantile(const struct histogram *h, double q)
{
	double rank = q * h->below[h->n - 1], from = 0, before = 0;

	for (int i = 0; i < h->n; i++) {
		if (h->below[i] >= rank && h->below[i] > before)
			return isinf(h->upto[i]) ? from :
						   from +
					(h->upto[i] - from) * (rank - before) /
						(h->below[i] - before);
		if (!isinf(h->upto[i]))
			from = h->upto[i];
		before = h->below[i];
	}
	return from;
}

static int end_histogram(struct metrics *m)
{
	struct histogram *h = &m->h;
	json_t *record;

	if (!h->labels)
		return 0;
	record = new_record(m, m->name, h->labels);
	h->labels = NULL;
	set_number(record, "count", h->count);
	set_number(record, "sum", h->sum);
	if (h->count > 0) {
		set_number(record, "mean", h->sum / h->count);
		if (h->n && h->below[h->n - 1] > 0) {
			set_number(record, "p50", quantile(h, 0.5));
			set_number(record, "p99", quantile(h, 0.99));
		}
	}
	return write_record(m, record);
}

/* --- reading ------------------------------------------------------------------------------- */

static size_t name_length(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || s[n] == '_' || s[n] == ':')
		n++;
	return isdigit((unsigned char)*s) ? 0 : n;
}

/* Reads `VALUE"` with its escapes \\, \" and \n; *at is after the opening quote, then after the
 * closing one. */
static int read_quoted(const struct metrics *m, const char **at, struct buf *out)
{
	const char *s = *at;

	for (; *s != '"'; s++) {
		if (*s == '\\') {
			s++;
			if (*s != '\\' && *s != '"' && *s != 'n')
				return refuse(m, "unknown escape in a label");
			buf_addc(out, *s == 'n' ? '\n' : *s);
		} else if (!*s) {
			return refuse(m, "a label's value does not end");
		} else {
			buf_addc(out, *s);
		}
	}
	*at = s + 1;
	return 0;
}

/* Reads `name="value",...}` after the brace into labels. */
static int read_labels(const struct metrics *m, const char **at, json_t *labels)
{
	struct buf value = BUF_INIT;
	const char *s = *at;
	int rc = 0;

	while (rc == 0 && *s != '}') {
		size_t n = name_length(s);
		char *name;

		if (!n || s[n] != '=' || s[n + 1] != '"') {
			rc = refuse(m, "not a label");
			break;
		}
		name = xstrndup(s, n);
		s += n + 2;
		buf_reset(&value);
		rc = read_quoted(m, &s, &value);
		if (rc == 0 && json_object_get(labels, name))
			rc = refuse(m, "a label is there twice");
		if (rc == 0 && json_object_size(labels) == METRICS_LABELS_MAX)
			rc = refuse(m, "too many labels");
		if (rc == 0)
			json_set_text(labels, name, buf_text(&value));
		free(name);
		if (rc == 0 && *s != ',' && *s != '}')
			rc = refuse(m, "not a label");
		s += rc == 0 && *s == ',';
	}
	buf_release(&value);
	*at = s + (rc == 0);
	return rc;
}

static int read_value(const struct metrics *m, const char *text, double *out)
{
	if (strcmp(text, "+Inf") == 0 || strcmp(text, "Inf") == 0)
		*out = INFINITY;
	else if (strcmp(text, "-Inf") == 0)
		*out = -INFINITY;
	else if (strcmp(text, "NaN") == 0)
		*out = NAN;
	else if (num_f64(text, "value", out) < 0)
		return refuse(m, "the value is not a number");
	return 0;
}

/* Takes a line of a histogram: suffix is "_bucket", "_sum" or "_count". labels is borrowed. */
static int add_to_histogram(struct metrics *m, const char *suffix, json_t *labels,
	double value)
{
	struct histogram *h = &m->h;
	const char *le = json_string_value(json_object_get(labels, "le"));
	double upto = 0;

	if (le && read_value(m, le, &upto) < 0)
		return -1;
	if (!le && strcmp(suffix, "_bucket") == 0)
		return refuse(m, "a bucket without le");
	if (le)
		json_object_del(labels, "le");
	if (h->labels && !json_equal(h->labels, labels) && end_histogram(m) < 0)
		return -1;
	if (!h->labels)
		*h = (struct histogram){ .labels = json_incref(labels) };
	if (strcmp(suffix, "_sum") == 0) {
		h->sum = value;
	} else if (strcmp(suffix, "_count") == 0) {
		h->count = value;
		h->counted = true;
	} else {
		if (h->n == METRICS_BUCKETS_MAX)
			return refuse(m, "too many buckets");
		if (!(value >= 0) || isinf(value) || isnan(upto) ||
			(h->n &&
				(upto <= h->upto[h->n - 1] ||
					value < h->below[h->n - 1])))
			return refuse(m, "buckets do not ascend");
		h->upto[h->n] = upto;
		h->below[h->n++] = value;
		if (!h->counted)
			h->count = value;
	}
	return 0;
}

static void forget_family(struct metrics *m)
{
	free(m->name);
	free(m->help);
	free(m->type);
	m->name = m->help = m->type = NULL;
}

/* Returns what follows the family's name in the name of a sample, "" or "_sum"; NULL if the sample
 * is of no family. */
static const char *suffix_of(const struct metrics *m, const char *name)
{
	static const char *const suffixes[] = { "", "_bucket", "_sum", "_count" };
	size_t n = m->name ? strlen(m->name) : 0;

	if (!m->name || strncmp(name, m->name, n) != 0)
		return NULL;
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
		if (strcmp(name + n, suffixes[i]) == 0)
			return suffixes[i];
	return NULL;
}

static int add_sample(struct metrics *m, const char *name, json_t *takes_labels,
	double value)
{
	const char *suffix = suffix_of(m, name);
	json_t *record;
	int rc;

	if (suffix && *suffix && m->type && strcmp(m->type, "histogram") == 0) {
		rc = add_to_histogram(m, suffix, takes_labels, value);
		json_decref(takes_labels);
		return rc;
	}
	if (end_histogram(m) < 0) {
		json_decref(takes_labels);
		return -1;
	}
	if (!suffix)
		forget_family(m);
	record = new_record(m, name, takes_labels);
	set_number(record, "value", value);
	return write_record(m, record);
}

/* `name{labels} value [time]` */
static int read_sample(struct metrics *m, const char *s)
{
	size_t n = name_length(s), digits;
	json_t *labels = json_object();
	char *name = NULL, *number = NULL;
	double value = 0;
	int rc = -1;

	if (!n) {
		refuse(m, "not a sample");
		goto out;
	}
	name = xstrndup(s, n);
	s += n;
	if (*s == '{') {
		s++;
		if (read_labels(m, &s, labels) < 0)
			goto out;
	}
	s += strspn(s, " \t");
	digits = strcspn(s, " \t");
	number = xstrndup(s, digits);
	if (read_value(m, number, &value) < 0)
		goto out;
	s += digits;
	s += strspn(s, " \t");
	if (s[strspn(s, "-0123456789")]) {
		refuse(m, "something stands behind the value");
		goto out;
	}
	rc = add_sample(m, name, labels, value);
	labels = NULL;
out:
	json_decref(labels);
	free(name);
	free(number);
	return rc;
}

/* "# HELP name text" and "# TYPE name type"; other comments mean nothing. */
static int read_comment(struct metrics *m, const char *s)
{
	bool help = strncmp(s, "# HELP ", 7) == 0, type = strncmp(s, "# TYPE ", 7) == 0;
	size_t n = help || type ? name_length(s + 7) : 0;

	if (!n)
		return 0;
	s += 7;
	if (!m->name || strlen(m->name) != n || strncmp(s, m->name, n) != 0) {
		if (end_histogram(m) < 0)
			return -1;
		forget_family(m);
		m->name = xstrndup(s, n);
	}
	s += n + (s[n] == ' ');
	if (help && !m->help)
		m->help = xstrdup(s);
	if (type && !m->type)
		m->type = xstrdup(s);
	return 0;
}

static int read_line(struct metrics *m, const char *s)
{
	s += strspn(s, " \t");
	return !*s ? 0 : *s == '#' ? read_comment(m, s) : read_sample(m, s);
}

int metrics_parse(const char *text, size_t len, const char *where, metrics_fn fn,
	void *ctx)
{
	struct metrics m = { .where = where, .fn = fn, .ctx = ctx };
	struct buf line = BUF_INIT;
	int rc = 0;

	if (memchr(text, '\0', len) || !utf8_valid(text, len))
		return err_set(EX_DATAERR, "%s: metrics are not UTF-8 text", where);
	for (const char *end = text + len; rc == 0 && text < end;) {
		const char *newline = memchr(text, '\n', (size_t)(end - text));
		size_t n = (size_t)((newline ? newline : end) - text);

		m.line++;
		buf_reset(&line);
		buf_add(&line, text, n);
		rc = read_line(&m, buf_text(&line));
		text += n + (newline != NULL);
	}
	if (rc == 0)
		rc = end_histogram(&m);
	json_decref(m.h.labels);
	forget_family(&m);
	buf_release(&line);
	return rc;
}
