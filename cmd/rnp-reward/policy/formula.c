/* formula.c - writes the expressions of a policy as people write formulas. */
#include "cmd/rnp-reward/policy/formula.h"

#include <inttypes.h>
#include <string.h>

#include "common/json/json.h"
#include "common/base/money.h"

static void write_list(struct buf *out, const json_t *list, const char *between,
	bool brackets)
{
	const json_t *v;
	size_t i;

	json_array_foreach(list, i, v) {
		bool sum = brackets && json_object_get(v, "sum");

		if (i)
			buf_adds(out, between);
		if (sum)
			buf_addc(out, '(');
		formula_write(out, v);
		if (sum)
			buf_addc(out, ')');
	}
}

static void write_weighted(struct buf *out, const json_t *weights)
{
	const char *name, *between = "";
	json_t *weight;

	json_object_foreach((json_t *)weights, name, weight) {
		buf_adds(out, between);
		formula_write(out, weight);
		buf_addf(out, " x %s", name);
		between = " + ";
	}
}

static void write_scale(struct buf *out, const json_t *v)
{
	const char *above = json_string_value(json_object_get(v, "above"));
	const json_t *below = json_object_get(v, "below"), *point;
	size_t i;

	buf_adds(out, "scale of ");
	formula_write(out, json_object_get(v, "scale"));
	buf_adds(out, " (");
	if (below) {
		buf_adds(out, "below ");
		formula_write(out, below);
		buf_adds(out, ", ");
	}
	json_array_foreach(json_object_get(v, "points"), i, point) {
		if (i)
			buf_adds(out, ", ");
		formula_write(out, json_array_get(point, 0));
		buf_adds(out, " -> ");
		formula_write(out, json_array_get(point, 1));
	}
	buf_addf(out, "%s)",
		above && strcmp(above, "proportion") == 0 ? ", on in proportion" : "");
}

static void write_tiers(struct buf *out, const json_t *v)
{
	const json_t *tier;
	const char *name;
	json_t *limit;
	size_t i;

	json_array_foreach(json_object_get(v, "tiers"), i, tier) {
		const char *between = "";

		buf_addf(out, "%s (", json_string_value(json_object_get(tier, "name")));
		json_object_foreach(json_object_get(tier, "more_than"), name, limit) {
			buf_addf(out, "%s%s > ", between, name);
			formula_write(out, limit);
			between = ", ";
		}
		buf_adds(out, ") -> ");
		formula_write(out, json_object_get(tier, "value"));
		buf_adds(out, "; ");
	}
	buf_adds(out, "otherwise ");
	formula_write(out, json_object_get(v, "otherwise"));
}

static void write_table(struct buf *out, const json_t *v)
{
	buf_addf(out, "table %s of %s, otherwise ",
		json_string_value(json_object_get(v, "table")),
		json_string_value(json_object_get(v, "of")));
	formula_write(out, json_object_get(v, "otherwise"));
}

void formula_write(struct buf *out, const json_t *v)
{
	static const struct {
		const char *key, *before, *between, *after;
	} lists[] = { { "sum", "", " + ", "" }, { "product", "", " x ", "" },
		{ "least", "least(", ", ", ")" }, { "most", "most(", ", ", ")" } };

	if (json_is_string(v)) {
		buf_adds(out, json_string_value(v));
	} else if (!json_is_object(v)) {
		json_write(out, v);
	} else if (json_object_get(v, "field")) {
		buf_adds(out, json_string_value(json_object_get(v, "field")));
	} else if (json_object_get(v, "term")) {
		buf_adds(out, json_string_value(json_object_get(v, "term")));
	} else if (json_object_get(v, "relative")) {
		const char *field = json_string_value(json_object_get(v, "relative"));

		buf_addf(out, "%s / highest %s", field, field);
	} else if (json_object_get(v, "weighted")) {
		write_weighted(out, json_object_get(v, "weighted"));
	} else if (json_object_get(v, "scale")) {
		write_scale(out, v);
	} else if (json_object_get(v, "tiers")) {
		write_tiers(out, v);
	} else if (json_object_get(v, "table")) {
		write_table(out, v);
	} else if (json_object_get(v, "power")) {
		const json_t *pair = json_object_get(v, "power");

		buf_addc(out, '(');
		formula_write(out, json_array_get(pair, 0));
		buf_adds(out, ")^");
		json_write(out, json_array_get(pair, 1));
	} else if (json_object_get(v, "divide")) {
		const json_t *pair = json_object_get(v, "divide");
		bool sum = json_object_get(json_array_get(pair, 0), "weighted") ||
			json_object_get(json_array_get(pair, 0), "sum");

		buf_adds(out, sum ? "(" : "");
		formula_write(out, json_array_get(pair, 0));
		buf_adds(out, sum ? ") / " : " / ");
		formula_write(out, json_array_get(pair, 1));
	} else {
		for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
			const json_t *list = json_object_get(v, lists[i].key);

			if (!list)
				continue;
			buf_adds(out, lists[i].before);
			write_list(out, list, lists[i].between, i == 1);
			buf_adds(out, lists[i].after);
		}
	}
}

static void add_u128(struct buf *out, u128 v)
{
	char digits[40];
	int n = 0;

	do
		digits[n++] = (char)('0' + (int)(v % 10));
	while (v /= 10);
	while (n)
		buf_addc(out, digits[--n]);
}

void formula_frac(struct buf *out, struct frac f)
{
	int64_t nano;

	frac_reduce(&f);
	if (f.den == 1) {
		add_u128(out, f.num);
		return;
	}
	if (frac_floor(f, 1000000000, &nano)) {
		money_format(out, nano, 9);
		while (out->data[out->len - 1] == '0' && out->data[out->len - 2] != '.')
			out->data[--out->len] = '\0';
		if (frac_cmp(f, frac_of((uint64_t)nano, 1000000000)) == 0)
			return;
		buf_addc(out, ' ');
	}
	buf_addc(out, '(');
	add_u128(out, f.num);
	buf_addc(out, '/');
	add_u128(out, f.den);
	buf_addc(out, ')');
}
