/* expr.c - parses and evaluates expressions of policies. long because each operator's parser
 * and evaluator stand side by side. */
#include "cmd/rnp-reward/policy/expr.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

#define ARGS_MAX  32
#define DEPTH_MAX 16
#define POWER_MAX 8

enum op {
	OP_CONSTANT,
	OP_FIELD,
	OP_RELATIVE,
	OP_TERM,
	OP_SUM,
	OP_PRODUCT,
	OP_DIVIDE,
	OP_LEAST,
	OP_MOST,
	OP_SCALE,
	OP_TIERS,
	OP_TABLE,
	OP_POWER /* of args[0], index times */
};

struct point {
	struct frac x, y;
	struct frac slope; /* of the segment that ends here, as a size */
	bool falls;        /* whether it falls */
};

struct tier {
	const char *name;
	int fields[FIELD_N];
	int64_t more_than[FIELD_N];
	int n;
	struct frac value;
};

struct expr {
	enum op op;
	int index; /* field, term or table */
	struct frac constant;
	bool has_default; /* FIELD: constant replaces an absent field */
	const struct expr *args[ARGS_MAX];
	int nargs;
	struct point *points; /* SCALE, of args[0] */
	int npoints;
	bool proportion;
	bool has_below; /* constant is the value below the first point */
	struct tier *tiers;
	int ntiers;
	const struct expr *otherwise; /* TIERS, TABLE */
};

/* --- reading ------------------------------------------------------------------------------- */

struct parse {
	struct expr_scope *scope;
	const char *where;
	int depth;
};

static const struct expr *parse(struct parse *p, const json_t *v);

static void *bad(struct parse *p, const char *what)
{
	err_set(EX_DATAERR, "%s: %s", p->where, what);
	return NULL;
}

static bool parse_constant(struct parse *p, const json_t *v, struct frac *out)
{
	if (json_is_integer(v) && json_integer_value(v) >= 0 &&
		json_integer_value(v) <= FIELD_READING_MAX) {
		*out = frac_of((uint64_t)json_integer_value(v), 1);
		return true;
	}
	if (json_is_string(v))
		return frac_parse(json_string_value(v), p->where, out) == 0;
	bad(p, "a constant is a whole number or a decimal in a string");
	return false;
}

static bool only_keys(struct parse *p, const json_t *v, const char *a, const char *b,
	const char *c, const char *d)
{
	const char *key;
	json_t *item;

	json_object_foreach((json_t *)v, key, item) {
		if (strcmp(key, a) == 0 || (b && strcmp(key, b) == 0) ||
			(c && strcmp(key, c) == 0) || (d && strcmp(key, d) == 0))
			continue;
		err_set(EX_DATAERR, "%s: '%.40s' has no place beside '%s'", p->where, key,
			a);
		return false;
	}
	return true;
}

static bool parse_args(struct parse *p, const json_t *list, struct expr *x, size_t min,
	size_t max)
{
	const json_t *arg;
	size_t i;

	if (!json_is_array(list) || json_array_size(list) < min ||
		json_array_size(list) > max)
		return bad(p, "wrong number of operands") != NULL;
	json_array_foreach(list, i, arg) {
		x->args[x->nargs] = parse(p, arg);
		if (!x->args[x->nargs++])
			return false;
	}
	return true;
}

static int term_find(const struct expr_scope *s, const char *name)
{
	for (int i = 0; name && i < s->nterms; i++)
		if (strcmp(s->terms[i], name) == 0)
			return i;
	return -1;
}

static struct expr *new_expr(struct parse *p, enum op op)
{
	struct expr *x = arena_alloc(p->scope->arena, sizeof *x);

	x->op = op;
	return x;
}

static bool parse_field(struct parse *p, const json_t *v, struct expr *x)
{
	const json_t *instead = json_object_get(v, "unknown");

	x->index = field_find(json_string_value(json_object_get(v, "field")));
	if (x->index < 0)
		return bad(p, "there is no such field in rnp.usage") != NULL;
	x->has_default = instead != NULL;
	return only_keys(p, v, "field", "unknown", NULL, NULL) &&
		(!instead || parse_constant(p, instead, &x->constant));
}

static bool parse_term(struct parse *p, const json_t *v, struct expr *x)
{
	x->index = term_find(p->scope, json_string_value(json_object_get(v, "term")));
	if (x->index < 0)
		return bad(p, "there is no such term before this one") != NULL;
	return only_keys(p, v, "term", NULL, NULL, NULL);
}

static bool parse_relative(struct parse *p, const json_t *v, struct expr *x)
{
	x->index = field_find(json_string_value(json_object_get(v, "relative")));
	if (x->index < 0 || x->index >= FIELD_USAGE)
		return bad(p, "there is no such field in rnp.usage") != NULL;
	p->scope->relative |= 1u << x->index;
	return only_keys(p, v, "relative", NULL, NULL, NULL);
}

/* {"a": "0.25", "b": "0.35"}: the sum of terms times weights */
static bool parse_weighted(struct parse *p, const json_t *v, struct expr *x)
{
	const json_t *weights = json_object_get(v, "weighted");
	const char *name;
	json_t *weight;

	if (!json_is_object(weights) || !json_object_size(weights) ||
		json_object_size(weights) > ARGS_MAX)
		return bad(p, "'weighted' is an object of terms and weights") != NULL;
	json_object_foreach((json_t *)weights, name, weight) {
		struct expr *product = new_expr(p, OP_PRODUCT),
			    *w = new_expr(p, OP_CONSTANT), *term = new_expr(p, OP_TERM);

		term->index = term_find(p->scope, name);
		if (term->index < 0)
			return bad(p, "there is no such term before this one") != NULL;
		if (!parse_constant(p, weight, &w->constant))
			return false;
		product->args[product->nargs++] = w;
		product->args[product->nargs++] = term;
		x->args[x->nargs++] = product;
	}
	return only_keys(p, v, "weighted", NULL, NULL, NULL);
}

static bool parse_point(struct parse *p, const json_t *v, struct expr *x,
	struct point *out)
{
	const struct point *before = x->npoints ? out - 1 : NULL;
	struct frac rise, run;

	if (!json_is_array(v) || json_array_size(v) != 2)
		return bad(p, "a point is [value, multiplier]") != NULL;
	if (!parse_constant(p, json_array_get(v, 0), &out->x) ||
		!parse_constant(p, json_array_get(v, 1), &out->y))
		return false;
	if (!before)
		return true;
	if (frac_cmp(before->x, out->x) >= 0)
		return bad(p, "points must ascend") != NULL;
	out->falls = frac_cmp(out->y, before->y) < 0;
	if (!(out->falls ? frac_sub(&rise, before->y, out->y) :
			   frac_sub(&rise, out->y, before->y)) ||
		!frac_sub(&run, out->x, before->x) || !frac_div(&out->slope, rise, run))
		return bad(p, "points do not fit 128 bits") != NULL;
	frac_reduce(&out->slope);
	return true;
}

static bool parse_scale(struct parse *p, const json_t *v, struct expr *x)
{
	const json_t *points = json_object_get(v, "points"), *point;
	const json_t *below = json_object_get(v, "below");
	const char *above = json_string_value(json_object_get(v, "above"));
	size_t i, n = json_array_size(points);

	if (!json_is_array(points) || n < 1 || n > 64)
		return bad(p, "a scale has 1 to 64 points") != NULL;
	if (json_object_get(v, "above") &&
		(!above || (strcmp(above, "hold") && strcmp(above, "proportion"))))
		return bad(p, "'above' is \"hold\" or \"proportion\"") != NULL;
	x->proportion = above && strcmp(above, "proportion") == 0;
	x->has_below = below != NULL;
	x->points = arena_alloc(p->scope->arena, n * sizeof *x->points);
	json_array_foreach(points, i, point) {
		if (!parse_point(p, point, x, &x->points[i]))
			return false;
		x->npoints++;
	}
	if (x->proportion && !x->points[n - 1].x.num)
		return bad(p, "nothing is in proportion to 0") != NULL;
	x->args[x->nargs++] = parse(p, json_object_get(v, "scale"));
	return x->args[0] && only_keys(p, v, "scale", "points", "above", "below") &&
		(!below || parse_constant(p, below, &x->constant));
}

static bool parse_tier(struct parse *p, const json_t *v, struct tier *t)
{
	const json_t *limits = json_object_get(v, "more_than");
	const char *name;
	json_t *limit;

	t->name = json_string_value(json_object_get(v, "name"));
	if (!json_is_object(limits) || json_object_size(limits) > FIELD_N || !t->name)
		return bad(p, "a tier has name, more_than {} and value") != NULL;
	json_object_foreach((json_t *)limits, name, limit) {
		t->fields[t->n] = field_find(name);
		if (t->fields[t->n] < 0 || !json_is_integer(limit))
			return bad(p, "a tier's more_than names fields of rnp.usage") !=
				NULL;
		t->more_than[t->n++] = json_integer_value(limit);
	}
	return only_keys(p, v, "name", "more_than", "value", NULL) &&
		parse_constant(p, json_object_get(v, "value"), &t->value);
}

static bool parse_otherwise(struct parse *p, const json_t *v, struct expr *x)
{
	const json_t *otherwise = json_object_get(v, "otherwise");

	if (!otherwise)
		return bad(p, "'otherwise' is missing") != NULL;
	x->otherwise = parse(p, otherwise);
	return x->otherwise != NULL;
}

static bool parse_tiers(struct parse *p, const json_t *v, struct expr *x)
{
	const json_t *tiers = json_object_get(v, "tiers"), *tier;
	size_t i, n = json_array_size(tiers);

	if (!json_is_array(tiers) || n < 1 || n > 64)
		return bad(p, "there are 1 to 64 tiers") != NULL;
	x->tiers = arena_alloc(p->scope->arena, n * sizeof *x->tiers);
	json_array_foreach(tiers, i, tier)
		if (!parse_tier(p, tier, &x->tiers[x->ntiers++]))
			return false;
	return only_keys(p, v, "tiers", "otherwise", NULL, NULL) &&
		parse_otherwise(p, v, x);
}

static bool parse_table(struct parse *p, const json_t *v, struct expr *x)
{
	const char *name = json_string_value(json_object_get(v, "table"));
	const char *of = json_string_value(json_object_get(v, "of"));

	x->index = -1;
	for (int i = 0; name && i < p->scope->ntables; i++)
		if (strcmp(p->scope->tables[i], name) == 0)
			x->index = i;
	if (x->index < 0)
		return bad(p, "there is no such table") != NULL;
	if (!of || strcmp(of, "gpu_model") != 0)
		return bad(p, "tables are of gpu_model") != NULL;
	return only_keys(p, v, "table", "of", "otherwise", NULL) &&
		parse_otherwise(p, v, x);
}

static bool parse_sum(struct parse *p, const json_t *v, struct expr *x)
{
	return only_keys(p, v, "sum", NULL, NULL, NULL) &&
		parse_args(p, json_object_get(v, "sum"), x, 1, ARGS_MAX);
}

static bool parse_product(struct parse *p, const json_t *v, struct expr *x)
{
	return only_keys(p, v, "product", NULL, NULL, NULL) &&
		parse_args(p, json_object_get(v, "product"), x, 1, ARGS_MAX);
}

static bool parse_divide(struct parse *p, const json_t *v, struct expr *x)
{
	return only_keys(p, v, "divide", NULL, NULL, NULL) &&
		parse_args(p, json_object_get(v, "divide"), x, 2, 2);
}

static bool parse_least(struct parse *p, const json_t *v, struct expr *x)
{
	return only_keys(p, v, "least", NULL, NULL, NULL) &&
		parse_args(p, json_object_get(v, "least"), x, 1, ARGS_MAX);
}

static bool parse_most(struct parse *p, const json_t *v, struct expr *x)
{
	return only_keys(p, v, "most", NULL, NULL, NULL) &&
		parse_args(p, json_object_get(v, "most"), x, 1, ARGS_MAX);
}

static bool parse_power(struct parse *p, const json_t *v, struct expr *x)
{
	const json_t *pair = json_object_get(v, "power"), *n = json_array_get(pair, 1);

	if (json_array_size(pair) != 2 || !json_is_integer(n) ||
		json_integer_value(n) < 1 || json_integer_value(n) > POWER_MAX)
		return bad(p, "'power' is [expression, 1 to 8]") != NULL;
	x->index = (int)json_integer_value(n);
	x->args[x->nargs++] = parse(p, json_array_get(pair, 0));
	return x->args[0] && only_keys(p, v, "power", NULL, NULL, NULL);
}

static const struct {
	const char *key;
	enum op op;
	bool (*parse)(struct parse *p, const json_t *v, struct expr *x);
} words[] = {
	{ "field", OP_FIELD, parse_field },
	{ "term", OP_TERM, parse_term },
	{ "relative", OP_RELATIVE, parse_relative },
	{ "sum", OP_SUM, parse_sum },
	{ "weighted", OP_SUM, parse_weighted },
	{ "product", OP_PRODUCT, parse_product },
	{ "divide", OP_DIVIDE, parse_divide },
	{ "least", OP_LEAST, parse_least },
	{ "most", OP_MOST, parse_most },
	{ "scale", OP_SCALE, parse_scale },
	{ "tiers", OP_TIERS, parse_tiers },
	{ "table", OP_TABLE, parse_table },
	{ "power", OP_POWER, parse_power },
};

static const struct expr *parse_object(struct parse *p, const json_t *v)
{
	for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
		struct expr *x;

		if (!json_object_get(v, words[i].key))
			continue;
		x = new_expr(p, words[i].op);
		return words[i].parse(p, v, x) ? x : NULL;
	}
	return bad(p,
		"not an expression: none of field, term, relative, sum, weighted, product, "
		"divide, least, most, scale, tiers, table, power");
}

static const struct expr *parse(struct parse *p, const json_t *v)
{
	const struct expr *out;
	struct expr *x;

	if (p->depth == DEPTH_MAX)
		return bad(p, "nested too deep");
	if (json_is_object(v)) {
		p->depth++;
		out = parse_object(p, v);
		p->depth--;
		return out;
	}
	x = new_expr(p, OP_CONSTANT);
	return v && parse_constant(p, v, &x->constant) ? x :
		v                                      ? NULL :
							 bad(p, "an expression is missing");
}

const struct expr *expr_parse(struct expr_scope *s, const json_t *v, const char *where)
{
	struct parse p = { s, where, 0 };

	return parse(&p, v);
}

/* --- computing ----------------------------------------------------------------------------- */

static int overflow(const struct expr_env *e)
{
	char node[ADDRESS_MAX];

	address_format(e->usage->node, node);
	return err_set(EX_DATAERR, "node %s: a term does not fit 128 bits", node);
}

static bool field_known(const struct expr_env *e, int field)
{
	return field >= FIELD_USAGE || (e->usage->known >> field & 1);
}

static int64_t field_value(const struct expr_env *e, int field)
{
	return field == FIELD_EPOCH_S     ? e->epoch_s :
		field == FIELD_PRICE_UUSD ? e->price_uusd :
					    e->usage->value[field];
}

static void eval_field(struct expr_env *e, const struct expr *x, struct frac *out,
	bool *known)
{
	if (field_known(e, x->index)) {
		*out = (struct frac){ (u128)field_value(e, x->index), 1 };
	} else if (x->has_default) {
		*out = x->constant;
	} else {
		*out = FRAC_ZERO;
		*known = false;
		e->lacking |= (UINT32_C(1) << x->index);
	}
}

/* If all values are 0 the ratio is 0; nothing is divided. */
static void eval_relative(struct expr_env *e, const struct expr *x, struct frac *out,
	bool *known)
{
	*out = FRAC_ZERO;
	if (!field_known(e, x->index)) {
		*known = false;
		e->lacking |= (UINT32_C(1) << x->index);
	} else if (e->max[x->index] > 0) {
		*out = (struct frac){ (u128)e->usage->value[x->index],
			(u128)e->max[x->index] };
	}
}

static int eval_many(struct expr_env *e, const struct expr *x, struct frac *out)
{
	bool ok = true;

	for (int i = 0; i < x->nargs && ok; i++) {
		struct frac arg;
		bool known = true;

		if (expr_eval(e, x->args[i], &arg, &known) < 0)
			return -1;
		if (!i) {
			*out = arg;
			continue;
		}
		switch (x->op) {
		case OP_SUM:
			ok = frac_add(out, *out, arg);
			break;
		case OP_PRODUCT:
			ok = frac_mul(out, *out, arg);
			break;
		case OP_DIVIDE:
			if (arg.num)
				ok = frac_div(out, *out, arg);
			else
				*out = FRAC_ZERO;
			break;
		case OP_LEAST:
			if (frac_cmp(arg, *out) < 0)
				*out = arg;
			break;
		default:
			if (frac_cmp(arg, *out) > 0)
				*out = arg;
			break;
		}
	}
	return ok ? 0 : overflow(e);
}

/* Returns y at v on the segment that ends in p: from its start up or down the slope. */
static bool on_segment(const struct point *p, struct frac v, struct frac *out)
{
	struct frac way;

	return frac_sub(&way, v, p[-1].x) && frac_mul(&way, way, p->slope) &&
		(p->falls ? frac_sub(out, p[-1].y, way) : frac_add(out, p[-1].y, way));
}

static int eval_scale(struct expr_env *e, const struct expr *x, struct frac *out,
	bool *known)
{
	const struct point *last = &x->points[x->npoints - 1];
	struct frac v;

	*out = FRAC_ZERO;
	if (expr_eval(e, x->args[0], &v, known) < 0)
		return -1;
	if (!*known)
		return 0;
	if (frac_cmp(v, x->points[0].x) < 0) {
		*out = x->has_below ? x->constant : x->points[0].y;
		return 0;
	}
	if (frac_cmp(v, last->x) > 0) {
		*out = last->y;
		if (x->proportion &&
			!(frac_mul(out, v, last->y) && frac_div(out, *out, last->x)))
			return overflow(e);
		return 0;
	}
	for (int i = 0; i < x->npoints; i++) {
		int order = frac_cmp(v, x->points[i].x);

		if (order > 0)
			continue;
		if (order == 0)
			*out = x->points[i].y;
		else if (!on_segment(&x->points[i], v, out))
			return overflow(e);
		return 0;
	}
	return 0;
}

static int eval_tiers(struct expr_env *e, const struct expr *x, struct frac *out,
	bool *known)
{
	for (int i = 0; i < x->ntiers; i++) {
		const struct tier *t = &x->tiers[i];
		bool met = true;

		for (int k = 0; k < t->n; k++) {
			if (!field_known(e, t->fields[k])) {
				e->lacking |= (UINT32_C(1) << t->fields[k]);
				*known = false;
				*out = FRAC_ZERO;
				return 0;
			}
			met = met && field_value(e, t->fields[k]) > t->more_than[k];
		}
		if (met) {
			*out = t->value;
			return 0;
		}
	}
	return expr_eval(e, x->otherwise, out, known);
}

static int eval_table(struct expr_env *e, const struct expr *x, struct frac *out,
	bool *known)
{
	if (e->rows && e->rows->present[x->index]) {
		*out = e->rows->value[x->index];
		return 0;
	}
	return expr_eval(e, x->otherwise, out, known);
}

static int eval_power(struct expr_env *e, const struct expr *x, struct frac *out,
	bool *known)
{
	struct frac base;

	if (expr_eval(e, x->args[0], &base, known) < 0)
		return -1;
	*out = base;
	for (int i = 1; i < x->index; i++)
		if (!frac_mul(out, *out, base))
			return overflow(e);
	return 0;
}

int expr_eval(struct expr_env *e, const struct expr *x, struct frac *out, bool *known)
{
	switch (x->op) {
	case OP_CONSTANT:
		*out = x->constant;
		return 0;
	case OP_TERM:
		*out = e->terms[x->index];
		return 0;
	case OP_FIELD:
		eval_field(e, x, out, known);
		return 0;
	case OP_RELATIVE:
		eval_relative(e, x, out, known);
		return 0;
	case OP_SCALE:
		return eval_scale(e, x, out, known);
	case OP_TIERS:
		return eval_tiers(e, x, out, known);
	case OP_TABLE:
		return eval_table(e, x, out, known);
	case OP_POWER:
		return eval_power(e, x, out, known);
	default:
		return eval_many(e, x, out);
	}
}

/* --- bounds -------------------------------------------------------------------------------- */

/* Bounds a list: a sum or product is bounded if all its parts are, the least if one is, the
 * most if all are; a quotient if the dividend is and the divisor is a constant. */
static bool bound_many(const struct expr_bounds *b, const struct expr *x,
	struct frac *out)
{
	bool any = false, all = true;

	for (int i = 0; i < x->nargs; i++) {
		bool divisor = x->op == OP_DIVIDE && i;
		struct frac one;

		if (divisor) {
			const struct expr *d = x->args[i];
			bool whole = d->op == OP_FIELD && b->known >> d->index & 1;

			/* epoch_s is the same for all nodes; other fields may be as small as 1 */
			if (d->op != OP_CONSTANT && !(whole && d->index == FIELD_EPOCH_S))
				return false;
			one = d->op == OP_CONSTANT ? d->constant : b->field[d->index];
			if (!one.num)
				*out = FRAC_ZERO;
			else if (!frac_div(out, *out, one))
				return false;
			continue;
		}
		if (!expr_bound(b, x->args[i], &one)) {
			all = false;
			if (x->op == OP_LEAST)
				continue;
			return false;
		}
		if (!any)
			*out = one;
		else if (x->op == OP_SUM            ? !frac_add(out, *out, one) :
				x->op == OP_PRODUCT ? !frac_mul(out, *out, one) :
						      false)
			return false;
		else if ((x->op == OP_LEAST && frac_cmp(one, *out) < 0) ||
			(x->op == OP_MOST && frac_cmp(one, *out) > 0))
			*out = one;
		any = true;
	}
	return x->op == OP_LEAST ? any : all;
}

static void raise(struct frac *highest, struct frac v)
{
	if (frac_cmp(v, *highest) > 0)
		*highest = v;
}

static bool bound_scale(const struct expr_bounds *b, const struct expr *x,
	struct frac *out)
{
	struct frac v;

	*out = x->has_below ? x->constant : FRAC_ZERO;
	for (int i = 0; i < x->npoints; i++)
		raise(out, x->points[i].y);
	if (!x->proportion)
		return true;
	if (!expr_bound(b, x->args[0], &v) ||
		!frac_mul(&v, v, x->points[x->npoints - 1].y) ||
		!frac_div(&v, v, x->points[x->npoints - 1].x))
		return false;
	raise(out, v);
	return true;
}

bool expr_bound(const struct expr_bounds *b, const struct expr *x, struct frac *out)
{
	*out = FRAC_ZERO;
	switch (x->op) {
	case OP_CONSTANT:
		*out = x->constant;
		return true;
	case OP_FIELD:
		*out = b->field[x->index];
		if (x->has_default)
			raise(out, x->constant);
		return b->known >> x->index & 1;
	case OP_RELATIVE:
		*out = frac_of(1, 1);
		return true;
	case OP_TERM:
		*out = b->terms[x->index];
		return b->terms_known >> x->index & 1;
	case OP_SCALE:
		return bound_scale(b, x, out);
	case OP_TIERS:
		if (!expr_bound(b, x->otherwise, out))
			return false;
		for (int i = 0; i < x->ntiers; i++)
			raise(out, x->tiers[i].value);
		return true;
	case OP_TABLE:
		if (!expr_bound(b, x->otherwise, out))
			return false;
		raise(out, b->tables[x->index]);
		return true;
	case OP_POWER: {
		struct frac base;

		if (!expr_bound(b, x->args[0], &base))
			return false;
		*out = base;
		for (int i = 1; i < x->index; i++)
			if (!frac_mul(out, *out, base))
				return false;
		return true;
	}
	default:
		return bound_many(b, x, out);
	}
}

void expr_uses(const struct expr *x, uint32_t *terms, uint32_t *tables, uint32_t *fields)
{
	if (x->op == OP_TERM)
		*terms |= UINT32_C(1) << x->index;
	if (x->op == OP_TABLE)
		*tables |= UINT32_C(1) << x->index;
	if (x->op == OP_FIELD || x->op == OP_RELATIVE)
		*fields |= UINT32_C(1) << x->index;
	for (int i = 0; i < x->ntiers; i++)
		for (int k = 0; k < x->tiers[i].n; k++)
			*fields |= UINT32_C(1) << x->tiers[i].fields[k];
	for (int i = 0; i < x->nargs; i++)
		expr_uses(x->args[i], terms, tables, fields);
	if (x->otherwise)
		expr_uses(x->otherwise, terms, tables, fields);
}
