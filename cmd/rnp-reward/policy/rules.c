/* rules.c - compiles a policy and evaluates its requirements and terms for one node. */
#include "cmd/rnp-reward/policy/rules.h"

#include <pthread.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/gpu.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/base/num.h"

const char *const pay_names[PAY_N] = { "job", "availability" };

#define MODELS_FEW 16 /* so many are looked through faster than hashed */

#define NEED_WALLET -1
#define NEED_MODEL  -2
#define NEED_NONE   -3 /* a field that usages do not have: registration checks it */

/* --- compiling ----------------------------------------------------------------------------- */

static int compile_needs(struct rules *r)
{
	r->nneeds = policy_needs(&r->policy, "requires", r->needs);
	for (int i = 0; i < r->nneeds; i++) {
		const struct policy_need *n = &r->needs[i];
		bool text = n->op == POLICY_ONE_OF || n->op == POLICY_IN_TABLES;

		r->need_override[i] = factor_find(n->override);
		r->need_field[i] = field_find(n->field);
		if (strcmp(n->field, "wallet") == 0)
			r->need_field[i] = NEED_WALLET;
		else if (strcmp(n->field, "gpu_model") == 0)
			r->need_field[i] = NEED_MODEL;
		else if (r->need_field[i] < 0)
			r->need_field[i] = NEED_NONE;
		if (n->override && r->need_override[i] < 0)
			return err_set(EX_DATAERR,
				"requires[%d]: there is no factor '%s'", i, n->override);
		if (n->op != POLICY_KNOWN && r->need_field[i] != NEED_NONE &&
			text != (r->need_field[i] == NEED_MODEL))
			return err_set(EX_DATAERR,
				"requires[%d]: '%s' cannot be held against that", i,
				n->field);
		if (n->when == POLICY_REGISTRATION || r->need_field[i] == NEED_NONE)
			r->need_field[i] = NEED_NONE;
		else if (r->need_field[i] == NEED_WALLET)
			r->needs_wallet = true;
	}
	return r->nneeds < 0 ? -1 : 0;
}

static int compile_tables(struct rules *r)
{
	const json_t *tables = json_object_get(r->policy.doc, "tables");
	const char *name, *row;
	json_t *table, *value;
	struct frac unused;

	json_object_foreach((json_t *)tables, name, table) {
		if (r->scope.ntables == RULES_TABLES_MAX)
			return err_set(EX_DATAERR, "tables: more than %d",
				RULES_TABLES_MAX);
		json_object_foreach(table, row, value)
			if (frac_parse(json_string_value(value), row, &unused) < 0)
				return err_add("tables.%.40s", name);
		r->tables[r->scope.ntables] = table;
		r->scope.tables[r->scope.ntables++] = name;
	}
	return 0;
}

static int compile_terms(struct rules *r)
{
	const json_t *terms = json_object_get(r->policy.doc, "terms"), *v;
	char where[96];
	size_t i;

	json_array_foreach(terms, i, v) {
		const char *override = json_string_value(json_object_get(v, "override"));
		struct term *t = &r->terms[i];

		t->name = json_string_value(json_object_get(v, "name"));
		t->note = json_string_value(json_object_get(v, "note"));
		t->formula = json_object_get(v, "value");
		t->override = factor_find(override);
		snprintf(where, sizeof where, "term '%.40s'", t->name);
		if (override && t->override < 0)
			return err_set(EX_DATAERR, "%s: there is no factor '%.40s'",
				where, override);
		for (int k = 0; k < r->nterms; k++)
			if (strcmp(r->terms[k].name, t->name) == 0)
				return err_set(EX_DATAERR, "%s: stands there twice",
					where);
		t->value = expr_parse(&r->scope, t->formula, where);
		if (!t->value)
			return -1;
		r->scope.terms[r->nterms++] = t->name;
		r->scope.nterms = r->nterms;
	}
	return 0;
}

static int compile_pay(struct rules *r)
{
	const json_t *pays = json_object_get(r->policy.doc, "pay");

	for (int i = 0; i < PAY_N; i++) {
		const json_t *v = json_object_get(pays, pay_names[i]);
		const json_t *amount = json_object_get(v, "amount");
		const json_t *share = json_object_get(v, "share");
		const char *scale = json_string_value(json_object_get(v, "scale_max"));
		struct pay *p = &r->pay[i];

		p->scale_max = frac_of(1, 1);
		if (!v)
			continue;
		if (!amount == !share)
			return err_set(EX_DATAERR, "pay.%s: needs amount or share",
				pay_names[i]);
		if (scale && frac_parse(scale, "scale_max", &p->scale_max) < 0)
			return -1;
		p->formula = amount ? amount : share;
		p->amount = amount ? expr_parse(&r->scope, amount, pay_names[i]) : NULL;
		p->share = share ? expr_parse(&r->scope, share, pay_names[i]) : NULL;
		if (!p->amount && !p->share)
			return err_add("pay");
		r->shares = r->shares || share;
	}
	if (r->shares && (r->pay[0].amount || r->pay[1].amount))
		return err_set(EX_DATAERR,
			"pay: a share and an amount do not go together");
	return 0;
}

/* Reads a limit in tokens; absent: -1. */
static int compile_limit(const json_t *object, const char *key, int decimals,
	int64_t *out)
{
	const char *text = json_string_value(json_object_get(object, key));

	*out = -1;
	if (!text)
		return 0;
	if (num_decimal(text, key, decimals, 0, out) < 0)
		return -1;
	return *out < 0 ? err_set(EX_DATAERR, "%s: is negative", key) : 0;
}

/* Computes the part of the pool that each share splits: all of it if there is one share. */
static int compile_parts(struct rules *r, const json_t *pool)
{
	const json_t *parts = json_object_get(pool, "parts");
	struct frac sum = FRAC_ZERO;

	for (int i = 0; i < PAY_N; i++) {
		const char *text = json_string_value(
			json_object_get(parts, pay_names[i]));

		r->pool_part[i] = parts ? FRAC_ZERO : frac_of(1, 1);
		if (text && frac_parse(text, "pool.parts", &r->pool_part[i]) < 0)
			return -1;
		if (parts && !text == !!r->pay[i].share)
			return err_set(EX_DATAERR,
				"pool.parts: has a part for each share, and no other");
		if (r->pay[i].share && !frac_add(&sum, sum, r->pool_part[i]))
			return err_set(EX_DATAERR, "pool.parts: do not fit 128 bits");
	}
	if (frac_cmp(sum, frac_of(1, 1)) > 0)
		return err_set(EX_DATAERR,
			"pool.parts: two shares need parts of the pool that add "
			"up to no more than 1");
	return 0;
}

static void find_inputs(struct rules *r)
{
	uint32_t terms = 0, tables = 0, fields = 0;

	for (int i = 0; i < r->nterms; i++)
		expr_uses(r->terms[i].value, &terms, &tables, &fields);
	for (int i = 0; i < PAY_N; i++) {
		if (r->pay[i].amount)
			expr_uses(r->pay[i].amount, &terms, &tables, &fields);
		if (r->pay[i].share)
			expr_uses(r->pay[i].share, &terms, &tables, &fields);
	}
	r->needs_price = fields >> FIELD_PRICE_UUSD & 1;
}

static int compile_pool(struct rules *r)
{
	const json_t *pool = json_object_get(r->policy.doc, "pool");
	const json_t *caps = json_object_get(r->policy.doc, "caps");
	const json_t *stake = json_object_get(r->policy.doc, "stake");

	find_inputs(r);
	if (compile_limit(pool, "per_qualified_node", MONEY_RENDER_DECIMALS,
		    &r->per_node_base_units) < 0 ||
		compile_limit(pool, "per_month", MONEY_RENDER_DECIMALS,
			&r->month_base_units) < 0 ||
		compile_parts(r, pool) < 0)
		return err_add("pool");
	if (compile_limit(caps, "wallet", MONEY_RENDER_DECIMALS, &r->wallet_base_units) <
		0)
		return err_add("caps");
	if (compile_limit(stake, "usd", MONEY_USD_DECIMALS, &r->stake_uusd) < 0)
		return err_add("stake");
	r->slash_below_ppm = r->release_after_s = -1;
	return json_opt_i64(stake, "stake", "slash_below_ppm", 0, MONEY_PPM,
		       &r->slash_below_ppm) < 0 ||
			json_opt_i64(stake, "stake", "release_after_s", 0, INT32_MAX,
				&r->release_after_s) < 0 ?
		-1 :
		0;
}

int rules_compile(struct rules *r, struct policy *takes_policy)
{
	const json_t *epoch;
	int rc;

	memset(r, 0, sizeof *r);
	r->policy = *takes_policy;
	*takes_policy = (struct policy)POLICY_INIT;
	r->scope.arena = xcalloc(1, sizeof *r->scope.arena);
	epoch = json_object_get(r->policy.doc, "epoch");
	r->epoch_s = json_integer_value(json_object_get(epoch, "seconds"));
	r->epoch_from_usage = json_is_true(json_object_get(epoch, "from_usage"));
	rc = compile_needs(r) < 0 || compile_tables(r) < 0 || compile_terms(r) < 0 ||
			compile_pay(r) < 0 || compile_pool(r) < 0 ?
		-1 :
		0;
	if (rc < 0) {
		err_add("policy %.64s", r->policy.name);
		rules_release(r);
	}
	return rc;
}

int rules_load(struct rules *r, const char *name_or_path)
{
	struct policy p;

	memset(r, 0, sizeof *r);
	return policy_load(&p, name_or_path) < 0 ? -1 : rules_compile(r, &p);
}

void rules_release(struct rules *r)
{
	for (size_t i = 0; i < r->nmodels; i++) {
		free(r->models[i].raw);
		free(r->models[i].name);
	}
	free(r->models);
	hash_index_release(&r->by_model);
	if (r->scope.arena)
		arena_release(r->scope.arena);
	free(r->scope.arena);
	policy_release(&r->policy);
	memset(r, 0, sizeof *r);
}

/* --- models -------------------------------------------------------------------------------- */

struct model_name {
	const char *raw;
	int64_t memory_bytes;
};

static bool same_model(const void *rules, uint32_t index, const void *name)
{
	const struct model *m = &((const struct rules *)rules)->models[index];
	const struct model_name *n = name;

	return m->memory_bytes == n->memory_bytes && strcmp(m->raw, n->raw) == 0;
}

static uint32_t hash_model(const struct rules *r, const struct model_name *n)
{
	uint64_t h;

	crypto_shorthash((unsigned char *)&h, (const unsigned char *)n->raw,
		strlen(n->raw), r->model_key);
	h ^= (uint64_t)n->memory_bytes;
	crypto_shorthash((unsigned char *)&h, (const unsigned char *)&h, sizeof h,
		r->model_key);
	return (uint32_t)h;
}

static uint32_t find_model(const struct rules *r, const char *raw, int64_t memory_bytes)
{
	const struct model_name n = { raw, memory_bytes };

	if (r->nmodels > MODELS_FEW)
		return hash_index_find(&r->by_model, hash_model(r, &n), same_model, r,
			&n);
	for (size_t i = r->nmodels; i-- > 0;)
		if (same_model(r, (uint32_t)i, &n))
			return (uint32_t)i;
	return RULES_NO_MODEL;
}

/* Enters the last model into the index. */
static void index_model(struct rules *r)
{
	const struct model *m = &r->models[r->nmodels - 1];
	const struct model_name n = { m->raw, m->memory_bytes };
	uint32_t hash;

	if (r->nmodels == 1)
		randombytes_buf(r->model_key, sizeof r->model_key);
	hash = hash_model(r, &n);
	hash_index_reserve(&r->by_model);
	hash_index_set(&r->by_model,
		hash_index_slot(&r->by_model, hash, same_model, r, &n), hash,
		r->nmodels - 1);
}

/* A row is named by the canonical name, by the family ("H100" for "H100 SXM") or as written. */
static const char *row_of(const json_t *table, const struct gpu_model *gpu,
	const char *raw)
{
	const json_t *v = gpu ? json_object_get(table, gpu->name) : NULL;

	if (!v && gpu)
		v = json_object_get(table, gpu->family);
	if (!v)
		v = json_object_get(table, raw);
	return json_string_value(v);
}

static uint32_t add_model(struct rules *r, const char *raw, int64_t memory_bytes)
{
	const struct gpu_model *gpu = gpu_find(raw, memory_bytes);
	uint32_t found = find_model(r, raw, memory_bytes);
	struct model *m;

	if (found != RULES_NO_MODEL)
		return found;
	/* a memory size that no such card has does not change the model: a separate term prices
	 * the memory, and a challenge checks that it is present */
	if (!gpu)
		gpu = gpu_find(raw, 0);
	r->models = xgrow(r->models, &r->models_cap, r->nmodels + 1, sizeof *r->models);
	m = &r->models[r->nmodels];
	memset(m, 0, sizeof *m);
	m->raw = xstrdup(raw);
	m->memory_bytes = memory_bytes;
	m->name = xstrdup(gpu ? gpu->name : raw);
	for (int i = 0; i < r->scope.ntables; i++) {
		const char *value = row_of(r->tables[i], gpu, raw);

		if (!value)
			continue;
		m->rows.present[i] = true;
		if (frac_parse(value, raw, &m->rows.value[i]) < 0)
			bug("a table's number was checked before: %s", value);
	}
	r->nmodels++;
	index_model(r);
	return (uint32_t)r->nmodels - 1;
}

uint32_t rules_model(struct rules *r, const char *raw, int64_t memory_bytes)
{
	static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
	uint32_t found;

	/* nearly all usages find their model here, under a lock that readers share */
	pthread_rwlock_rdlock(&lock);
	found = find_model(r, raw, memory_bytes);
	pthread_rwlock_unlock(&lock);
	if (found != RULES_NO_MODEL)
		return found;
	pthread_rwlock_wrlock(&lock);
	found = add_model(r, raw, memory_bytes);
	pthread_rwlock_unlock(&lock);
	return found;
}

/* --- computing ----------------------------------------------------------------------------- */

void rules_eval_init(struct eval *e, const struct rules *r, const struct usage *u,
	int64_t epoch_s, int64_t price_uusd, const int64_t *max)
{
	e->rules = r;
	e->env = (struct expr_env){ .usage = u,
		.epoch_s = epoch_s,
		.price_uusd = price_uusd,
		.max = max,
		.terms = e->term,
		.rows = u->model == RULES_NO_MODEL ? NULL : &r->models[u->model].rows };
}

int rules_eval_terms(struct eval *e)
{
	const struct usage *u = e->env.usage;

	for (int i = 0; i < e->rules->nterms; i++) {
		const struct term *t = &e->rules->terms[i];
		bool known = true;

		e->env.lacking = 0;
		if (t->override >= 0 && (u->overridden >> t->override & 1)) {
			e->term[i] = frac_of((uint64_t)u->factor_nano[t->override],
				FIELD_NANO);
		} else if (expr_eval(&e->env, t->value, &e->term[i], &known) < 0) {
			return -1;
		} else if (!known) {
			e->term[i] = FRAC_ZERO;
		}
		e->missing[i] = e->env.lacking;
	}
	return 0;
}

int rules_eval(struct eval *e, const struct expr *x, struct frac *out)
{
	bool known = true;

	return expr_eval(&e->env, x, out, &known);
}

static bool met_model(const struct rules *r, const struct policy_need *n,
	const struct model *m)
{
	const json_t *name;
	size_t i;

	if (n->op == POLICY_KNOWN)
		return true;
	if (n->op == POLICY_ONE_OF)
		return policy_met_text(&r->policy, n, m->name);
	json_array_foreach(n->names, i, name)
		for (int k = 0; k < r->scope.ntables; k++)
			if (m->rows.present[k] &&
				strcmp(r->scope.tables[k], json_string_value(name)) == 0)
				return true;
	return false;
}

bool rules_met(const struct rules *r, int i, const struct usage *u, bool *unknown)
{
	const struct policy_need *n = &r->needs[i];
	int field = r->need_field[i];

	*unknown = false;
	if (field == NEED_NONE)
		return true;
	if (r->need_override[i] >= 0 && (u->overridden >> r->need_override[i] & 1))
		return true;
	if (field == NEED_WALLET)
		*unknown = !u->has_wallet;
	else if (field == NEED_MODEL)
		*unknown = u->model == RULES_NO_MODEL;
	else if (field < FIELD_USAGE)
		*unknown = !(u->known >> field & 1);
	if (*unknown)
		return n->unknown_passes;
	if (field == NEED_WALLET)
		return true;
	if (field == NEED_MODEL)
		return met_model(r, n, &r->models[u->model]);
	return field >= FIELD_USAGE || policy_met_i64(n, u->value[field]);
}
