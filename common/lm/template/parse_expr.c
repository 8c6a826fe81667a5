/* parse_expr.c - a template's expressions, with Jinja's order of operators: long because the levels
 * of one grammar call each other. */
#include <stdarg.h>
#include <string.h>

#include "common/base/err.h"
#include "common/lm/template/ast.h"
#include "common/lm/template/template.h"

/* of an expression's tree: `a + b + ...` is one deep for each sign */
#define DEPTH_MAX 200

/* --- the cursor ------------------------------------------------------------------------------- */

const struct tpl_token *tpl_peek(const struct tpl_parser *p)
{
	return &p->t->tokens[p->at];
}

static bool is_word(const struct tpl_token *t, enum tpl_token_kind kind, const char *word)
{
	return t->kind == kind && t->len == strlen(word) &&
		memcmp(t->text, word, t->len) == 0;
}

bool tpl_peek_op(const struct tpl_parser *p, const char *op)
{
	return is_word(tpl_peek(p), TOK_OP, op);
}

bool tpl_peek_name(const struct tpl_parser *p, const char *name)
{
	return is_word(tpl_peek(p), TOK_NAME, name);
}

bool tpl_take_op(struct tpl_parser *p, const char *op)
{
	bool there = tpl_peek_op(p, op);

	p->at += there;
	return there;
}

bool tpl_take_name(struct tpl_parser *p, const char *name)
{
	bool there = tpl_peek_name(p, name);

	p->at += there;
	return there;
}

void *tpl_unexpected(const struct tpl_parser *p, const char *expected)
{
	const struct tpl_token *t = tpl_peek(p);
	int len = t->len > 40 ? 40 : (int)t->len;

	switch (t->kind) {
	case TOK_END:
		return tpl_refuse(p, t->line, "%s expected, the template ends", expected);
	case TOK_DATA:
		return tpl_refuse(p, t->line, "%s expected, not text", expected);
	default:
		return tpl_refuse(p, t->line, "%s expected, not '%.*s'", expected, len,
			t->text);
	}
}

void *tpl_refuse(const struct tpl_parser *p, int line, const char *fmt, ...)
{
	char text[256];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof text, fmt, args);
	va_end(args);
	err_set(EX_DATAERR, "%s:%d: %s", p->t->where, line, text);
	return NULL;
}

struct tpl_node *tpl_node(struct tpl_parser *p, enum tpl_node_kind kind)
{
	struct tpl_node *n = arena_alloc(&p->t->arena, sizeof *n);

	n->kind = (uint8_t)kind;
	n->line = tpl_peek(p)->line;
	n->depth = 1;
	return n;
}

static void deeper(struct tpl_node *n, const struct tpl_node *below)
{
	if (below && below->depth >= n->depth)
		n->depth = (uint16_t)(below->depth + 1);
}

/* Sets n's depth from its operands; NULL when it is too deep. */
static struct tpl_node *tpl_done(struct tpl_parser *p, struct tpl_node *n)
{
	deeper(n, n->a);
	deeper(n, n->b);
	deeper(n, n->c);
	for (const struct tpl_node *i = n->list; i; i = i->next)
		deeper(n, i);
	if (n->depth > DEPTH_MAX)
		return tpl_refuse(p, n->line,
			"an expression is too long or nests too deep");
	return n;
}

/* --- operands --------------------------------------------------------------------------------- */

/* The expressions up to a closing bracket, as a list. pairs: `key: value`. */
static bool elements(struct tpl_parser *p, struct tpl_node *into, const char *close,
	bool pairs)
{
	struct tpl_node **tail = &into->list;

	while (!tpl_take_op(p, close)) {
		struct tpl_node *e;

		if (into->list && !tpl_take_op(p, ","))
			return tpl_unexpected(p, "a comma or the closing bracket");
		if (into->list && tpl_take_op(p, close))
			return true;
		e = tpl_parse_expression(p);
		if (!e)
			return false;
		if (pairs) {
			struct tpl_node *pair = tpl_node(p, NODE_PAIR);

			if (!tpl_take_op(p, ":"))
				return tpl_unexpected(p, "a colon");
			pair->a = e;
			pair->b = tpl_parse_expression(p);
			e = pair->b ? tpl_done(p, pair) : NULL;
			if (!e)
				return false;
		}
		*tail = e;
		tail = &e->next;
	}
	return true;
}

static struct tpl_node *literal(struct tpl_parser *p)
{
	const struct tpl_token *t = tpl_peek(p);
	struct tpl_node *n;

	if (t->kind == TOK_STRING) {
		n = tpl_node(p, NODE_STRING);
		n->text = t->text;
		n->len = t->len;
		p->at++;
		while (tpl_peek(p)->kind == TOK_STRING) { /* 'a' 'b' is 'ab' */
			const struct tpl_token *more = tpl_peek(p);
			char *both = arena_alloc(&p->t->arena, n->len + more->len + 1);

			memcpy(both, n->text, n->len);
			memcpy(both + n->len, more->text, more->len);
			n->text = both;
			n->len += more->len;
			if (n->len > LM_TEMPLATE_BYTES_MAX)
				return tpl_refuse(p, n->line, "a string is too long");
			p->at++;
		}
		return n;
	}
	n = tpl_node(p, t->kind == TOK_INT ? NODE_INT : NODE_FLOAT);
	n->i = t->i;
	n->f = t->f;
	p->at++;
	return n;
}

static struct tpl_node *bracketed(struct tpl_parser *p)
{
	struct tpl_node *n, *first;

	if (tpl_take_op(p, "[")) {
		n = tpl_node(p, NODE_LIST);
		return elements(p, n, "]", false) ? tpl_done(p, n) : NULL;
	}
	if (tpl_take_op(p, "{")) {
		n = tpl_node(p, NODE_MAP);
		return elements(p, n, "}", true) ? tpl_done(p, n) : NULL;
	}
	if (!tpl_take_op(p, "("))
		return tpl_unexpected(p, "an expression");
	n = tpl_node(p, NODE_TUPLE);
	if (tpl_take_op(p, ")"))
		return n;
	first = tpl_parse_expression(p);
	if (!first || tpl_take_op(p, ")"))
		return first;
	if (!tpl_take_op(p, ","))
		return tpl_unexpected(p, "a closing bracket");
	if (tpl_peek_op(p, ")")) {
		p->at++;
		n->list = first;
		return tpl_done(p, n);
	}
	if (!elements(p, n, ")", false))
		return NULL;
	first->next = n->list;
	n->list = first;
	return tpl_done(p, n);
}

static struct tpl_node *tpl_parse_primary(struct tpl_parser *p)
{
	static const struct {
		const char *word;
		int i;
	} consts[] = { { "true", 1 }, { "True", 1 }, { "false", 0 }, { "False", 0 },
		{ "none", 2 }, { "None", 2 } };
	const struct tpl_token *t = tpl_peek(p);
	struct tpl_node *n;

	if (t->kind == TOK_STRING || t->kind == TOK_INT || t->kind == TOK_FLOAT)
		return literal(p);
	if (t->kind != TOK_NAME) {
		if (++p->nesting > LM_TEMPLATE_NESTING_MAX)
			return tpl_refuse(p, t->line, "brackets nest too deep");
		n = bracketed(p);
		p->nesting--;
		return n;
	}
	for (size_t i = 0; i < sizeof consts / sizeof *consts; i++)
		if (tpl_take_name(p, consts[i].word)) {
			n = tpl_node(p, NODE_CONST);
			n->i = consts[i].i;
			return n;
		}
	n = tpl_node(p, NODE_NAME);
	n->name = tpl_intern(p->t, t->text, t->len);
	p->at++;
	return n;
}

/* --- what follows an operand ------------------------------------------------------------------ */

static bool arguments(struct tpl_parser *p, struct tpl_node *call)
{
	struct tpl_node **tail = &call->list;
	bool keywords = false;

	while (!tpl_take_op(p, ")")) {
		const struct tpl_token *t = tpl_peek(p);
		struct tpl_node *e;

		if (call->list && !tpl_take_op(p, ","))
			return tpl_unexpected(p, "a comma or the closing bracket");
		if (call->list && tpl_take_op(p, ")"))
			return true;
		t = tpl_peek(p);
		if (tpl_peek_op(p, "*") || tpl_peek_op(p, "**"))
			return tpl_unexpected(p, "an argument");
		if (t->kind == TOK_NAME && is_word(t + 1, TOK_OP, "=")) {
			e = tpl_node(p, NODE_KEYWORD);
			e->name = tpl_intern(p->t, t->text, t->len);
			p->at += 2;
			e->a = tpl_parse_expression(p);
			if (!e->a || !tpl_done(p, e))
				return false;
			keywords = true;
		} else if (keywords) {
			return tpl_unexpected(p, "an argument by name");
		} else {
			e = tpl_parse_expression(p);
			if (!e)
				return false;
		}
		*tail = e;
		tail = &e->next;
	}
	return true;
}

static struct tpl_node *subscript(struct tpl_parser *p, struct tpl_node *a)
{
	struct tpl_node *n = tpl_node(p, NODE_ITEM);

	n->a = a;
	if (!tpl_peek_op(p, ":")) {
		n->b = tpl_parse_expression(p);
		if (!n->b)
			return NULL;
	}
	if (tpl_take_op(p, ":")) {
		n->kind = NODE_SLICE;
		if (!tpl_peek_op(p, ":") && !tpl_peek_op(p, "]")) {
			n->c = tpl_parse_expression(p);
			if (!n->c)
				return NULL;
		}
		if (tpl_take_op(p, ":") && !tpl_peek_op(p, "]")) {
			n->d = tpl_parse_expression(p);
			if (!n->d)
				return NULL;
		}
		deeper(n, n->d);
	}
	if (!tpl_take_op(p, "]"))
		return tpl_unexpected(p, "a closing bracket");
	return tpl_done(p, n);
}

static struct tpl_node *call(struct tpl_parser *p, struct tpl_node *a)
{
	struct tpl_node *n = tpl_node(p, NODE_CALL);
	int method;

	n->a = a;
	if (!arguments(p, n))
		return NULL;
	if (a->kind == NODE_ATTR) {
		method = tpl_method_find(p->t->names[a->name], p->t->name_lens[a->name]);
		if (method < 0)
			return tpl_refuse(p, a->line,
				"a method that we do not know: '%s'",
				p->t->names[a->name]);
		n->builtin = (uint16_t)method;
	}
	return tpl_done(p, n);
}

static struct tpl_node *tpl_parse_postfix(struct tpl_parser *p, struct tpl_node *n)
{
	while (n) {
		const struct tpl_token *t;
		struct tpl_node *to;

		if (tpl_take_op(p, ".")) {
			t = tpl_peek(p);
			to = tpl_node(p, NODE_ATTR);
			to->a = n;
			if (t->kind == TOK_INT) { /* a.0 is a[0] */
				to->kind = NODE_ITEM;
				to->b = literal(p);
			} else if (t->kind == TOK_NAME) {
				to->name = tpl_intern(p->t, t->text, t->len);
				p->at++;
			} else {
				return tpl_unexpected(p, "a name");
			}
			n = tpl_done(p, to);
		} else if (tpl_take_op(p, "[")) {
			n = subscript(p, n);
		} else if (tpl_take_op(p, "(")) {
			n = call(p, n);
		} else {
			break;
		}
	}
	return n;
}

struct tpl_node *tpl_parse_filters(struct tpl_parser *p, struct tpl_node *a)
{
	do {
		const struct tpl_token *t = tpl_peek(p);
		struct tpl_node *n = tpl_node(p, NODE_FILTER);
		int filter;

		if (t->kind != TOK_NAME)
			return tpl_unexpected(p, "a filter");
		filter = tpl_filter_find(t->text, t->len);
		if (filter < 0)
			return tpl_unexpected(p, "a filter that we know");
		n->builtin = (uint16_t)filter;
		n->a = a;
		p->at++;
		if (tpl_take_op(p, "(") && !arguments(p, n))
			return NULL;
		a = tpl_done(p, n);
	} while (a && tpl_take_op(p, "|"));
	return a;
}

/* `is [not] test`, whose one argument may stand without brackets. */
static struct tpl_node *test(struct tpl_parser *p, struct tpl_node *a)
{
	bool negated = tpl_take_name(p, "not");
	struct tpl_node *n = tpl_node(p, NODE_TEST), *not ;
	const struct tpl_token *t = tpl_peek(p);
	int number = t->kind == TOK_NAME ? tpl_test_find(t->text, t->len) : -1;

	if (number < 0)
		return tpl_unexpected(p, "a test that we know");
	n->builtin = (uint16_t)number;
	n->a = a;
	p->at++;
	t = tpl_peek(p);
	if (tpl_take_op(p, "(")) {
		if (!arguments(p, n))
			return NULL;
	} else if (t->kind == TOK_STRING || t->kind == TOK_INT || t->kind == TOK_FLOAT ||
		tpl_peek_op(p, "[") || tpl_peek_op(p, "{") ||
		(t->kind == TOK_NAME && !tpl_peek_name(p, "else") &&
			!tpl_peek_name(p, "or") && !tpl_peek_name(p, "and") &&
			!tpl_peek_name(p, "if") && !tpl_peek_name(p, "is") &&
			!tpl_peek_name(p, "not") && !tpl_peek_name(p, "in") &&
			!tpl_peek_name(p, "recursive"))) {
		n->list = tpl_parse_postfix(p, tpl_parse_primary(p));
		if (!n->list)
			return NULL;
	}
	if (!tpl_done(p, n) || !negated)
		return n->depth > DEPTH_MAX ? NULL : n;
	not = tpl_node(p, NODE_NOT);
	not ->a = n;
	return tpl_done(p, not );
}

static struct tpl_node *filters_and_tests(struct tpl_parser *p, struct tpl_node *n)
{
	while (n) {
		if (tpl_take_op(p, "|"))
			n = tpl_parse_filters(p, n);
		else if (tpl_take_name(p, "is"))
			n = test(p, n);
		else if (tpl_take_op(p, "("))
			n = call(p, n);
		else
			break;
	}
	return n;
}

/* --- operators -------------------------------------------------------------------------------- */

static struct tpl_node *unary(struct tpl_parser *p, bool filters)
{
	struct tpl_node *n;

	if (tpl_peek_op(p, "-") || tpl_peek_op(p, "+")) {
		if (++p->nesting > LM_TEMPLATE_NESTING_MAX)
			return tpl_refuse(p, tpl_peek(p)->line, "signs nest too deep");
		n = tpl_node(p, tpl_peek_op(p, "-") ? NODE_NEGATE : NODE_PLUS);
		p->at++;
		n->a = unary(p, false);
		p->nesting--;
		n = n->a ? tpl_done(p, n) : NULL;
	} else {
		n = tpl_parse_primary(p);
	}
	n = tpl_parse_postfix(p, n);
	return filters ? filters_and_tests(p, n) : n;
}

struct level {
	const char *ops[5];
	enum tpl_op op[5];
};

/* From the one that binds tightest. */
static const struct level levels[] = {
	{ { "**" }, { OP_POW } },
	{ { "*", "/", "//", "%" }, { OP_MUL, OP_DIV, OP_FLOOR_DIV, OP_MOD } },
	{ { "~" }, { OP_CONCAT } },
	{ { "+", "-" }, { OP_ADD, OP_SUB } },
};

static struct tpl_node *binary(struct tpl_parser *p, size_t level)
{
	struct tpl_node *left = level ? binary(p, level - 1) : unary(p, true);

	while (left) {
		const struct level *l = &levels[level];
		struct tpl_node *n;
		size_t i = 0;

		while (l->ops[i] && !tpl_peek_op(p, l->ops[i]))
			i++;
		if (!l->ops[i])
			break;
		n = tpl_node(p, NODE_BINARY);
		n->op = (uint8_t)l->op[i];
		p->at++;
		n->a = left;
		n->b = level ? binary(p, level - 1) : unary(p, true);
		left = n->b ? tpl_done(p, n) : NULL;
	}
	return left;
}

static int compare_op(struct tpl_parser *p)
{
	static const char *ops[] = { "==", "!=", "<", "<=", ">", ">=" };

	for (int i = 0; i < 6; i++)
		if (tpl_take_op(p, ops[i]))
			return OP_EQ + i;
	if (tpl_take_name(p, "in"))
		return OP_IN;
	if (tpl_peek_name(p, "not") && is_word(tpl_peek(p) + 1, TOK_NAME, "in")) {
		p->at += 2;
		return OP_NOT_IN;
	}
	return -1;
}

static struct tpl_node *comparison(struct tpl_parser *p)
{
	struct tpl_node *first = binary(p, 3), *n = NULL, **tail = NULL;
	int op;

	while (first && (op = compare_op(p)) >= 0) {
		struct tpl_node *c = tpl_node(p, NODE_COMPARED);

		if (!n) {
			n = tpl_node(p, NODE_COMPARE);
			n->a = first;
			tail = &n->list;
		}
		c->op = (uint8_t)op;
		c->a = binary(p, 3);
		if (!c->a || !tpl_done(p, c))
			return NULL;
		*tail = c;
		tail = &c->next;
	}
	return n ? tpl_done(p, n) : first;
}

static struct tpl_node *negation(struct tpl_parser *p)
{
	struct tpl_node *n;

	if (!tpl_peek_name(p, "not"))
		return comparison(p);
	if (++p->nesting > LM_TEMPLATE_NESTING_MAX)
		return tpl_refuse(p, tpl_peek(p)->line, "'not' nests too deep");
	n = tpl_node(p, NODE_NOT);
	p->at++;
	n->a = negation(p);
	p->nesting--;
	return n->a ? tpl_done(p, n) : NULL;
}

static struct tpl_node *logical(struct tpl_parser *p, bool either)
{
	struct tpl_node *left = either ? logical(p, false) : negation(p);

	while (left && tpl_take_name(p, either ? "or" : "and")) {
		struct tpl_node *n = tpl_node(p, either ? NODE_OR : NODE_AND);

		n->a = left;
		n->b = either ? logical(p, false) : negation(p);
		left = n->b ? tpl_done(p, n) : NULL;
	}
	return left;
}

struct tpl_node *tpl_parse_expression(struct tpl_parser *p)
{
	struct tpl_node *n;

	if (++p->nesting > LM_TEMPLATE_NESTING_MAX)
		return tpl_refuse(p, tpl_peek(p)->line, "an expression nests too deep");
	n = logical(p, true);
	while (n && tpl_take_name(p, "if")) {
		struct tpl_node *choice = tpl_node(p, NODE_IF_ELSE);

		choice->a = n;
		choice->b = logical(p, true);
		if (!choice->b)
			return NULL;
		if (tpl_take_name(p, "else")) {
			choice->c = tpl_parse_expression(p);
			if (!choice->c)
				return NULL;
		}
		n = tpl_done(p, choice);
	}
	p->nesting--;
	return n;
}

struct tpl_node *tpl_parse_tuple(struct tpl_parser *p, bool inline_if)
{
	struct tpl_node *first = inline_if ? tpl_parse_expression(p) : logical(p, true);
	struct tpl_node *n, **tail;

	if (!first || !tpl_peek_op(p, ","))
		return first;
	n = tpl_node(p, NODE_TUPLE);
	n->list = first;
	tail = &first->next;
	while (tpl_take_op(p, ",")) {
		const struct tpl_token *t = tpl_peek(p);

		if (t->kind == TOK_TAG_END || t->kind == TOK_PRINT_END)
			break;
		*tail = inline_if ? tpl_parse_expression(p) : logical(p, true);
		if (!*tail)
			return NULL;
		tail = &(*tail)->next;
	}
	return tpl_done(p, n);
}

struct tpl_node *tpl_parse_target(struct tpl_parser *p, bool attributes)
{
	struct tpl_node *first = NULL, **tail = &first, *n;
	bool brackets = tpl_take_op(p, "("), more;

	do {
		const struct tpl_token *t = tpl_peek(p);

		if (t->kind != TOK_NAME)
			return tpl_unexpected(p, "the name of a variable");
		n = tpl_node(p, NODE_NAME);
		n->name = tpl_intern(p->t, t->text, t->len);
		p->at++;
		if (attributes && !first && tpl_take_op(p, ".")) {
			struct tpl_node *attribute = tpl_node(p, NODE_ATTR);

			t = tpl_peek(p);
			if (t->kind != TOK_NAME)
				return tpl_unexpected(p, "a name");
			attribute->a = n;
			attribute->name = tpl_intern(p->t, t->text, t->len);
			p->at++;
			return attribute;
		}
		*tail = n;
		tail = &n->next;
		more = tpl_take_op(p, ",");
	} while (more && tpl_peek(p)->kind == TOK_NAME && !tpl_peek_name(p, "in"));
	if (brackets && !tpl_take_op(p, ")"))
		return tpl_unexpected(p, "a closing bracket");
	if (!first->next && !more)
		return first;
	n = tpl_node(p, NODE_TUPLE);
	n->list = first;
	return n;
}
