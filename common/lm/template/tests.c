/* tests.c - what templates may ask of a value with `is`. */
#include <string.h>

#include "common/base/err.h"
#include "common/lm/template/value.h"

enum test {
	IS_DEFINED,
	IS_UNDEFINED,
	IS_NONE,
	IS_TRUE,
	IS_FALSE,
	IS_BOOLEAN,
	IS_STRING,
	IS_NUMBER,
	IS_INTEGER,
	IS_FLOAT,
	IS_MAPPING,
	IS_ITERABLE,
	IS_SEQUENCE,
	IS_CALLABLE,
	IS_ODD,
	IS_EVEN,
	IS_DIVISIBLE,
	IS_EQUAL,
	IS_UNEQUAL,
	IS_LESS,
	IS_LESS_EQUAL,
	IS_GREATER,
	IS_GREATER_EQUAL,
	IS_IN,
	IS_LOWER,
	IS_UPPER
};

static const struct {
	const char *name;
	enum test test;
} tests[] = { { "defined", IS_DEFINED }, { "undefined", IS_UNDEFINED },
	{ "none", IS_NONE }, { "true", IS_TRUE }, { "false", IS_FALSE },
	{ "boolean", IS_BOOLEAN }, { "string", IS_STRING }, { "number", IS_NUMBER },
	{ "integer", IS_INTEGER }, { "float", IS_FLOAT }, { "mapping", IS_MAPPING },
	{ "iterable", IS_ITERABLE }, { "sequence", IS_SEQUENCE },
	{ "callable", IS_CALLABLE }, { "odd", IS_ODD }, { "even", IS_EVEN },
	{ "divisibleby", IS_DIVISIBLE }, { "eq", IS_EQUAL }, { "equalto", IS_EQUAL },
	{ "sameas", IS_EQUAL }, { "ne", IS_UNEQUAL }, { "lt", IS_LESS },
	{ "lessthan", IS_LESS }, { "le", IS_LESS_EQUAL }, { "gt", IS_GREATER },
	{ "greaterthan", IS_GREATER }, { "ge", IS_GREATER_EQUAL }, { "in", IS_IN },
	{ "lower", IS_LOWER }, { "upper", IS_UPPER } };

int tpl_test_find(const char *name, size_t len)
{
	for (size_t i = 0; i < sizeof tests / sizeof *tests; i++)
		if (strlen(tests[i].name) == len && memcmp(tests[i].name, name, len) == 0)
			return (int)i;
	return -1;
}

static bool is_kind(enum test test, struct tpl_value v)
{
	switch (test) {
	case IS_DEFINED:
		return v.kind != TPL_UNDEFINED;
	case IS_UNDEFINED:
		return v.kind == TPL_UNDEFINED;
	case IS_NONE:
		return v.kind == TPL_NONE;
	case IS_TRUE:
		return v.kind == TPL_BOOL && v.b;
	case IS_FALSE:
		return v.kind == TPL_BOOL && !v.b;
	case IS_BOOLEAN:
		return v.kind == TPL_BOOL;
	case IS_STRING:
		return v.kind == TPL_STRING;
	case IS_NUMBER:
		return tpl_is_number(v);
	case IS_INTEGER:
		return v.kind == TPL_INT;
	case IS_FLOAT:
		return v.kind == TPL_FLOAT;
	case IS_MAPPING:
		return v.kind == TPL_MAP;
	case IS_CALLABLE:
		return v.kind == TPL_FUNCTION || v.kind == TPL_MACRO;
	default: /* as in Jinja, an undefined value is an empty sequence */
		return v.kind == TPL_STRING || v.kind == TPL_LIST || v.kind == TPL_MAP ||
			v.kind == TPL_UNDEFINED;
	}
}

static int is_case(struct tpl_run *r, struct tpl_value v, enum tpl_case to)
{
	struct tpl_value same, other;

	const struct tpl_string *s;

	if (tpl_to_string(r, v, &s) < 0)
		return -1;
	v = (struct tpl_value){ .kind = TPL_STRING, .s = s };
	if (tpl_case(r, s, to, &same) < 0 ||
		tpl_case(r, s, to == TPL_LOWER ? TPL_UPPER : TPL_LOWER, &other) < 0)
		return -1;
	return tpl_equal(r, v, same) > 0 && !tpl_equal(r, v, other);
}

static int is_against(struct tpl_run *r, enum test test, struct tpl_value v,
	const struct tpl_args *a)
{
	const struct tpl_value *other = tpl_arg(r, a, 0, "other");
	struct tpl_value rest;
	int c;

	if (!other)
		return tpl_fail(r, "a test needs what to compare with");
	switch (test) {
	case IS_DIVISIBLE:
		if (tpl_binary(r, OP_MOD, v, *other, &rest) < 0)
			return -1;
		return !tpl_true(rest);
	case IS_EQUAL:
		return tpl_equal(r, v, *other);
	case IS_UNEQUAL:
		c = tpl_equal(r, v, *other);
		return c < 0 ? c : !c;
	case IS_IN:
		return tpl_contains(r, *other, v);
	default:
		if (tpl_order(r, v, *other, &c) < 0)
			return -1;
		return test == IS_LESS        ? c < 0 :
			test == IS_LESS_EQUAL ? c <= 0 :
			test == IS_GREATER    ? c > 0 :
						c >= 0;
	}
}

int tpl_test(struct tpl_run *r, unsigned number, struct tpl_value v,
	const struct tpl_args *a)
{
	enum test test = tests[number].test;

	if (tpl_steps(r, 1) < 0)
		return -1;
	if (test <= IS_CALLABLE)
		return is_kind(test, v);
	if (test == IS_LOWER || test == IS_UPPER)
		return is_case(r, v, test == IS_LOWER ? TPL_LOWER : TPL_UPPER);
	if (test == IS_ODD || test == IS_EVEN) {
		if (v.kind != TPL_INT && v.kind != TPL_BOOL)
			return tpl_fail(r, "%s is odd or even", tpl_kind_name(v));
		return ((v.kind == TPL_INT ? v.i : v.b) % 2 != 0) == (test == IS_ODD);
	}
	return is_against(r, test, v, a);
}
