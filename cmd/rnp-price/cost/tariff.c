/* tariff.c - reads tariffs: see tariff.h for the three forms. Each is turned into a week of
 * hourly prices, so that computations need to know neither zones nor files. */
#include "cmd/rnp-price/cost/tariff.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cmd/rnp-price/text/keys.h"
#include "common/base/amount.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define HOUR_MS        INT64_C(3600000)
#define KWH_UUSD_MAX   (INT64_C(1000000000) * 1000000)
#define DAY_AHEAD_MAX  (INT64_C(1000) * 1000000) /* 1,000 $/kWh, positive or negative */
#define RATES_MAX      64
#define LINE_BYTES_MAX 200

/* --- hours and days of a zone --------------------------------------------------------------- */

struct rate {
	unsigned days;  /* bit 0: Sunday */
	uint32_t hours; /* bit 0: the hour from 00:00 */
	int64_t uusd;
};

static const char *const day_names[7] = { "sun", "mon", "tue", "wed", "thu", "fri",
	"sat" };

static int day_of(const char *text)
{
	for (int i = 0; i < 7; i++)
		if (strncmp(text, day_names[i], 3) == 0)
			return i;
	return -1;
}

/* "mon-fri", "sat,sun", "fri-mon" */
static int read_days(const char *text, const char *what, unsigned *days)
{
	const char *p = text;

	*days = 0;
	for (;;) {
		int from = day_of(p), to = from;

		if (from >= 0)
			p += 3;
		if (from >= 0 && *p == '-') {
			to = day_of(p + 1);
			p += 4;
		}
		if (from < 0 || to < 0 || (*p && *p != ','))
			return err_set(EX_DATAERR,
				"%s: '%.40s' is not like \"mon-fri\" or \"sat,sun\"",
				what, text);
		for (int d = from;; d = (d + 1) % 7) {
			*days |= 1u << d;
			if (d == to)
				break;
		}
		if (!*p++)
			return 0;
	}
}

/* "06-22", "22-06": from the first hour up to the second */
static int read_hours(const char *text, const char *what, uint32_t *hours)
{
	int from, to, end = 0;

	if (strlen(text) != 5 || sscanf(text, "%2d-%2d%n", &from, &to, &end) != 2 ||
		end != 5 || from < 0 || from > 23 || to < 0 || to > 24 || from == to)
		return err_set(EX_DATAERR, "%s: '%.40s' is not like \"06-22\"", what,
			text);
	*hours = 0;
	for (int h = from; h != to % 24; h = (h + 1) % 24) {
		*hours |= UINT32_C(1) << h;
		if (h == 23 && to == 24)
			break;
	}
	return 0;
}

/* Reads a price of a file that a person wrote. */
static int read_price(const json_t *v, const char *what, const struct amount_rate *worth,
	int64_t max_uusd, int64_t *uusd)
{
	return keys_amount_of(v, what, &amount_per_kwh, worth, max_uusd, uusd);
}

static int read_rate(struct rate *r, const json_t *v, const char *where,
	const struct amount_rate *worth)
{
	static const char *const names[] = { "days", "hours", "per_kwh", NULL };
	const char *days = NULL, *hours = NULL;
	char what[400];

	r->days = 0x7f;
	r->hours = 0xffffff;
	if (!json_is_object(v))
		return err_set(EX_DATAERR, "%s: not an object", where);
	if (keys_check(v, where, names) < 0 ||
		json_opt_text(v, where, "days", &days) < 0 ||
		json_opt_text(v, where, "hours", &hours) < 0)
		return -1;
	snprintf(what, sizeof what, "%.300s: days", where);
	if (days && read_days(days, what, &r->days) < 0)
		return -1;
	snprintf(what, sizeof what, "%.300s: hours", where);
	if (hours && read_hours(hours, what, &r->hours) < 0)
		return -1;
	snprintf(what, sizeof what, "%.300s: per_kwh", where);
	return read_price(json_object_get(v, "per_kwh"), what, worth, KWH_UUSD_MAX,
		&r->uusd);
}

static bool zone_there(const char *zone)
{
	const char *dir = getenv("TZDIR");
	char path[300];

	if (!*zone || strlen(zone) > 64 || strstr(zone, "..") || *zone == '/')
		return false;
	for (const char *p = zone; *p; p++)
		if (!isalnum((unsigned char)*p) && !strchr("/_+-", *p))
			return false;
	snprintf(path, sizeof path, "%.200s/%s", dir ? dir : "/usr/share/zoneinfo", zone);
	return access(path, R_OK) == 0;
}

/* Computes weekday and hour in a zone at each half hour. Only one thread at a time: TZ belongs
 * to the process. */
static void local_times(const char *zone, int64_t from_s, struct tm *out, int n)
{
	char *old = getenv("TZ") ? xstrdup(getenv("TZ")) : NULL, text[80];

	snprintf(text, sizeof text, ":%s", zone);
	setenv("TZ", text, 1);
	tzset();
	for (int i = 0; i < n; i++) {
		time_t t = (time_t)(from_s + i * 1800);

		localtime_r(&t, &out[i]);
	}
	if (old)
		setenv("TZ", old, 1);
	else
		unsetenv("TZ");
	tzset();
	free(old);
}

static int64_t rate_at(const struct rate *rates, size_t n, int64_t otherwise,
	const struct tm *tm)
{
	for (size_t i = 0; i < n; i++)
		if ((rates[i].days >> tm->tm_wday & 1) &&
			(rates[i].hours >> tm->tm_hour & 1))
			return rates[i].uusd;
	return otherwise;
}

static int check_whole_week(const struct rate *rates, size_t n, const char *where)
{
	for (int d = 0; d < 7; d++)
		for (int h = 0; h < 24; h++) {
			struct tm tm = { .tm_wday = d, .tm_hour = h };

			if (rate_at(rates, n, -1, &tm) < 0)
				return err_set(EX_DATAERR,
					"%s: no rate for %s at %02d:00, and no "
					"'otherwise'",
					where, day_names[d], h);
		}
	return 0;
}

static int read_zone(int64_t *uusd, const json_t *v, const char *where,
	const struct amount_rate *worth, int64_t from_ms)
{
	static const char *const names[] = { "zone", "rates", "otherwise", NULL };
	struct rate rates[RATES_MAX];
	struct tm times[2 * TARIFF_HOURS];
	const char *zone = "UTC";
	int64_t otherwise = -1;
	json_t *list;
	size_t n;
	char what[400];

	if (keys_check(v, where, names) < 0 ||
		json_opt_text(v, where, "zone", &zone) < 0 ||
		json_get_array(v, where, "rates", &list) < 0)
		return -1;
	if (!zone_there(zone))
		return err_set(EX_DATAERR,
			"%s: zone: there is no time zone '%.64s' on this machine", where,
			zone);
	n = json_array_size(list);
	if (n > RATES_MAX)
		return err_set(EX_DATAERR, "%s: rates: more than %d", where, RATES_MAX);
	for (size_t i = 0; i < n; i++) {
		snprintf(what, sizeof what, "%.300s: rates[%zu]", where, i);
		if (read_rate(&rates[i], json_array_get(list, i), what, worth) < 0)
			return -1;
	}
	snprintf(what, sizeof what, "%.300s: otherwise", where);
	if (json_object_get(v, "otherwise") ?
			read_price(json_object_get(v, "otherwise"), what, worth,
				KWH_UUSD_MAX, &otherwise) < 0 :
			check_whole_week(rates, n, where) < 0)
		return -1;
	local_times(zone, from_ms / HOUR_MS * 3600, times, 2 * TARIFF_HOURS);
	for (int h = 0; h < TARIFF_HOURS; h++) {
		int64_t a = rate_at(rates, n, otherwise, &times[2 * h]);
		int64_t b = rate_at(rates, n, otherwise, &times[2 * h + 1]);

		uusd[h] = a > b ? a : b;
	}
	return 0;
}

/* --- a day-ahead file ------------------------------------------------------------------------ */

/* What a day-ahead file says of its prices. */
struct day_ahead {
	int64_t add;
	const struct amount_rate *worth;
	char unit[40];   /* of prices that have none: that of the heading; "": USD/kWh */
	int64_t largest; /* the price that is furthest from 0, and where it stands */
	char where[200];
};

/* Takes the unit from a heading such as "time,price (EUR/MWh)" or "start;EUR/MWh". */
static void read_heading(struct day_ahead *d, char *line)
{
	char *save = NULL;

	for (char *word = strtok_r(line, ",; \t\r()[]", &save); word;
		word = strtok_r(NULL, ",; \t\r()[]", &save))
		if (strlen(word) < sizeof d->unit &&
			amount_is_unit(word, &amount_spot_kwh))
			memcpy(d->unit, word, strlen(word) + 1);
}

/* Parses one line's hour and price, which is all that follows. */
static int read_line(struct day_ahead *d, char *line, const char *where, int64_t *at_ms,
	int64_t *uusd)
{
	char *rest = line + strcspn(line, ",;\t");
	size_t n;

	if (!*rest)
		return err_set(EX_DATAERR, "%s: not \"TIME,PRICE\"", where);
	*rest++ = '\0';
	rest += strspn(rest, " ");
	for (n = strlen(rest); n && strchr(" \r", rest[n - 1]); n--)
		rest[n - 1] = '\0';
	if (clock_parse(line, where, at_ms) < 0 ||
		amount_read(rest, where, &amount_spot_kwh, d->unit, d->worth, uusd) < 0)
		return -1;
	if (*uusd > DAY_AHEAD_MAX || *uusd < -DAY_AHEAD_MAX)
		return err_set(EX_DATAERR, "%s: %.20s is out of range", where, rest);
	if (llabs(*uusd) > llabs(d->largest)) {
		d->largest = *uusd;
		snprintf(d->where, sizeof d->where, "%s", where);
	}
	return 0;
}

/* In a quarter-hourly market, an hour costs the mean of the prices it has, rounded up. */
static int read_file(int64_t *uusd, char *path, int64_t from_ms, struct day_ahead *d)
{
	int64_t sum[TARIFF_HOURS] = { 0 }, last = INT64_MIN, at, price;
	int count[TARIFF_HOURS] = { 0 }, rc;
	struct lines in;
	char *line;
	size_t len;

	lines_open(&in, &path, 1, LINE_BYTES_MAX);
	while ((rc = lines_next(&in, &line, &len)) > 0) {
		const char *where = lines_where(&in);
		int64_t hour;

		if (last == INT64_MIN && strncmp(line, "\xef\xbb\xbf", 3) == 0)
			line += 3;
		if (last == INT64_MIN && !isdigit((unsigned char)*line)) {
			read_heading(d, line);
			continue;
		}
		rc = read_line(d, line, where, &at, &price);
		if (rc == 0 && at <= last)
			rc = err_set(EX_DATAERR, "%s: not later than the line before",
				where);
		if (rc < 0)
			break;
		last = at;
		hour = at / HOUR_MS - from_ms / HOUR_MS;
		if (hour < 0 || hour >= TARIFF_HOURS)
			continue;
		sum[hour] += price;
		count[hour]++;
	}
	lines_close(&in);
	for (int h = 0; rc == 0 && h < TARIFF_HOURS; h++) {
		int64_t n = count[h], s = sum[h];

		if (n)
			uusd[h] = (s >= 0 ? (s + n - 1) / n : -(-s / n)) + d->add;
	}
	return rc < 0 ? -1 : amount_doubt(d->largest, d->where, &amount_spot_kwh);
}

static int read_day_ahead(int64_t *uusd, const json_t *v, const char *where,
	const char *base_path, const struct amount_rate *worth, int64_t from_ms)
{
	static const char *const names[] = { "day_ahead", "add", "otherwise", NULL };
	const char *file, *slash = base_path ? strrchr(base_path, '/') : NULL;
	struct day_ahead d = { .worth = worth };
	struct buf path = BUF_INIT;
	int64_t otherwise;
	char what[400], *text;
	int rc;

	if (keys_check(v, where, names) < 0 ||
		json_get_text(v, where, "day_ahead", &file) < 0)
		return -1;
	snprintf(what, sizeof what, "%.300s: add", where);
	if (json_object_get(v, "add") &&
		read_price(json_object_get(v, "add"), what, worth, KWH_UUSD_MAX / 2,
			&d.add) < 0)
		return -1;
	if (!json_object_get(v, "otherwise"))
		return err_set(EX_DATAERR,
			"%s: field 'otherwise' is missing: the price of hours that the "
			"file lacks",
			where);
	snprintf(what, sizeof what, "%.300s: otherwise", where);
	if (read_price(json_object_get(v, "otherwise"), what, worth, KWH_UUSD_MAX,
		    &otherwise) < 0)
		return -1;
	for (int h = 0; h < TARIFF_HOURS; h++)
		uusd[h] = otherwise;
	if (*file != '/' && slash)
		buf_add(&path, base_path, (size_t)(slash + 1 - base_path));
	buf_adds(&path, file);
	text = buf_take(&path);
	rc = read_file(uusd, text, from_ms, &d);
	free(text);
	return rc;
}

/* --- all ------------------------------------------------------------------------------------ */

static int read_array(int64_t *uusd, const json_t *v, const char *where,
	const struct amount_rate *worth, int64_t from_ms)
{
	int64_t day[24];
	char what[400];

	if (json_array_size(v) != 24)
		return err_set(EX_DATAERR, "%s: %zu prices, not 24", where,
			json_array_size(v));
	for (size_t h = 0; h < 24; h++) {
		snprintf(what, sizeof what, "%.300s[%zu]", where, h);
		if (read_price(json_array_get(v, h), what, worth, KWH_UUSD_MAX, &day[h]) <
			0)
			return -1;
	}
	for (int h = 0; h < TARIFF_HOURS; h++)
		uusd[h] = day[(from_ms / HOUR_MS + h) % 24];
	return 0;
}

int tariff_read(int64_t uusd[TARIFF_HOURS], const json_t *v, const char *where,
	const char *base_path, const struct amount_rate *rates, int64_t from_ms)
{
	char what[300];

	snprintf(what, sizeof what, "%.280s: tariff", where);
	if (json_is_array(v))
		return read_array(uusd, v, what, rates, from_ms);
	if (!json_is_object(v))
		return err_set(EX_DATAERR, "%s: neither an array nor an object", what);
	if (json_object_get(v, "day_ahead"))
		return read_day_ahead(uusd, v, what, base_path, rates, from_ms);
	return read_zone(uusd, v, what, rates, from_ms);
}
