/* core.c - computes what each node of an epoch is paid, exactly, and with the same bits on any
 * number of threads. */
#include "cmd/rnp-reward/epoch/core.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/epoch/groups.h"
#include "cmd/rnp-reward/epoch/pay.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"

void epoch_init(struct epoch *e, const struct rules *r, const struct usage_rows *usages)
{
	memset(e, 0, sizeof *e);
	e->rules = r;
	e->usages = usages;
	e->scheduled_base_units = -1;
	e->from_ms = e->to_ms = -1;
	for (int i = 0; i < PAY_N; i++)
		e->scale[i] = (struct frac){ 1, 1 };
}

void epoch_release(struct epoch *e)
{
	free(e->pay);
	free(e->locked);
	e->pay = NULL;
	e->locked = NULL;
}

/* --- one usage after the other, on all cores ------------------------------------------------ */

struct pass {
	struct epoch *epoch;
	struct frac *weights; /* one per usage; NULL: nothing is shared */
	int part;             /* whose weights they are */
};

/* What one thread adds up over its usages. */
struct sums {
	size_t qualified;
	int64_t max[FIELD_USAGE];
};

/* Works on one usage, on any thread; sums are the thread's own. */
typedef int (*usage_fn)(const struct pass *p, size_t i, const struct usage *u,
	struct sums *sums);

static void add_sums(struct epoch *e, const struct sums *sums)
{
	e->qualified += sums->qualified;
	for (int f = 0; f < FIELD_USAGE; f++)
		if (sums->max[f] > e->max[f])
			e->max[f] = sums->max[f];
}

/* Of several failures, the first in the order of the input is reported. */
static int each_usage(const struct pass *p, usage_fn fn, size_t *bad_index)
{
	struct epoch *e = p->epoch;
	struct err error = { 0 };
	size_t bad = e->n;

#pragma omp parallel if (e->n > 256)
	{
		struct sums sums = { 0 };
		struct usage u;

#pragma omp for schedule(static)
		for (size_t i = 0; i < e->n; i++) {
			usage_rows_get(e->usages, i, &u);
			if (fn(p, i, &u, &sums) == 0)
				continue;
#pragma omp critical
			if (i < bad) {
				bad = i;
				err_save(&error);
			}
		}
#pragma omp critical
		add_sums(e, &sums);
	}
	*bad_index = bad;
	return bad < e->n ? err_restore(&error) : 0;
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
static int check_times(struct epoch *e, size_t *bad_index)
{
	int64_t from_ms, to_ms;

	for (size_t i = 0; i < e->n; i++) {
		usage_rows_times(e->usages, i, &from_ms, &to_ms);
		*bad_index = i;
		if (from_ms < 0 || to_ms < 0)
			continue;
		if (to_ms - from_ms < 1000)
			return err_set(EX_DATAERR,
				"the epoch from-to is shorter than a second");
		if (e->from_ms >= 0 && (from_ms != e->from_ms || to_ms != e->to_ms))
			return err_set(EX_DATAERR,
				"from-to is another epoch than before");
		e->from_ms = from_ms;
		e->to_ms = to_ms;
	}
	*bad_index = e->n;
	e->epoch_s = e->rules->epoch_s;
	if (e->from_ms >= 0 && e->rules->epoch_from_usage)
		e->epoch_s = (e->to_ms - e->from_ms) / 1000;
	return 0;
}

static int check_work(const struct usage *u, int64_t epoch_s)
{
	int64_t worked_s = u->value[FIELD_GPU_WORKED_S], gpus = u->value[FIELD_GPU_COUNT];

	for (int f = FIELD_WORKED_S; f <= FIELD_UP_S; f++)
		if (u->value[f] > epoch_s)
			return err_set(EX_DATAERR,
				"field '%s' is %" PRId64 ", more than the %" PRId64
				" s of the epoch",
				field_names[f], u->value[f], epoch_s);
	if (worked_s / epoch_s > gpus ||
		(worked_s / epoch_s == gpus && worked_s % epoch_s))
		return err_set(EX_DATAERR,
			"field 'gpu_worked_s' is %" PRId64 ", more than %" PRId64
			" GPUs have in %" PRId64 " s",
			worked_s, gpus, epoch_s);
	return 0;
}

/* Checks one usage, and counts it if one of its groups of GPUs qualifies. */
static int admit(const struct pass *p, size_t i, const struct usage *u, struct sums *sums)
{
	const struct usage *one;
	int64_t worked_s = 0;
	bool any = false;
	struct groups g;

	groups_init(&g, p->epoch->usages, i, u);
	while ((one = groups_next(&g))) {
		if (check_work(one, p->epoch->epoch_s) < 0)
			return -1;
		worked_s += one->value[FIELD_WORKED_S];
		if (!pay_qualifies(p->epoch->rules, one))
			continue;
		any = true;
		for (int f = 0; f < FIELD_USAGE; f++)
			if (one->value[f] > sums->max[f])
				sums->max[f] = one->value[f];
	}
	if (worked_s > p->epoch->epoch_s)
		return err_set(EX_DATAERR,
			"field 'worked_s' of all groups of GPUs is %" PRId64
			", more than the %" PRId64 " s of the epoch",
			worked_s, p->epoch->epoch_s);
	sums->qualified += any;
	return 0;
}

/* Adds the pay of one group to that of node i. */
static int add_group(const struct pass *p, size_t i, const struct usage *one,
	const struct frac weights[PAY_N])
{
	struct epoch *e = p->epoch;
	int64_t units;

	for (int part = 0; part < PAY_N; part++) {
		const struct pay *pay = &e->rules->pay[part];

		if (pay->amount) {
			if (pay_base_units(e, one, part, weights[part], &units) < 0)
				return -1;
			if (__builtin_add_overflow(e->pay[i][part], units,
				    &e->pay[i][part]))
				return pay_does_not_fit(one);
		}
		if (pay->share && part == p->part &&
			!frac_add(&p->weights[i], p->weights[i], weights[part]))
			return pay_does_not_fit(one);
	}
	return 0;
}

/* Computes one node's pay, and its weight in the part of p; the weight in the other part only to
 * see whether it can be computed. */
static int compute_one(const struct pass *p, size_t i, const struct usage *u,
	struct sums *sums)
{
	enum pay_place place = PAY_FIRST;
	struct frac weights[PAY_N];
	const struct usage *one;
	struct groups g;

	(void)sums;
	if (p->weights)
		p->weights[i] = FRAC_ZERO;
	groups_init(&g, p->epoch->usages, i, u);
	while ((one = groups_next(&g))) {
		bool paid = pay_qualifies(p->epoch->rules, one);

		if (pay_weigh(p->epoch, one, paid ? place : PAY_NOTHING, weights) < 0)
			return -1;
		if (!paid)
			continue;
		if (add_group(p, i, one, weights) < 0)
			return -1;
		place = PAY_FURTHER;
	}
	return 0;
}

/* --- pools --------------------------------------------------------------------------------- */

static int sum_up(struct epoch *e)
{
	e->total_base_units = 0;
	for (size_t i = 0; i < e->n; i++)
		for (int part = 0; part < PAY_N; part++)
			if (__builtin_add_overflow(e->total_base_units, e->pay[i][part],
				    &e->total_base_units))
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

/* Divides the part of the pool that p->weights are for. */
static int share_part(const struct pass *p)
{
	struct epoch *e = p->epoch;
	int64_t *parts = xcalloc(e->n, sizeof *parts), pool;
	int rc;

	/* parts add up to at most 1, so that their floors fit */
	if (frac_cmp(e->rules->pool_part[p->part], frac_of(1, 1)) == 0)
		pool = e->pool_base_units;
	else if (!frac_floor(e->rules->pool_part[p->part], (uint64_t)e->pool_base_units,
			 &pool))
		pool = 0;
	rc = split_fracs(pool, p->weights, e->n, parts);
	for (size_t i = 0; i < e->n; i++)
		e->pay[i][p->part] = parts[i];
	free(parts);
	return rc;
}

/* Weights take more memory than usages do, so only those of one part are in memory at a time;
 * those of a second part are computed once the first has been shared out. */
static int share_out(struct pass *p)
{
	struct epoch *e = p->epoch;
	size_t bad;

	e->pool_base_units = limit_pool(e, e->scheduled_base_units);
	if (share_part(p) < 0)
		return -1;
	while (++p->part < PAY_N)
		if (e->rules->pay[p->part].share &&
			(each_usage(p, compute_one, &bad) < 0 || share_part(p) < 0))
			return -1;
	return 0;
}

/* Scales pay down if the rates together exceed the pool: every claimant gets the same fraction
 * of the pay at the rates, and the whole pool is spent, to the last unit. */
static int fit_pool(struct pass *p)
{
	struct epoch *e = p->epoch;
	int64_t pool;

	if (e->rules->shares)
		return share_out(p) < 0 ? -1 : sum_up(e);
	if (sum_up(e) < 0)
		return -1;
	pool = limit_pool(e, e->scheduled_base_units);
	e->pool_base_units = pool < 0 ? e->total_base_units : pool;
	if (e->total_base_units <= e->pool_base_units)
		return 0;
	e->scaled_down = true;
	return money_split(e->pool_base_units, e->pay[0], PAY_N * e->n, e->pay[0]) < 0 ?
		-1 :
		sum_up(e);
}

/* --- what one claimant is paid at most ------------------------------------------------------ */

/* Reduces the pay of one claimant's nodes in proportion to the cap. */
static int cap_claimant(struct epoch *e, const struct usage_ref *refs, size_t n)
{
	int64_t *parts = xmalloc(PAY_N * n * sizeof *parts), sum = 0;
	int rc = 0;

	for (size_t i = 0; i < PAY_N * n; i++) {
		parts[i] = e->pay[refs[i / PAY_N].row][i % PAY_N];
		sum += parts[i]; /* does not overflow: the sum over all nodes fits */
	}
	if (sum > e->rules->wallet_base_units) {
		rc = money_split(e->rules->wallet_base_units, parts, PAY_N * n, parts);
		for (size_t i = 0; i < PAY_N * n && rc == 0; i++)
			e->pay[refs[i / PAY_N].row][i % PAY_N] = parts[i];
		e->capped++;
	}
	free(parts);
	return rc;
}

/* Returns the end of the refs from i on that have the same claimant. */
static size_t claimant_end(const struct epoch *e, const struct usage_ref *refs, size_t i)
{
	do
		i++;
	while (i < e->n && !refs[i].first);
	return i;
}

/* The amount above the cap stays in the pool. */
static int cap_claimants(struct epoch *e, const struct usage_ref *refs)
{
	int rc = 0;

	if (e->rules->wallet_base_units < 0)
		return 0;
	for (size_t i = 0, end; i < e->n && rc == 0; i = end) {
		end = claimant_end(e, refs, i);
		rc = cap_claimant(e, refs + i, end - i);
	}
	return rc < 0 ? -1 : sum_up(e);
}

/* --- the stake ------------------------------------------------------------------------------ */

/* A node's earnings stay locked until they are worth the stake: the missing dollars, at the
 * epoch's price, rounded up, but no more than the node earned. */
static int lock_stake(const struct pass *p, size_t i, const struct usage *u,
	struct sums *sums)
{
	struct epoch *e = p->epoch;
	int64_t missing = e->rules->stake_uusd - u->value[FIELD_STAKED_UUSD];
	u128 units;

	(void)sums;
	if (missing <= 0)
		return 0;
	units = ((u128)missing * PAY_BASE_UNITS + (u128)e->price_uusd - 1) /
		(u128)e->price_uusd;
	e->locked[i] = units > (u128)epoch_total(e, i) ? epoch_total(e, i) :
							 (int64_t)units;
	return 0;
}

static void lock_stakes(const struct pass *p)
{
	struct epoch *e = p->epoch;
	size_t bad;

	e->locked_base_units = 0;
	if (e->rules->stake_uusd < 0 || !e->price_uusd)
		return;
	e->locked = xcalloc(e->n, sizeof *e->locked);
	each_usage(p, lock_stake, &bad);
	for (size_t i = 0; i < e->n; i++)
		e->locked_base_units += e->locked[i];
}

/* --- the tree ------------------------------------------------------------------------------ */

/* Makes the leaves of the claimants that are paid when they are needed, so that they are never all
 * in memory. */
struct planting {
	const struct epoch *epoch;
	const struct usage_ref *refs; /* in the order of claimants */
	size_t *start;                /* of every MERKLE_SLICE leaves, in refs */
	size_t n;                     /* of leaves */
};

/* Adds up the claimant of refs from *i on, and moves *i after it. Returns whether it is paid. */
static bool add_amounts(const struct planting *p, size_t *i, struct merkle_leaf *leaf)
{
	const struct epoch *e = p->epoch;
	size_t end = claimant_end(e, p->refs, *i), row;

	leaf->unlocked = leaf->locked = 0;
	for (; *i < end; ++*i) {
		row = p->refs[*i].row;
		/* the sum over all nodes fits 64 bits */
		leaf->unlocked += (uint64_t)(epoch_total(e, row) - epoch_locked(e, row));
		leaf->locked += (uint64_t)epoch_locked(e, row);
	}
	return leaf->unlocked || leaf->locked;
}

static void planting_init(struct planting *p, const struct epoch *e,
	const struct usage_ref *refs)
{
	struct merkle_leaf leaf;

	*p = (struct planting){ .epoch = e, .refs = refs };
	p->start = xmalloc((e->n / MERKLE_SLICE + 1) * sizeof *p->start);
	p->start[0] = 0;
	for (size_t i = 0; i < e->n;)
		if (add_amounts(p, &i, &leaf) && ++p->n % MERKLE_SLICE == 0)
			p->start[p->n / MERKLE_SLICE] = i;
}

size_t epoch_next_leaves(const struct epoch *e, const struct usage_ref *refs, size_t *at,
	struct merkle_leaf *leaves, size_t max)
{
	const struct planting p = { .epoch = e, .refs = refs };
	size_t n = 0, row;

	while (n < max && *at < e->n) {
		row = refs[*at].row;
		if (!add_amounts(&p, at, &leaves[n]))
			continue;
		memcpy(leaves[n++].claimant, usage_rows_claimant(e->usages, row),
			sizeof leaves->claimant);
	}
	return n;
}

/* Makes n leaves from leaf `from` on, the first of a slice. */
static void make_leaves(void *planting, size_t from, size_t n, struct merkle_leaf *leaves)
{
	const struct planting *p = planting;
	size_t at = p->start[from / MERKLE_SLICE];

	epoch_next_leaves(p->epoch, p->refs, &at, leaves, n);
}

size_t epoch_leaves(const struct epoch *e, struct merkle_leaf **leaves)
{
	struct usage_ref *refs = usage_rows_sort(e->usages, usage_rows_claimant);
	size_t at = 0, n;

	*leaves = xmalloc((e->claimants + 1) * sizeof **leaves);
	n = epoch_next_leaves(e, refs, &at, *leaves, e->claimants + 1);
	free(refs);
	return n;
}

static void plant(struct epoch *e, const struct usage_ref *refs)
{
	struct planting p;

	planting_init(&p, e, refs);
	e->claimants = p.n;
	if (p.n)
		merkle_root_of(make_leaves, &p, p.n, e->root);
	free(p.start);
}

/* --- all of it ------------------------------------------------------------------------------ */

static int finish_pay(struct pass *p)
{
	struct epoch *e = p->epoch;
	struct usage_ref *refs = NULL;
	int rc = fit_pool(p);

	free(p->weights);
	p->weights = NULL;
	if (rc == 0) {
		refs = usage_rows_sort(e->usages, usage_rows_claimant);
		rc = cap_claimants(e, refs);
	}
	if (rc == 0) {
		/* without a limit the pool is the sum of all pay, and pay above a cap was never
		 * minted */
		if (!e->rules->shares && limit_pool(e, e->scheduled_base_units) < 0)
			e->pool_base_units = e->total_base_units;
		lock_stakes(p);
		plant(e, refs);
	}
	free(refs);
	return rc;
}

int epoch_compute(struct epoch *e, size_t *bad_index)
{
	struct pass p = { .epoch = e };

	epoch_release(e);
	e->n = *bad_index = e->usages->n;
	e->qualified = 0;
	memset(e->max, 0, sizeof e->max);
	if (check_arguments(e) < 0 || check_times(e, bad_index) < 0 ||
		each_usage(&p, admit, bad_index) < 0)
		return -1;
	e->pay = xcalloc(e->n, sizeof *e->pay);
	e->capped = 0;
	e->scaled_down = false;
	if (e->rules->shares) {
		p.weights = xmalloc(e->n * sizeof *p.weights);
		while (!e->rules->pay[p.part].share)
			p.part++;
	}
	if (each_usage(&p, compute_one, bad_index) < 0) {
		free(p.weights);
		return -1;
	}
	return finish_pay(&p);
}
