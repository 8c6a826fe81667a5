/* price_table.c - reads the break-even prices of GPU models from a policy's section "prices". */
#include "cmd/rnp-price/cost/price_table.h"

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/money.h"

#define DAILY_DECIMALS 2

/* Returns a / b in uusd, rounded half up to some decimals of a dollar. */
static int64_t rounded(int64_t a, int64_t b, int decimals)
{
	int64_t unit = 1;

	for (int i = decimals; i < MONEY_USD_DECIMALS; i++)
		unit *= 10;
	return muldiv_half_up(a, 1, b * unit) * unit;
}

int64_t price_daily(int64_t msrp_uusd, int64_t days, int decimals)
{
	return rounded(msrp_uusd, days, decimals);
}

int64_t price_hourly(int64_t msrp_uusd, int64_t days, int64_t surcharge_ppm, int decimals)
{
	int64_t unit = 1, out = 0;

	if (!surcharge_ppm)
		return rounded(msrp_uusd, days * 24, decimals);
	for (int i = decimals; i < MONEY_USD_DECIMALS; i++)
		unit *= 10;
	/* a single rounding: the divisor includes days, hours, the ppm and the decimal place */
	if (money_muldiv(msrp_uusd, MONEY_PPM + surcharge_ppm,
		    days * 24 * MONEY_PPM * unit, MONEY_HALF_UP, &out) < 0)
		bug("a surcharge of %lld ppm", (long long)surcharge_ppm);
	return out * unit;
}

static json_t *tiers_of(const json_t *connectivity, int64_t msrp_uusd, int64_t days)
{
	json_t *out = json_array(), *row;
	size_t i;

	json_array_foreach(connectivity, i, row) {
		json_t *t = json_object();
		int64_t surcharge = json_integer_value(
			json_object_get(row, "surcharge_ppm"));

		json_set_text(t, "tier", json_string_value(json_object_get(row, "tier")));
		json_set_i64(t, "at_least_mbytes",
			json_integer_value(json_object_get(row, "at_least_mbytes")));
		json_set_i64(t, "surcharge_ppm", surcharge);
		json_set_i64(t, "hourly_uusd",
			price_hourly(msrp_uusd, days, surcharge, 6));
		json_push(out, t);
	}
	return out;
}

/* the schema has checked types and ranges */
static json_t *model_record(const struct policy *p, const json_t *row, int64_t days)
{
	static const char *const copied[] = { "msrp_uusd", "tensor_cores", "f32_gflops",
		"gpu_memory_bytes", "bandwidth_mbytes", "power_w" };
	const json_t *prices = json_object_get(p->doc, "prices");
	const json_t *decimals = json_object_get(row, "hourly_decimals");
	int64_t msrp = json_integer_value(json_object_get(row, "msrp_uusd"));
	json_t *r = json_record("rnp.floor");

	json_set_text(r, "policy", p->name);
	json_set_text(r, "gpu_model",
		json_string_value(json_object_get(row, "gpu_model")));
	for (size_t i = 0; i < sizeof copied / sizeof *copied; i++)
		if (json_object_get(row, copied[i]))
			json_set(r, copied[i],
				json_incref(json_object_get(row, copied[i])));
	json_set_i64(r, "daily_uusd", price_daily(msrp, days, 6));
	json_set_i64(r, "hourly_uusd", price_hourly(msrp, days, 0, 6));
	json_set_i64(r, "daily_rounded_uusd", price_daily(msrp, days, DAILY_DECIMALS));
	json_set_i64(r, "hourly_rounded_uusd",
		price_hourly(msrp, days, 0,
			decimals ? (int)json_integer_value(decimals) : 6));
	json_set_i64(r, "break_even_days", days);
	json_set(r, "tiers",
		tiers_of(json_object_get(prices, "connectivity"), msrp, days));
	return r;
}

json_t *price_table(const struct policy *p)
{
	const json_t *prices = json_object_get(p->doc, "prices");
	const json_t *models = json_object_get(prices, "models");
	int64_t days = json_integer_value(json_object_get(prices, "break_even_days"));
	json_t *out, *row;
	size_t i;

	if (!models || !days) {
		err_set(EX_DATAERR, "policy '%s' has no table of prices", p->name);
		return NULL;
	}
	out = json_array();
	json_array_foreach(models, i, row)
		json_push(out, model_record(p, row, days));
	return out;
}
