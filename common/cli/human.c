/* human.c - formats the values of records for people: the field's name says the unit, the size
 * of the number the prefix. */
#include "common/cli/human.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/utf8.h"
#include "common/json/json.h"

static bool ends_with(const char *text, const char *end)
{
	size_t n = strlen(text), m = strlen(end);

	return n >= m && strcmp(text + n - m, end) == 0;
}

/* Whether the field is "uusd", or ends in "_uusd". */
static bool unit_is(const char *key, const char *unit)
{
	size_t n = strlen(key), m = strlen(unit);

	return ends_with(key, unit) && (n == m || key[n - m - 1] == '_');
}

/* Formats three significant digits, without trailing zeros after the point. */
static void add_3_digits(struct buf *out, double v)
{
	char text[40];
	double size = fabs(v);

	snprintf(text, sizeof text,
		size < 9.995         ? "%.2f" :
			size < 99.95 ? "%.1f" :
				       "%.0f",
		v);
	if (strchr(text, '.')) {
		char *end = text + strlen(text);

		while (end[-1] == '0')
			*--end = '\0';
		if (end[-1] == '.')
			end[-1] = '\0';
	}
	buf_adds(out, text);
}

/* Whether a unit is a word, "tokens/s", and takes no prefix: "20.3 k tokens/s", but "20.3 kB/s". */
static bool is_word(const char *unit)
{
	size_t n = strcspn(unit, "/");

	return n > 2 && unit[n - 1] == 's';
}

void human_number(struct buf *out, double v, const char *unit)
{
	static const char *const prefixes[] = { "", "k", "M", "G", "T", "P", "E" };
	int i = 0;

	while (fabs(v) >= 999.5 && i < 6) {
		v /= 1000;
		i++;
	}
	if (v != 0 && fabs(v) < 0.01)
		buf_addf(out, "%.2g", v);
	else
		add_3_digits(out, v);
	if (i || *unit)
		buf_addf(out, " %s%s%s", prefixes[i], i && is_word(unit) ? " " : "",
			unit);
}

void human_bytes(struct buf *out, double bytes)
{
	static const char *const units[] = { "B", "KiB", "MiB", "GiB", "TiB", "PiB" };
	int i = 0;

	while (fabs(bytes) >= 1023.5 && i < 5) {
		bytes /= 1024;
		i++;
	}
	add_3_digits(out, bytes);
	buf_addf(out, " %s", units[i]);
}

/* Formats 7500 s as "2 h 5 min"; the smaller unit is omitted if it is 0. */
static void add_two_units(struct buf *out, int64_t n, int64_t each, const char *large,
	const char *small)
{
	buf_addf(out, "%" PRId64 " %s", n / each, large);
	if (n % each)
		buf_addf(out, " %" PRId64 " %s", n % each, small);
}

void human_duration(struct buf *out, double seconds)
{
	double size = fabs(seconds);

	if (seconds < 0)
		buf_addc(out, '-');
	if (size == 0) {
		buf_adds(out, "0 s");
	} else if (size < 99.5) {
		static const char *const units[] = { "s", "ms", "\302\265s", "ns" };
		int i = 0;

		while (size < 0.9995 && i < 3) {
			size *= 1000;
			i++;
		}
		add_3_digits(out, size);
		buf_addf(out, " %s", units[i]);
	} else if (size < 3600) {
		add_two_units(out, (int64_t)(size + 0.5), 60, "min", "s");
	} else if (size < 2 * 86400) {
		add_two_units(out, (int64_t)(size / 60 + 0.5), 60, "h", "min");
	} else if (size < 400.0 * 86400) {
		add_two_units(out, (int64_t)(size / 3600 + 0.5), 24, "d", "h");
	} else {
		add_3_digits(out, size / (365.25 * 86400));
		buf_adds(out, " years");
	}
}

/* Formats a whole number of the smallest unit, exactly; with at least two decimals, more only
 * if they are not zero. */
static void add_money(struct buf *out, int64_t v, int decimals)
{
	char text[40];
	uint64_t size = v < 0 ? -(uint64_t)v : (uint64_t)v, one = 1;
	int keep = decimals;

	for (int i = 0; i < decimals; i++)
		one *= 10;
	snprintf(text, sizeof text, "%0*" PRIu64, decimals, size % one);
	while (keep > 2 && text[keep - 1] == '0')
		keep--;
	buf_addf(out, "%" PRIu64 ".%.*s", size / one, keep, text);
}

void human_usd(struct buf *out, int64_t uusd)
{
	buf_adds(out, uusd < 0 ? "-$" : "$");
	add_money(out, uusd, 6);
}

static void add_time(struct buf *out, const char *text, int64_t now_ms)
{
	int64_t ms, away;

	if (clock_parse(text, "", &ms) < 0) {
		err_clear();
		buf_adds(out, text);
		return;
	}
	away = (now_ms - ms) / 1000;
	if (away > -7 * 86400 && away < 7 * 86400) {
		buf_adds(out, away < 0 ? "in " : "");
		human_duration(out, (double)llabs(away));
		buf_adds(out, away < 0 ? "" : " ago");
		return;
	}
	/* 2026-11-22T10:03:07Z: to the minute. */
	buf_addf(out, "%.10s %.5s UTC", text, strlen(text) > 16 ? text + 11 : "00:00");
}

static bool is_time(const char *key)
{
	static const char *const names[] = { "at", "from", "to", "until", "created",
		"expires", "start", "end", NULL };

	for (int i = 0; names[i]; i++)
		if (strcmp(key, names[i]) == 0)
			return true;
	return ends_with(key, "_at");
}

/* Digits in groups of three: 12,345,678. Years, ports, seeds and the like stay whole. */
static void add_integer(struct buf *out, const char *key, int64_t v)
{
	static const char *const names[] = { "seed", "port", "id", "epoch", "slot",
		"code", "index", NULL };
	char text[32];
	size_t n;

	snprintf(text, sizeof text, "%" PRId64, v);
	n = strlen(text);
	for (int i = 0; names[i]; i++)
		if (unit_is(key, names[i])) {
			buf_adds(out, text);
			return;
		}
	for (size_t i = 0; i < n; i++) {
		buf_addc(out, text[i]);
		if (i + 1 < n && (n - i - 1) % 3 == 0 && text[i] != '-')
			buf_addc(out, ',');
	}
}

#define TOKEN_MAX 16 /* characters of a token's name */

static char set_token[TOKEN_MAX + 1] = "tokens", token[TOKEN_MAX + 1] = "tokens";

void human_set_token(const char *name)
{
	snprintf(set_token, sizeof set_token, "%s", name ? name : "tokens");
	strcpy(token, set_token);
}

void human_use_token_of(const json_t *record)
{
	const char *own = json_string_value(json_object_get(record, "token"));
	/* strangers may have written it */
	size_t n = own ? strspn(own,
				 "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
				 "0123456789_.-") :
			 0;

	strcpy(token, n && n <= TOKEN_MAX && !own[n] ? own : set_token);
}

static void add_tokens(struct buf *out, int64_t base_units)
{
	add_money(out, base_units, 8);
	buf_addf(out, " %s", token);
}

/* Formats a number whose unit the field's name gives. */
static bool add_measure(struct buf *out, const char *key, double v)
{
	static const struct {
		const char *unit;
		double seconds;
	} durations[] = { { "ns", 1e-9 }, { "us", 1e-6 }, { "ms", 1e-3 }, { "s", 1 },
		{ "seconds", 1 }, { "days", 86400 }, { "hours", 3600 } };

	for (size_t i = 0; i < sizeof durations / sizeof *durations; i++)
		if (unit_is(key, durations[i].unit) && !ends_with(key, "_per_s")) {
			human_duration(out, v * durations[i].seconds);
			return true;
		}
	if (ends_with(key, "uusd") || strncmp(key, "uusd_per_", 9) == 0) {
		human_usd(out, llround(v));
		if (strcmp(key, "floor_uusd") == 0 || strcmp(key, "ask_uusd") == 0 ||
			strcmp(key, "price_uusd") == 0)
			buf_adds(out, " an hour");
	} else if (strcmp(key, "lr") == 0 || strcmp(key, "learning_rate") == 0) {
		buf_addf(out, "%.2e", v);
	} else if (strcmp(key, "changes_a_day_ppm") == 0) {
		add_3_digits(out, v / 1e6);
	} else if (unit_is(key, "micronats")) {
		buf_addf(out, "%.4f", v / 1e6);
	} else if (unit_is(key, "ppm")) {
		add_3_digits(out, v / 1e4);
		buf_adds(out, " %");
	} else if (unit_is(key, "base_units")) {
		buf_adds(out, v < 0 ? "-" : "");
		add_tokens(out, llabs(llround(v)));
	} else if (strcmp(key, "fewer_bytes") == 0) {
		human_number(out, v, "times");
	} else if (unit_is(key, "bytes") || strncmp(key, "bytes_", 6) == 0) {
		human_bytes(out, v);
	} else if (unit_is(key, "bps")) {
		human_number(out, v,
			strstr(key, "memory_bandwidth") || strstr(key, "read") ? "B/s" :
										 "bit/s");
	} else if (unit_is(key, "mhz")) {
		human_number(out, v * 1e6, "Hz");
	} else if (unit_is(key, "mw")) {
		human_number(out, v / 1e3, "W");
	} else if (unit_is(key, "flops")) {
		human_number(out, v, "FLOP/s");
	} else if (unit_is(key, "c")) {
		add_3_digits(out, v);
		buf_adds(out, " \302\260C");
	} else if (unit_is(key, "loss") || unit_is(key, "norm")) {
		buf_addf(out, "%.4f", v);
	} else if (ends_with(key, "_per_s")) {
		human_number(out, v,
			unit_is(key, "tokens_per_s")        ? "tokens/s" :
				unit_is(key, "flop_per_s")  ? "FLOP/s" :
				unit_is(key, "bytes_per_s") ? "B/s" :
							      "/s");
	} else {
		return false;
	}
	return true;
}

/* Formats a number in the unit that a record's field "unit" names. */
static void add_in_unit(struct buf *out, const char *unit, double v)
{
	if (strcmp(unit, "ns") == 0)
		human_duration(out, v * 1e-9);
	else if (strcmp(unit, "s") == 0)
		human_duration(out, v);
	else if (strcmp(unit, "B") == 0)
		human_bytes(out, v);
	else if (strcmp(unit, "ppm") == 0)
		add_measure(out, "ppm", v);
	else if (strcmp(unit, "1/s") == 0)
		human_number(out, v, "/s");
	else
		human_number(out, v, unit);
}

static bool in_unit(const char *key)
{
	static const char *const names[] = { "low", "high", "sum", "mean", "p50", "p90",
		"p99", NULL };

	for (int i = 0; names[i]; i++)
		if (strcmp(key, names[i]) == 0)
			return true;
	return ends_with(key, "median") || ends_with(key, "_low") ||
		ends_with(key, "_high");
}

static void add_text(struct buf *out, const char *text)
{
	size_t before = out->len;

	for (; *text; text++)
		buf_addc(out, (unsigned char)*text < 0x20 || *text == 0x7f ? ' ' : *text);
	if (out->len > before)
		utf8_clean_line(out->data + before);
}

static void add_list(struct buf *out, const char *key, const json_t *v, int64_t now_ms)
{
	bool numbers = json_array_size(v) > 0;
	json_t *item;
	size_t i;

	json_array_foreach((json_t *)v, i, item)
		numbers &= json_is_integer(item);
	json_array_foreach((json_t *)v, i, item) {
		buf_adds(out,
			!i                           ? "" :
				numbers              ? " x " :
				json_is_object(item) ? "; " :
						       ", ");
		if (numbers)
			buf_add_i64(out, json_integer_value(item));
		else
			human_value(out, key, item, NULL, now_ms);
	}
	if (!json_array_size(v))
		buf_adds(out, "none");
}

const char *human_key(const char *outer, const char *key)
{
	struct buf scratch = BUF_INIT;
	const char *unit;

	/* how long a coordinator waited, by what for */
	if (strcmp(outer, "waited") == 0)
		return "waited_ms";
	unit = add_measure(&scratch, key, 0) || !add_measure(&scratch, outer, 0) ? key :
										   outer;

	buf_release(&scratch);
	return unit;
}

/* Formats a whole number beyond 2^53, which records hold as a text. */
static bool add_big(struct buf *out, const char *key, const char *text)
{
	size_t digits = strspn(text, "0123456789");
	char *end;
	long long v;

	if (!unit_is(key, "base_units") || !digits || digits > 18 || text[digits])
		return false;
	v = strtoll(text, &end, 10);
	add_tokens(out, v);
	return true;
}

static void add_object(struct buf *out, const char *outer, const json_t *v,
	int64_t now_ms)
{
	const char *key;
	json_t *item;
	bool first = true;

	json_object_foreach((json_t *)v, key, item) {
		buf_adds(out, first ? "" : ", ");
		first = false;
		human_heading(out, key);
		buf_addc(out, ' ');
		human_value(out, human_key(outer, key), item, NULL, now_ms);
	}
	if (first)
		buf_adds(out, "none");
}

void human_value(struct buf *out, const char *key, const json_t *v, const char *unit,
	int64_t now_ms)
{
	switch (json_typeof(v)) {
	case JSON_OBJECT:
		add_object(out, key, v, now_ms);
		break;
	case JSON_ARRAY:
		add_list(out, key, v, now_ms);
		break;
	case JSON_STRING:
		if (is_time(key))
			add_time(out, json_string_value(v), now_ms);
		else if (!add_big(out, key, json_string_value(v)))
			add_text(out, json_string_value(v));
		break;
	case JSON_INTEGER:
	case JSON_REAL:
		if (unit &&
			(in_unit(key) ||
				(strcmp(key, "value") == 0 &&
					(strcmp(unit, "s") == 0 ||
						strcmp(unit, "B") == 0))))
			add_in_unit(out, unit, json_number_value(v));
		else if (add_measure(out, key, json_number_value(v)))
			break;
		else if (json_is_integer(v))
			add_integer(out, key, json_integer_value(v));
		else
			buf_addf(out, "%.5g", json_real_value(v));
		break;
	case JSON_TRUE:
	case JSON_FALSE:
		buf_adds(out, json_is_true(v) ? "yes" : "no");
		break;
	default:
		buf_adds(out, "-");
	}
}

void human_heading(struct buf *out, const char *path)
{
	static const char *const units[] = { "_base_units", "_uusd", "_bytes", "_ppm",
		"_bps", "_ns", "_us", "_ms", "_mhz", "_mw", "_flops", "_micronats", "_s",
		NULL };
	const char *last = strrchr(path, '.');
	size_t n;

	last = last ? last + 1 : path;
	if (strcmp(last, "fewer_bytes") == 0) {
		buf_adds(out, "fewer bytes");
		return;
	}
	if (strncmp(path, "gpus.", 5) == 0 && last > path + 5)
		buf_adds(out, "gpu ");
	if (strncmp(last, "uusd_per_", 9) == 0) {
		buf_adds(out, "$/");
		last += 9;
	}
	n = strlen(last);
	for (int i = 0; units[i]; i++)
		if (ends_with(last, units[i]) && n > strlen(units[i]) &&
			!ends_with(last, "_per_s")) {
			n -= strlen(units[i]);
			break;
		}
	for (size_t i = 0; i < n; i++)
		buf_addc(out, last[i] == '_' ? ' ' : last[i]);
}
