/* clock.c - reads the clocks, and converts times to and from RFC 3339. */
#include "common/base/clock.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/err.h"

#define DAY_MS  INT64_C(86400000)
#define LAST_MS INT64_C(253402300799999) /* 9999-12-31T23:59:59.999Z */

int64_t clock_now_ms(void)
{
	const char *fixed = getenv("RNP_NOW");
	struct timespec t;
	int64_t ms;

	if (fixed && clock_parse(fixed, "RNP_NOW", &ms) == 0)
		return ms;
	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int clock_check_env(void)
{
	const char *fixed = getenv("RNP_NOW");
	int64_t ms;

	if (!fixed || clock_parse(fixed, "RNP_NOW", &ms) == 0)
		return 0;
	return err_set(EX_USAGE, "RNP_NOW: '%.40s' is not an RFC 3339 time", fixed);
}

int64_t clock_mono_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

int64_t clock_thread_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

void clock_after(struct timespec *out, clockid_t clock, int64_t ns)
{
	clock_gettime(clock, out);
	ns += out->tv_nsec;
	out->tv_sec += ns / 1000000000;
	out->tv_nsec = ns % 1000000000;
}

/* Days since 1970-01-01 of a proleptic Gregorian date; the year is taken to start in March, so
 * that the leap day is its last. */
static int64_t days_from_civil(int year, int month, int day)
{
	int y = year - (month <= 2);
	int era = y / 400, of_era = y % 400;
	int of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;

	return (int64_t)era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 +
		of_year - 719468;
}

static void civil_from_days(int64_t days, int *year, int *month, int *day)
{
	int64_t z = days + 719468;
	int era = (int)(z / 146097), of_era = (int)(z % 146097);
	int y = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
	int of_year = of_era - (365 * y + y / 4 - y / 100);
	int m = (5 * of_year + 2) / 153;

	*day = of_year - (153 * m + 2) / 5 + 1;
	*month = m < 10 ? m + 3 : m - 9;
	*year = y + era * 400 + (*month <= 2);
}

/* Writes n digits of v and what stands behind them; returns its end. Not snprintf(): a record has a
 * handful of times, and there are millions of records. */
static char *put(char *to, int n, int v, char behind)
{
	for (int i = n; i-- > 0; v /= 10)
		to[i] = (char)('0' + v % 10);
	to[n] = behind;
	return to + n + 1;
}

void clock_format(char out[CLOCK_TEXT_MAX], int64_t ms)
{
	int year, month, day, of_day;
	int64_t days;

	if (ms < 0 || ms > LAST_MS)
		ms = ms < 0 ? 0 : LAST_MS;
	days = ms / 86400000;
	of_day = (int)(ms % 86400000);
	civil_from_days(days, &year, &month, &day);
	out = put(out, 4, year, '-');
	out = put(out, 2, month, '-');
	out = put(out, 2, day, 'T');
	out = put(out, 2, of_day / 3600000, ':');
	out = put(out, 2, of_day / 60000 % 60, ':');
	out = put(out, 2, of_day / 1000 % 60, of_day % 1000 ? '.' : 'Z');
	if (of_day % 1000)
		out = put(out, 3, of_day % 1000, 'Z');
	*out = '\0';
}

static bool digits(const char **s, int n, int *out)
{
	*out = 0;
	for (; n; n--, (*s)++) {
		if (**s < '0' || **s > '9')
			return false;
		*out = *out * 10 + (**s - '0');
	}
	return true;
}

static bool one_of(const char **s, const char *set, char *got)
{
	while (*set && *set != **s)
		set++;
	if (!*set)
		return false;
	*got = *(*s)++;
	return true;
}

static int days_in(int year, int month)
{
	static const int days[] = { 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31 };
	bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;

	return days[month - 1] + (month == 2 && leap);
}

static bool parse(const char *s, int64_t *ms)
{
	int year, month, day, hour, minute, second, fraction = 0, oh = 0, om = 0;
	char c, sign;
	int64_t t;

	if (!digits(&s, 4, &year) || !one_of(&s, "-", &c) || !digits(&s, 2, &month) ||
		!one_of(&s, "-", &c) || !digits(&s, 2, &day) || !one_of(&s, "Tt ", &c) ||
		!digits(&s, 2, &hour) || !one_of(&s, ":", &c) ||
		!digits(&s, 2, &minute) || !one_of(&s, ":", &c) ||
		!digits(&s, 2, &second))
		return false;
	if (*s == '.') {
		int place = 100;

		s++;
		if (*s < '0' || *s > '9')
			return false;
		for (; *s >= '0' && *s <= '9'; s++, place /= 10)
			fraction += (*s - '0') * place;
	}
	if (!one_of(&s, "Zz+-", &sign))
		return false;
	if ((sign == '+' || sign == '-') &&
		(!digits(&s, 2, &oh) || !one_of(&s, ":", &c) || !digits(&s, 2, &om)))
		return false;
	if (*s || year < 1970 || month < 1 || month > 12 || day < 1 ||
		day > days_in(year, month) || hour > 23 || minute > 59 || second > 60 ||
		oh > 23 || om > 59)
		return false;
	if (second == 60) {
		second = 59;
		fraction = 999;
	}
	t = days_from_civil(year, month, day) * 86400000 + hour * INT64_C(3600000) +
		minute * 60000 + second * 1000 + fraction;
	t += (sign == '-' ? 1 : -1) * (oh * INT64_C(3600000) + om * 60000);
	/* an offset may lead out of the years that clock_format can write */
	if (t < 0 || t > LAST_MS)
		return false;
	*ms = t;
	return true;
}

int clock_parse(const char *text, const char *what, int64_t *ms)
{
	if (strlen(text) > 64 || !parse(text, ms))
		return err_set(EX_DATAERR, "%s: '%.40s' is not an RFC 3339 time", what,
			text);
	return 0;
}

/* "-7d", "+90m": a whole number of a unit. */
static bool parse_away(const char *text, int64_t *ms)
{
	static const struct {
		char letter;
		int64_t ms;
	} units[] = { { 's', 1000 }, { 'm', 60000 }, { 'h', 3600000 }, { 'd', DAY_MS },
		{ 'w', 7 * DAY_MS } };
	const char *s = text + 1;
	int64_t n = 0, now = clock_now_ms();

	if (*s < '0' || *s > '9')
		return false;
	for (; *s >= '0' && *s <= '9'; s++) {
		n = n * 10 + (*s - '0');
		if (n > 10000000)
			return false;
	}
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		if (*s != units[i].letter || s[1])
			continue;
		*ms = now + (*text == '-' ? -n : n) * units[i].ms;
		return *ms >= 0 && *ms <= LAST_MS;
	}
	return false;
}

int clock_parse_people(const char *text, const char *what, int64_t *ms)
{
	static const struct {
		const char *name;
		int days;
	} names[] = { { "today", 0 }, { "yesterday", -1 }, { "tomorrow", 1 } };
	int64_t today = clock_now_ms() / DAY_MS * DAY_MS;
	size_t n = strlen(text);
	char full[32];

	if (strcmp(text, "now") == 0) {
		*ms = clock_now_ms();
		return 0;
	}
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(text, names[i].name) == 0) {
			*ms = today + names[i].days * DAY_MS;
			return 0;
		}
	if ((*text == '-' || *text == '+') && parse_away(text, ms))
		return 0;
	/* a day, or a minute of one */
	if (n == 10 || n == 16) {
		snprintf(full, sizeof full, "%s%s", text,
			n == 10 ? "T00:00:00Z" : ":00Z");
		if (parse(full, ms))
			return 0;
	}
	if (n <= 64 && parse(text, ms))
		return 0;
	return err_set(EX_DATAERR,
		"%s: '%.40s' is no time such as 2026-11-20T18:00:00Z, 2026-11-20, today "
		"or -7d",
		what, text);
}
