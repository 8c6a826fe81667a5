#include "cmd/rnp-reward/core.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"
#include "common/base/money.h"

#define BASE_UNITS UINT64_C(100000000) /* of one token */

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
	for (int i = 0; i < PAY_N; i++)
		if (frac_cmp(e->scale[i], r->pay[i].scale_max) > 0)
			return err_set(EX_USAGE,
				"policy %s does not scale %s pay that far",
				r->policy.name, pay_names[i]);
	return 0;
}

/* All usages are of one epoch: its times, where they say so, are the same. */
static int find_epoch(struct epoch *e, size_t *bad_index)
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
			if (e->usages[i].value[f] > e->most[f])
				e->most[f] = e->usages[i].value[f];
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

static int compute_one(struct epoch *e, size_t i, struct frac *weights)
{
	const struct rules *r = e->rules;
	struct eval v;
	struct outcome *o = &e->outcomes[i];

	rules_eval_init(&v, r, &e->usages[i], e->epoch_s, e->most);
	if (rules_eval_terms(&v) < 0)
		return -1;
	for (int t = 0; t < r->nterms; t++) {
		o->missing |= v.missing[t];
		if (!frac_floor(v.term[t], MONEY_PPM,
			    &e->terms_ppm[i * (size_t)r->nterms + (size_t)t]))
			return does_not_fit(&e->usages[i]);
	}
	if (!outcome_qualified(o))
		return 0;
	for (int part = 0; part < PAY_N; part++) {
		if (r->pay[part].amount && pay_amount(e, &v, i, part) < 0)
			return -1;
		if (r->pay[part].share &&
			rules_eval(&v, r->pay[part].share, &weights[i]) < 0)
			return -1;
	}
	return 0;
}

/* The first failure in the order of the input is the one that counts. */
static int compute_all(struct epoch *e, struct frac *weights, size_t *bad_index)
{
	struct err error = { 0 };
	size_t bad = e->n;

#pragma omp parallel for schedule(static) if (e->n > 256)
	for (size_t i = 0; i < e->n; i++) {
		if (weights)
			weights[i] = FRAC_ZERO;
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

static int share_out(struct epoch *e, struct frac *weights)
{
	int part = e->rules->pay[PAY_JOB].share ? PAY_JOB : PAY_AVAILABILITY;
	int64_t *parts, most;
	int rc;

	e->pool_base_units = e->scheduled_base_units;
	if (e->rules->per_node_base_units >= 0 &&
		!__builtin_mul_overflow(e->rules->per_node_base_units,
			(int64_t)e->qualified, &most) &&
		most < e->pool_base_units)
		e->pool_base_units = most;
	parts = xcalloc(e->n, sizeof *parts);
	rc = split_fracs(e->pool_base_units, weights, e->n, parts);
	for (size_t i = 0; i < e->n; i++)
		e->outcomes[i].pay[part] = parts[i];
	free(parts);
	return rc;
}

/* Pay at rates that together exceed the pool is cut in proportion: everybody gets the same
 * part of what the rates say, and the pool is spent to the last unit. */
static int cut_to_pool(struct epoch *e)
{
	int64_t *weights = xmalloc(2 * e->n * sizeof *weights);
	int64_t *parts = xmalloc(2 * e->n * sizeof *parts);
	int rc;

	for (size_t i = 0; i < 2 * e->n; i++)
		weights[i] = e->outcomes[i / 2].pay[i % 2];
	rc = money_split(e->scheduled_base_units, weights, 2 * e->n, parts);
	for (size_t i = 0; i < 2 * e->n && rc == 0; i++)
		e->outcomes[i / 2].pay[i % 2] = parts[i];
	free(weights);
	free(parts);
	return rc;
}

static int finish_pay(struct epoch *e, struct frac *weights)
{
	if (e->rules->shares)
		return share_out(e, weights) < 0 ? -1 : sum_up(e);
	if (sum_up(e) < 0)
		return -1;
	e->pool_base_units = e->total_base_units;
	if (e->scheduled_base_units < 0)
		return 0;
	e->pool_base_units = e->scheduled_base_units;
	if (e->total_base_units <= e->scheduled_base_units)
		return 0;
	e->cut = true;
	return cut_to_pool(e) < 0 ? -1 : sum_up(e);
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
		leaf->unlocked = (uint64_t)amount;
		leaf->locked = 0;
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
	struct frac *weights = NULL;
	int rc = -1;

	*bad_index = e->n;
	if (check_arguments(e) < 0 || find_epoch(e, bad_index) < 0)
		return -1;
	epoch_release(e);
	e->outcomes = xcalloc(e->n, sizeof *e->outcomes);
	e->terms_ppm = xmalloc(e->n * (size_t)e->rules->nterms * sizeof *e->terms_ppm);
	if (e->rules->shares)
		weights = xmalloc(e->n * sizeof *weights);
	qualify_all(e);
	if (compute_all(e, weights, bad_index) == 0 && finish_pay(e, weights) == 0)
		rc = plant(e);
	free(weights);
	return rc;
}

/* --- duplicates ---------------------------------------------------------------------------- */

bool usage_duplicate(const struct usage *usages, size_t n, size_t *first, size_t *second)
{
	/* a secret key for the hash: addresses are chosen by strangers */
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
