/* calls.c - how models call tools: formats learned from templates, calls found in text that
 * comes in any pieces, and grammars that let through nothing but calls that keep to the schemas.
 *
 * `calls FILE` prints the format that a template's file gives, as JSON, for
 * tests/rnp-serve/template.bats. */
/* uses: cmd/rnp-serve */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/chat/call_text.h"
#include "cmd/rnp-serve/request/request.h"
#include "cmd/rnp-serve/chat/tool_grammar.h"
#include "cmd/rnp-serve/chat/tool_prompt.h"
#include "common/base/io.h"
#include "common/base/rng.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

/* Templates of our own, each with another way to write calls. */
#define TURNS(calls)                                                             \
	"{% for t in tools or [] %}{{ t | tojson }}\n{% endfor %}"               \
	"{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}" calls \
	"<|im_end|>\n{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"

static const char tagged[] = TURNS(
	"{% for c in m.tool_calls or [] %}\n<call>\n{\"name\": \"{{ c.function.name }}\", "
	"\"arguments\": {{ c.function.arguments | tojson }}}\n</call>{% endfor %}");
static const char json_only[] = TURNS(
	"{% if m.tool_calls %}{% if m.tool_calls | length > 1 %}{{ raise_exception('one only') }}"
	"{% endif %}{\"name\": \"{{ m.tool_calls[0].function.name }}\", \"parameters\": "
	"{{ m.tool_calls[0].function.arguments | tojson }}}{% endif %}");
static const char with_ids[] = TURNS(
	"{% for c in m.tool_calls or [] %}[CALLS]{{ c.function.name }}[ID]{{ c.id }}[ARGS]"
	"{{ c.function.arguments | tojson }}{% endfor %}");
static const char numbered[] = TURNS(
	"{% for c in m.tool_calls or [] %}{% if loop.first %}<|section|>{% endif %}"
	"<|call|>functions.{{ c.function.name }}:{{ loop.index0 }}<|of|>"
	"{{ c.function.arguments if c.function.arguments is string else c.function.arguments | tojson }}"
	"<|end|>{% if loop.last %}<|/section|>{% endif %}{% endfor %}");
static const char ids_behind[] = TURNS(
	"{% if m.tool_calls %}\n<calls>[{% for c in m.tool_calls %}{\"name\": \"{{ c.function.name }}\", "
	"\"arguments\": {{ c.function.arguments | tojson }}, \"id\": \"{{ c.id }}\"}"
	"{% if not loop.last %}, {% endif %}{% endfor %}]</calls>{% endif %}");
static const char as_xml[] = TURNS(
	"{% for c in m.tool_calls or [] %}<call>{{ c.function.name }}{% for k, v in "
	"c.function.arguments.items() %}<k>{{ k }}</k><v>{{ v }}</v>{% endfor %}</call>{% endfor %}");
static const char without[] =
	"{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}assistant:";

static const char *const special[] = { "<|im_start|>", "<|im_end|>", "[CALLS]", "[ID]",
	"[ARGS]", "<|eot_id|>", "<|eom_id|>", "[TOOL_CALLS]", "[CALL_ID]", "<s>" };
#define SPECIALS (sizeof special / sizeof *special)

/* A tokenizer whose every character is a token, with some special ones after them. */
static struct lm_token *letters(void)
{
	static const char config[] = "{\"bos_token\":\"<s>\"}";
	struct buf json = BUF_INIT;
	struct lm_token *t = NULL;

	buf_adds(&json, "{\"added_tokens\":[");
	for (size_t i = 0; i < SPECIALS; i++)
		buf_addf(&json, "%s{\"id\":%zu,\"content\":\"%s\",\"special\":true}",
			i ? "," : "", 96 + i, special[i]);
	buf_adds(&json, "],\"model\":{\"type\":\"BPE\",\"vocab\":{");
	for (int c = 33, id = 0; c < 127; c++, id++)
		buf_addf(&json, "\"%s%c\":%d,", c == '"' || c == '\\' ? "\\" : "", c, id);
	for (size_t i = 0; i < SPECIALS; i++)
		buf_addf(&json, "\"%s\":%zu,", special[i], 96 + i);
	/* what ByteLevel makes of a line break and a blank */
	buf_adds(&json,
		"\"\xc4\x8a\":94,\"\xc4\xa0\":95},\"merges\":[]},"
		"\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":true},"
		"\"decoder\":{\"type\":\"ByteLevel\"}}");
	CHECK(lm_token_read_json(&t, json.data, json.len, config, strlen(config),
		      "letters") == 0);
	buf_release(&json);
	return t;
}

static int learn(struct call_format *f, const struct lm_token *t, const char *template)
{
	struct lm_chat *chat = NULL;

	if (lm_chat_open(&chat, t, template, strlen(template), "template") < 0)
		return -1;
	call_format_learn(f, chat, t);
	lm_chat_close(chat);
	return 0;
}

static void formats(void)
{
	struct lm_token *t = letters();
	static const struct {
		const char *template, *mark, *open, *middle, *next, *close;
		bool native, at_start;
		uint32_t most, tokens;
	} cases[] = {
		{ tagged, "<call>", "<call>\n{\"name\": \"",
			"\", \"arguments\": ", "}\n</call><call>\n{\"name\": \"",
			"}\n</call>", true, false, CALLS_MAX, 0 },
		{ json_only, "{\"name\": \"", "{\"name\": \"",
			"\", \"parameters\": ", NULL, "}", true, true, 1, 0 },
		{ with_ids, "[CALLS]", "[CALLS]", "[ID]\1[ARGS]", "[CALLS]", "", true,
			false, CALLS_MAX, 3 },
		{ numbered, "<|section|>", "<|section|><|call|>functions.", ":0<|of|>",
			"<|end|><|call|>functions.", "<|end|><|/section|>", true, false,
			CALLS_MAX, 0 },
		{ ids_behind, "<calls>", "<calls>[{\"name\": \"",
			"\", \"arguments\": ", ", \"id\": \"\2\"}, {\"name\": \"",
			", \"id\": \"\2\"}]</calls>", true, false, CALLS_MAX, 0 },
		{ as_xml, "<tool_call>", "<tool_call>\n{\"name\": \"",
			"\", \"arguments\": ",
			"}\n</tool_call>\n<tool_call>\n{\"name\": \"", "}\n</tool_call>",
			false, false, CALLS_MAX, 0 },
		{ without, "<tool_call>", "<tool_call>\n{\"name\": \"",
			"\", \"arguments\": ",
			"}\n</tool_call>\n<tool_call>\n{\"name\": \"", "}\n</tool_call>",
			false, false, CALLS_MAX, 0 },
	};

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct call_format f;

		CHECK(learn(&f, t, cases[i].template) == 0);
		CHECK(f.shows_calls == cases[i].native &&
			f.shows_tools == cases[i].native);
		CHECK(f.at_start == cases[i].at_start);
		CHECK_I64(cases[i].most, f.most);
		CHECK_I64(cases[i].tokens, f.token_count);
		CHECK_TEXT(cases[i].mark, f.mark);
		CHECK_TEXT(cases[i].open, f.open[0]);
		CHECK_TEXT(cases[i].middle, f.middle[0]);
		if (cases[i].next)
			CHECK_TEXT(cases[i].next, f.open[1]);
		CHECK_TEXT(cases[i].close, f.close);
		if (cases[i].template == numbered)
			CHECK_TEXT(":15<|of|>", f.middle[15]);
		call_format_release(&f);
	}
	lm_token_close(t);
}

/* --- calls in text ------------------------------------------------------------------------ */

/* Tools whose names begin alike. */
static struct tools read_tools(bool parallel)
{
	static const char text[] =
		"[{\"type\":\"function\",\"function\":{\"name\":\"get\"}},"
		"{\"type\":\"function\",\"function\":{\"name\":\"get_time\",\"parameters\":{\"type\":"
		"\"object\",\"properties\":{\"zone\":{\"enum\":[\"utc\",\"cet\"]}},\"required\":[\"zone\"],"
		"\"additionalProperties\":false}}},"
		"{\"type\":\"function\",\"function\":{\"name\":\"get_text\",\"parameters\":{\"properties\":"
		"{\"s\":{\"type\":\"string\",\"maxLength\":6},\"n\":{\"type\":\"integer\",\"minimum\":0,"
		"\"maximum\":9}},\"additionalProperties\":false}}}]";
	static json_t *list;
	struct tools_error e;
	struct tools out;

	if (!list)
		list = json_parse(text, strlen(text), 16, "tools");
	CHECK(tools_read(&out, list, NULL, parallel, &e) == 0);
	return out;
}

/* Writes a text of the format, with ids. */
static void add_part(struct buf *out, const char *part, const char *id)
{
	for (; *part; part++) {
		if (*part == CALL_OWN_ID || *part == CALL_OTHER_ID)
			buf_adds(out, id);
		else
			buf_addc(out, *part);
	}
}

static void write_calls(struct buf *out, const struct call_format *f, uint32_t n)
{
	static const char *const arguments[] = { "{\"zone\": \"utc\"}",
		"{\"s\":\"a}\\\"]\",\"n\":3}", "{}" };
	static const char *const names[] = { "get_time", "get_text", "get" };

	for (uint32_t i = 0; i < n; i++) {
		add_part(out, f->open[i], "abcdef012");
		buf_adds(out, names[i % 3]);
		add_part(out, f->middle[i], "abcdef012");
		buf_adds(out, arguments[i % 3]);
	}
	add_part(out, f->close, "abcdef012");
}

static void read_all(struct calls *c, const char *text, size_t step, struct buf *content)
{
	size_t len = strlen(text);

	for (size_t i = 0; i < len; i += step)
		calls_push(c, text + i, len - i < step ? len - i : step, content);
	calls_end(c, content);
}

static void found_in(const struct call_format *f, const struct tools *tools)
{
	uint32_t most = f->most < 3 ? f->most : 3;
	struct buf text = BUF_INIT, content = BUF_INIT;

	if (!f->at_start)
		buf_adds(&text, "I look < it [ up.");
	buf_adds(&text, "\n ");
	write_calls(&text, f, most);
	for (size_t step = 1; step < 12; step++) {
		struct calls c;

		buf_reset(&content);
		calls_init(&c, f, tools);
		read_all(&c, buf_text(&text), step, &content);
		CHECK_TEXT(f->at_start ? "" : "I look < it [ up.\n ", buf_text(&content));
		CHECK_I64(most, c.count);
		CHECK_TEXT("get_time", buf_text(&c.at[0].name));
		CHECK_TEXT("{\"zone\": \"utc\"}", buf_text(&c.at[0].arguments));
		CHECK(c.at[0].complete && strlen(c.at[0].id) >= CALL_ID_BYTES);
		if (most > 1) {
			CHECK_TEXT("get_text", buf_text(&c.at[1].name));
			CHECK_TEXT("{\"s\":\"a}\\\"]\",\"n\":3}",
				buf_text(&c.at[1].arguments));
		}
		if (most > 2)
			CHECK(c.at[2].complete);
		if (strchr(f->middle[0], CALL_OWN_ID))
			CHECK_TEXT("abcdef012", c.at[0].id);
		calls_release(&c);
	}
	buf_release(&text);
	buf_release(&content);
}

/* Text that looks like a call and is none comes out as it went in. */
static void plain_text(const struct call_format *f, const struct tools *tools)
{
	static const char *const ends[] = { "", "x", "nobody\", \"arguments\": {}}",
		"get", "get!" };
	struct buf text = BUF_INIT, content = BUF_INIT;

	for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
		for (size_t step = 1; step < 5; step++) {
			struct calls c;

			buf_reset(&text);
			buf_reset(&content);
			buf_adds(&text, i % 2 ? "\n " : "");
			add_part(&text, f->open[0], "abcdef012");
			buf_adds(&text, ends[i]);
			calls_init(&c, f, tools);
			read_all(&c, buf_text(&text), step, &content);
			CHECK_I64(0, c.count);
			CHECK_TEXT(buf_text(&text), buf_text(&content));
			calls_release(&c);
		}
	buf_release(&text);
	buf_release(&content);
}

/* --- grammars ----------------------------------------------------------------------------- */

/* The letters' vocabulary, with one token that ends a text. */
static struct lm_vocabulary *vocabulary(const struct lm_token *t, uint32_t end)
{
	uint32_t n = lm_token_count(t);
	struct lm_vocabulary_token tokens[256] = { 0 };
	char texts[256];
	struct buf one = BUF_INIT;

	for (uint32_t id = 0; id < n && id < 256; id++) {
		buf_reset(&one);
		lm_token_piece(t, &one, id, false, false);
		texts[id] = one.len ? one.data[0] : '\0';
		tokens[id] = (struct lm_vocabulary_token){ &texts[id], one.len == 1,
			id == end };
	}
	buf_release(&one);
	return lm_vocabulary_new(tokens, n);
}

/* Writes tokens that the grammar allows, at random: the text, with the names of special tokens.
 * Returns whether it ended. */
static bool walk(struct lm_matcher *m, const struct lm_token *t, uint32_t end,
	struct rng *r, struct buf *text)
{
	uint32_t n = lm_token_count(t);

	for (int i = 0; i < 3000; i++) {
		const uint64_t *bits = lm_matcher_mask(m);
		uint32_t from = (uint32_t)(rng_below(r, n)), id = n;

		if (lm_matcher_done(m) && rng_below(r, 3) == 0)
			return true;
		for (uint32_t k = 0; k < n && id == n; k++) {
			uint32_t one = (from + k) % n;

			if (bits[one / 64] >> one % 64 & 1)
				id = one;
		}
		CHECK(id < n);
		if (id == end)
			return true;
		CHECK(lm_matcher_take(m, id));
		lm_token_piece(t, text, id, false, true);
	}
	return false;
}

static void grammars(const struct call_format *f, const struct lm_token *t,
	const struct tools *tools)
{
	struct lm_vocabulary *v = vocabulary(t, 97);
	const struct tool *bad = NULL;
	struct lm_grammar *g = NULL;
	struct buf left = BUF_INIT;
	struct rng r;
	int ended = 0;

	CHECK(tool_grammar(&g, f, tools, false, NULL, &left, &bad) == 0);
	CHECK_TEXT("", buf_text(&left));
	buf_release(&left);
	for (uint64_t seed = 0; g && seed < 40; seed++) {
		struct buf text = BUF_INIT, content = BUF_INIT;
		struct lm_matcher *m = lm_matcher_new(g, v);
		struct calls c;

		rng_seed(&r, seed, 0);
		calls_init(&c, f, tools);
		if (walk(m, t, 97, &r, &text)) {
			read_all(&c, buf_text(&text), 1 + seed % 5, &content);
			CHECK_TEXT("", buf_text(&content));
			CHECK(c.count >= 1 && c.count <= (tools->parallel ? f->most : 1));
			ended++;
		}
		for (uint32_t i = 0; i < c.count && c.at[i].complete; i++) {
			json_t *o = json_parse_object(buf_text(&c.at[i].arguments),
				c.at[i].arguments.len, "arguments");
			const char *zone = json_string_value(json_object_get(o, "zone"));

			CHECK(o != NULL);
			if (strcmp(buf_text(&c.at[i].name), "get_time") == 0)
				CHECK(zone &&
					(!strcmp(zone, "utc") || !strcmp(zone, "cet")));
			json_decref(o);
		}
		calls_release(&c);
		lm_matcher_free(m);
		buf_release(&text);
		buf_release(&content);
	}
	CHECK(ended > 20);
	lm_grammar_free(g);
	lm_vocabulary_free(v);
}

static void calls(void)
{
	static const char *const templates[] = { tagged, json_only, with_ids, numbered,
		ids_behind, without };
	struct lm_token *t = letters();

	for (size_t i = 0; i < sizeof templates / sizeof *templates; i++) {
		struct tools tools = read_tools(i % 2 == 0);
		struct call_format f;

		CHECK(learn(&f, t, templates[i]) == 0);
		found_in(&f, &tools);
		plain_text(&f, &tools);
		grammars(&f, t, &tools);
		call_format_release(&f);
		tools_release(&tools);
	}
	lm_token_close(t);
}

static void refused(void)
{
	json_t *list = json_pack("[{s:s,s:{s:s,s:b,s:{s:{s:{s:b}}}}}]", "type",
		"function", "function", "name", "f", "strict", 1, "parameters",
		"properties", "a", "uniqueItems", 1);
	struct buf left = BUF_INIT;
	struct tools_error e;
	struct tools tools = { 0 };
	const struct tool *bad = NULL;
	struct lm_grammar *g = NULL;
	struct lm_token *t = letters();
	struct call_format f;

	CHECK(learn(&f, t, tagged) == 0);
	CHECK(tools_read(&tools, list, NULL, true, &e) == 0);
	CHECK_FAILS(EX_DATAERR, tool_grammar(&g, &f, &tools, true, NULL, &left, &bad));
	CHECK(bad && strcmp(bad->name, "f") == 0);
	/* of a tool that is not strict the word is left out, and told */
	tools.at[0].strict = false;
	CHECK(tool_grammar(&g, &f, &tools, true, NULL, &left, &bad) == 0);
	CHECK_TEXT("f.schema.properties.a.uniqueItems", buf_text(&left));
	lm_grammar_free(g);
	/* one whose schema is wrong takes any object, and the others stay as they are */
	buf_reset(&left);
	json_object_set_new(tools.at[0].schema, "properties", json_array());
	CHECK(tool_grammar(&g, &f, &tools, true, NULL, &left, &bad) == 0);
	CHECK_TEXT("f.schema", buf_text(&left));
	lm_grammar_free(g);
	tools.at[0].strict = true;
	CHECK_FAILS(EX_DATAERR, tool_grammar(&g, &f, &tools, true, NULL, &left, &bad));
	buf_release(&left);
	tools_release(&tools);
	call_format_release(&f);
	lm_token_close(t);
	json_decref(list);
}

/* Tools that are too much together: one budget serves all of a request, and those for which nothing
 * is left take any object. */
static void costly(void)
{
	json_t *list = json_array();
	struct buf left = BUF_INIT;
	struct tools_error e;
	struct tools tools = { 0 };
	const struct tool *bad = NULL;
	struct lm_grammar *g = NULL;
	struct lm_token *t = letters();
	struct call_format f;
	char name[16], pattern[64];

	for (int i = 0; i < 60; i++) {
		snprintf(name, sizeof name, "f%02d", i);
		snprintf(pattern, sizeof pattern, "^[ab]*a[ab]{11}%02d$", i);
		json_array_append_new(list,
			json_pack("{s:s,s:{s:s,s:{s:{s:{s:s,s:s}}}}}", "type", "function",
				"function", "name", name, "parameters", "properties", "a",
				"type", "string", "pattern", pattern));
	}
	CHECK(learn(&f, t, tagged) == 0);
	CHECK(tools_read(&tools, list, NULL, true, &e) == 0);
	CHECK(tool_grammar(&g, &f, &tools, true, NULL, &left, &bad) == 0);
	CHECK(!strstr(buf_text(&left), "f00.schema") &&
		strstr(buf_text(&left), "f59.schema") != NULL);
	lm_grammar_free(g);
	buf_reset(&left);
	tools.at[59].strict = true;
	CHECK_FAILS(EX_DATAERR, tool_grammar(&g, &f, &tools, true, NULL, &left, &bad));
	CHECK(bad && strcmp(bad->name, "f59") == 0);
	buf_release(&left);
	tools_release(&tools);
	call_format_release(&f);
	lm_token_close(t);
	json_decref(list);
}

/* --- what models are told ----------------------------------------------------------------- */

static void prompts(void)
{
	struct lm_token *t = letters();
	struct call_format f;
	json_t *tools = json_pack("[{s:s,s:{s:s}}]", "type", "function", "function",
		"name", "get");
	json_t *messages = json_pack(
		"[{s:s,s:s},{s:s,s:s,s:[{s:s,s:{s:s,s:{s:i}}},{s:s,s:{s:s,s:s}}]},{s:s,s:s},{s:s,s:s}]",
		"role", "user", "content", "Hi", "role", "assistant", "content", "",
		"tool_calls", "id", "a", "function", "name", "get", "arguments", "x", 1,
		"id", "b", "function", "name", "get", "arguments", "{}", "role", "tool",
		"content", "4", "role", "tool", "content", "5");
	json_t *out;
	const char *first;

	CHECK(learn(&f, t, without) == 0);
	out = tool_prompt(messages, tools, &f, false);
	CHECK_I64(4, (int64_t)json_array_size(out));
	first = json_string_value(json_object_get(json_array_get(out, 0), "content"));
	CHECK(first && strstr(first, "{\"name\":\"get\"}\n") && strstr(first, f.open[0]));
	CHECK_TEXT(
		"<tool_call>\n{\"name\": \"get\", \"arguments\": {\"x\":1}}\n</tool_call>\n"
		"<tool_call>\n{\"name\": \"get\", \"arguments\": {}}\n</tool_call>",
		json_string_value(json_object_get(json_array_get(out, 2), "content")));
	CHECK_TEXT(
		"<tool_response>\n4\n</tool_response>\n<tool_response>\n5\n</tool_response>",
		json_string_value(json_object_get(json_array_get(out, 3), "content")));
	CHECK_TEXT("user",
		json_string_value(json_object_get(json_array_get(out, 3), "role")));
	json_decref(out);
	out = tool_prompt(messages, tools, &f, true);
	CHECK_I64(3, (int64_t)json_array_size(out));
	json_decref(out);
	call_format_release(&f);
	lm_token_close(t);
	json_decref(messages);
	json_decref(tools);
}

static int show(const char *path)
{
	struct lm_token *t = letters();
	struct buf text = BUF_INIT, out = BUF_INIT;
	struct call_format f;
	json_t *o = json_object();

	if (io_read(&text, path, LM_TEMPLATE_BYTES_MAX) < 0 ||
		learn(&f, t, buf_text(&text)) < 0)
		return fprintf(stderr, "%s\n", err_get()->text), 1;
	json_set_bool(o, "calls", f.shows_calls);
	json_set_bool(o, "tools", f.shows_tools);
	json_set_bool(o, "at_start", f.at_start);
	json_set_i64(o, "most", f.most);
	json_set_text(o, "mark", f.mark);
	json_set_text(o, "open", f.open[0]);
	json_set_text(o, "middle", f.middle[0]);
	if (f.most > 1)
		json_set_text(o, "next", f.open[1]);
	json_set_text(o, "close", f.close);
	json_write(&out, o);
	puts(buf_text(&out));
	json_decref(o);
	call_format_release(&f);
	lm_token_close(t);
	buf_release(&text);
	buf_release(&out);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1)
		return show(argv[1]);
	formats();
	calls();
	refused();
	costly();
	prompts();
	TEST_END();
}
