/* amount.c - reads amounts with units, and doubts those that nobody can mean. */
#include "common/base/amount.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/money.h"
#include "common/base/num.h"

#define PLACES 9 /* decimals that a number may have */
#define UUSD   INT64_C(1000000)
#define LIST(...)                              \
	(const struct amount_unit[])           \
	{                                      \
		__VA_ARGS__, { .name = NULL }, \
	}
/* hours of a month, as Akash and most clouds count them: 30.42 days */
#define MONTH_H 730
#define KWH                                                                    \
	{ "kWh", 1, 1 }, { "KWh", 1, 1 }, { "kwh", 1, 1 }, { "MWh", 1, 1000 }, \
	{                                                                      \
		"Wh", 1000, 1                                                  \
	}
#define HOURS                                                                  \
	{ "h", 1, 1 }, { "hour", 1, 1 }, { "hr", 1, 1 }, { "day", 1, 24 },     \
		{ "d", 1, 24 }, { "month", 1, MONTH_H }, { "mo", 1, MONTH_H }, \
	{                                                                      \
		"year", 1, 12 * MONTH_H                                        \
	}
#define DOLLARS_AS_MICRO          \
	{ "dollars", UUSD, 1 },   \
	{                         \
		"cents", 10000, 1 \
	}

const struct amount_kind amount_usd = {
	.example = "1599.00 USD",
	.money = true,
	.unit = " USD",
	.decimals = MONEY_USD_DECIMALS,
};
const struct amount_kind amount_render = {
	.example = "75000",
	.units = LIST({ "RENDER", 100000000, 1 }, { "TOKENS", 100000000, 1 }),
	.unit = " RENDER",
	.decimals = MONEY_RENDER_DECIMALS,
};
const struct amount_kind amount_per_kwh = {
	.example = "0.15 USD/kWh",
	.units = LIST(KWH),
	.money = true,
	.unit = " USD/kWh",
	.decimals = MONEY_USD_DECIMALS,
	.least = UUSD / 100,
	.most = 2 * UUSD,
	.slips = LIST({ "cents", 1, 100 }, { "per MWh", 1, 1000 }, DOLLARS_AS_MICRO,
		{ "per MWh", 1000, 1 }),
};
const struct amount_kind amount_spot_kwh = {
	.example = "0.0853 USD/kWh",
	.units = LIST(KWH),
	.money = true,
	.rounds = true,
	.unit = " USD/kWh",
	.decimals = MONEY_USD_DECIMALS,
	.most = 2 * UUSD,
	.slips = LIST({ "cents", 1, 100 }, { "per MWh", 1, 1000 }),
};
const struct amount_kind amount_hardware = {
	.example = "1599.00 USD",
	.money = true,
	.unit = " USD",
	.decimals = MONEY_USD_DECIMALS,
	.least = 50 * UUSD,
	.most = 1000000 * UUSD,
	.slips = LIST(DOLLARS_AS_MICRO, { "cents", 1, 100 }, { "uusd", 1, UUSD }),
};
const struct amount_kind amount_per_hour = {
	.example = "0.02 USD/h",
	.units = LIST(HOURS),
	.money = true,
	.unit = " USD/h",
	.decimals = MONEY_USD_DECIMALS,
	.least = UUSD / 2000,
	.most = 5 * UUSD,
	.slips = LIST({ "a month", 1, MONTH_H }, { "a day", 1, 24 }, DOLLARS_AS_MICRO),
};
const struct amount_kind amount_per_month = {
	.example = "1.60 USD",
	.units = LIST({ "month", 1, 1 }, { "mo", 1, 1 }, { "h", MONTH_H, 1 },
		{ "hour", MONTH_H, 1 }, { "day", MONTH_H, 24 }, { "year", 1, 12 }),
	.money = true,
	.unit = " USD a month",
	.decimals = MONEY_USD_DECIMALS,
	.least = UUSD / 1000,
	.most = 20000 * UUSD,
	.slips = LIST(DOLLARS_AS_MICRO, { "uusd", 1, UUSD }),
};
const struct amount_kind amount_watts = {
	.example = "450 W",
	.units = LIST({ "W", 1, 1 }, { "kW", 1000, 1 }, { "mW", 1, 1000 },
		{ "watts", 1, 1 }, { "watt", 1, 1 }),
	.unit = " W",
	.least = 5,
	.most = 30000,
	.slips = LIST({ "mW", 1, 1000 }, { "kW", 1000, 1 }),
};
const struct amount_kind amount_days = {
	.example = "1460 days",
	.units = LIST({ "days", 1, 1 }, { "day", 1, 1 }, { "d", 1, 1 },
		{ "years", 365, 1 }, { "year", 365, 1 }, { "y", 365, 1 },
		{ "months", 365, 12 }, { "month", 365, 12 }, { "weeks", 7, 1 }),
	.unit = " days",
	.least = 90,
	.most = 5480,
	.slips = LIST({ "years", 365, 1 }, { "months", 365, 12 }, { "hours", 1, 24 }),
};
const struct amount_kind amount_ppm = {
	.example = "5%",
	.units = LIST({ "ppm", 1, 1 }, { "%", 10000, 1 }, { "percent", 10000, 1 }),
	.unit = "%",
	.decimals = 4,
	.least = 101,
	.most = 10 * 1000000,
	.slips = LIST({ "percent", 10000, 1 }),
};
const struct amount_kind amount_bits = {
	.example = "100 Mbit/s",
	.units = LIST({ "bit/s", 1, 1 }, { "kbit/s", 1000, 1 }, { "Mbit/s", 1000000, 1 },
		{ "Gbit/s", 1000000000, 1 }, { "Mbps", 1000000, 1 },
		{ "Gbps", 1000000000, 1 }, { "MB/s", 8000000, 1 },
		{ "GB/s", INT64_C(8000000000), 1 }),
	.unit = " Mbit/s",
	.decimals = 6,
	.least = 64000,
	.most = INT64_C(10000000000000),
	.slips = LIST({ "Mbit/s", 1000000, 1 }, { "kbit/s", 1000, 1 }),
};
const struct amount_kind amount_memory = {
	.example = "8 GiB",
	.units = LIST({ "B", 1, 1 }, { "MB", 1000000, 1 }, { "GB", 1000000000, 1 },
		{ "TB", INT64_C(1000000000000), 1 }, { "MiB", 1 << 20, 1 },
		{ "GiB", 1 << 30, 1 }, { "TiB", INT64_C(1) << 40, 1 }),
	.unit = " bytes",
	.least = 1 << 20,
	.most = INT64_C(1) << 50,
	.slips = LIST({ "GiB", 1 << 30, 1 }, { "MiB", 1 << 20, 1 }),
};

static bool strict;

void amount_refuse_doubtful(void)
{
	strict = true;
}

/* --- reading --------------------------------------------------------------------------------- */

/* Takes `word` from the start of *text. */
static bool take(const char **text, const char *word)
{
	size_t n = strlen(word);

	if (strncmp(*text, word, n) != 0)
		return false;
	*text += n;
	return true;
}

/* A currency as it stands before or behind a number. u: of a dollar in uusd; its name is that of a
 * currency whose rate is not known, else "". Returns whether there is one. */
static bool take_currency(const char **text, const struct amount_rate *rates,
	struct amount_unit *u)
{
	static const struct {
		const char *name, *currency;
		int over;
	} names[] = { { "US$", "USD", 1 }, { "USD", "USD", 1 }, { "usd", "USD", 1 },
		{ "$", "USD", 1 }, { "dollars", "USD", 1 }, { "cents", "USD", 100 },
		{ "cent", "USD", 100 }, { "Cent", "USD", 100 }, { "ct", "USD", 100 },
		{ "\302\242", "USD", 100 }, { "uusd", "USD", 1000000 },
		{ "EURct", "EUR", 100 }, { "EUR", "EUR", 1 }, { "Euro", "EUR", 1 },
		{ "euro", "EUR", 1 }, { "\342\202\254ct", "EUR", 100 },
		{ "\342\202\254", "EUR", 1 }, { "\302\243", "GBP", 1 },
		{ "GBP", "GBP", 1 }, { "CHF", "CHF", 1 }, { "SEK", "SEK", 1 },
		{ "NOK", "NOK", 1 }, { "DKK", "DKK", 1 }, { "PLN", "PLN", 1 },
		{ "CZK", "CZK", 1 }, { "CAD", "CAD", 1 }, { "AUD", "AUD", 1 },
		{ "JPY", "JPY", 1 }, { "INR", "INR", 1 }, { "CNY", "CNY", 1 } };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		if (!take(text, names[i].name))
			continue;
		*u = (struct amount_unit){ names[i].currency, 0, names[i].over };
		if (strcmp(names[i].currency, "USD") == 0)
			*u = (struct amount_unit){ "", UUSD, names[i].over };
		for (; rates && *rates->name; rates++)
			if (strcmp(names[i].currency, rates->name) == 0)
				*u = (struct amount_unit){ "", rates->uusd,
					names[i].over };
		return true;
	}
	return false;
}

static const struct amount_unit *unit_of(const struct amount_kind *k, const char *name)
{
	const struct amount_unit *u = k->units;

	while (u && u->name && strcmp(u->name, name) != 0)
		u++;
	return u && u->name ? u : NULL;
}

/* Reads what stands behind the "/" of money, if anything does. */
static bool take_rest(const char *text, const struct amount_kind *k,
	struct amount_unit *u)
{
	const struct amount_unit *of;

	text += strspn(text, " ");
	if (!*text)
		return true;
	if (!take(&text, "/") && !take(&text, "per ") && !take(&text, "a "))
		return false;
	text += strspn(text, " ");
	of = unit_of(k, text);
	if (!of)
		return false;
	u->times *= of->times;
	u->over *= of->over;
	return true;
}

/* Reads a unit; *dollars says that the currency was read before the number. */
static bool read_unit(const char *text, const struct amount_kind *k,
	const struct amount_rate *rates, bool currency, struct amount_unit *u)
{
	const struct amount_unit *own;

	if (k->money) {
		if (!currency && !take_currency(&text, rates, u))
			return false;
		return take_rest(text, k, u);
	}
	own = unit_of(k, text);
	if (own)
		*u = (struct amount_unit){ "", own->times, own->over };
	return own != NULL;
}

bool amount_is_unit(const char *unit, const struct amount_kind *k)
{
	struct amount_unit u;

	return read_unit(unit, k, NULL, false, &u);
}

/* Bytes of the number at the start of a text: all that could be part of one. */
static size_t number_len(const char *text)
{
	size_t n = strspn(text, "+-0123456789.,'_");

	if (n && (text[n] == 'e' || text[n] == 'E') &&
		isdigit((unsigned char)text[n + 1 + (text[n + 1] == '-')]))
		n += 1 + strspn(text + n + 1, "-0123456789");
	return n;
}

static int refuse(const char *text, const char *what, const struct amount_kind *k)
{
	return err_set(EX_DATAERR, "%s: '%.40s' is no amount such as \"%s\"", what, text,
		k->example);
}

static int convert(const char *number, const char *text, const char *what,
	const struct amount_kind *k, const struct amount_unit *u, int64_t *out)
{
	const __int128 one = 1000000000; /* 10^PLACES */
	int64_t v;
	__int128 product, over, rest;
	bool own = k->money ? u->times == UUSD && u->over == 1 : u->over == 1;

	if (num_decimal(number, what, PLACES, !own || k->rounds, &v) < 0)
		return -1;
	product = (__int128)v * u->times;
	over = one * u->over;
	if (own && !k->rounds && product % over)
		return err_set(EX_DATAERR, "%s: '%.40s' has more than %d decimals", what,
			text, k->decimals);
	rest = product % over;
	product /= over;
	if (rest < 0)
		rest = -rest;
	/* half to even, as num_decimal */
	if (2 * rest > over || (2 * rest == over && product % 2))
		product += v < 0 ? -1 : 1;
	if (product > INT64_MAX || product < -INT64_MAX)
		return err_set(EX_DATAERR, "%s: '%.40s' is too large", what, text);
	*out = (int64_t)product;
	return 0;
}

static int read_plain(const char *text, const char *what, const struct amount_kind *k,
	const char *bare, const struct amount_rate *rates, int64_t *out)
{
	struct amount_unit u = { "", k->money ? UUSD : 1, 1 };
	const char *at = text;
	bool currency = k->money && take_currency(&at, rates, &u);
	char number[64];
	size_t n;

	at += currency ? strspn(at, " ") : 0;
	n = number_len(at);
	if (!n || n >= sizeof number)
		return refuse(text, what, k);
	memcpy(number, at, n);
	number[n] = '\0';
	at += n;
	at += strspn(at, " ");
	if (strpbrk(number, ",+'_"))
		return refuse(text, what, k);
	if (!*at && !currency && bare && *bare)
		at = bare;
	for (int i = 0; !k->money && i < k->decimals; i++)
		u.times *= 10; /* a number alone is in the unit of messages */
	if ((*at || (!currency && !bare)) && !read_unit(at, k, rates, currency, &u))
		return refuse(text, what, k);
	if (!u.times) {
		err_set(EX_DATAERR,
			"%s: '%.40s': what one %s is worth in USD is not known", what,
			text, u.name);
		return err_hint("in a file of costs: \"usd_per\": {\"%s\": \"1.16\"}",
			u.name);
	}
	return convert(number, text, what, k, &u, out);
}

/* --- doubting -------------------------------------------------------------------------------- */

void amount_text(struct buf *out, int64_t v, const struct amount_kind *k)
{
	size_t from;

	money_format(out, v, k->decimals);
	/* dollars keep two decimals, other units none */
	from = out->len - (size_t)k->decimals + (k->money ? 2 : 0);
	while (k->decimals && out->len > from && out->data[out->len - 1] == '0')
		out->data[--out->len] = '\0';
	if (out->data[out->len - 1] == '.')
		out->data[--out->len] = '\0';
	buf_adds(out, k->unit);
}

static bool doubtful(int64_t v, const struct amount_kind *k)
{
	int64_t size = v < 0 ? -v : v;

	return v && ((k->most && size > k->most) || size < k->least);
}

/* Whether a text has one comma, as a locale writes decimals; *at is the text up to it. */
static bool one_comma(const char *text, size_t *at)
{
	const char *comma = strchr(text, ',');

	*at = comma ? (size_t)(comma - text) : 0;
	return comma && comma > text && isdigit((unsigned char)comma[-1]) &&
		isdigit((unsigned char)comma[1]) && !strchr(comma + 1, ',');
}

int amount_read(const char *text, const char *what, const struct amount_kind *k,
	const char *bare, const struct amount_rate *rates, int64_t *out)
{
	struct buf meant = BUF_INIT;
	int rc = read_plain(text, what, k, bare, rates, out);
	size_t comma;
	int64_t v;

	if (rc == 0 || !one_comma(text, &comma))
		return rc;
	/* a point for the comma, or nothing for one between thousands; with the unit where it is
	 * missing: only what would be taken is offered */
	for (int i = 0; i < 4; i++) {
		struct err e;

		if (i & 1 && strspn(text + comma + 1, "0123456789") != 3)
			continue;
		buf_reset(&meant);
		buf_addf(&meant, "%.*s%s%s%s", (int)comma, text, i & 1 ? "" : ".",
			text + comma + 1, i & 2 ? k->unit : "");
		err_save(&e);
		if (read_plain(meant.data, what, k, bare, rates, &v) == 0 &&
			!doubtful(v, k)) {
			rc = err_set(EX_DATAERR,
				"%s: '%.40s' has a comma; did you mean %s?", what, text,
				meant.data);
			break;
		}
		err_restore(&e);
	}
	buf_release(&meant);
	return rc;
}

/* Appends "; did you mean 0.0853 USD/kWh (per MWh)?". */
static void add_readings(struct buf *out, int64_t v, const struct amount_kind *k)
{
	const char *before = "; did you mean ";

	for (const struct amount_unit *s = k->slips; s && s->name; s++) {
		__int128 meant = (__int128)v * s->times / s->over;

		if (!meant || meant > INT64_MAX || meant < -INT64_MAX ||
			doubtful((int64_t)meant, k))
			continue;
		buf_adds(out, before);
		amount_text(out, (int64_t)meant, k);
		buf_addf(out, " (%s)", s->name);
		before = " or ";
	}
	if (*before == ' ')
		buf_addc(out, '?');
}

int amount_doubt(int64_t v, const char *what, const struct amount_kind *k)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	if (!doubtful(v, k))
		return 0;
	buf_addf(&text, "%s: ", what);
	amount_text(&text, v, k);
	buf_adds(&text, " is unusual");
	add_readings(&text, v, k);
	if (strict)
		rc = err_set(EX_DATAERR, "%s", buf_text(&text));
	else
		err_warn("%s", buf_text(&text));
	buf_release(&text);
	return rc;
}
