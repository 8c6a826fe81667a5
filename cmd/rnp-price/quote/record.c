/* record.c - a quote as a record: see record.h. */
#include "cmd/rnp-price/quote/record.h"

#include <stdio.h>

#include "cmd/rnp-price/cost/render.h"
#include "common/base/err.h"
#include "common/base/money.h"
#include "common/json/json.h"

static json_t *spec_of(const struct quote_record *x)
{
	json_t *spec = json_object();

	json_set_text(spec, "gpu_model", x->in->gpu_model);
	json_set_i64(spec, "gpu_count", x->in->gpu_count);
	if (x->node->memory_bytes)
		json_set_i64(spec, "gpu_memory_bytes", x->node->memory_bytes);
	if (x->in->f32_gflops)
		json_set_i64(spec, "f32_gflops", x->in->f32_gflops);
	json_set_text(spec, "country", priced_node_label(x->node, "country"));
	return spec;
}

/* How busy the node will be, at this price and just below its rival. */
static json_t *occupancy_of(const struct quote_record *x)
{
	json_t *o = json_object();

	json_set_i64(o, "expected", (int64_t)(x->quote->occupancy * 1e6 + 0.5));
	json_set_i64(o, "just_under", (int64_t)(x->quote->occupancy_under * 1e6 + 0.5));
	json_set_i64(o, "mean_lease_s",
		(int64_t)(demand_mean_lease(x->in->demand) * 3600));
	return o;
}

/* The fit's price of the whole node. */
static json_t *fitted_of(const struct quote_record *x)
{
	json_t *m = json_object();

	json_set_i64(m, "low", x->in->low_uusd * x->in->gpu_count);
	json_set_i64(m, "mid", x->in->mid_uusd * x->in->gpu_count);
	json_set_i64(m, "high", x->in->high_uusd * x->in->gpu_count);
	json_set_bool(m, "market_known", x->fitted->market_known);
	json_set_bool(m, "model_known", x->fitted->model_known);
	return m;
}

/* What the node would ask in equal parts, and the split that earns most. */
static void add_splits(json_t *r, json_t *why, const struct quote_record *x)
{
	struct quote_split splits[QUOTE_SPLITS_MAX];
	size_t best,
		n = x->in->gpu_model ? quote_splits(splits, x->in, x->rules, &best) : 0;
	json_t *list = json_array();
	char line[200];

	for (size_t i = 0; i < n; i++) {
		json_t *o = json_object();

		json_set_i64(o, "gpus", splits[i].gpus);
		json_set_i64(o, "parts", splits[i].parts);
		json_set_i64(o, "ask_uusd", splits[i].ask_uusd);
		json_set_i64(o, "customer_uusd", splits[i].customer_uusd);
		json_set_i64(o, "floor_uusd", splits[i].floor_uusd);
		json_set_i64(o, "rival_uusd", splits[i].rival_uusd);
		json_set_i64(o, "total_uusd", splits[i].total_uusd);
		json_push(list, o);
	}
	json_set(r, "splits", list);
	if (!n) {
		json_push_text(why,
			"split: no market sells these GPUs in any equal parts");
		return;
	}
	json_set_i64(r, "sell_gpus", splits[best].gpus);
	snprintf(line, sizeof line, "split: %lld of %lld GPUs each ask %s $/h together",
		(long long)splits[best].parts, (long long)splits[best].gpus,
		cost_usd(splits[best].total_uusd));
	json_push_text(why, line);
}

/* RNP-021: the node's part of a job's price is burned, the rest is the operator fee. */
static int add_job(json_t *r, const struct quote_record *x)
{
	json_t *job;
	int64_t burn, customer;

	if (money_muldiv(x->quote->ask_uusd, x->hours, 1, MONEY_FLOOR, &burn) < 0)
		return -1;
	if (burn > JSON_SAFE_INTEGER_MAX)
		return err_set(EX_DATAERR, "the job's price is beyond every amount");
	customer = quote_customer(burn, x->rules->fee_ppm);
	job = json_object();
	json_set_i64(job, "hours", x->hours);
	json_set_i64(job, "customer_uusd", customer);
	json_set_i64(job, "burn_uusd", burn);
	json_set_i64(job, "fee_uusd", customer - burn);
	json_set(r, "job", job);
	return 0;
}

/* The same amounts in 10^-8 RENDER. */
static json_t *in_render(const struct quote *q, int64_t price_uusd)
{
	json_t *o = json_object();

	json_set_i64(o, "price_uusd", price_uusd);
	json_set_i64(o, "ask_base_units", render_base_units(q->ask_uusd, price_uusd));
	json_set_i64(o, "customer_base_units",
		render_base_units(q->customer_uusd, price_uusd));
	return o;
}

json_t *quote_record(const struct quote_record *x)
{
	const struct quote *q = x->quote;
	json_t *r = json_record("rnp.quote"), *why = json_array();
	int rc = 0;

	json_set_text(r, "node", x->node->address);
	json_set_time(r, "at", x->now_ms);
	json_set_i64(r, "ask_uusd", q->ask_uusd);
	json_set_i64(r, "customer_uusd", q->customer_uusd);
	json_set_i64(r, "fee_uusd", q->customer_uusd - q->ask_uusd);
	json_set_i64(r, "floor_uusd", q->floor_uusd);
	if (q->rival_uusd >= 0)
		json_set_i64(r, "rival_uusd", q->rival_uusd);
	if (q->worth_uusd != q->rival_uusd)
		json_set_i64(r, "rival_worth_uusd", q->worth_uusd);
	if (x->in->worth->surcharge_ppm >= 0)
		json_set_i64(r, "surcharge_ppm", x->in->worth->surcharge_ppm);
	if (q->proportion_uusd >= 0)
		json_set_i64(r, "proportion_uusd", q->proportion_uusd);
	if (x->in->mid_uusd >= 0)
		json_set(r, "model_uusd", fitted_of(x));
	if (q->occupancy >= 0)
		json_set(r, "occupancy_ppm", occupancy_of(x));
	if (q->held && x->in->held_hours < demand_rules_default.hold_hours)
		json_set_time(r, "until",
			x->changed_ms +
				(int64_t)(demand_rules_default.hold_hours * 3600000));
	json_set(r, "spec", spec_of(x));
	if (x->hours)
		rc = add_job(r, x);
	if (x->render_uusd)
		json_set(r, "render", in_render(q, x->render_uusd));
	cost_explain(why, x->costs, 0, x->floor);
	json_array_extend(why, q->why);
	if (x->split)
		add_splits(r, why, x);
	json_set(r, "why", why);
	if (rc == 0)
		return r;
	json_decref(r);
	return NULL;
}
