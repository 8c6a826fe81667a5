/* pay.c - see pay.h. */
#include "cmd/rnp-reward/epoch/pay.h"

#include "cmd/rnp-reward/epoch/groups.h"
#include "common/base/err.h"
#include "common/base/money.h"

void pay_needs(const struct rules *r, const struct usage *u, uint64_t *unmet,
	uint64_t *waived)
{
	*unmet = *waived = 0;
	for (int k = 0; k < r->nneeds; k++) {
		bool unknown, met = rules_met(r, k, u, &unknown);

		if (!met)
			*unmet |= UINT64_C(1) << k;
		else if (unknown)
			*waived |= UINT64_C(1) << k;
	}
}

bool pay_qualifies(const struct rules *r, const struct usage *u)
{
	uint64_t unmet, waived;

	pay_needs(r, u, &unmet, &waived);
	return !unmet;
}

int pay_does_not_fit(const struct usage *u)
{
	char node[ADDRESS_MAX];

	address_format(u->node, node);
	return err_set(EX_DATAERR, "node %s: its pay does not fit 64 bits", node);
}

static int evaluate(const struct epoch *e, const struct usage *one, struct eval *v)
{
	rules_eval_init(v, e->rules, one, e->epoch_s, e->price_uusd, e->max);
	return rules_eval_terms(v);
}

/* Subtracts from each part what it would be without the group's GPUs and their work. */
static int subtract_rest(const struct epoch *e, const struct usage *one,
	struct frac out[PAY_N])
{
	struct usage idle;
	struct frac rest;
	struct eval v;

	groups_idle(one, &idle);
	if (evaluate(e, &idle, &v) < 0)
		return -1;
	for (int part = 0; part < PAY_N; part++) {
		const struct pay *p = &e->rules->pay[part];

		if (!p->formula)
			continue;
		if (rules_eval(&v, p->amount ? p->amount : p->share, &rest) < 0)
			return -1;
		if (frac_cmp(out[part], rest) <= 0)
			out[part] = FRAC_ZERO;
		else if (!frac_sub(&out[part], out[part], rest))
			return pay_does_not_fit(one);
	}
	return 0;
}

int pay_weigh(const struct epoch *e, const struct usage *one, enum pay_place place,
	struct frac out[PAY_N])
{
	const struct rules *r = e->rules;
	struct eval v;
	int64_t ppm;

	if (evaluate(e, one, &v) < 0)
		return -1;
	for (int t = 0; t < r->nterms; t++)
		if (!frac_floor(v.term[t], MONEY_PPM, &ppm))
			return pay_does_not_fit(one);
	for (int part = 0; part < PAY_N; part++) {
		const struct pay *p = &r->pay[part];

		out[part] = FRAC_ZERO;
		if (p->formula && place != PAY_NOTHING &&
			rules_eval(&v, p->amount ? p->amount : p->share, &out[part]) < 0)
			return -1;
	}
	return place == PAY_FURTHER ? subtract_rest(e, one, out) : 0;
}

int pay_base_units(const struct epoch *e, const struct usage *one, int part,
	struct frac amount, int64_t *out)
{
	if (!frac_mul(&amount, amount, e->scale[part]) ||
		!frac_floor(amount, PAY_BASE_UNITS, out))
		return pay_does_not_fit(one);
	return 0;
}
