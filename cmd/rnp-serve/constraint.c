/* constraint.c - compiles response_format to a grammar, and makes its masks for the engine. */
#include "cmd/rnp-serve/constraint.h"

#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/filter.h"
#include "common/base/err.h"
#include "common/base/mem.h"

struct constraint {
	struct lm_grammar *grammar;
	const struct served *model;
	const struct lm_vocabulary *vocabulary;
};

struct constrained {
	struct lm_matcher *matcher;
	const struct served *model;
	struct buf reasoning; /* the last bytes of the reasoning, until it ends */
	bool reasons;
};

/* Returns the schema of {"type":"json_schema","json_schema":{"schema":...}}, or of the flat
 * form in the responses API. NULL with e. */
static const json_t *schema_of(const json_t *format, json_t **any, struct api_error *e)
{
	const char *type = json_string_value(json_object_get(format, "type"));
	const json_t *inner = json_object_get(format, "json_schema");
	const json_t *schema = json_object_get(inner ? inner : format, "schema");

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

int constraint_open(struct constraint **out, struct served *m, const struct request *q,
	struct api_error *e)
{
	const char *type = json_string_value(json_object_get(q->response_format, "type"));
	struct lm_grammar *g = NULL;
	const json_t *schema;
	json_t *any = NULL;
	int rc = -1;

	*out = NULL;
	if (!q->response_format || (type && strcmp(type, "text") == 0))
		return 0;
	schema = schema_of(q->response_format, &any, e);
	if (!schema)
		return -1;
	if (!m->ends_count) {
		api_error_set(e, 400, "unsupported_parameter", "response_format",
			"model '%s' has no token that ends a text", m->name);
	} else if (lm_grammar_schema(&g, schema) < 0) {
		api_error_set(e, 400, "invalid_value", "response_format", "%s",
			err_get()->text);
	} else {
		struct constraint *c = xcalloc(1, sizeof *c);

		c->grammar = g;
		c->model = m;
		c->vocabulary = served_vocabulary(m);
		*out = c;
		rc = 0;
	}
	json_decref(any);
	return rc;
}

void constraint_free(struct constraint *c)
{
	if (!c)
		return;
	lm_grammar_free(c->grammar);
	free(c);
}

struct constrained *constrained_new(const struct constraint *c, bool reasons)
{
	struct constrained *t = xcalloc(1, sizeof *t);

	t->matcher = lm_matcher_new(c->grammar, c->vocabulary);
	t->model = c->model;
	t->reasons = reasons;
	return t;
}

void constrained_free(struct constrained *t)
{
	if (!t)
		return;
	lm_matcher_free(t->matcher);
	buf_release(&t->reasoning);
	free(t);
}

static const uint64_t *allowed(void *ctx)
{
	struct constrained *t = ctx;

	return t->reasons ? NULL : lm_matcher_mask(t->matcher);
}

/* Reasoning ends with its closing tag; the bytes of the token after the tag belong to the
 * answer. */
static void reason(struct constrained *t, uint32_t token)
{
	const size_t mark = strlen(FILTER_THINK_END);
	const char *end;

	if (token >= lm_token_count(t->model->l.token) ||
		lm_token_piece(t->model->l.token, &t->reasoning, token, false, true) <
			0 ||
		!t->reasoning.len)
		return;
	end = memmem(t->reasoning.data, t->reasoning.len, FILTER_THINK_END, mark);
	if (end) {
		const char *rest = end + mark,
			   *stop = t->reasoning.data + t->reasoning.len;

		t->reasons = false;
		while (rest < stop && (*rest == '\n' || *rest == ' '))
			rest++;
		lm_matcher_push(t->matcher, rest, (size_t)(stop - rest));
	} else if (t->reasoning.len > 2 * mark) {
		memmove(t->reasoning.data, t->reasoning.data + t->reasoning.len - mark,
			mark);
		t->reasoning.len = mark;
	}
}

static void accept_token(void *ctx, uint32_t token)
{
	struct constrained *t = ctx;

	if (t->reasons)
		reason(t, token);
	else
		lm_matcher_take(t->matcher, token);
}

struct lm_mask constrained_mask(struct constrained *t)
{
	return (struct lm_mask){ allowed, accept_token, t };
}
