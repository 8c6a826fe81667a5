/* eval.c - rendering: expressions, statements, scopes and macros;
 * long because these call each other. */
#include <string.h>

#include "common/base/err.h"
#include "common/lm/template/value.h"

#define DEPTH_MAX 800 /* of C calls: expressions and blocks within macros within macros */

/* The result of a statement; below 0 is an error. */
enum flow { FLOW_ON, FLOW_BREAK, FLOW_CONTINUE };

static int eval(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out);
static int exec(struct tpl_run *r, const struct tpl_node *n);

/* --- scopes ------------------------------------------------------------------------------- */

static struct tpl_scope *scope_new(struct tpl_run *r, struct tpl_scope *up)
{
	struct tpl_scope *s = tpl_alloc(r, sizeof *s);

	if (s)
		s->up = up;
	return s;
}

static int scope_set(struct tpl_run *r, struct tpl_scope *s, uint32_t name,
	struct tpl_value v)
{
	for (size_t i = 0; i < s->count; i++)
		if (s->variables[i].name == name) {
			s->variables[i].value = v;
			return 0;
		}
	if (s->count == s->cap) {
		size_t cap = s->cap ? 2 * s->cap : 8;
		struct tpl_variable *variables = tpl_alloc(r, cap * sizeof *variables);

		if (!variables)
			return -1;
		if (s->count)
			memcpy(variables, s->variables, s->count * sizeof *variables);
		s->variables = variables;
		s->cap = cap;
	}
	s->variables[s->count++] = (struct tpl_variable){ name, v };
	return 0;
}

static int lookup(struct tpl_run *r, uint32_t name, struct tpl_value *out)
{
	int number;

	for (const struct tpl_scope *s = r->scope; s; s = s->up) {
		if (tpl_steps(r, s->count / 32) < 0)
			return -1;
		for (size_t i = 0; i < s->count; i++)
			if (s->variables[i].name == name) {
				*out = s->variables[i].value;
				return 0;
			}
	}
	number = tpl_function_find(r->t->names[name], r->t->name_lens[name]);
	*out = tpl_undefined(r->t->names[name]);
	if (number >= 0)
		*out = (struct tpl_value){ .kind = TPL_FUNCTION, .i = number };
	return 0;
}

/* --- operators that do not always need both sides ------------------------------------------ */

static int compare(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	struct tpl_value left, right;

	if (eval(r, n->a, &left) < 0)
		return -1;
	for (const struct tpl_node *c = n->list; c; c = c->next) {
		int is;

		if (eval(r, c->a, &right) < 0)
			return -1;
		is = tpl_compare(r, c->op, left, right);
		if (is < 0)
			return -1;
		*out = tpl_bool(is);
		if (!is)
			break;
		left = right;
	}
	return 0;
}

/* --- calls -------------------------------------------------------------------------------- */

static int eval_args(struct tpl_run *r, const struct tpl_node *list, struct tpl_args *a)
{
	size_t positional = 0, keywords = 0;

	for (const struct tpl_node *n = list; n; n = n->next)
		*(n->kind == NODE_KEYWORD ? &keywords : &positional) += 1;
	*a = (struct tpl_args){ 0 };
	if (positional + keywords == 0)
		return 0;
	a->positional = tpl_alloc(r, positional * sizeof *a->positional);
	a->keywords = tpl_alloc(r, keywords * sizeof *a->keywords);
	if (!a->positional || !a->keywords)
		return -1;
	for (const struct tpl_node *n = list; n; n = n->next) {
		if (n->kind == NODE_KEYWORD) {
			struct tpl_keyword *k = &a->keywords[a->keyword_count++];

			k->name = n->name;
			if (eval(r, n->a, &k->value) < 0)
				return -1;
		} else if (eval(r, n, &a->positional[a->count++]) < 0) {
			return -1;
		}
	}
	return 0;
}

static int bind(struct tpl_run *r, const struct tpl_macro *m, const struct tpl_args *a,
	struct tpl_scope *scope)
{
	size_t at = 0, used = 0;

	for (const struct tpl_node *p = m->node->list; p; p = p->next, at++) {
		struct tpl_value v = tpl_undefined(r->t->names[p->name]);
		bool given = at < a->count;

		if (given)
			v = a->positional[at];
		for (size_t i = 0; i < a->keyword_count; i++)
			if (a->keywords[i].name == p->name) {
				if (given)
					return tpl_fail(r,
						"the argument '%s' is given twice",
						r->t->names[p->name]);
				v = a->keywords[i].value;
				given = true;
				used++;
			}
		if (!given && p->a && eval(r, p->a, &v) < 0)
			return -1;
		if (scope_set(r, scope, p->name, v) < 0)
			return -1;
	}
	if (a->count > at)
		return tpl_fail(r, "a macro gets %zu arguments, and takes %zu", a->count,
			at);
	for (size_t i = 0; i < a->keyword_count; i++)
		if (strcmp(r->t->names[a->keywords[i].name], "caller") == 0) {
			used++;
			if (scope_set(r, scope, a->keywords[i].name,
				    a->keywords[i].value) < 0)
				return -1;
		}
	if (used != a->keyword_count)
		return tpl_fail(r, "a macro gets an argument that it does not take");
	return 0;
}

/* Sets the error for calls without an end: such as a macro that writes types has for one that it
 * does not know. The argument tells which. */
static int calls_too_deep(struct tpl_run *r, const struct tpl_macro *m,
	const struct tpl_args *a)
{
	size_t mark = tpl_mark(r);
	struct tpl_value v;
	int len;

	if (!a->count || tpl_emit_repr(r, a->positional[0], 0) < 0 ||
		tpl_take(r, mark, &v) < 0)
		return tpl_fail(r, "the macro '%.60s' calls itself more than %d deep",
			r->t->names[m->node->name], LM_TEMPLATE_NESTING_MAX);
	len = v.s->len < 60 ? (int)v.s->len : 60;
	return tpl_fail(r, "the macro '%.60s' calls itself more than %d deep, with %.*s",
		r->t->names[m->node->name], LM_TEMPLATE_NESTING_MAX, len, v.s->data);
}

static int call_macro(struct tpl_run *r, const struct tpl_macro *m,
	const struct tpl_args *a, struct tpl_value *out)
{
	struct tpl_scope *saved = r->scope, *scope = scope_new(r, m->scope);
	size_t mark = tpl_mark(r);
	int rc;

	if (!scope)
		return -1;
	if (++r->calls > LM_TEMPLATE_NESTING_MAX)
		return calls_too_deep(r, m, a);
	r->scope = scope;
	rc = bind(r, m, a, scope);
	if (rc == 0)
		rc = exec(r, m->node->body);
	r->scope = saved;
	r->calls--;
	return rc < 0 ? -1 : tpl_take(r, mark, out);
}

/* Calls a macro or a function. */
static int tpl_call(struct tpl_run *r, struct tpl_value f, const struct tpl_args *a,
	struct tpl_value *out)
{
	if (f.kind == TPL_FUNCTION)
		return tpl_function(r, (unsigned)f.i, a, out);
	if (f.kind == TPL_MACRO)
		return call_macro(r, f.macro, a, out);
	if (f.kind == TPL_UNDEFINED)
		return tpl_fail(r, "'%s' is undefined, and is called",
			f.name ? f.name : "a value");
	return tpl_fail(r, "%s is called", tpl_kind_name(f));
}

/* extra: the body of a call block, as the argument `caller` */
static int call(struct tpl_run *r, const struct tpl_node *n,
	const struct tpl_keyword *extra, struct tpl_value *out)
{
	struct tpl_args a;
	struct tpl_value f;

	if (eval(r, n->a->kind == NODE_ATTR ? n->a->a : n->a, &f) < 0 ||
		eval_args(r, n->list, &a) < 0)
		return -1;
	if (extra) {
		struct tpl_keyword *more = tpl_alloc(r,
			(a.keyword_count + 1) * sizeof *more);

		if (!more)
			return -1;
		if (a.keyword_count)
			memcpy(more, a.keywords, a.keyword_count * sizeof *more);
		more[a.keyword_count++] = *extra;
		a.keywords = more;
	}
	r->line = n->line;
	if (n->a->kind != NODE_ATTR)
		return tpl_call(r, f, &a, out);
	if (f.kind == TPL_NAMESPACE || f.kind == TPL_MAP) {
		const struct tpl_value *field = tpl_map_get_text(r, f.map,
			r->t->names[n->a->name], r->t->name_lens[n->a->name]);

		if (field && (field->kind == TPL_MACRO || field->kind == TPL_FUNCTION))
			return tpl_call(r, *field, &a, out);
	}
	return tpl_method(r, n->builtin, f, &a, out);
}

/* --- expressions -------------------------------------------------------------------------- */

static int eval_list(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	struct tpl_list *l = tpl_list_new(r, 4);

	if (!l)
		return -1;
	l->tuple = n->kind == NODE_TUPLE;
	for (const struct tpl_node *i = n->list; i; i = i->next) {
		struct tpl_value v;

		if (eval(r, i, &v) < 0 || tpl_list_push(r, l, v) < 0)
			return -1;
	}
	*out = tpl_of_list(l);
	return 0;
}

static int eval_map(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	struct tpl_map *m = tpl_map_new(r, 4);

	if (!m)
		return -1;
	for (const struct tpl_node *i = n->list; i; i = i->next) {
		struct tpl_value key, v;

		if (eval(r, i->a, &key) < 0 || eval(r, i->b, &v) < 0)
			return -1;
		if (key.kind != TPL_STRING && !tpl_is_number(key) && key.kind != TPL_NONE)
			return tpl_fail(r, "%s as a key", tpl_kind_name(key));
		if (tpl_map_put(r, m, key, v) < 0)
			return -1;
	}
	*out = (struct tpl_value){ .kind = TPL_MAP, .map = m };
	return 0;
}

static int eval_slice(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	struct tpl_value a, bounds[3] = { tpl_none(), tpl_none(), tpl_none() };

	if (eval(r, n->a, &a) < 0 || (n->b && eval(r, n->b, &bounds[0]) < 0) ||
		(n->c && eval(r, n->c, &bounds[1]) < 0) ||
		(n->d && eval(r, n->d, &bounds[2]) < 0))
		return -1;
	return tpl_slice(r, a, bounds, out);
}

static int eval_two(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	struct tpl_value a, b;

	if (eval(r, n->a, &a) < 0 || eval(r, n->b, &b) < 0)
		return -1;
	r->line = n->line;
	return n->kind == NODE_ITEM ? tpl_item(r, a, b, out) :
				      tpl_binary(r, n->op, a, b, out);
}

static int eval_builtin(struct tpl_run *r, const struct tpl_node *n, struct tpl_value v,
	struct tpl_value *out)
{
	struct tpl_args a;
	int is;

	if (eval_args(r, n->list, &a) < 0)
		return -1;
	r->line = n->line;
	if (n->kind == NODE_FILTER)
		return tpl_filter(r, n->builtin, v, &a, out);
	is = tpl_test(r, n->builtin, v, &a);
	*out = tpl_bool(is > 0);
	return is < 0 ? -1 : 0;
}

static int negate(struct tpl_run *r, struct tpl_value v, bool minus,
	struct tpl_value *out)
{
	if (!tpl_is_number(v))
		return tpl_fail(r, "a sign before %s", tpl_kind_name(v));
	if (v.kind == TPL_FLOAT) {
		*out = tpl_float(minus ? -v.f : v.f, v.origin);
		return 0;
	}
	return tpl_binary(r, minus ? OP_SUB : OP_ADD, tpl_int(0, LM_FROM_TEMPLATE), v,
		out);
}

static int eval_one(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	struct tpl_value a;

	if (eval(r, n->a, &a) < 0)
		return -1;
	r->line = n->line;
	switch (n->kind) {
	case NODE_ATTR:
		return tpl_attribute(r, a, n->name, out);
	case NODE_NOT:
		*out = tpl_bool(!tpl_true(a));
		return 0;
	case NODE_NEGATE:
	case NODE_PLUS:
		return negate(r, a, n->kind == NODE_NEGATE, out);
	case NODE_AND:
	case NODE_OR:
		if (tpl_true(a) == (n->kind == NODE_AND))
			return eval(r, n->b, out);
		*out = a;
		return 0;
	default:
		return eval_builtin(r, n, a, out);
	}
}

static int eval_choice(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	struct tpl_value is;

	if (eval(r, n->b, &is) < 0)
		return -1;
	if (tpl_true(is))
		return eval(r, n->a, out);
	*out = tpl_undefined(NULL);
	return n->c ? eval(r, n->c, out) : 0;
}

static int eval_const(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	switch (n->kind) {
	case NODE_STRING:
		return tpl_text(r, n->text, n->len, LM_FROM_TEMPLATE, true, out);
	case NODE_INT:
		*out = tpl_int(n->i, LM_FROM_TEMPLATE);
		return 0;
	case NODE_FLOAT:
		*out = tpl_float(n->f, LM_FROM_TEMPLATE);
		return 0;
	case NODE_CONST:
		*out = n->i == 2 ? tpl_none() : tpl_bool(n->i == 1);
		return 0;
	default:
		return lookup(r, n->name, out);
	}
}

static int eval_kind(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	switch (n->kind) {
	case NODE_STRING:
	case NODE_INT:
	case NODE_FLOAT:
	case NODE_CONST:
	case NODE_NAME:
		return eval_const(r, n, out);
	case NODE_LIST:
	case NODE_TUPLE:
		return eval_list(r, n, out);
	case NODE_MAP:
		return eval_map(r, n, out);
	case NODE_SLICE:
		return eval_slice(r, n, out);
	case NODE_ITEM:
	case NODE_BINARY:
		return eval_two(r, n, out);
	case NODE_CALL:
		return call(r, n, NULL, out);
	case NODE_COMPARE:
		return compare(r, n, out);
	case NODE_IF_ELSE:
		return eval_choice(r, n, out);
	default:
		return eval_one(r, n, out);
	}
}

static int eval(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	int rc;

	r->line = n->line;
	if (tpl_steps(r, 1) < 0)
		return -1;
	if (++r->depth > DEPTH_MAX)
		return tpl_fail(r, "the template nests too deep");
	rc = eval_kind(r, n, out);
	r->depth--;
	return rc;
}

/* --- statements --------------------------------------------------------------------------- */

static int assign(struct tpl_run *r, const struct tpl_node *target, struct tpl_value v)
{
	const struct tpl_node *n;
	struct tpl_list *items;
	struct tpl_value on, key;
	size_t at = 0;

	switch (target->kind) {
	case NODE_NAME:
		return scope_set(r, r->scope, target->name, v);
	case NODE_ATTR:
		if (eval(r, target->a, &on) < 0)
			return -1;
		if (on.kind != TPL_NAMESPACE)
			return tpl_fail(r, "only a namespace's fields can be set");
		if (tpl_text(r, r->t->names[target->name], r->t->name_lens[target->name],
			    LM_FROM_TEMPLATE, true, &key) < 0)
			return -1;
		return tpl_map_put(r, on.map, key, v);
	default:
		if (tpl_items(r, v, &items) < 0)
			return -1;
		for (n = target->list; n; n = n->next, at++)
			if (at < items->count && assign(r, n, items->items[at]) < 0)
				return -1;
		if (at != items->count)
			return tpl_fail(r, "%zu values for %zu names", items->count, at);
		return 0;
	}
}

/* The items of a loop, without those that its `if` leaves out. */
static int loop_items(struct tpl_run *r, const struct tpl_node *n,
	struct tpl_scope *scope, struct tpl_list **out)
{
	struct tpl_list *all, *some;
	struct tpl_value over, is;

	if (eval(r, n->b, &over) < 0 || tpl_items(r, over, &all) < 0)
		return -1;
	*out = all;
	if (!n->c)
		return 0;
	some = tpl_list_new(r, all->count);
	if (!some)
		return -1;
	r->scope = scope;
	for (size_t i = 0; i < all->count; i++) {
		scope->count = 0;
		if (assign(r, n->a, all->items[i]) < 0 || eval(r, n->c, &is) < 0 ||
			(tpl_true(is) && tpl_list_push(r, some, all->items[i]) < 0))
			return -1;
	}
	r->scope = scope->up;
	*out = some;
	return 0;
}

static int exec_for(struct tpl_run *r, const struct tpl_node *n)
{
	struct tpl_scope *outer = r->scope, *scope = scope_new(r, outer);
	struct tpl_loop *loop = tpl_alloc(r, sizeof *loop);
	uint32_t name = tpl_find_name(r->t, "loop", 4);
	struct tpl_list *items;
	int rc = FLOW_ON;

	if (!scope || !loop || loop_items(r, n, scope, &items) < 0)
		return -1;
	loop->items = items->items;
	loop->count = items->count;
	r->scope = scope;
	for (size_t i = 0; i < items->count && rc != FLOW_BREAK; i++) {
		loop->index = i;
		scope->count = 0;
		if ((name != UINT32_MAX &&
			    scope_set(r, scope, name,
				    (struct tpl_value){ .kind = TPL_LOOP,
					    .loop = loop }) < 0) ||
			assign(r, n->a, items->items[i]) < 0)
			return -1;
		rc = exec(r, n->body);
		if (rc < 0)
			return -1;
	}
	if (!items->count && n->d) {
		scope->count = 0;
		rc = exec(r, n->d);
		if (rc < 0)
			return -1;
	}
	r->scope = outer;
	return items->count ? FLOW_ON : rc;
}

static int exec_if(struct tpl_run *r, const struct tpl_node *n)
{
	for (const struct tpl_node *b = n->list; b; b = b->next) {
		struct tpl_value is = tpl_bool(true);

		if (b->a && eval(r, b->a, &is) < 0)
			return -1;
		if (tpl_true(is))
			return exec(r, b->body);
	}
	return FLOW_ON;
}

/* filters: from the outermost, the innermost has no operand */
static int apply(struct tpl_run *r, const struct tpl_node *filters, struct tpl_value *v)
{
	struct tpl_value in = *v;

	if (!filters)
		return 0;
	if (filters->a && apply(r, filters->a, &in) < 0)
		return -1;
	return eval_builtin(r, filters, in, v);
}

/* The text that a body makes, in a scope of its own. */
static int body_text(struct tpl_run *r, const struct tpl_node *n,
	const struct tpl_node *filters, struct tpl_value *out, int *flow)
{
	struct tpl_scope *outer = r->scope;
	size_t mark = tpl_mark(r);

	r->scope = scope_new(r, outer);
	if (!r->scope)
		return -1;
	*flow = exec(r, n->body);
	r->scope = outer;
	return *flow < 0 || tpl_take(r, mark, out) < 0 ? -1 : apply(r, filters, out);
}

static int exec_set(struct tpl_run *r, const struct tpl_node *n)
{
	struct tpl_value v;
	int flow;

	if (n->kind == NODE_SET)
		return eval(r, n->b, &v) < 0 ? -1 : assign(r, n->a, v);
	if (body_text(r, n, n->b, &v, &flow) < 0 || assign(r, n->a, v) < 0)
		return -1;
	return flow;
}

static int macro_new(struct tpl_run *r, const struct tpl_node *n, struct tpl_value *out)
{
	struct tpl_macro *m = tpl_alloc(r, sizeof *m);

	if (!m)
		return -1;
	*m = (struct tpl_macro){ n, r->scope };
	*out = (struct tpl_value){ .kind = TPL_MACRO, .macro = m };
	return 0;
}

static int exec_caller(struct tpl_run *r, const struct tpl_node *n)
{
	struct tpl_keyword caller = { tpl_find_name(r->t, "caller", 6), { 0 } };
	struct tpl_value out;

	if (macro_new(r, n, &caller.value) < 0)
		return -1;
	if (call(r, n->a, caller.name == UINT32_MAX ? NULL : &caller, &out) < 0)
		return -1;
	return tpl_emit_value(r, out);
}

static int exec_one(struct tpl_run *r, const struct tpl_node *n)
{
	struct tpl_value v;
	int flow;

	switch (n->kind) {
	case NODE_DATA:
		return tpl_emit(r, n->text, n->len, LM_FROM_TEMPLATE);
	case NODE_PRINT:
		return eval(r, n->a, &v) < 0 ? -1 : tpl_emit_value(r, v);
	case NODE_IF:
		return exec_if(r, n);
	case NODE_FOR:
		return exec_for(r, n);
	case NODE_SET:
	case NODE_SET_BODY:
		return exec_set(r, n);
	case NODE_MACRO:
		return macro_new(r, n, &v) < 0 ? -1 : scope_set(r, r->scope, n->name, v);
	case NODE_CALLER:
		return exec_caller(r, n);
	case NODE_FILTERED:
		if (body_text(r, n, n->a, &v, &flow) < 0 || tpl_emit_value(r, v) < 0)
			return -1;
		return flow;
	case NODE_GROUP:
		return exec(r, n->body);
	case NODE_BREAK:
		return FLOW_BREAK;
	default:
		return FLOW_CONTINUE;
	}
}

static int exec(struct tpl_run *r, const struct tpl_node *n)
{
	int flow = FLOW_ON;

	if (++r->depth > DEPTH_MAX)
		return tpl_fail(r, "the template nests too deep");
	for (; n && flow == FLOW_ON; n = n->next) {
		r->line = n->line;
		flow = tpl_steps(r, 1) < 0 ? -1 : exec_one(r, n);
	}
	r->depth--;
	return flow;
}

/* --- the whole ---------------------------------------------------------------------------- */

/* Roles come from a short list that the caller checks: where a template writes "<|" + role +
 * "|>", the mark is the template's text. */
static void trust_roles(const struct tpl_value *messages)
{
	static const char *const roles[] = { "system", "developer", "user", "assistant",
		"tool" };

	for (size_t i = 0; messages->kind == TPL_LIST && i < messages->list->count; i++) {
		struct tpl_value m = messages->list->items[i];

		for (size_t j = 0; m.kind == TPL_MAP && j < m.map->count; j++)
			if (tpl_is(m.map->pairs[j].key, "role"))
				for (size_t k = 0; k < sizeof roles / sizeof *roles; k++)
					if (tpl_is(m.map->pairs[j].value, roles[k]))
						((struct tpl_string *)m.map->pairs[j]
								.value.s)
							->origin = LM_FROM_TEMPLATE;
	}
}

static int set_global(struct tpl_run *r, const char *name, struct tpl_value v)
{
	uint32_t number = tpl_find_name(r->t, name, strlen(name));

	return number == UINT32_MAX ? 0 : scope_set(r, r->scope, number, v);
}

static int set_globals(struct tpl_run *r, const json_t *variables)
{
	struct tpl_value v;
	const char *name;
	json_t *field;

	json_object_foreach((json_t *)variables, name, field) {
		if (tpl_find_name(r->t, name, strlen(name)) == UINT32_MAX)
			continue; /* the template does not look at it */
		if (tpl_from_json(r, field, LM_FROM_INPUT, 0, &v) < 0)
			return -1;
		if (strcmp(name, "messages") == 0)
			trust_roles(&v);
		if (set_global(r, name, v) < 0)
			return -1;
	}
	if (r->env->bos &&
		(tpl_text(r, r->env->bos, strlen(r->env->bos), LM_FROM_TEMPLATE, true,
			 &v) < 0 ||
			set_global(r, "bos_token", v) < 0))
		return -1;
	if (r->env->eos &&
		(tpl_text(r, r->env->eos, strlen(r->env->eos), LM_FROM_TEMPLATE, true,
			 &v) < 0 ||
			set_global(r, "eos_token", v) < 0))
		return -1;
	return 0;
}

int lm_template_render(const struct lm_template *t, const json_t *variables,
	const struct lm_template_env *env, struct lm_template_text *out)
{
	struct tpl_run r = { .t = t,
		.env = env,
		.out = out,
		.out_base = out->text.len,
		.line = 1 };
	int rc = -1;

	r.scope = scope_new(&r, NULL);
	if (r.scope && set_globals(&r, variables) == 0) {
		r.steps = 0;
		rc = exec(&r, t->body) < 0 ? -1 : 0;
	}
	arena_release(&r.arena);
	return rc;
}
