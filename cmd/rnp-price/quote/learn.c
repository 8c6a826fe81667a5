/* learn.c - learns from a node's customers: see state.h. */
#include "cmd/rnp-price/quote/state.h"

#define MINUTE_HOURS (1.0 / 60)

int quote_learn(struct quote_state *state, struct quote_input *in, const struct leases *l,
	int64_t units, const struct rivals_question *market, int64_t fee_ppm)
{
	bool first = state->learned_ms < 0;
	int64_t from = first ? 0 : state->learned_ms;
	struct leases_between b = leases_between(l, from, state->now_ms);
	int64_t busy = leases_between(l, from, from).running;
	struct demand_market seen = { 0 };
	struct rivals r;

	if (!first && state->now_ms > from && state->last_ask_uusd >= 0) {
		double dt_hours = (double)(state->now_ms - from) / 3600000, idle_hours;
		int64_t idle = units - busy;

		if (idle < b.began)
			/* a unit whose lease ended and began again was idle in between */
			idle = b.began;
		/* the time for which units were available */
		idle_hours = (double)units * dt_hours - b.hours;
		if (idle)
			dt_hours = idle_hours / (double)idle;
		if (dt_hours < MINUTE_HOURS)
			dt_hours = MINUTE_HOURS;
		rivals_find(&r, market);
		quote_market(&seen, in, &r);
		rivals_release(&r);
		demand_observe(&state->demand, &seen,
			(double)quote_customer(state->last_ask_uusd, fee_ppm),
			(double)idle, (double)b.began, dt_hours);
	}
	demand_lease(&state->demand, b.hours, false);
	for (int64_t i = 0; i < b.ended; i++)
		demand_lease(&state->demand, 0, true);
	in->demand = &state->demand;
	in->idle = (double)(units - b.running);
	in->units = (double)units;
	return quote_state_learned(state);
}
