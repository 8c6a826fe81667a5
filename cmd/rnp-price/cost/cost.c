/* cost.c - computes what an hour of a node costs: energy, depreciation, network, margin, fee. */
#include "cmd/rnp-price/cost/cost.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/text/keys.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/base/money.h"

/* a billion dollars is beyond every node */
#define UUSD_MAX  (INT64_C(1000000000) * 1000000)
#define WATTS_MAX 10000000

const char cost_example[] = "{\n"
			    "  \"watts_load\": 450,\n"
			    "  \"watts_idle\": 60,\n"
			    "  \"per_kwh\": \"0.15 USD\",\n"
			    "  \"hardware\": \"1599.00 USD\",\n"
			    "  \"depreciation_days\": 1460,\n"
			    "  \"network_per_hour\": \"0.02 USD\",\n"
			    "  \"fee_ppm\": 0,\n"
			    "  \"margin_ppm\": 100000\n"
			    "}\n";

/* Reads one price for all hours, or a tariff. */
static int read_energy(struct costs *c, const json_t *obj, const char *where,
	const char *path, const struct amount_rate *rates, int64_t from_ms)
{
	static const struct keys_amount flat = { .micro = "uusd_per_kwh",
		.dollars = "per_kwh",
		.of = &amount_per_kwh,
		.required = true,
		.max_uusd = UUSD_MAX };
	const json_t *tariff = json_object_get(obj, "tariff");
	const char *other = json_object_get(obj, "per_kwh") ? "per_kwh" : "uusd_per_kwh";
	int64_t price = 0;

	c->first_hour = (int)(from_ms / 3600000 % 24);
	if (tariff && json_object_get(obj, other))
		return err_set(EX_DATAERR, "%s: 'tariff' and '%s' exclude each other",
			where, other);
	if (tariff)
		return tariff_read(c->uusd_per_kwh, tariff, where, path, rates, from_ms);
	if (keys_amount(obj, where, &flat, rates, &price) < 0)
		return -1;
	for (int h = 0; h < TARIFF_HOURS; h++)
		c->uusd_per_kwh[h] = price;
	return 0;
}

int cost_parse(struct costs *c, const json_t *obj, const char *where, const char *path,
	int64_t from_ms)
{
	static const char *const names[] = { "kind", "v", "watts_load", "watts_idle",
		"uusd_per_kwh", "per_kwh", "tariff", "hardware_uusd", "hardware",
		"depreciation_days", "network_uusd_per_hour", "network_per_hour",
		"fee_ppm", "margin_ppm", "usd_per", NULL };
	static const struct keys_amount hardware = { .micro = "hardware_uusd",
		.dollars = "hardware",
		.of = &amount_hardware,
		.max_uusd = UUSD_MAX };
	static const struct keys_amount network = { .micro = "network_uusd_per_hour",
		.dollars = "network_per_hour",
		.of = &amount_per_hour,
		.max_uusd = UUSD_MAX };
	struct amount_rate rates[KEYS_RATES_MAX + 1];

	memset(c, 0, sizeof *c);
	if (keys_check(obj, where, names) < 0 ||
		(json_object_get(obj, "kind") &&
			json_check_kind(obj, where, "rnp.costs") < 0) ||
		keys_rates(obj, where, rates) < 0 ||
		keys_whole(obj, where, "watts_load", true, &amount_watts, 0, WATTS_MAX,
			&c->watts_load) < 0 ||
		keys_whole(obj, where, "watts_idle", false, &amount_watts, 0, WATTS_MAX,
			&c->watts_idle) < 0 ||
		read_energy(c, obj, where, path, rates, from_ms) < 0 ||
		keys_amount(obj, where, &hardware, rates, &c->hardware_uusd) < 0 ||
		keys_whole(obj, where, "depreciation_days", false, &amount_days, 1, 36500,
			&c->depreciation_days) < 0 ||
		keys_amount(obj, where, &network, rates, &c->network_uusd_per_hour) < 0 ||
		keys_whole(obj, where, "fee_ppm", false, &amount_ppm, 0, MONEY_PPM - 1,
			&c->fee_ppm) < 0 ||
		keys_whole(obj, where, "margin_ppm", false, &amount_ppm, 0,
			1000 * MONEY_PPM, &c->margin_ppm) < 0)
		return -1;
	if (c->watts_idle > c->watts_load)
		return err_set(EX_DATAERR,
			"%s: watts_idle: %lld is more than watts_load, %lld", where,
			(long long)c->watts_idle, (long long)c->watts_load);
	if (c->hardware_uusd && !c->depreciation_days)
		return err_set(EX_DATAERR, "%s: '%s' without 'depreciation_days'", where,
			json_object_get(obj, "hardware") ? "hardware" : "hardware_uusd");
	return 0;
}

int cost_load(struct costs *c, const char *path, int64_t from_ms)
{
	struct buf text = BUF_INIT;
	json_t *obj = NULL;
	int rc = -1;

	if (io_read(&text, path, COST_FILE_BYTES_MAX) == 0)
		obj = json_parse_object(buf_text(&text), text.len, path);
	if (obj)
		rc = cost_parse(c, obj, path, path, from_ms);
	json_decref(obj);
	buf_release(&text);
	return rc;
}

/* Returns the cost of watts for an hour at a price per kWh, rounded up, also below 0. */
static int energy(int64_t watts, int64_t uusd_per_kwh, int64_t *out)
{
	int rc;

	if (uusd_per_kwh >= 0)
		return money_muldiv(watts, uusd_per_kwh, 1000, MONEY_CEIL, out);
	rc = money_muldiv(watts, -uusd_per_kwh, 1000, MONEY_FLOOR, out);
	*out = -*out;
	return rc;
}

int cost_floor(const struct costs *c, int ahead, struct cost_floor *f)
{
	int64_t sum, idle;

	if (energy(c->watts_load, c->uusd_per_kwh[ahead], &f->energy_uusd) < 0 ||
		energy(c->watts_idle, c->uusd_per_kwh[ahead], &idle) < 0)
		return -1;
	f->depreciation_uusd = 0;
	if (c->hardware_uusd)
		f->depreciation_uusd = muldiv_ceil(c->hardware_uusd, 1,
			c->depreciation_days * 24);
	f->network_uusd = c->network_uusd_per_hour;
	if (f->energy_uusd > INT64_MAX / 4 || f->energy_uusd < -INT64_MAX / 4)
		return err_set(EX_DATAERR,
			"the price of the energy is beyond every amount");
	sum = f->energy_uusd + f->depreciation_uusd + f->network_uusd;
	if (sum < 0)
		sum = 0;
	if (money_muldiv(sum, c->margin_ppm, MONEY_PPM, MONEY_CEIL, &f->margin_uusd) < 0)
		return -1;
	if (f->margin_uusd > INT64_MAX / 4)
		return err_set(EX_DATAERR, "the margin is beyond every amount");
	sum += f->margin_uusd;
	if (money_muldiv(sum, MONEY_PPM, MONEY_PPM - c->fee_ppm, MONEY_CEIL,
		    &f->floor_uusd) < 0)
		return -1;
	if (f->floor_uusd > JSON_SAFE_INTEGER_MAX)
		return err_set(EX_DATAERR, "the floor is beyond every amount");
	f->fee_uusd = f->floor_uusd - sum;
	f->idle_uusd = idle + f->network_uusd;
	return 0;
}

int64_t cost_break_even_days(const struct costs *c, const struct cost_floor *f,
	int64_t price_uusd)
{
	int64_t fee = muldiv_ceil(price_uusd, c->fee_ppm, MONEY_PPM);
	int64_t left = price_uusd - fee - f->energy_uusd - f->network_uusd;

	if (!c->hardware_uusd)
		return 0;
	if (left <= 0)
		return -1;
	return (int64_t)(((__int128)c->hardware_uusd + (__int128)left * 24 - 1) /
		((__int128)left * 24));
}

const char *cost_usd(int64_t uusd)
{
	static __thread char texts[8][32];
	static __thread unsigned at;
	char *out = texts[at++ % 8];

	snprintf(out, sizeof texts[0], "%s%lld.%06lld", uusd < 0 ? "-" : "",
		llabs(uusd / 1000000), llabs(uusd % 1000000));
	return out;
}

const char *cost_percent(int64_t ppm)
{
	static __thread char texts[8][32];
	static __thread unsigned at;
	char *out = texts[at++ % 8];
	size_t n;

	snprintf(out, sizeof texts[0], "%s%lld.%04lld", ppm < 0 ? "-" : "",
		llabs(ppm / 10000), llabs(ppm % 10000));
	for (n = strlen(out); out[n - 1] == '0'; n--)
		;
	out[out[n - 1] == '.' ? n - 1 : n] = '\0';
	return strcat(out, "%");
}

void cost_explain(json_t *why, const struct costs *c, int ahead,
	const struct cost_floor *f)
{
	struct buf line = BUF_INIT;

#define LINE(...)                                     \
	do {                                          \
		buf_reset(&line);                     \
		buf_addf(&line, __VA_ARGS__);         \
		json_push_text(why, buf_text(&line)); \
	} while (0)
	LINE("energy: %lld W at %s $/kWh (%02d:00 UTC) is %s $/h",
		(long long)c->watts_load, cost_usd(c->uusd_per_kwh[ahead]),
		(c->first_hour + ahead) % 24, cost_usd(f->energy_uusd));
	if (c->hardware_uusd)
		LINE("depreciation: %s $ over %lld days is %s $/h",
			cost_usd(c->hardware_uusd), (long long)c->depreciation_days,
			cost_usd(f->depreciation_uusd));
	if (c->network_uusd_per_hour)
		LINE("network: %s $/h", cost_usd(f->network_uusd));
	if (c->margin_ppm)
		LINE("margin: %s of the costs is %s $/h", cost_percent(c->margin_ppm),
			cost_usd(f->margin_uusd));
	if (c->fee_ppm)
		LINE("fee: %s of the price is %s $/h", cost_percent(c->fee_ppm),
			cost_usd(f->fee_uusd));
	LINE("floor: %s $/h, each term rounded up", cost_usd(f->floor_uusd));
#undef LINE
	buf_release(&line);
}
