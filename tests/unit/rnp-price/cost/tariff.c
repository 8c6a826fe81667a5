/* tariff.c - tariff, keys: hours of zones and days, day-ahead files, dollars, and keys that
 * nobody knows. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/cost/tariff.h"

#include <unistd.h>

#include "cmd/rnp-price/cost/cost.h"
#include "cmd/rnp-price/text/keys.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static int64_t at(const char *time)
{
	int64_t ms = -1;

	CHECK(clock_parse(time, "time", &ms) == 0);
	return ms;
}

static int read_text(int64_t *uusd, const char *text, const char *base, const char *from)
{
	json_t *v = json_parse(text, strlen(text), 8, "text");
	int rc = tariff_read(uusd, v, "costs", base, NULL, at(from));

	json_decref(v);
	return rc;
}

static void check_zone(void)
{
	static const char berlin[] =
		"{\"zone\":\"Europe/Berlin\",\"rates\":[{\"days\":\"mon-fri\",\"hours\":\"06-22\","
		"\"per_kwh\":\"0.32 USD\"}],\"otherwise\":210000}";
	int64_t uusd[TARIFF_HOURS];

	/* a Friday in winter: 05:00 UTC is 06:00 there */
	CHECK(read_text(uusd, berlin, NULL, "2026-11-20T04:59:59Z") == 0);
	CHECK_I64(210000, uusd[0]);
	CHECK_I64(320000, uusd[1]);
	CHECK_I64(320000, uusd[16]);
	CHECK_I64(210000, uusd[17]);     /* 21:00 UTC is 22:00 there */
	CHECK_I64(210000, uusd[1 + 24]); /* Saturday */
	CHECK_I64(320000, uusd[1 + 72]); /* Monday */
	/* the night on which summer time ends: 05:00 UTC is 06:00 again from Sunday on */
	CHECK(read_text(uusd, berlin, NULL, "2026-10-23T03:00:00Z") == 0);
	CHECK_I64(210000, uusd[0]);
	CHECK_I64(320000, uusd[1]);      /* Friday 04:00 UTC is 06:00 */
	CHECK_I64(210000, uusd[1 + 72]); /* Monday 04:00 UTC is 05:00 */
	CHECK_I64(320000, uusd[2 + 72]);
	/* an hour of UTC that two rates share costs the dearer one */
	CHECK(read_text(uusd,
		      "{\"zone\":\"Asia/Kolkata\",\"rates\":[{\"hours\":\"22-06\",\"per_kwh\":5}],"
		      "\"otherwise\":9}",
		      NULL, "2026-11-20T16:00:00Z") == 0);
	CHECK_I64(9, uusd[0]); /* 21:30 to 22:30 */
	CHECK_I64(5, uusd[1]);
	CHECK_I64(9, uusd[8]); /* 05:30 to 06:30 */
	CHECK(read_text(uusd,
		      "{\"rates\":[{\"days\":\"fri-mon\",\"per_kwh\":1},{\"per_kwh\":2}]}",
		      NULL, "2026-11-19T23:00:00Z") == 0);
	CHECK_I64(2, uusd[0]);
	CHECK_I64(1, uusd[1]);
	CHECK_I64(1, uusd[96]);
	CHECK_I64(2, uusd[97]);
}

static void check_day_ahead(void)
{
	static const char ahead[] =
		"{\"day_ahead\":\"prices.csv\",\"add\":\"0.10 USD\",\"otherwise\":\"0.40 USD\"}";
	char dir[] = "/tmp/tariff.XXXXXX", path[64], base[64];
	static const char file[] =
		"start,usd_per_kwh\n2026-11-20T18:00:00Z,0.05\n"
		"2026-11-20T20:00:00+01:00,-0.2000005\n\n"
		"2026-11-20T21:00:00Z,0.01\n2026-11-20T21:15:00Z,0.02\n"
		"2026-11-20T21:30:00Z,0.03\n2026-11-20T21:45:00Z,0.04\n";
	int64_t uusd[TARIFF_HOURS];

	CHECK(mkdtemp(dir) != NULL);
	snprintf(path, sizeof path, "%s/prices.csv", dir);
	snprintf(base, sizeof base, "%s/costs.json", dir);
	CHECK(io_replace(path, file, strlen(file), 0600) == 0);
	CHECK(read_text(uusd, ahead, base, "2026-11-20T18:30:00Z") == 0);
	CHECK_I64(150000, uusd[0]);
	CHECK_I64(-100000, uusd[1]); /* half to even: -0.200000 */
	CHECK_I64(400000, uusd[2]);  /* missing */
	CHECK_I64(125000, uusd[3]);  /* quarters */
	CHECK_I64(400000, uusd[TARIFF_HOURS - 1]);
	CHECK(io_replace(path, "2026-11-20T18:00:00Z,nan\n", 25, 0600) == 0);
	CHECK(read_text(uusd, ahead, base, "2026-11-20T18:30:00Z") < 0);
	CHECK(strstr(err_get()->text, "prices.csv:1") != NULL);
	CHECK(io_replace(path, "2026-11-20T18:00:00Z,1\n2026-11-20T18:00:00Z,1\n", 46,
		      0600) == 0);
	CHECK(read_text(uusd, ahead, base, "2026-11-20T18:30:00Z") < 0);
	unlink(path);
	CHECK(read_text(uusd, ahead, base, "2026-11-20T18:30:00Z") < 0);
	CHECK_I64(EX_NOINPUT, err_get()->code);
	rmdir(dir);
}

static void check_refused(void)
{
	static const char *const rows[] = { "1", "[1]",
		"{\"zone\":\"Mars/Base\",\"rates\":[],\"otherwise\":1}",
		"{\"zone\":\"../etc/passwd\",\"rates\":[],\"otherwise\":1}",
		"{\"rates\":[{\"days\":\"mon-fri\",\"per_kwh\":1}]}",
		"{\"rates\":[{\"days\":\"monday\",\"per_kwh\":1}],\"otherwise\":1}",
		"{\"rates\":[{\"hours\":\"6-22\",\"per_kwh\":1}],\"otherwise\":1}",
		"{\"rates\":[{\"hours\":\"06-25\",\"per_kwh\":1}],\"otherwise\":1}",
		"{\"rates\":[{\"hour\":\"06-22\",\"per_kwh\":1}],\"otherwise\":1}",
		"{\"rates\":[{\"per_kwh\":-1}]}", "{\"rates\":[{\"per_kwh\":\"1\"}]}",
		"{\"day_ahead\":\"x\"}", "{\"rates\":[1],\"otherwise\":1}" };
	int64_t uusd[TARIFF_HOURS];

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		CHECK(read_text(uusd, rows[i], NULL, "2026-11-20T18:30:00Z") < 0);
		CHECK_I64(EX_DATAERR, err_get()->code);
	}
}

/* using energy that is paid for lowers the floor, to nothing at most */
static void check_negative(void)
{
	struct costs c = { .watts_load = 1000, .network_uusd_per_hour = 20000 };
	struct cost_floor f;

	c.uusd_per_kwh[0] = -15000;
	c.uusd_per_kwh[1] = -150001;
	c.watts_idle = 1;
	CHECK(cost_floor(&c, 0, &f) == 0);
	CHECK_I64(-15000, f.energy_uusd);
	CHECK_I64(5000, f.floor_uusd);
	CHECK(cost_floor(&c, 1, &f) == 0);
	CHECK_I64(0, f.floor_uusd);
	CHECK_I64(20000 - 150, f.idle_uusd); /* -150.001 up */
	CHECK(strcmp(cost_usd(-15000), "-0.015000") == 0);
}

static void check_amounts(void)
{
	static const struct {
		const char *text;
		int64_t uusd; /* -1: refused */
	} rows[] = { { "\"1599.00 USD\"", 1599000000 }, { "\"$0.15\"", 150000 },
		{ "\"USD 2\"", 2000000 }, { "\"0.000001 $\"", 1 }, { "150000", 150000 },
		{ "\"1599\"", -1 }, { "\"0.0000001 USD\"", -1 }, { "\"-1 USD\"", -1 },
		{ "\"1 EUR\"", -1 }, { "\"$1 USD\"", -1 }, { "\" USD\"", -1 },
		{ "0.15", -1 }, { "-1", -1 }, { "\"1e30 USD\"", -1 }, { "null", -1 },
		{ "\"1,599 USD\"", -1 } };

	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		json_t *v = json_loads(rows[i].text, JSON_DECODE_ANY, NULL);
		int64_t uusd = -1;

		if (keys_amount_of(v, "x", &amount_usd, NULL, INT64_C(1000000000000),
			    &uusd) < 0)
			uusd = -1;
		CHECK_I64(rows[i].uusd, uusd);
		json_decref(v);
	}
}

/* Whether the message for a misspelt key ends with this. */
static bool refused_with(const char *wrong, const char *end)
{
	static const char *const names[] = { "hardware_uusd", "hardware", "watts_load",
		"depreciation_days", NULL };
	json_t *v = json_pack("{s:i}", wrong, 1);
	int rc = keys_check(v, "x", names);
	const char *text = err_get()->text;
	size_t n = strlen(text), m = strlen(end);

	json_decref(v);
	return rc < 0 && n >= m && strcmp(text + n - m, end) == 0;
}

static void check_nearest(void)
{
	CHECK(refused_with("hardware_usd", "did you mean 'hardware'?"));
	CHECK(refused_with("depreciation_day", "did you mean 'depreciation_days'?"));
	CHECK(refused_with("wattsload", "did you mean 'watts_load'?"));
	CHECK(refused_with("hradware", "did you mean 'hardware'?"));
	CHECK(refused_with("colour", "there is no 'colour'"));
}

int main(void)
{
	check_zone();
	check_day_ahead();
	check_refused();
	check_negative();
	check_amounts();
	check_nearest();
	TEST_END();
}
