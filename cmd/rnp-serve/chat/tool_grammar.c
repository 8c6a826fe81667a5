/* tool_grammar.c - builds the parts of the grammar: the texts of the format around a tree of
 * names, whose branches differ in their first byte. */
#include "cmd/rnp-serve/chat/tool_grammar.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"

#define ID_PATTERN "^[A-Za-z0-9]{9}$"

struct maker {
	struct arena arena;
	const struct call_format *format;
	const struct tools *tools;
	struct buf *left_out; /* [tools] */
};

/* A sequence that is being written. */
struct parts {
	struct lm_grammar_part *at;
	size_t n, cap;
};

static void add(struct parts *p, struct lm_grammar_part part)
{
	p->at = xgrow(p->at, &p->cap, p->n + 2, sizeof *p->at);
	p->at[p->n++] = part;
	p->at[p->n] = (struct lm_grammar_part){ .kind = LM_GRAMMAR_END };
}

/* Moves a sequence into the arena. */
static struct lm_grammar_part *keep(struct maker *m, struct parts *p)
{
	struct lm_grammar_part *kept = arena_alloc(&m->arena, (p->n + 1) * sizeof *kept);

	if (p->n)
		memcpy(kept, p->at, p->n * sizeof *kept);
	free(p->at);
	*p = (struct parts){ 0 };
	return kept;
}

static void add_bytes(struct maker *m, struct parts *p, struct buf *text)
{
	if (text->len)
		add(p,
			(struct lm_grammar_part){ .kind = LM_GRAMMAR_TEXT,
				.text = arena_strdup(&m->arena, buf_text(text)) });
	buf_reset(text);
}

/* Adds a text of the format: its special tokens as such, and its ids as patterns. */
static void add_text(struct maker *m, struct parts *p, const char *text)
{
	struct buf plain = BUF_INIT;

	while (*text) {
		const struct call_token *token = call_format_token(m->format, text);

		if (token) {
			add_bytes(m, p, &plain);
			add(p,
				(struct lm_grammar_part){ .kind = LM_GRAMMAR_TOKEN,
					.token = token->id });
			text += strlen(token->text);
		} else if (*text == CALL_OWN_ID || *text == CALL_OTHER_ID) {
			add_bytes(m, p, &plain);
			add(p,
				(struct lm_grammar_part){ .kind = LM_GRAMMAR_PATTERN,
					.text = ID_PATTERN });
			text++;
		} else {
			buf_addc(&plain, *text++);
		}
	}
	add_bytes(m, p, &plain);
	buf_release(&plain);
}

static void add_choice(struct parts *p, const struct lm_grammar_part *const *choices)
{
	add(p, (struct lm_grammar_part){ .kind = LM_GRAMMAR_CHOICE, .choices = choices });
}

static struct lm_grammar_part *names(struct maker *m, uint32_t from, uint32_t to,
	size_t at, const char *middle);

/* Adds what follows the first `at` bytes of the names [from, to), which they share. */
static void add_names(struct maker *m, struct parts *p, uint32_t from, uint32_t to,
	size_t at, const char *middle)
{
	const struct tool *t = m->tools->at;
	const struct lm_grammar_part **list;
	uint32_t n = 0;

	if (to - from == 1 && !t[from].name[at]) {
		add_text(m, p, middle);
		add(p,
			(struct lm_grammar_part){ .kind = LM_GRAMMAR_SCHEMA,
				.schema = t[from].schema,
				.left_out = t[from].strict ? NULL : &m->left_out[from] });
		return;
	}
	list = arena_alloc(&m->arena, (to - from + 1) * sizeof *list);
	for (uint32_t i = from; i < to;) {
		uint32_t end = i + 1;

		while (end < to && t[end].name[at] == t[i].name[at])
			end++;
		list[n++] = names(m, i, end, at, middle);
		i = end;
	}
	add_choice(p, list);
}

/* The sequence of names that share more than `at` bytes, or of one that ends there. */
static struct lm_grammar_part *names(struct maker *m, uint32_t from, uint32_t to,
	size_t at, const char *middle)
{
	const char *first = m->tools->at[from].name, *last = m->tools->at[to - 1].name;
	struct parts p = { 0 };
	struct buf shared = BUF_INIT;

	for (; first[at] && first[at] == last[at]; at++)
		buf_addc(&shared, first[at]);
	add_bytes(m, &p, &shared);
	buf_release(&shared);
	add_names(m, &p, from, to, at, middle);
	return keep(m, &p);
}

/* The sequence of call i, from its name on, and of those after it. The calls are made from the
 * last one on. */
static const struct lm_grammar_part *calls(struct maker *m, uint32_t i,
	const struct lm_grammar_part *next)
{
	struct parts p = { 0 }, end = { 0 }, on = { 0 };
	const struct lm_grammar_part **choices = arena_alloc(&m->arena,
		3 * sizeof *choices);
	const struct lm_grammar_part **one = arena_alloc(&m->arena, 2 * sizeof *one);

	add_names(m, &p, 0, m->tools->count, 0, m->format->middle[i]);
	add_text(m, &end, m->format->close);
	choices[0] = keep(m, &end);
	if (next) {
		add_text(m, &on, m->format->open[i + 1]);
		one[0] = next;
		add_choice(&on, one); /* of one sequence, which goes on from there */
		choices[1] = keep(m, &on);
	}
	add_choice(&p, choices);
	return keep(m, &p);
}

/* Compiles the schema of one tool alone, within what is left for a request's tools. */
static int compile_alone(struct lm_grammar **out, const struct tool *t,
	struct lm_budget *left_of_all)
{
	struct buf left = BUF_INIT;
	struct lm_grammar_part p[] = { { .kind = LM_GRAMMAR_SCHEMA,
					       .schema = t->schema,
					       .left_out = t->strict ? NULL : &left },
		{ .kind = LM_GRAMMAR_END } };
	int rc = lm_grammar_parts_within(out, p, left_of_all);

	buf_release(&left);
	return rc;
}

/* Appends the places that are left out of a tool's schema, "a, b", each with the tool's name in
 * front. */
static void tell_left_out(struct buf *out, const struct tool *t, struct buf *places)
{
	char *rest = places->len ? buf_take(places) : NULL, *from = rest, *place;

	while ((place = strsep(&from, " ")) != NULL)
		buf_addf(out, "%s%s.%s", out->len ? " " : "", t->name, place);
	free(rest);
}

/* As tool_grammar, but without a second try. */
static int build(struct lm_grammar **out, const struct call_format *f,
	const struct tools *tools, bool behind_mark, const json_t *otherwise,
	struct buf *left_out)
{
	struct maker m = { ARENA_INIT, f, tools,
		xcalloc((size_t)tools->count + 1, sizeof *m.left_out) };
	uint32_t most = tools->parallel ? f->most : 1;
	const struct lm_grammar_part *next = NULL;
	struct parts p = { 0 }, all = { 0 }, other = { 0 };
	const struct lm_grammar_part **one = arena_alloc(&m.arena, 2 * sizeof *one);
	const struct lm_grammar_part **either = arena_alloc(&m.arena, 3 * sizeof *either);
	int rc;

	for (uint32_t i = most; i-- > 0;)
		next = calls(&m, i, next);
	one[0] = next;
	add_text(&m, &p, f->open[0] + (behind_mark ? strlen(f->mark) : 0));
	add_choice(&p, one);
	either[0] = keep(&m, &p);
	if (otherwise) {
		add(&other,
			(struct lm_grammar_part){ .kind = LM_GRAMMAR_SCHEMA,
				.schema = otherwise });
		either[1] = keep(&m, &other);
	}
	add_choice(&all, either);
	rc = lm_grammar_parts(out, keep(&m, &all));
	arena_release(&m.arena);
	for (uint32_t i = 0; i < tools->count; i++) {
		if (rc == 0)
			tell_left_out(left_out, &tools->at[i], &m.left_out[i]);
		buf_release(&m.left_out[i]);
	}
	free(m.left_out);
	return rc;
}

/* Looks once at each tool alone. One that is not strict and whose schema is wrong, or for which
 * nothing is left of what all of them may cost, gets any object as its arguments in out, a copy of
 * tools, and is named; of the strict ones *bad is the first that is wrong, and why its error.
 * Returns whether one was changed; any is borrowed by out. */
static bool loosen(struct tools *out, const struct tools *tools, json_t *any,
	struct buf *left_out, const struct tool **bad, struct err *why)
{
	/* an eighth is for what lies around them */
	struct lm_budget all = { LM_GRAMMAR_STATES_MAX / 8 * 7,
		LM_GRAMMAR_STEPS_MAX / 8 * 7, LM_GRAMMAR_WORDS_MAX / 8 * 7 };
	bool changed = false;

	for (uint32_t i = 0; i < tools->count; i++) {
		const struct tool *t = &tools->at[i];
		struct lm_grammar *g = NULL;

		if (compile_alone(&g, t, &all) == 0) {
			lm_grammar_free(g);
		} else if (!t->strict) {
			out->at[i].schema = any;
			buf_addf(left_out, "%s%s.schema", left_out->len ? " " : "",
				t->name);
			changed = true;
		} else if (!*bad) {
			*bad = t;
			err_save(why);
		}
	}
	return changed;
}

int tool_grammar(struct lm_grammar **out, const struct call_format *f,
	const struct tools *tools, bool behind_mark, const json_t *otherwise,
	struct buf *left_out, const struct tool **bad)
{
	struct tools loose = *tools;
	struct err why;
	json_t *any;
	int rc;

	*bad = NULL;
	if (build(out, f, tools, behind_mark, otherwise, left_out) == 0)
		return 0;
	err_save(&why);
	any = json_pack("{s:s}", "type", "object");
	loose.at = xcalloc((size_t)tools->count + 1, sizeof *loose.at);
	if (tools->count)
		memcpy(loose.at, tools->at, tools->count * sizeof *loose.at);
	rc = loosen(&loose, tools, any, left_out, bad, &why) && !*bad ?
		build(out, f, &loose, behind_mark, otherwise, left_out) :
		-1;
	free(loose.at);
	json_decref(any);
	if (rc < 0) {
		err_restore(&why);
	} else {
		err_clear();
	}
	return rc;
}
