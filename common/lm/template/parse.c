/* parse.c - a template's statements, and the template as a whole. */
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/utf8.h"
#include "common/lm/template/ast.h"
#include "common/lm/template/template.h"

/* --- names ------------------------------------------------------------------------------------ */

static uint32_t hash(const char *s, size_t n)
{
	uint64_t h = fnv1a(FNV1A, s, n);

	return (uint32_t)(h ^ h >> 29);
}

/* The slot of a name in the index, or the free one where it belongs. */
static uint32_t *slot(const struct lm_template *t, const char *text, size_t len)
{
	uint32_t i = hash(text, len) & t->index_mask;

	while (t->index[i]) {
		uint32_t name = t->index[i] - 1;

		if (t->name_lens[name] == len && memcmp(t->names[name], text, len) == 0)
			break;
		i = (i + 1) & t->index_mask;
	}
	return &t->index[i];
}

static void grow_index(struct lm_template *t)
{
	uint32_t size = t->index ? (t->index_mask + 1) * 2 : 256;

	free(t->index);
	t->index = xcalloc(size, sizeof *t->index);
	t->index_mask = size - 1;
	for (size_t i = 0; i < t->name_count; i++)
		*slot(t, t->names[i], t->name_lens[i]) = (uint32_t)i + 1;
}

uint32_t tpl_intern(struct lm_template *t, const char *text, size_t len)
{
	uint32_t *s;
	char *copy;

	if (!t->index || t->name_count * 2 > t->index_mask)
		grow_index(t);
	s = slot(t, text, len);
	if (*s)
		return *s - 1;
	copy = arena_alloc(&t->arena, len + 1);
	memcpy(copy, text, len);
	t->names = xgrow(t->names, &t->names_cap, t->name_count + 1, sizeof *t->names);
	t->name_lens = xgrow(t->name_lens, &t->lens_cap, t->name_count + 1,
		sizeof *t->name_lens);
	t->names[t->name_count] = copy;
	t->name_lens[t->name_count++] = len;
	*s = (uint32_t)t->name_count;
	return *s - 1;
}

uint32_t tpl_find_name(const struct lm_template *t, const char *text, size_t len)
{
	uint32_t found = t->index ? *slot(t, text, len) : 0;

	return found - 1; /* none: UINT32_MAX */
}

/* --- statements ------------------------------------------------------------------------------- */

static bool body(struct tpl_parser *p, struct tpl_node **out, const char *const *ends);

static bool end_tag(struct tpl_parser *p)
{
	if (tpl_peek(p)->kind != TOK_TAG_END)
		return tpl_unexpected(p, "the end of the tag");
	p->at++;
	return true;
}

/* The body up to one of these tags, whose name has been taken when it returns. */
static bool block(struct tpl_parser *p, struct tpl_node **out, const char *const *ends)
{
	bool good;

	if (++p->nesting > LM_TEMPLATE_NESTING_MAX)
		return tpl_refuse(p, tpl_peek(p)->line, "tags nest too deep");
	good = end_tag(p) && body(p, out, ends);
	p->nesting--;
	return good;
}

static bool closed(struct tpl_parser *p, const char *end)
{
	return tpl_take_name(p, end) ? end_tag(p) : (bool)tpl_unexpected(p, end);
}

static struct tpl_node *parse_if(struct tpl_parser *p)
{
	static const char *const ends[] = { "elif", "else", "endif", NULL };
	struct tpl_node *n = tpl_node(p, NODE_IF), **tail = &n->list;
	bool otherwise = false;

	do {
		struct tpl_node *branch = tpl_node(p, NODE_BRANCH);

		if (!otherwise && !(branch->a = tpl_parse_tuple(p, true)))
			return NULL;
		if (!block(p, &branch->body, ends))
			return NULL;
		*tail = branch;
		tail = &branch->next;
		if (otherwise)
			break;
		otherwise = tpl_take_name(p, "else");
	} while (otherwise || tpl_take_name(p, "elif"));
	return closed(p, "endif") ? n : NULL;
}

static struct tpl_node *parse_for(struct tpl_parser *p)
{
	static const char *const ends[] = { "else", "endfor", NULL };
	struct tpl_node *n = tpl_node(p, NODE_FOR);

	n->a = tpl_parse_target(p, false);
	if (!n->a)
		return NULL;
	if (!tpl_take_name(p, "in"))
		return tpl_unexpected(p, "'in'");
	n->b = tpl_parse_tuple(p, false);
	if (!n->b)
		return NULL;
	if (tpl_take_name(p, "if") && !(n->c = tpl_parse_expression(p)))
		return NULL;
	p->loops++;
	if (!block(p, &n->body, ends))
		return NULL;
	p->loops--;
	if (tpl_take_name(p, "else") && !block(p, &n->d, ends + 1))
		return NULL;
	return closed(p, "endfor") ? n : NULL;
}

static struct tpl_node *parse_set(struct tpl_parser *p)
{
	static const char *const ends[] = { "endset", NULL };
	struct tpl_node *n = tpl_node(p, NODE_SET);

	n->a = tpl_parse_target(p, true);
	if (!n->a)
		return NULL;
	if (tpl_take_op(p, "=")) {
		n->b = tpl_parse_tuple(p, true);
		return n->b && end_tag(p) ? n : NULL;
	}
	n->kind = NODE_SET_BODY;
	if (tpl_take_op(p, "|") && !(n->b = tpl_parse_filters(p, NULL)))
		return NULL;
	return block(p, &n->body, ends) && closed(p, "endset") ? n : NULL;
}

/* (a, b=1): NODE_KEYWORD with a default or none */
static bool parameters(struct tpl_parser *p, struct tpl_node *n)
{
	struct tpl_node **tail = &n->list;

	if (!tpl_take_op(p, "("))
		return tpl_unexpected(p, "an opening bracket");
	while (!tpl_take_op(p, ")")) {
		const struct tpl_token *t;
		struct tpl_node *k;

		if (n->list && !tpl_take_op(p, ","))
			return tpl_unexpected(p, "a comma or the closing bracket");
		if (n->list && tpl_take_op(p, ")"))
			return true;
		t = tpl_peek(p);
		if (t->kind != TOK_NAME)
			return tpl_unexpected(p, "the name of a parameter");
		k = tpl_node(p, NODE_KEYWORD);
		k->name = tpl_intern(p->t, t->text, t->len);
		p->at++;
		if (tpl_take_op(p, "=") && !(k->a = tpl_parse_expression(p)))
			return false;
		*tail = k;
		tail = &k->next;
	}
	return true;
}

/* Loops around a macro are not loops in it. */
static bool apart(struct tpl_parser *p, struct tpl_node **out, const char *const *ends)
{
	unsigned loops = p->loops;
	bool good;

	p->loops = 0;
	good = block(p, out, ends);
	p->loops = loops;
	return good;
}

static struct tpl_node *parse_macro(struct tpl_parser *p)
{
	static const char *const ends[] = { "endmacro", NULL };
	struct tpl_node *n = tpl_node(p, NODE_MACRO);
	const struct tpl_token *t = tpl_peek(p);

	if (t->kind != TOK_NAME)
		return tpl_unexpected(p, "the macro's name");
	n->name = tpl_intern(p->t, t->text, t->len);
	p->at++;
	if (!parameters(p, n) || !apart(p, &n->body, ends) ||
		!tpl_take_name(p, "endmacro"))
		return NULL;
	if (tpl_peek(p)->kind == TOK_NAME) /* {% endmacro name %} */
		p->at++;
	return end_tag(p) ? n : NULL;
}

static struct tpl_node *parse_call(struct tpl_parser *p)
{
	static const char *const ends[] = { "endcall", NULL };
	struct tpl_node *n = tpl_node(p, NODE_CALLER);
	int line = tpl_peek(p)->line;

	if (tpl_peek_op(p, "(") && !parameters(p, n))
		return NULL;
	n->a = tpl_parse_expression(p);
	if (!n->a)
		return NULL;
	if (n->a->kind != NODE_CALL)
		return tpl_refuse(p, line, "'call' needs the call of a macro");
	return apart(p, &n->body, ends) && closed(p, "endcall") ? n : NULL;
}

static struct tpl_node *parse_filter(struct tpl_parser *p)
{
	static const char *const ends[] = { "endfilter", NULL };
	struct tpl_node *n = tpl_node(p, NODE_FILTERED);

	n->a = tpl_parse_filters(p, NULL);
	if (!n->a)
		return NULL;
	return block(p, &n->body, ends) && closed(p, "endfilter") ? n : NULL;
}

static struct tpl_node *parse_generation(struct tpl_parser *p)
{
	static const char *const ends[] = { "endgeneration", NULL };
	struct tpl_node *n = tpl_node(p, NODE_GROUP);

	return block(p, &n->body, ends) && closed(p, "endgeneration") ? n : NULL;
}

static struct tpl_node *leave(struct tpl_parser *p, enum tpl_node_kind kind)
{
	struct tpl_node *n = tpl_node(p, kind);

	if (!p->loops)
		return tpl_refuse(p, n->line, "'%s' outside of a loop",
			kind == NODE_BREAK ? "break" : "continue");
	return end_tag(p) ? n : NULL;
}

static struct tpl_node *parse_break(struct tpl_parser *p)
{
	return leave(p, NODE_BREAK);
}

static struct tpl_node *parse_continue(struct tpl_parser *p)
{
	return leave(p, NODE_CONTINUE);
}

static const struct {
	const char *word;
	struct tpl_node *(*parse)(struct tpl_parser *p);
} tags[] = { { "if", parse_if }, { "for", parse_for }, { "set", parse_set },
	{ "macro", parse_macro }, { "call", parse_call }, { "filter", parse_filter },
	{ "generation", parse_generation }, { "break", parse_break },
	{ "continue", parse_continue } };

static struct tpl_node *statement(struct tpl_parser *p)
{
	const struct tpl_token *t = tpl_peek(p);
	struct tpl_node *n;

	if (t->kind == TOK_DATA) {
		n = tpl_node(p, NODE_DATA);
		n->text = t->text;
		n->len = t->len;
		p->at++;
		return n;
	}
	if (t->kind == TOK_PRINT) {
		p->at++;
		n = tpl_node(p, NODE_PRINT);
		n->a = tpl_parse_tuple(p, true);
		if (!n->a)
			return NULL;
		if (tpl_peek(p)->kind != TOK_PRINT_END)
			return tpl_unexpected(p, "the end of the expression");
		p->at++;
		return n;
	}
	p->at++;
	for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
		if (tpl_take_name(p, tags[i].word))
			return tags[i].parse(p);
	return tpl_unexpected(p, "a tag that we know");
}

/* ends NULL: up to the end of the template */
static bool body(struct tpl_parser *p, struct tpl_node **out, const char *const *ends)
{
	struct tpl_node **tail = out;

	*out = NULL;
	while (tpl_peek(p)->kind != TOK_END) {
		if (tpl_peek(p)->kind == TOK_TAG && ends) {
			p->at++;
			for (size_t i = 0; ends[i]; i++)
				if (tpl_peek_name(p, ends[i]))
					return true;
			p->at--;
		}
		*tail = statement(p);
		if (!*tail)
			return false;
		tail = &(*tail)->next;
	}
	if (ends)
		tpl_unexpected(p, ends[1] ? "the end of the block" : ends[0]);
	return !ends;
}

/* --- the template ----------------------------------------------------------------------------- */

/* Copies text with line breaks as "\n", without the last one. Returns the length. */
static size_t normalise(char *out, const char *text, size_t bytes)
{
	size_t n = 0;

	for (size_t i = 0; i < bytes; i++) {
		if (text[i] == '\r') {
			out[n++] = '\n';
			if (i + 1 < bytes && text[i + 1] == '\n')
				i++;
		} else {
			out[n++] = text[i];
		}
	}
	if (n && out[n - 1] == '\n')
		n--;
	out[n] = '\0';
	return n;
}

int lm_template_parse(struct lm_template **out, const char *text, size_t bytes,
	const char *where)
{
	struct tpl_parser p = { 0 };
	struct lm_template *t;
	size_t len;

	if (bytes > LM_TEMPLATE_BYTES_MAX)
		return err_set(EX_DATAERR,
			"%s: a template of %zu bytes is longer than %zu", where, bytes,
			LM_TEMPLATE_BYTES_MAX);
	if (!utf8_valid(text, bytes) || memchr(text, 0, bytes))
		return err_set(EX_DATAERR, "%s: the template is not text in UTF-8",
			where);
	t = xcalloc(1, sizeof *t);
	t->where = arena_strdup(&t->arena, where);
	t->text = xmalloc(bytes + 1);
	len = normalise(t->text, text, bytes);
	p.t = t;
	if (tpl_lex(t, len) < 0 || !body(&p, &t->body, NULL)) {
		lm_template_free(t);
		return -1;
	}
	*out = t;
	return 0;
}

void lm_template_free(struct lm_template *t)
{
	if (!t)
		return;
	arena_release(&t->arena);
	free(t->text);
	free(t->tokens);
	free(t->names);
	free(t->name_lens);
	free(t->index);
	free(t);
}

bool lm_template_names(const struct lm_template *t, const char *name)
{
	return tpl_find_name(t, name, strlen(name)) != UINT32_MAX;
}

void lm_template_text_release(struct lm_template_text *t)
{
	buf_release(&t->text);
	buf_release(&t->from);
}
