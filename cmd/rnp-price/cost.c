#include "cmd/rnp-price/cost.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/base/money.h"

#define UUSD_MAX \
	(INT64_C(1000000000) * 1000000) /* a billion dollars is beyond every node */

static int read_tariff(struct costs *c, const json_t *obj, const char *where)
{
	json_t *tariff;
	int64_t flat = 0;

	if (!json_object_get(obj, "tariff")) {
		if (json_get_i64(obj, where, "uusd_per_kwh", 0, UUSD_MAX, &flat) < 0)
			return -1;
		for (int h = 0; h < 24; h++)
			c->uusd_per_kwh[h] = flat;
		return 0;
	}
	if (json_object_get(obj, "uusd_per_kwh"))
		return err_set(EX_DATAERR,
			"%s: 'tariff' and 'uusd_per_kwh' exclude each other", where);
	if (json_get_array(obj, where, "tariff", &tariff) < 0)
		return -1;
	if (json_array_size(tariff) != 24)
		return err_set(EX_DATAERR, "%s: tariff: %zu prices, not 24", where,
			json_array_size(tariff));
	for (int h = 0; h < 24; h++) {
		const json_t *v = json_array_get(tariff, (size_t)h);

		if (!json_is_integer(v) || json_integer_value(v) < 0 ||
			json_integer_value(v) > UUSD_MAX)
			return err_set(EX_DATAERR,
				"%s: tariff[%d]: not a whole number of uusd", where, h);
		c->uusd_per_kwh[h] = json_integer_value(v);
	}
	return 0;
}

int cost_parse(struct costs *c, const json_t *obj, const char *where)
{
	memset(c, 0, sizeof *c);
	if (json_get_i64(obj, where, "watts_load", 0, 10000000, &c->watts_load) < 0 ||
		json_opt_i64(obj, where, "watts_idle", 0, 10000000, &c->watts_idle) < 0 ||
		read_tariff(c, obj, where) < 0 ||
		json_opt_i64(obj, where, "hardware_uusd", 0, UUSD_MAX,
			&c->hardware_uusd) < 0 ||
		json_opt_i64(obj, where, "depreciation_days", 1, 36500,
			&c->depreciation_days) < 0 ||
		json_opt_i64(obj, where, "network_uusd_per_hour", 0, UUSD_MAX,
			&c->network_uusd_per_hour) < 0 ||
		json_opt_i64(obj, where, "fee_ppm", 0, MONEY_PPM - 1, &c->fee_ppm) < 0 ||
		json_opt_i64(obj, where, "margin_ppm", 0, 1000 * MONEY_PPM,
			&c->margin_ppm) < 0)
		return -1;
	if (c->watts_idle > c->watts_load)
		return err_set(EX_DATAERR,
			"%s: watts_idle: %lld is more than watts_load, %lld", where,
			(long long)c->watts_idle, (long long)c->watts_load);
	if (c->hardware_uusd && !c->depreciation_days)
		return err_set(EX_DATAERR, "%s: hardware_uusd without depreciation_days",
			where);
	return 0;
}

int cost_load(struct costs *c, const char *path)
{
	struct buf text = BUF_INIT;
	json_t *obj = NULL;
	int rc = -1;

	if (io_read(&text, path, COST_FILE_BYTES_MAX) == 0)
		obj = json_parse_object(buf_text(&text), text.len, path);
	if (obj)
		rc = cost_parse(c, obj, path);
	json_decref(obj);
	buf_release(&text);
	return rc;
}

int cost_floor(const struct costs *c, int hour, struct cost_floor *f)
{
	int64_t sum, idle;

	if (money_muldiv(c->watts_load, c->uusd_per_kwh[hour], 1000, MONEY_CEIL,
		    &f->energy_uusd) < 0 ||
		money_muldiv(c->watts_idle, c->uusd_per_kwh[hour], 1000, MONEY_CEIL,
			&idle) < 0)
		return -1;
	f->depreciation_uusd = 0;
	if (c->hardware_uusd)
		f->depreciation_uusd = muldiv_ceil(c->hardware_uusd, 1,
			c->depreciation_days * 24);
	f->network_uusd = c->network_uusd_per_hour;
	if (f->energy_uusd > INT64_MAX / 4)
		return err_set(EX_DATAERR,
			"the price of the energy is beyond every amount");
	sum = f->energy_uusd + f->depreciation_uusd + f->network_uusd;
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

	snprintf(out, sizeof texts[0], "%lld.%06lld", (long long)(uusd / 1000000),
		(long long)(uusd % 1000000));
	return out;
}

void cost_explain(json_t *why, const struct costs *c, int hour,
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
		(long long)c->watts_load, cost_usd(c->uusd_per_kwh[hour]), hour,
		cost_usd(f->energy_uusd));
	if (c->hardware_uusd)
		LINE("depreciation: %s $ over %lld days is %s $/h",
			cost_usd(c->hardware_uusd), (long long)c->depreciation_days,
			cost_usd(f->depreciation_uusd));
	if (c->network_uusd_per_hour)
		LINE("network: %s $/h", cost_usd(f->network_uusd));
	if (c->margin_ppm)
		LINE("margin: %lld ppm of the costs is %s $/h", (long long)c->margin_ppm,
			cost_usd(f->margin_uusd));
	if (c->fee_ppm)
		LINE("fee: %lld ppm of the price is %s $/h", (long long)c->fee_ppm,
			cost_usd(f->fee_uusd));
	LINE("floor: %s $/h, each term rounded up", cost_usd(f->floor_uusd));
#undef LINE
	buf_release(&line);
}
