/* constraint.c - compiles response_format and tools to a grammar, and makes its masks for the
 * engine. */
#include "cmd/rnp-serve/chat/constraint.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/chat/call_text.h"
#include "cmd/rnp-serve/chat/filter.h"
#include "cmd/rnp-serve/chat/tool_grammar.h"
#include "common/base/err.h"
#include "common/base/mem.h"

struct constraint {
	struct lm_grammar *grammar;
	const struct model_slot *model;
	const struct lm_vocabulary *vocabulary;
	bool watches; /* the grammar is that of calls, from their mark on */
	struct buf left_out;
};

struct constrained {
	struct lm_matcher *matcher;
	const struct constraint *of;
	/* what is not constrained: reasoning, or all up to the mark of a call */
	enum { IN_GRAMMAR, IN_REASONING, IN_TEXT, IN_NOTHING } at;
	struct buf reasoning; /* the last bytes of the reasoning, until it ends */
	struct filter filter; /* IN_TEXT: takes reasoning out */
	struct call_watch watch;
};

/* Returns the schema of {"type":"json_schema","json_schema":{"schema":...}}, or of the flat
 * form in the responses API. NULL with e. */
static const json_t *schema_of(const json_t *format, json_t **any, struct api_error *e)
{
	const char *type = json_string_value(json_object_get(format, "type"));
	const json_t *inner = json_object_get(format, "json_schema");
	const json_t *schema = json_object_get(inner ? inner : format, "schema");

	if (type && strcmp(type, "json_object") == 0 && json_is_object(schema))
		return schema; /* as llama.cpp and others write it */
	if (type && strcmp(type, "json_object") == 0) {
		*any = json_pack("{s:s}", "type", "object");
		return *any;
	}
	if (!type || strcmp(type, "json_schema") != 0)
		api_error_set(e, 400, "invalid_value", "response_format",
			"'response_format.type' must be text, json_object or json_schema");
	else if (!json_is_object(schema))
		api_error_set(e, 400, "invalid_value", "response_format",
			"'response_format.json_schema.schema' must be an object");
	else
		return schema;
	return NULL;
}

static int refuse_tools(const struct tool *bad, struct api_error *e)
{
	if (bad)
		return api_error_set(e, 400, "invalid_value", "tools",
			"the parameters of tool '%s': %s", bad->name, err_get()->text);
	return api_error_set(e, 400, "invalid_value", "tools",
		"the parameters of all tools together: %s", err_get()->text);
}

/* Compiles a schema (NULL: none), or the request's pattern, and the tools to one grammar. */
static int compile(struct constraint *c, const struct model_slot *m,
	const struct request *q, const json_t *schema, struct api_error *e)
{
	const struct tool *bad = NULL;

	if (q->tools_read.mode == TOOLS_OFF) {
		const struct lm_grammar_part text[] = { { .kind = LM_GRAMMAR_PATTERN,
								.text = q->pattern },
			{ .kind = LM_GRAMMAR_END } };

		if ((schema ? lm_grammar_schema(&c->grammar, schema) :
			      lm_grammar_parts(&c->grammar, text)) < 0)
			return api_error_set(e, 400, "invalid_value", q->held_to, "%s",
				err_get()->text);
		return 0;
	}
	c->watches = q->tools_read.mode == TOOLS_AUTO && !schema;
	if (q->tools_read.mode == TOOLS_REQUIRED)
		schema = NULL; /* the answer has no content */
	return tool_grammar(&c->grammar, &m->calls, &q->tools_read, c->watches, schema,
		       &c->left_out, &bad) < 0 ?
		refuse_tools(bad, e) :
		0;
}

int constraint_open(struct constraint **out, struct model_slot *m,
	const struct request *q, struct api_error *e)
{
	const json_t *schema = NULL;
	struct constraint *c;
	json_t *any = NULL;
	int rc = -1;

	*out = NULL;
	if (!q->held_to && q->tools_read.mode == TOOLS_OFF)
		return 0;
	if (q->response_format) {
		schema = schema_of(q->response_format, &any, e);
		if (!schema)
			return -1;
	}
	c = xcalloc(1, sizeof *c);
	c->model = m;
	if (!m->ends_count)
		api_error_set(e, 400, "unsupported_parameter",
			q->held_to ? q->held_to : "tools",
			"model '%s' has no token that ends a text", m->name);
	else
		rc = compile(c, m, q, schema, e);
	if (rc == 0) {
		c->vocabulary = model_slot_vocabulary(m);
		*out = c;
	} else {
		constraint_free(c);
	}
	json_decref(any);
	return rc;
}

void constraint_free(struct constraint *c)
{
	if (!c)
		return;
	lm_grammar_free(c->grammar);
	buf_release(&c->left_out);
	free(c);
}

const char *constraint_left_out(const struct constraint *c)
{
	return c ? buf_text(&c->left_out) : "";
}

struct constrained *constrained_new(const struct constraint *c, bool reasons)
{
	struct constrained *t = xcalloc(1, sizeof *t);

	t->matcher = lm_matcher_new(c->grammar, c->vocabulary);
	t->of = c;
	t->at = c->watches ? IN_TEXT : reasons ? IN_REASONING : IN_GRAMMAR;
	filter_init(&t->filter, NULL, 0, true, reasons);
	call_watch_init(&t->watch, &c->model->calls);
	return t;
}

void constrained_free(struct constrained *t)
{
	if (!t)
		return;
	lm_matcher_free(t->matcher);
	buf_release(&t->reasoning);
	filter_release(&t->filter);
	call_watch_release(&t->watch);
	free(t);
}

static const uint64_t *allowed(void *ctx)
{
	struct constrained *t = ctx;

	return t->at == IN_GRAMMAR ? lm_matcher_mask(t->matcher) : NULL;
}

/* Reasoning ends with its closing tag; the bytes of the token after the tag belong to the
 * answer. */
static void reason(struct constrained *t, uint32_t token)
{
	const struct lm_token *tokens = t->of->model->handles.token;
	const size_t mark = strlen(FILTER_THINK_END);
	const char *end;

	if (token >= lm_token_count(tokens) ||
		lm_token_piece(tokens, &t->reasoning, token, false, true) < 0 ||
		!t->reasoning.len)
		return;
	end = memmem(t->reasoning.data, t->reasoning.len, FILTER_THINK_END, mark);
	if (end) {
		const char *rest = end + mark,
			   *stop = t->reasoning.data + t->reasoning.len;

		t->at = IN_GRAMMAR;
		while (rest < stop && (*rest == '\n' || *rest == ' '))
			rest++;
		lm_matcher_push(t->matcher, rest, (size_t)(stop - rest));
	} else if (t->reasoning.len > 2 * mark) {
		memmove(t->reasoning.data, t->reasoning.data + t->reasoning.len - mark,
			mark);
		t->reasoning.len = mark;
	}
}

/* Looks for the mark of a call, as the writer does (call_text.h). What its token has after the
 * mark must begin a call, else the answer stays unconstrained. */
static void watch(struct constrained *t, uint32_t token)
{
	const struct lm_token *tokens = t->of->model->handles.token;
	bool special = call_format_special(&t->of->model->calls, token) != NULL;
	struct buf text = BUF_INIT, content = BUF_INIT, rest = BUF_INIT;

	if (token < lm_token_count(tokens) &&
		lm_token_piece(tokens, &text, token, false, special) == 0 && text.len) {
		filter_push(&t->filter, text.data, text.len, &content, &rest);
		buf_reset(&rest);
		if (content.len &&
			call_watch_push(&t->watch, content.data, content.len, &rest)) {
			const struct buf *held = &t->watch.held;
			size_t mark = call_watch_mark(&t->watch), n = held->len - mark;

			t->at = lm_matcher_push(t->matcher, held->data + mark, n) == n ?
				IN_GRAMMAR :
				IN_NOTHING;
		}
	}
	buf_release(&text);
	buf_release(&content);
	buf_release(&rest);
}

static void accept_token(void *ctx, uint32_t token)
{
	struct constrained *t = ctx;

	if (t->at == IN_GRAMMAR)
		lm_matcher_take(t->matcher, token);
	else if (t->at == IN_REASONING)
		reason(t, token);
	else if (t->at == IN_TEXT)
		watch(t, token);
}

struct lm_mask constrained_mask(struct constrained *t)
{
	return (struct lm_mask){ allowed, accept_token, t };
}
