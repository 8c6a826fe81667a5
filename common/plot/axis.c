/* axis.c - chooses the ends and ticks of an axis, linear, logarithmic or of times, and
 * writes values with units. */
#include "common/plot/axis.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define VALUE_MAX 1e300
#define MINUTE    60
#define HOUR      3600
#define DAY       86400
/* only for choosing the distance; ticks stand on the first of a month */
#define MONTH (30 * DAY)
#define YEAR  (365 * DAY)

bool axis_takes(enum plot_scale scale, double v)
{
	return isfinite(v) && fabs(v) <= VALUE_MAX &&
		(scale != PLOT_LOG || v > 1 / VALUE_MAX);
}

/* --- numbers as text ----------------------------------------------------------------------- */

/* Returns the power of ten whose prefix v is written with: 3 for k, -9 for n; 0 where there is
 * no such prefix. */
static int thousand_of(double v)
{
	int power = v == 0 ? 0 : (int)floor(log10(fabs(v)) / 3 + 1e-9) * 3;

	return power < -15 || power > 18 ? 0 : power;
}

/* writes "1.5e-07" as "1.5e-7" */
static void shorten_exponent(char *text)
{
	char *e = strchr(text, 'e'), *digits;

	if (!e)
		return;
	digits = e + 2;
	while (digits[0] == '0' && digits[1])
		memmove(digits, digits + 1, strlen(digits));
	if (e[1] == '+')
		memmove(e + 1, e + 2, strlen(e + 1));
}

/* Writes v with the given number of decimals in units of 10^power, then prefix and unit. */
static void write_in(char out[AXIS_TEXT_MAX], double v, int power, int decimals,
	const char *unit)
{
	static const char prefixes[] = "fpnum kMGTPE";
	char letter[2] = { power ? prefixes[power / 3 + 5] : '\0', '\0' };
	const char *prefix = power == -6 ? "\xc2\xb5" : letter;
	char number[24];

	snprintf(number, sizeof number, "%.*f", decimals, v / pow(10, power));
	snprintf(out, AXIS_TEXT_MAX, "%s%s%s%.16s", number, unit ? " " : "", prefix,
		unit ? unit : "");
}

/* Whether thousands and prefixes are used: always with a unit; without one "250" and "0.02"
 * read better. */
static bool plain(double v, const char *unit)
{
	return !unit && (v == 0 || (fabs(v) < 9999.5 && fabs(v) > 0.00099));
}

/* Counts the digits before the point, at least 1. */
static int digits_before(double v)
{
	return fabs(v) < 1 ? 1 : (int)floor(log10(fabs(v)) + 1e-9) + 1;
}

static void write_plain(char out[AXIS_TEXT_MAX], double v, const char *unit, int digits)
{
	char number[24];

	snprintf(number, sizeof number, "%.*g", digits, v);
	shorten_exponent(number);
	snprintf(out, AXIS_TEXT_MAX, "%s%s%.16s", number, unit ? " " : "",
		unit ? unit : "");
}

static void significant(char out[AXIS_TEXT_MAX], double v, const char *unit, int digits)
{
	int power = thousand_of(v), before = digits_before(v / pow(10, power));

	/* "10", "250": no exponent where none is needed */
	if (plain(v, unit))
		write_plain(out, v, unit,
			digits > digits_before(v) ? digits : digits_before(v));
	else if ((!unit && power < 0) ||
		(power == 0 && v != 0 && (fabs(v) >= 1e4 || fabs(v) < 1e-3)))
		write_plain(out, v, unit, digits);
	else
		write_in(out, v, power, v != 0 && digits > before ? digits - before : 0,
			unit);
}

void axis_text(char out[AXIS_TEXT_MAX], double v, const char *unit)
{
	if (axis_takes(PLOT_LINEAR, v))
		significant(out, v, unit, 3);
	else
		snprintf(out, AXIS_TEXT_MAX, "no data");
}

/* --- linear -------------------------------------------------------------------------------- */

static void add_tick(struct axis *a, double v, const char *text)
{
	if (a->n == AXIS_TICKS_MAX)
		return;
	a->ticks[a->n].value = v;
	snprintf(a->ticks[a->n].text, AXIS_TEXT_MAX, "%s", text);
	a->n++;
}

/* Returns the least 1, 2 or 5 times a power of ten that is not below x. */
static double nice(double x)
{
	double ten = pow(10, floor(log10(x))), rest = x / ten;

	return ten * (rest <= 1.0001 ? 1 : rest <= 2.0001 ? 2 : rest <= 5.0001 ? 5 : 10);
}

static void linear(struct axis *a, const struct plot_axis *want, bool fixed, int wanted)
{
	double step, biggest;
	int power, decimals;

	/* equal, or too near for f64 to tell them apart */
	if (a->max - a->min < fmax(1e-12 * fabs(a->max), 1e-280)) {
		double more = fabs(a->max) < 1e-270 ? 1 : fabs(a->max) * 0.1;

		a->min -= more;
		a->max += more;
	}
	step = nice((a->max - a->min) / wanted);
	if (!fixed) {
		a->min = floor(a->min / step + 1e-9) * step;
		a->max = ceil(a->max / step - 1e-9) * step;
	}
	biggest = fmax(fabs(a->min), fabs(a->max));
	power = plain(biggest, want->unit) || (!want->unit && biggest < 1) ?
		0 :
		thousand_of(biggest);
	decimals = (int)ceil(power - log10(step) - 1e-9);
	for (double i = ceil(a->min / step - 1e-9); i * step <= a->max + step * 1e-9;
		i++) {
		char text[AXIS_TEXT_MAX];

		if (decimals > 6 || biggest / pow(10, power) >= 1e4)
			significant(text, i * step, want->unit, 4);
		else
			write_in(text, i == 0 ? 0 : i * step, power,
				decimals > 0 ? decimals : 0, want->unit);
		add_tick(a, i * step, text);
	}
}

/* --- logarithmic --------------------------------------------------------------------------- */

static void log_tick(struct axis *a, const struct plot_axis *want, double v)
{
	char text[AXIS_TEXT_MAX];

	if (v < a->min * (1 - 1e-9) || v > a->max * (1 + 1e-9))
		return;
	significant(text, v, want->unit, 1);
	add_tick(a, v, text);
}

static void logarithmic(struct axis *a, const struct plot_axis *want, bool fixed,
	int wanted)
{
	static const double parts[] = { 1, 2, 5 };
	double low, high;
	int every;

	if (a->max < a->min * 1.001) {
		a->min /= 2;
		a->max *= 2;
	}
	if (!fixed) {
		double ten = pow(10, floor(log10(a->min)));

		a->min = ten * (a->min >= 5 * ten ? 5 : a->min >= 2 * ten ? 2 : 1);
		a->max = nice(a->max);
	}
	low = floor(log10(a->min) + 1e-9);
	high = ceil(log10(a->max) - 1e-9);
	every = (int)ceil((high - low) / wanted);
	for (double d = low; d <= high; d += every > 1 ? every : 1)
		for (int i = 0; i < (2 * (high - low) <= wanted ? 3 : 1); i++)
			log_tick(a, want, parts[i] * pow(10, d));
}

/* --- time ---------------------------------------------------------------------------------- */

static const char *time_format(int64_t step_s)
{
	if (step_s < MINUTE)
		return "%H:%M:%S";
	if (step_s < DAY)
		return "%m-%d %H:%M";
	return step_s < MONTH ? "%Y-%m-%d" : step_s < YEAR ? "%Y-%m" : "%Y";
}

static void time_tick(struct axis *a, int64_t at_s, int64_t step_s)
{
	char text[AXIS_TEXT_MAX] = "";
	time_t t = (time_t)at_s;
	struct tm tm;

	if ((double)at_s * 1e3 < a->min || (double)at_s * 1e3 > a->max)
		return;
	if (gmtime_r(&t, &tm))
		strftime(text, sizeof text, time_format(step_s), &tm);
	add_tick(a, (double)at_s * 1e3, text);
}

/* Puts a tick on the first of every n-th month, where step_s is about n months. */
static void month_ticks(struct axis *a, int64_t from_s, int64_t to_s, int64_t step_s)
{
	int months = (int)(step_s / YEAR * 12 + step_s % YEAR / MONTH);
	time_t t = (time_t)from_s;
	struct tm tm;

	if (!gmtime_r(&t, &tm))
		return;
	tm.tm_mon = tm.tm_mon / (months > 12 ? 12 : months) * (months > 12 ? 12 : months);
	if (months > 12)
		tm.tm_year = tm.tm_year / (months / 12) * (months / 12);
	for (t = 0; t <= to_s && a->n < AXIS_TICKS_MAX; tm.tm_mon += months) {
		tm.tm_mday = 1;
		tm.tm_hour = tm.tm_min = tm.tm_sec = 0;
		t = timegm(&tm);
		time_tick(a, (int64_t)t, step_s);
	}
}

static void calendar(struct axis *a, int wanted)
{
	static const int64_t steps[] = { 1, 2, 5, 10, 15, 30, MINUTE, 2 * MINUTE,
		5 * MINUTE, 10 * MINUTE, 15 * MINUTE, 30 * MINUTE, HOUR, 2 * HOUR,
		3 * HOUR, 6 * HOUR, 12 * HOUR, DAY, 2 * DAY, 5 * DAY, 10 * DAY, MONTH,
		2 * MONTH, 3 * MONTH, 6 * MONTH, YEAR, 2 * YEAR, 5 * (int64_t)YEAR,
		10 * (int64_t)YEAR, 50 * (int64_t)YEAR, 200 * (int64_t)YEAR,
		1000 * (int64_t)YEAR };
	size_t i = 0;
	int64_t from, to;

	/* limits of time_t and of a year of four digits */
	a->min = fmin(fmax(a->min, -6e13), 2.5e14);
	a->max = fmin(fmax(a->max, -6e13), 2.5e14);
	if (a->max - a->min < 1) {
		a->min -= 1000;
		a->max = a->min + 2000;
	}
	from = (int64_t)floor(a->min / 1e3);
	to = (int64_t)ceil(a->max / 1e3);
	while (i + 1 < sizeof steps / sizeof *steps && (to - from) / steps[i] > wanted)
		i++;
	if (steps[i] >= MONTH) {
		month_ticks(a, from, to, steps[i]);
		return;
	}
	for (int64_t t = from - from % steps[i] - steps[i]; t <= to; t += steps[i])
		time_tick(a, t, steps[i]);
}

/* --- all three ----------------------------------------------------------------------------- */

void axis_make(struct axis *a, const struct plot_axis *want, double low, double high,
	int wanted)
{
	bool fixed = want->min < want->max && axis_takes(want->scale, want->min) &&
		axis_takes(want->scale, want->max);

	memset(a, 0, sizeof *a);
	a->scale = want->scale;
	if (fixed) {
		low = want->min;
		high = want->max;
	} else if (low > high) {
		low = want->scale == PLOT_LOG ? 1 : 0;
		high = want->scale == PLOT_LOG ? 10 : 1;
	} else if (want->zero && want->scale == PLOT_LINEAR) {
		low = fmin(low, 0);
		high = fmax(high, 0);
	}
	a->min = low;
	a->max = high;
	if (want->scale == PLOT_LOG)
		logarithmic(a, want, fixed, wanted);
	else if (want->scale == PLOT_TIME)
		calendar(a, wanted);
	else
		linear(a, want, fixed, wanted);
}

double axis_place(const struct axis *a, double v)
{
	if (a->scale == PLOT_LOG)
		return log(v / a->min) / log(a->max / a->min);
	return (v - a->min) / (a->max - a->min);
}
