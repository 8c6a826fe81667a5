/* num.c - reads integers, decimals, sizes and durations from text, strictly. */
#include "common/base/num.h"

#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

static int not_a_number(const char *text, const char *what, const char *wanted)
{
	if (strlen(text) > 80)
		return err_set(EX_DATAERR, "%s: '%.60s...' is not %s", what, text,
			wanted);
	return err_set(EX_DATAERR, "%s: '%s' is not %s", what, text, wanted);
}

static bool starts_as_number(const char *text)
{
	return isdigit((unsigned char)text[text[0] == '-']);
}

int num_i64(const char *text, const char *what, int64_t min, int64_t max, int64_t *out)
{
	char *end;
	long long v;

	if (!starts_as_number(text))
		return not_a_number(text, what, "a whole number");
	errno = 0;
	v = strtoll(text, &end, 10);
	if (*end)
		return not_a_number(text, what, "a whole number");
	if (errno || v < min || v > max)
		return err_set(EX_DATAERR, "%s: %.60s is not between %lld and %lld", what,
			text, (long long)min, (long long)max);
	*out = v;
	return 0;
}

int num_u64(const char *text, const char *what, uint64_t *out)
{
	char *end;
	unsigned long long v;

	if (!isdigit((unsigned char)text[0]))
		return not_a_number(text, what, "a whole number");
	errno = 0;
	v = strtoull(text, &end, 10);
	if (*end)
		return not_a_number(text, what, "a whole number");
	if (errno)
		return err_set(EX_DATAERR, "%s: %.60s is too large", what, text);
	*out = v;
	return 0;
}

int num_f64(const char *text, const char *what, double *out)
{
	char *end;
	double v;

	if (!starts_as_number(text) || strpbrk(text, "xX"))
		return not_a_number(text, what, "a number");
	v = strtod(text, &end);
	if (*end)
		return not_a_number(text, what, "a number");
	if (!isfinite(v))
		return err_set(EX_DATAERR, "%s: %.60s is too large", what, text);
	*out = v;
	return 0;
}

/* The digits of a decimal and the position of its point; at most 64 digits, the rest only sets
 * sticky. */
struct decimal {
	bool negative;
	char digits[64];
	int n;       /* digits stored, without leading zeros */
	long scale;  /* value = 0.d1d2d3... x 10^scale */
	bool sticky; /* not all dropped digits were zero */
};

static int decimal_parse(const char *s, struct decimal *d)
{
	bool seen = false, point = false;
	long exponent = 0;

	memset(d, 0, sizeof *d);
	if (*s == '-') {
		d->negative = true;
		s++;
	}
	for (; isdigit((unsigned char)*s) || (*s == '.' && !point); s++) {
		if (*s == '.') {
			/* "1." and ".5" are not JSON either */
			if (!seen || !isdigit((unsigned char)s[1]))
				return -1;
			point = true;
			continue;
		}
		seen = true;
		if (d->n == 0 && *s == '0') {
			d->scale -= point;
			continue;
		}
		d->scale += !point;
		if (d->n < (int)sizeof d->digits)
			d->digits[d->n++] = *s;
		else
			d->sticky |= *s != '0';
	}
	if (!seen)
		return -1;
	if (*s == 'e' || *s == 'E') {
		char *end;

		s++;
		if (!isdigit((unsigned char)s[*s == '-' || *s == '+']))
			return -1;
		exponent = strtol(s, &end, 10);
		s = end;
		if (exponent > 1000000 || exponent < -1000000)
			exponent = exponent > 0 ? 1000000 : -1000000;
	}
	d->scale += exponent;
	return *s ? -1 : 0;
}

int num_decimal(const char *text, const char *what, int decimals, int round, int64_t *out)
{
	struct decimal d;
	long whole; /* digits left of the last place that is kept */
	unsigned __int128 v = 0;
	const unsigned __int128 limit = (unsigned __int128)INT64_MAX;

	if (decimal_parse(text, &d) < 0)
		return not_a_number(text, what, "a decimal number");
	whole = d.n ? d.scale + decimals : 0;
	if (whole > 19)
		return err_set(EX_DATAERR, "%s: %.60s is too large", what, text);
	for (long i = 0; i < whole; i++)
		v = v * 10 + (unsigned)(i < d.n ? d.digits[i] - '0' : 0);
	if (whole < d.n) {
		long at = whole < 0 ? 0 : whole;
		bool rest = d.sticky;
		int next = whole < 0 ? 0 : d.digits[at] - '0';

		for (long i = whole < 0 ? 0 : at + 1; i < d.n; i++)
			rest |= d.digits[i] != '0';
		if (!round && (next || rest))
			return err_set(EX_DATAERR, "%s: %.60s has more than %d decimals",
				what, text, decimals);
		if (next > 5 || (next == 5 && (rest || (v & 1))))
			v++;
	}
	if (v > limit)
		return err_set(EX_DATAERR, "%s: %.60s is too large", what, text);
	*out = d.negative ? -(int64_t)v : (int64_t)v;
	return 0;
}

struct unit {
	const char *name;
	int64_t factor;
};

/* A number and its unit; the number may have decimals when its product with the unit is whole. */
static int with_unit(const char *text, const char *what, const char *wanted,
	const struct unit *units, int64_t *out)
{
	size_t n = strspn(text, "0123456789.");
	char number[32];
	int64_t scaled;
	__int128 product;

	if (!n || n >= sizeof number)
		return not_a_number(text, what, wanted);
	memcpy(number, text, n);
	number[n] = '\0';
	for (; units->name; units++)
		if (strcmp(units->name, text + n) == 0)
			break;
	if (!units->name)
		return not_a_number(text, what, wanted);
	if (!strchr(number, '.')) {
		if (num_i64(number, what, 0, INT64_MAX, &scaled) < 0)
			return -1;
		product = (__int128)scaled * units->factor;
	} else {
		if (num_decimal(number, what, 9, 0, &scaled) < 0)
			return -1;
		product = (__int128)scaled * units->factor;
		if (product % 1000000000)
			return err_set(EX_DATAERR,
				"%s: '%s' is not a whole number of its smallest unit",
				what, text);
		product /= 1000000000;
	}
	if (product > INT64_MAX)
		return err_set(EX_DATAERR, "%s: '%s' is too large", what, text);
	*out = (int64_t)product;
	return 0;
}

int num_size(const char *text, const char *what, int64_t *bytes)
{
	static const struct unit units[] = {
		{ "", 1 },
		{ "B", 1 },
		{ "KB", 1000 },
		{ "MB", 1000000 },
		{ "GB", 1000000000 },
		{ "TB", 1000000000000 },
		{ "PB", 1000000000000000 },
		{ "KiB", (int64_t)1 << 10 },
		{ "MiB", (int64_t)1 << 20 },
		{ "GiB", (int64_t)1 << 30 },
		{ "TiB", (int64_t)1 << 40 },
		{ "PiB", (int64_t)1 << 50 },
		{ 0 },
	};

	return with_unit(text, what, "a size such as 64MiB", units, bytes);
}

int num_duration_ms(const char *text, const char *what, int64_t *ms)
{
	static const struct unit units[] = {
		{ "", 1000 },
		{ "ms", 1 },
		{ "s", 1000 },
		{ "m", 60000 },
		{ "h", 3600000 },
		{ "d", 86400000 },
		{ "w", 604800000 },
		{ 0 },
	};

	return with_unit(text, what, "a duration such as 250ms or 5m", units, ms);
}
