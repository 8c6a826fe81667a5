/* fit.c - coefficients come back from prices that were made with them; strangers move
 * little. */
/* uses: cmd/rnp-price */
#include "cmd/rnp-price/quote/fit.h"

#include <math.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static uint64_t seed = 7;

static double uniform(void)
{
	seed = seed * 6364136223846793005u + 1442695040888963407u;
	return (double)(seed >> 11) / 9007199254740992.0;
}

static const char *const models[] = { "RTX 4090", "RTX 3090", "RTX 3060", "RTX A6000",
	"A100 80GB SXM", "H100 SXM", "H100 PCIe", "L40S", "L4", "H200", "A40", "RTX 4070",
	"RTX 3080", "V100 16GB SXM" };
#define MODELS (sizeof models / sizeof *models)

/* 0.01 $ x memory^0.5 x tensor^0.4, half for spot, a market's level */
static double truth(const struct gpu_model *m, bool spot, double level)
{
	double x[FIT_NUMBERS];

	CHECK(fit_numbers(x, m, 0, 1, spot));
	return log(0.01) + 0.5 * x[FIT_MEMORY] + 0.4 * x[FIT_TENSOR] +
		(spot ? log(0.5) : 0) + level;
}

static void fill(struct fit *f, int n, double noise)
{
	static const char *const markets[] = { "low", "high" };
	static const double levels[] = { -0.3, 0.3 };

	for (int i = 0; i < n; i++) {
		struct offer o;
		char id[24];
		int market = i % 2;

		offer_init(&o);
		snprintf(id, sizeof id, "%d", i);
		o.market = markets[market];
		o.id = id;
		o.gpu = gpu_find(models[(size_t)(uniform() * (double)MODELS)], 0);
		o.model = o.gpu->name;
		o.known = true;
		o.spot = uniform() < 0.3;
		o.uusd_per_gpu_hour = (int64_t)(1e6 *
			exp(truth(o.gpu, o.spot, levels[market]) +
				noise * (uniform() - 0.5)));
		CHECK(fit_add(f, &o));
	}
}

static double off(const struct fit *f, const char *model, bool spot, const char *market,
	double level)
{
	struct fit_question q = { .model = gpu_find(model, 0),
		.gpu_count = 1,
		.spot = spot,
		.market = market };
	struct fit_price p;

	CHECK(fit_price(f, &q, &p));
	CHECK(p.low_uusd <= p.mid_uusd && p.mid_uusd <= p.high_uusd);
	return fabs(log((double)p.mid_uusd / 1e6) - truth(q.model, spot, level));
}

static void check_truth(void)
{
	struct fit f = FIT_INIT, again = FIT_INIT;
	struct fit_price p;
	struct fit_question q = { .gpu_count = 1 };
	json_t *r;

	fill(&f, 600, 0.2);
	CHECK(fit_solve(&f) == 0);
	for (size_t i = 0; i < MODELS; i++) {
		CHECK(off(&f, models[i], false, "low", -0.3) < 0.05);
		CHECK(off(&f, models[i], true, "high", 0.3) < 0.05);
	}
	/* a model that was in no offer: from its figures alone */
	CHECK(off(&f, "RTX 4080", false, "low", -0.3) < 0.1);
	CHECK(off(&f, "A30", false, "low", -0.3) < 0.15);
	/* an unknown market: the mean of those that are known, and it says so */
	q.model = gpu_find("RTX 4090", 0);
	q.market = "moon";
	CHECK(fit_price(&f, &q, &p) && !p.market_known && p.model_known);
	CHECK(off(&f, "RTX 4090", false, "moon", 0) < 0.05);
	fit_leave_out(&f);
	CHECK(f.error > 0.02 &&
		f.error < 0.08); /* a fifth of a uniform's width is 0.05 */
	CHECK(f.error_model < 0.1 && f.error_market > 0 && f.error_market < 0.12);
	/* as a record and back: the same prices to a millionth */
	r = fit_to_json(&f);
	json_set_text(r, "at", "2026-11-20T18:00:00Z");
	json_set_i64(r, "offers", 600);
	json_set_i64(r, "used", 600);
	json_set_text(r, "data_sha256",
		"0000000000000000000000000000000000000000000000000000000000000000");
	CHECK(fit_from_json(&again, r, "fit") == 0);
	CHECK(off(&again, "H100 SXM", true, "high", 0.3) ==
			off(&f, "H100 SXM", true, "high", 0.3) ||
		fabs(off(&again, "H100 SXM", true, "high", 0.3) -
			off(&f, "H100 SXM", true, "high", 0.3)) < 1e-4);
	json_decref(r);
	fit_release(&again);
	fit_release(&f);
}

/* A tenth of the offers at a hundredth of their price move no price by more than a few per
 * cent; one host's thousand moves it by nothing to speak of. */
static void check_strangers(void)
{
	struct fit f = FIT_INIT;
	struct offer o;

	fill(&f, 540, 0.2);
	offer_init(&o);
	o.market = "low";
	o.gpu = gpu_find("RTX 4090", 0);
	o.model = o.gpu->name;
	o.known = true;
	o.uusd_per_gpu_hour = 1000;
	o.host = "evil";
	for (int i = 0; i < 1000; i++) {
		char id[24];

		snprintf(id, sizeof id, "evil%d", i);
		o.id = id;
		CHECK(fit_add(&f, &o));
	}
	CHECK(fit_solve(&f) == 0);
	CHECK(off(&f, "RTX 4090", false, "low", -0.3) < 0.1);
	CHECK(off(&f, "RTX 4090", false, "high", 0.3) < 0.1);
	fit_release(&f);
}

static void check_refused(void)
{
	struct fit f = FIT_INIT;
	struct offer o;

	offer_init(&o);
	o.market = "m";
	o.id = "1";
	o.uusd_per_gpu_hour = 100000;
	o.model = "Mystery";
	CHECK(!fit_add(&f, &o)); /* no known model */
	o.gpu = gpu_find("RTX 4090", 0);
	o.own = true;
	CHECK(!fit_add(&f, &o));
	o.own = false;
	o.uusd_per_gpu_hour = INT64_C(1000000000000000000);
	CHECK(!fit_add(&f, &o));
	CHECK(fit_solve(&f) < 0);
	CHECK_I64(EX_DATAERR, err_get()->code);
	fit_release(&f);
}

/* offers that are all alike are a fit too */
static void check_alike(void)
{
	struct fit f = FIT_INIT;
	struct fit_question q = { .model = gpu_find("RTX 4090", 0), .gpu_count = 8 };
	struct fit_price p;
	struct offer o;

	offer_init(&o);
	o.market = "m";
	o.gpu = q.model;
	o.uusd_per_gpu_hour = 400000;
	for (int i = 0; i < 8; i++) {
		char id[12];

		snprintf(id, sizeof id, "%d", i);
		o.id = id;
		CHECK(fit_add(&f, &o));
	}
	CHECK(fit_solve(&f) == 0);
	fit_leave_out(&f);
	CHECK(f.error_model < 0 && f.error_market < 0);
	CHECK(fit_price(&f, &q, &p));
	CHECK(p.mid_uusd > 399000 && p.mid_uusd < 401000);
	fit_release(&f);
}

int main(void)
{
	check_truth();
	check_strangers();
	check_refused();
	check_alike();
	TEST_END();
}
