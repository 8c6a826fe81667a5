/* core.c - computes what each node of an epoch is paid, exactly, and with the same bits on any
 * number of threads. */
#include "cmd/rnp-reward/core.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/base/money.h"

#define BASE_UNITS UINT64_C(100000000) /* base units of one token */

void epoch_init(struct epoch *e, const struct rules *r, const struct usage *usages,
	size_t n)
{
	memset(e, 0, sizeof *e);
	e->rules = r;
	e->usages = usages;
	e->n = n;
	e->scheduled_base_units = -1;
	e->from_ms = e->to_ms = -1;
	for (int i = 0; i < PAY_N; i++)
		e->scale[i] = (struct frac){ 1, 1 };
}

void epoch_release(struct epoch *e)
{
	free(e->outcomes);
	free(e->terms_ppm);
	e->outcomes = NULL;
	e->terms_ppm = NULL;
}

const char *epoch_claimant(const struct usage *u)
{
	return u->wallet[0] ? u->wallet : u->node;
}

/* --- what can be wrong with the whole ------------------------------------------------------ */

static int check_arguments(const struct epoch *e)
{
	const struct rules *r = e->rules;

	if (r->shares && e->scheduled_base_units < 0)
		return err_set(EX_USAGE, "policy %s splits a pool: give --pool",
			r->policy.name);
	if (r->needs_price && !e->price_uusd)
		return err_set(EX_USAGE, "policy %s converts dollars: give --price",
			r->policy.name);
	for (int i = 0; i < PAY_N; i++)
		if (frac_cmp(e->scale[i], r->pay[i].scale_max) > 0)
			return err_set(EX_USAGE,
				"policy %s does not scale %s pay that far",
				r->policy.name, pay_names[i]);
	return 0;
}

/* Checks that all usages are of one epoch: their times, if they state any, are the same. */
static int check_epoch(struct epoch *e, size_t *bad_index)
{
	e->epoch_s = e->rules->epoch_s;
	for (size_t i = 0; i < e->n; i++) {
		const struct usage *u = &e->usages[i];

		*bad_index = i;
		if (u->from_ms < 0 || u->to_ms < 0)
			continue;
		if (u->to_ms - u->from_ms < 1000)
			return err_set(EX_DATAERR,
				"the epoch from-to is shorter than a second");
		if (e->from_ms >= 0 && (u->from_ms != e->from_ms || u->to_ms != e->to_ms))
			return err_set(EX_DATAERR,
				"from-to is another epoch than before");
		e->from_ms = u->from_ms;
		e->to_ms = u->to_ms;
	}
	if (e->from_ms >= 0 && e->rules->epoch_from_usage)
		e->epoch_s = (e->to_ms - e->from_ms) / 1000;
	for (size_t i = 0; i < e->n; i++) {
		const struct usage *u = &e->usages[i];

		*bad_index = i;
		for (int f = FIELD_WORKED_S; f <= FIELD_UP_S; f++)
			if (u->value[f] > e->epoch_s)
				return err_set(EX_DATAERR,
					"field '%s' is %" PRId64
					", more than the %" PRId64 " s of the epoch",
					field_names[f], u->value[f], e->epoch_s);
		if (u->value[FIELD_GPU_WORKED_S] / e->epoch_s >
				u->value[FIELD_GPU_COUNT] ||
			(u->value[FIELD_GPU_WORKED_S] / e->epoch_s ==
					u->value[FIELD_GPU_COUNT] &&
				u->value[FIELD_GPU_WORKED_S] % e->epoch_s))
			return err_set(EX_DATAERR,
				"field 'gpu_worked_s' is %" PRId64 ", more than %" PRId64
				" GPUs have in %" PRId64 " s",
				u->value[FIELD_GPU_WORKED_S], u->value[FIELD_GPU_COUNT],
				e->epoch_s);
	}
	*bad_index = e->n;
	return 0;
}

/* --- who qualifies ------------------------------------------------------------------------- */

static void qualify(const struct epoch *e, size_t i)
{
	struct outcome *o = &e->outcomes[i];

	for (int k = 0; k < e->rules->nneeds; k++) {
		bool unknown, met = rules_met(e->rules, k, &e->usages[i], &unknown);

		if (!met)
			o->unmet |= UINT64_C(1) << k;
		else if (unknown)
			o->waived |= UINT64_C(1) << k;
	}
}

static void qualify_all(struct epoch *e)
{
#pragma omp parallel for schedule(static) if (e->n > 1024)
	for (size_t i = 0; i < e->n; i++)
		qualify(e, i);
	for (size_t i = 0; i < e->n; i++) {
		if (!outcome_qualified(&e->outcomes[i]))
			continue;
		e->qualified++;
		for (int f = 0; f < FIELD_USAGE; f++)
			if (e->usages[i].value[f] > e->max[f])
				e->max[f] = e->usages[i].value[f];
	}
}

/* --- terms and pay ------------------------------------------------------------------------- */

static int does_not_fit(const struct usage *u)
{
	return err_set(EX_DATAERR, "node %s: its pay does not fit 64 bits", u->node);
}

static int pay_amount(struct epoch *e, struct eval *v, size_t i, int part)
{
	const struct pay *p = &e->rules->pay[part];
	struct frac amount;

	if (rules_eval(v, p->amount, &amount) < 0)
		return -1;
	if (!frac_mul(&amount, amount, e->scale[part]) ||
		!frac_floor(amount, BASE_UNITS, &e->outcomes[i].pay[part]))
		return does_not_fit(&e->usages[i]);
	return 0;
}

static int compute_one(struct epoch *e, size_t i, struct frac *weights[PAY_N])
{
	const struct rules *r = e->rules;
	struct eval v;
	struct outcome *o = &e->outcomes[i];

	rules_eval_init(&v, r, &e->usages[i], e->epoch_s, e->price_uusd, e->max);
	if (rules_eval_terms(&v) < 0)
		return -1;
	for (int t = 0; t < r->nterms; t++) {
		int64_t ppm;

		o->missing |= v.missing[t];
		if (!frac_floor(v.term[t], MONEY_PPM, &ppm))
			return does_not_fit(&e->usages[i]);
		if (!e->lean)
			e->terms_ppm[i * (size_t)r->nterms + (size_t)t] = ppm;
	}
	if (!outcome_qualified(o))
		return 0;
	for (int part = 0; part < PAY_N; part++) {
		if (r->pay[part].amount && pay_amount(e, &v, i, part) < 0)
			return -1;
		if (r->pay[part].share &&
			rules_eval(&v, r->pay[part].share, &weights[part][i]) < 0)
			return -1;
	}
	return 0;
}

void epoch_terms(const struct epoch *e, size_t i, int64_t *ppm)
{
	const struct rules *r = e->rules;
	struct eval v;

	if (!e->lean) {
		memcpy(ppm, &e->terms_ppm[i * (size_t)r->nterms],
			(size_t)r->nterms * sizeof *ppm);
		return;
	}
	rules_eval_init(&v, r, &e->usages[i], e->epoch_s, e->price_uusd, e->max);
	if (rules_eval_terms(&v) < 0)
		bug("%s", err_get()->text);
	for (int t = 0; t < r->nterms; t++)
		if (!frac_floor(v.term[t], MONEY_PPM, &ppm[t]))
			bug("a term that fitted");
}

/* Of several failures, the first in the order of the input is reported. */
static int compute_all(struct epoch *e, struct frac *weights[PAY_N], size_t *bad_index)
{
	struct err error = { 0 };
	size_t bad = e->n;

#pragma omp parallel for schedule(static) if (e->n > 256)
	for (size_t i = 0; i < e->n; i++) {
		for (int part = 0; part < PAY_N; part++)
			if (weights[part])
				weights[part][i] = FRAC_ZERO;
		if (compute_one(e, i, weights) == 0)
			continue;
#pragma omp critical
		if (i < bad) {
			bad = i;
			err_save(&error);
		}
	}
	*bad_index = bad;
	return bad < e->n ? err_restore(&error) : 0;
}

/* --- pools --------------------------------------------------------------------------------- */

static int sum_up(struct epoch *e)
{
	e->total_base_units = 0;
	for (size_t i = 0; i < e->n; i++)
		for (int part = 0; part < PAY_N; part++)
			if (__builtin_add_overflow(e->total_base_units,
				    e->outcomes[i].pay[part], &e->total_base_units))
				return err_set(EX_DATAERR,
					"the pay of all nodes does not fit 64 bits");
	return 0;
}

/* Returns the smallest of three limits: the scheduled amount, and what the policy allows for
 * this number of nodes and for this length of time. */
static int64_t limit_pool(const struct epoch *e, int64_t pool)
{
	const struct rules *r = e->rules;
	int64_t max;

	if (r->per_node_base_units >= 0 &&
		!__builtin_mul_overflow(r->per_node_base_units, (int64_t)e->qualified,
			&max) &&
		(pool < 0 || max < pool))
		pool = max;
	if (r->month_base_units >= 0) {
		u128 month = (u128)r->month_base_units * (u128)e->epoch_s / RULES_MONTH_S;

		if (pool < 0 || month < (u128)pool)
			pool = month > INT64_MAX ? INT64_MAX : (int64_t)month;
	}
	return pool;
}

static int share_out(struct epoch *e, struct frac *weights[PAY_N])
{
	int64_t *parts = xcalloc(e->n, sizeof *parts), pool;
	int rc = 0;

	e->pool_base_units = limit_pool(e, e->scheduled_base_units);
	for (int part = 0; part < PAY_N && rc == 0; part++) {
		if (!weights[part])
			continue;
		/* parts add up to at most 1, so that their floors fit */
		if (frac_cmp(e->rules->pool_part[part], frac_of(1, 1)) == 0)
			pool = e->pool_base_units;
		else if (!frac_floor(e->rules->pool_part[part],
				 (uint64_t)e->pool_base_units, &pool))
			pool = 0;
		rc = split_fracs(pool, weights[part], e->n, parts);
		for (size_t i = 0; i < e->n; i++)
			e->outcomes[i].pay[part] = parts[i];
	}
	free(parts);
	return rc;
}

/* Scales pay down if the rates together exceed the pool: every claimant gets the same fraction
 * of the pay at the rates, and the whole pool is spent, to the last unit. */
static int scale_to_pool(struct epoch *e, int64_t pool)
{
	int64_t *weights = xmalloc(2 * e->n * sizeof *weights);
	int64_t *parts = xmalloc(2 * e->n * sizeof *parts);
	int rc;

	for (size_t i = 0; i < 2 * e->n; i++)
		weights[i] = e->outcomes[i / 2].pay[i % 2];
	rc = money_split(pool, weights, 2 * e->n, parts);
	for (size_t i = 0; i < 2 * e->n && rc == 0; i++)
		e->outcomes[i / 2].pay[i % 2] = parts[i];
	free(weights);
	free(parts);
	return rc;
}

static int fit_pool(struct epoch *e, struct frac *weights[PAY_N])
{
	int64_t pool;

	if (e->rules->shares)
		return share_out(e, weights) < 0 ? -1 : sum_up(e);
	if (sum_up(e) < 0)
		return -1;
	pool = limit_pool(e, e->scheduled_base_units);
	e->pool_base_units = pool < 0 ? e->total_base_units : pool;
	if (e->total_base_units <= e->pool_base_units)
		return 0;
	e->scaled_down = true;
	return scale_to_pool(e, e->pool_base_units) < 0 ? -1 : sum_up(e);
}

/* --- what one claimant is paid at most ------------------------------------------------------ */

struct claimant {
	const char *address;
	size_t index;
};

static int by_claimant(const void *a, const void *b)
{
	const struct claimant *x = a, *y = b;
	int order = strcmp(x->address, y->address);

	return order ? order : (x->index > y->index) - (x->index < y->index);
}

/* Reduces the pay of one claimant's nodes in proportion to the cap. */
static int cap_claimant(struct epoch *e, const struct claimant *list, size_t n)
{
	int64_t *weights = xmalloc(2 * n * sizeof *weights), *parts, sum = 0;
	int rc = 0;

	for (size_t i = 0; i < 2 * n; i++) {
		weights[i] = e->outcomes[list[i / 2].index].pay[i % 2];
		sum += weights[i]; /* does not overflow: the sum over all nodes fits */
	}
	if (sum > e->rules->wallet_base_units) {
		parts = xmalloc(2 * n * sizeof *parts);
		rc = money_split(e->rules->wallet_base_units, weights, 2 * n, parts);
		for (size_t i = 0; i < 2 * n && rc == 0; i++)
			e->outcomes[list[i / 2].index].pay[i % 2] = parts[i];
		free(parts);
		e->capped++;
	}
	free(weights);
	return rc;
}

/* The amount above the cap stays in the pool. */
static int cap_claimants(struct epoch *e)
{
	struct claimant *list;
	int rc = 0;

	if (e->rules->wallet_base_units < 0)
		return 0;
	list = xmalloc(e->n * sizeof *list);
	for (size_t i = 0; i < e->n; i++)
		list[i] = (struct claimant){ epoch_claimant(&e->usages[i]), i };
	qsort(list, e->n, sizeof *list, by_claimant);
	for (size_t i = 0, end; i < e->n && rc == 0; i = end) {
		for (end = i + 1;
			end < e->n && strcmp(list[end].address, list[i].address) == 0;)
			end++;
		rc = cap_claimant(e, list + i, end - i);
	}
	free(list);
	return rc < 0 ? -1 : sum_up(e);
}

/* --- the stake ------------------------------------------------------------------------------ */

/* A node's earnings stay locked until they are worth the stake: the missing dollars, at the
 * epoch's price, rounded up, but no more than the node earned. */
static void lock_stakes(struct epoch *e)
{
	e->locked_base_units = 0;
	if (e->rules->stake_uusd < 0 || !e->price_uusd)
		return;
	for (size_t i = 0; i < e->n; i++) {
		struct outcome *o = &e->outcomes[i];
		int64_t missing = e->rules->stake_uusd -
			e->usages[i].value[FIELD_STAKED_UUSD];
		u128 units;

		if (missing <= 0)
			continue;
		units = ((u128)missing * BASE_UNITS + (u128)e->price_uusd - 1) /
			(u128)e->price_uusd;
		o->locked = units > (u128)outcome_total(o) ? outcome_total(o) :
							     (int64_t)units;
		e->locked_base_units += o->locked;
	}
}

static int finish_pay(struct epoch *e, struct frac *weights[PAY_N])
{
	if (fit_pool(e, weights) < 0 || cap_claimants(e) < 0)
		return -1;
	/* without a limit the pool is the sum of all pay, and pay above a cap was never minted */
	if (!e->rules->shares && limit_pool(e, e->scheduled_base_units) < 0)
		e->pool_base_units = e->total_base_units;
	lock_stakes(e);
	return 0;
}

/* --- the tree ------------------------------------------------------------------------------ */

long epoch_leaves(const struct epoch *e, struct merkle_leaf **leaves)
{
	struct merkle_leaf *all = xmalloc(e->n * sizeof *all);
	size_t paid = 0;
	long n;

	for (size_t i = 0; i < e->n; i++) {
		int64_t amount = outcome_total(&e->outcomes[i]);
		struct merkle_leaf *leaf = &all[paid];

		if (!amount)
			continue;
		if (address_parse(epoch_claimant(&e->usages[i]), "wallet",
			    leaf->claimant) < 0) {
			free(all);
			return -1;
		}
		leaf->unlocked = (uint64_t)(amount - e->outcomes[i].locked);
		leaf->locked = (uint64_t)e->outcomes[i].locked;
		paid++;
	}
	n = merkle_sort(all, paid);
	if (n < 0) {
		free(all);
		all = NULL;
	}
	*leaves = all;
	return n;
}

static int plant(struct epoch *e)
{
	struct merkle_leaf *leaves;
	long n = epoch_leaves(e, &leaves);

	if (n < 0)
		return -1;
	e->claimants = (size_t)n;
	if (n)
		merkle_root(leaves, (size_t)n, e->root, 0, NULL, NULL);
	free(leaves);
	return 0;
}

int epoch_compute(struct epoch *e, size_t *bad_index)
{
	struct frac *weights[PAY_N] = { NULL };
	int rc = -1;

	*bad_index = e->n;
	if (check_arguments(e) < 0 || check_epoch(e, bad_index) < 0)
		return -1;
	epoch_release(e);
	e->outcomes = xcalloc(e->n, sizeof *e->outcomes);
	if (!e->lean)
		e->terms_ppm = xmalloc(
			e->n * (size_t)e->rules->nterms * sizeof *e->terms_ppm);
	e->capped = 0;
	e->scaled_down = false;
	for (int part = 0; part < PAY_N; part++)
		if (e->rules->pay[part].share)
			weights[part] = xmalloc(e->n * sizeof *weights[part]);
	qualify_all(e);
	if (compute_all(e, weights, bad_index) == 0 && finish_pay(e, weights) == 0)
		rc = plant(e);
	for (int part = 0; part < PAY_N; part++)
		free(weights[part]);
	return rc;
}

/* --- duplicates ---------------------------------------------------------------------------- */

bool usage_duplicate(const struct usage *usages, size_t n, size_t *first, size_t *second)
{
	/* the hash has a secret key because strangers choose the addresses */
	unsigned char key[crypto_shorthash_KEYBYTES], hash[crypto_shorthash_BYTES];
	size_t slots = 16, at;
	uint32_t *table;
	bool found = false;

	while (slots < 2 * n)
		slots *= 2;
	table = xcalloc(slots, sizeof *table);
	randombytes_buf(key, sizeof key);
	for (size_t i = 0; i < n && !found; i++) {
		crypto_shorthash(hash, (const unsigned char *)usages[i].node,
			strlen(usages[i].node), key);
		memcpy(&at, hash, sizeof at);
		for (at &= slots - 1; table[at]; at = (at + 1) & (slots - 1)) {
			*first = table[at] - 1;
			*second = i;
			if (strcmp(usages[*first].node, usages[i].node) == 0) {
				found = true;
				break;
			}
		}
		table[at] = (uint32_t)i + 1;
	}
	free(table);
	return found;
}
