/* operators.c - what + and its kin make of two values of a template. */
#include <math.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/template/value.h"

static int overflow(struct tpl_run *r)
{
	return tpl_fail(r, "a whole number is beyond 64 bits");
}

static int whole_op(struct tpl_run *r, enum tpl_op op, int64_t a, int64_t b, int64_t *out)
{
	int64_t rest;

	switch (op) {
	case OP_ADD:
		return __builtin_add_overflow(a, b, out) ? overflow(r) : 0;
	case OP_SUB:
		return __builtin_sub_overflow(a, b, out) ? overflow(r) : 0;
	case OP_MUL:
		return __builtin_mul_overflow(a, b, out) ? overflow(r) : 0;
	case OP_POW:
		*out = 1;
		for (; b > 0; b >>= 1) {
			if (b & 1 && __builtin_mul_overflow(*out, a, out))
				return overflow(r);
			if (b > 1 && __builtin_mul_overflow(a, a, &a))
				return overflow(r);
		}
		return 0;
	default:
		if (b == 0)
			return tpl_fail(r, "a division by zero");
		if (b == -1) { /* INT64_MIN / -1 */
			*out = 0;
			if (op == OP_FLOOR_DIV &&
				__builtin_sub_overflow(INT64_C(0), a, out))
				return overflow(r);
			return 0;
		}
		rest = a % b;
		if (op == OP_MOD)
			*out = rest && (rest < 0) != (b < 0) ? rest + b : rest;
		else
			*out = a / b - (rest && (rest < 0) != (b < 0));
		return 0;
	}
}

static int number_op(struct tpl_run *r, enum tpl_op op, struct tpl_value a,
	struct tpl_value b, struct tpl_value *out)
{
	int origin = a.origin == LM_FROM_TEMPLATE && b.origin == LM_FROM_TEMPLATE ?
		LM_FROM_TEMPLATE :
		LM_FROM_INPUT;
	double x = tpl_number(a), y = tpl_number(b), f = 0;
	int64_t i = 0;

	if (a.kind != TPL_FLOAT && b.kind != TPL_FLOAT && op != OP_DIV &&
		(op != OP_POW || y >= 0)) {
		if (whole_op(r, op, a.kind == TPL_INT ? a.i : a.b,
			    b.kind == TPL_INT ? b.i : b.b, &i) < 0)
			return -1;
		*out = tpl_int(i, origin);
		return 0;
	}
	if (y == 0 && (op == OP_DIV || op == OP_FLOOR_DIV || op == OP_MOD))
		return tpl_fail(r, "a division by zero");
	switch (op) {
	case OP_ADD:
		f = x + y;
		break;
	case OP_SUB:
		f = x - y;
		break;
	case OP_MUL:
		f = x * y;
		break;
	case OP_DIV:
		f = x / y;
		break;
	case OP_FLOOR_DIV:
		f = floor(x / y);
		break;
	case OP_MOD:
		f = x - y * floor(x / y);
		break;
	default:
		f = pow(x, y);
	}
	*out = tpl_float(f, origin);
	return 0;
}

static int concat(struct tpl_run *r, struct tpl_value a, struct tpl_value b,
	struct tpl_value *out)
{
	size_t mark = tpl_mark(r);

	return tpl_emit_value(r, a) < 0 || tpl_emit_value(r, b) < 0 ?
		-1 :
		tpl_take(r, mark, out);
}

static int add_strings(struct tpl_run *r, struct tpl_value a, struct tpl_value b,
	struct tpl_value *out)
{
	bool safe = a.s->safe || b.s->safe;

	if (safe &&
		((!a.s->safe && tpl_escape(r, a.s, &a) < 0) ||
			(!b.s->safe && tpl_escape(r, b.s, &b) < 0)))
		return -1;
	if (concat(r, a, b, out) < 0)
		return -1;
	((struct tpl_string *)out->s)->safe = safe;
	return 0;
}

static int repeat(struct tpl_run *r, struct tpl_value v, struct tpl_value times,
	struct tpl_value *out)
{
	int64_t n = times.kind == TPL_INT ? times.i : times.b;
	size_t mark = tpl_mark(r);
	struct tpl_list *l;

	if (v.kind == TPL_STRING) {
		for (int64_t i = 0; i < n && v.s->len; i++)
			if (tpl_steps(r, 1) < 0 || tpl_emit_value(r, v) < 0)
				return -1;
		return tpl_take(r, mark, out);
	}
	l = tpl_list_new(r, 0);
	if (!l)
		return -1;
	for (int64_t i = 0; i < n && v.list->count; i++)
		for (size_t j = 0; j < v.list->count; j++)
			if (tpl_list_push(r, l, v.list->items[j]) < 0)
				return -1;
	*out = tpl_of_list(l);
	return 0;
}

static int join_lists(struct tpl_run *r, const struct tpl_list *a,
	const struct tpl_list *b, struct tpl_value *out)
{
	struct tpl_list *l = tpl_list_new(r, a->count + b->count);

	if (!l || tpl_steps(r, a->count + b->count) < 0)
		return -1;
	if (a->count)
		memcpy(l->items, a->items, a->count * sizeof *l->items);
	if (b->count)
		memcpy(l->items + a->count, b->items, b->count * sizeof *l->items);
	l->count = a->count + b->count;
	l->tuple = a->tuple;
	*out = tpl_of_list(l);
	return 0;
}

/* '%s of %d' % (a, b) */
static int printf_op(struct tpl_run *r, const struct tpl_string *s, struct tpl_value v,
	struct tpl_value *out)
{
	size_t mark = tpl_mark(r), next = 0;

	for (size_t i = 0; i < s->len; i++) {
		struct tpl_value arg = v;

		if (s->data[i] != '%') {
			if (tpl_emit_string(r, s, i, i + 1) < 0)
				return -1;
			continue;
		}
		if (++i < s->len && s->data[i] == '%') {
			if (tpl_emit_string(r, s, i, i + 1) < 0)
				return -1;
			continue;
		}
		if (v.kind == TPL_LIST && v.list->tuple) {
			if (next == v.list->count)
				return tpl_fail(r, "'%%' has too few values");
			arg = v.list->items[next];
		} else if (next) {
			return tpl_fail(r, "'%%' has too few values");
		}
		next++;
		if (i >= s->len ||
			(s->data[i] != 's' && s->data[i] != 'd' && s->data[i] != 'r'))
			return tpl_fail(r, "'%%' knows %%s, %%d and %%r");
		if (s->data[i] == 'd' && arg.kind == TPL_FLOAT)
			arg = tpl_int((int64_t)arg.f, arg.origin);
		if (s->data[i] == 'd' && !tpl_is_number(arg))
			return tpl_fail(r, "%%d of %s", tpl_kind_name(arg));
		if ((s->data[i] == 'r' ? tpl_emit_repr(r, arg, 0) :
					 tpl_emit_value(r, arg)) < 0)
			return -1;
	}
	if (v.kind == TPL_LIST && v.list->tuple ?
			next < v.list->count :
			!next && v.kind != TPL_MAP && v.kind != TPL_LIST)
		return tpl_fail(r, "'%%' has too many values");
	return tpl_take(r, mark, out);
}

int tpl_binary(struct tpl_run *r, enum tpl_op op, struct tpl_value a, struct tpl_value b,
	struct tpl_value *out)
{
	static const char *const signs[] = { "+", "-", "*", "/", "//", "%", "**" };
	bool times = b.kind == TPL_INT || b.kind == TPL_BOOL;

	if (tpl_steps(r, 1) < 0)
		return -1;
	if (op == OP_CONCAT)
		return concat(r, a, b, out);
	if (tpl_is_number(a) && tpl_is_number(b))
		return number_op(r, op, a, b, out);
	if (op == OP_ADD && a.kind == TPL_STRING && b.kind == TPL_STRING)
		return add_strings(r, a, b, out);
	if (op == OP_ADD && a.kind == TPL_LIST && b.kind == TPL_LIST &&
		a.list->tuple == b.list->tuple)
		return join_lists(r, a.list, b.list, out);
	if (op == OP_MUL && (a.kind == TPL_STRING || a.kind == TPL_LIST) && times)
		return repeat(r, a, b, out);
	if (op == OP_MUL && (b.kind == TPL_STRING || b.kind == TPL_LIST) &&
		(a.kind == TPL_INT || a.kind == TPL_BOOL))
		return repeat(r, b, a, out);
	if (op == OP_MOD && a.kind == TPL_STRING)
		return printf_op(r, a.s, b, out);
	if (a.kind == TPL_UNDEFINED || b.kind == TPL_UNDEFINED) {
		struct tpl_value u = a.kind == TPL_UNDEFINED ? a : b;

		return tpl_fail(r, "'%s' with '%s', which is undefined", signs[op],
			u.name ? u.name : "a value");
	}
	return tpl_fail(r, "%s %s %s has no meaning", tpl_kind_name(a), signs[op],
		tpl_kind_name(b));
}

int tpl_compare(struct tpl_run *r, enum tpl_op op, struct tpl_value a, struct tpl_value b)
{
	int c;

	switch (op) {
	case OP_EQ:
		return tpl_equal(r, a, b);
	case OP_NE:
		c = tpl_equal(r, a, b);
		return c < 0 ? c : !c;
	case OP_IN:
		return tpl_contains(r, b, a);
	case OP_NOT_IN:
		c = tpl_contains(r, b, a);
		return c < 0 ? c : !c;
	default:
		if (tpl_order(r, a, b, &c) < 0)
			return -1;
		return op == OP_LT  ? c < 0 :
			op == OP_LE ? c <= 0 :
			op == OP_GT ? c > 0 :
				      c >= 0;
	}
}
