/* outcome.c - what a computed epoch says of one node, and of each group of its GPUs: terms and
 * requirements are not stored, but computed anew. */
#include <string.h>

#include "cmd/rnp-reward/epoch/core.h"
#include "cmd/rnp-reward/epoch/groups.h"
#include "cmd/rnp-reward/epoch/pay.h"
#include "common/base/err.h"
#include "common/base/money.h"

/* Sets all of an outcome but the pay. */
static void set_outcome(const struct epoch *e, const struct usage *one, struct outcome *o)
{
	const struct rules *r = e->rules;
	struct eval v;

	o->usage = *one;
	pay_needs(r, one, &o->unmet, &o->waived);
	o->missing = 0;
	o->locked = 0;
	rules_eval_init(&v, r, &o->usage, e->epoch_s, e->price_uusd, e->max);
	if (rules_eval_terms(&v) < 0)
		bug("%s", err_get()->text);
	for (int t = 0; t < r->nterms; t++) {
		o->missing |= v.missing[t];
		if (!frac_floor(v.term[t], MONEY_PPM, &o->terms_ppm[t]))
			bug("a term that fitted");
	}
}

/* Computes what each of n groups is paid before pools and caps, as weights. */
static void weigh(const struct epoch *e, const struct outcome *groups, size_t n,
	struct frac weights[][PAY_N])
{
	enum pay_place place = PAY_FIRST;
	int64_t units;

	for (size_t k = 0; k < n; k++) {
		const struct usage *one = &groups[k].usage;
		bool paid = outcome_qualified(&groups[k]);

		if (pay_weigh(e, one, paid ? place : PAY_NOTHING, weights[k]) < 0)
			bug("%s", err_get()->text);
		if (paid)
			place = PAY_FURTHER;
		for (int part = 0; part < PAY_N; part++) {
			if (!e->rules->pay[part].amount)
				continue;
			if (pay_base_units(e, one, part, weights[k][part], &units) < 0)
				bug("%s", err_get()->text);
			weights[k][part] = frac_of((uint64_t)units, 1);
		}
	}
}

/* Splits the pay of node i between its n groups, in proportion to that. */
static void split_pay(const struct epoch *e, size_t i, struct outcome *groups, size_t n)
{
	struct frac weights[EPOCH_GROUPS_MAX][PAY_N], column[EPOCH_GROUPS_MAX];
	int64_t parts[EPOCH_GROUPS_MAX];

	weigh(e, groups, n, weights);
	for (int part = 0; part < PAY_N; part++) {
		for (size_t k = 0; k < n; k++)
			column[k] = weights[k][part];
		if (split_fracs(e->pay[i][part], column, n, parts) < 0)
			bug("%s", err_get()->text);
		for (size_t k = 0; k < n; k++)
			groups[k].pay[part] = parts[k];
	}
}

size_t epoch_groups(const struct epoch *e, size_t i,
	struct outcome groups[EPOCH_GROUPS_MAX])
{
	const struct usage *one;
	struct usage node;
	struct groups g;
	size_t n = 0;

	usage_rows_get(e->usages, i, &node);
	groups_init(&g, e->usages, i, &node);
	while (n < EPOCH_GROUPS_MAX && (one = groups_next(&g)))
		set_outcome(e, one, &groups[n++]);
	if (n > 1)
		split_pay(e, i, groups, n);
	else
		memcpy(groups[0].pay, e->pay[i], sizeof groups[0].pay);
	return n;
}

void epoch_outcome(const struct epoch *e, size_t i, struct outcome *o)
{
	const struct usage *one;
	struct usage node;
	struct groups g;

	usage_rows_get(e->usages, i, &node);
	groups_init(&g, e->usages, i, &node);
	while ((one = groups_next(&g)) && !pay_qualifies(e->rules, one))
		;
	set_outcome(e, one ? one : &node, o);
	memcpy(o->pay, e->pay[i], sizeof o->pay);
	o->locked = epoch_locked(e, i);
}
