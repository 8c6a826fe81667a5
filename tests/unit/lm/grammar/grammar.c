/* grammar: what schemas let through and what not; masks against a token at a time; bounds; sequences.
 *
 * `grammar --check` reads lines {"schema":S,"texts":[...]} and prints {"ok":[...]} or {"error":E}.
 * `grammar --walk N SEED` reads lines {"schema":S} and prints N texts that random walks through the
 * masks make, as an array. `grammar --time [WORDS]` prints what masks cost,
 * for a vocabulary of so many words. (long because one judge serves all of the schemas) */
#include "common/lm/grammar/grammar.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

/* --- a vocabulary --------------------------------------------------------------------------------- */

static struct lm_vocabulary_token *tokens;
static uint32_t token_count;

static void add_token(const char *text, size_t len, bool ends)
{
	static size_t cap;

	tokens = xgrow(tokens, &cap, token_count + 1, sizeof *tokens);
	tokens[token_count++] = (struct lm_vocabulary_token){ xstrndup(text, len), len,
		ends };
}

/* Every byte, what JSON's punctuation is merged into, numbers, and syllables in words; then an end. */
static void make_tokens(uint32_t words)
{
	static const char *const joined[] = { "{\"", "\":", "\": ", "\",", "\", \"",
		"\",\"", "\"}", "\"},", "},{\"", "{}", "[]", "[{\"", "}]", "]}", "\"]",
		"[\"", "\n  ", "\n    ", ": ", ", ", "true", "false", "null", "\\n",
		"\\u", "00", ".0", "1.5", "e-", "-1", "\": [", "\": {", "\"\"", "a\"",
		"\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98", "tr", "nul", "}}}", "[[[[",
		"\"a\":", "foo", "bar\"", "\"x\":1}", "\\\"", "\\\\", "20", "2026-",
		"-01T", "@" };
	static const char *const syllables[] = { "ba", "ce", "di", "fo", "gu", "lan",
		"mer", "nis", "pot", "run", "se", "ti", "vo", "wa", "xy", "zed" };
	char text[64];

	for (int i = 0; i < 256; i++) {
		char c = (char)i;

		add_token(&c, 1, false);
	}
	for (size_t i = 0; i < sizeof joined / sizeof *joined; i++)
		add_token(joined[i], strlen(joined[i]), false);
	for (int i = 10; i < 1000; i += 7) {
		snprintf(text, sizeof text, "%d", i);
		add_token(text, strlen(text), false);
	}
	for (uint32_t i = 0; i < words; i++) {
		static const char *const before[] = { "", " ", " ", "\"", "" };
		static const char *const after[] = { "", "", "", "", "\"", "\":", "\"," };

		snprintf(text, sizeof text, "%s%s%s%s%s", before[i % 5],
			syllables[i % 16], syllables[i / 16 % 16],
			i >= 4096 ? syllables[i / 256 % 16] : "", after[i / 7 % 7]);
		if (i >= 4096)
			snprintf(text + strlen(text), 16, "%u", i / 4096);
		add_token(text, strlen(text), false);
	}
	add_token("</s>", 4, true);
	add_token("", 0, false);
}

static void free_tokens(void)
{
	for (uint32_t i = 0; i < token_count; i++)
		free((char *)tokens[i].text);
	free(tokens);
}

/* --- helpers --------------------------------------------------------------------------------------- */

static struct lm_grammar *compile(const char *schema)
{
	json_t *s = json_parse_spelled(schema, strlen(schema), 100, "schema");
	struct lm_grammar *g = NULL;

	CHECK(s != NULL);
	if (s && lm_grammar_schema(&g, s) < 0)
		g = NULL;
	json_decref(s);
	return g;
}

static bool accepts(struct lm_grammar *g, const char *text)
{
	struct lm_matcher *m = lm_matcher_new(g, NULL);
	bool is = lm_matcher_push(m, text, strlen(text)) == strlen(text) &&
		lm_matcher_done(m);

	lm_matcher_free(m);
	return is;
}

/* yes and no: texts, each ended by a NUL, the last by two */
static void judge(const char *schema, const char *yes, const char *no)
{
	struct lm_grammar *g = compile(schema);

	CHECK(g != NULL);
	if (!g) {
		fprintf(stderr, "schema %s: %s\n", schema, err_get()->text);
		return;
	}
	for (; *yes; yes += strlen(yes) + 1) {
		if (!accepts(g, yes))
			fprintf(stderr, "schema %s refuses %s\n", schema, yes);
		CHECK(accepts(g, yes));
	}
	for (; *no; no += strlen(no) + 1) {
		if (accepts(g, no))
			fprintf(stderr, "schema %s takes %s\n", schema, no);
		CHECK(!accepts(g, no));
	}
	lm_grammar_free(g);
}

static void refused(const char *schema, const char *where)
{
	struct lm_grammar *g = compile(schema);

	if (g)
		fprintf(stderr, "schema %s is taken\n", schema);
	CHECK(!g);
	CHECK_I64(EX_DATAERR, err_get()->code);
	if (!strstr(err_get()->text, where))
		CHECK_TEXT(where, err_get()->text);
	err_clear();
	lm_grammar_free(g);
}

/* --- schemas ----------------------------------------------------------------------------------------- */

static void schemas(void)
{
	judge("{}",
		"1\0-0.5e10\0\"a\\u00e9\\ud83d\\ude00\"\0[]\0{\"a\":{\"b\":[1,2,null]}}\0true\0{ \"a\": 1}\0{\n  \"a\": [\n    1\n  ]\n}\0",
		"01\0tru\0[1,]\0{\"a\"}\0{\"a\":1,}\0\"\\x\"\0\"\\ud83d\"\0\"\n\"\0[1 2]\0\"\xff\"\0nul\0");
	judge("{\"type\":\"integer\",\"minimum\":-3,\"exclusiveMaximum\":12}",
		"-3\0"
		"0\0"
		"11\0"
		"5.0\0",
		"-4\0"
		"12\0"
		"5.5\0"
		"\"5\"\0"
		"1e0\0");
	judge("{\"type\":\"integer\",\"multipleOf\":7}",
		"0\0"
		"7\0"
		"700\0"
		"-14\0",
		"1\0"
		"15\0"
		"7.5\0");
	judge("{\"type\":\"string\",\"minLength\":2,\"maxLength\":3}",
		"\"ab\"\0\"\\n\\u00e9\\ud83d\\ude00\"\0\"\xc3\xa9\xc3\xa9\"\0",
		"\"a\"\0\"abcd\"\0\"\xc3\xa9\"\0");
	judge("{\"type\":\"string\",\"pattern\":\"^a+\\\\d$\"}",
		"\"a1\"\0\"aaa9\"\0\"\\u0061\\u0031\"\0", "\"a\"\0\"1\"\0\"a1b\"\0");
	judge("{\"pattern\":\"b|c\"}",
		"\"abc\"\0"
		"12\0"
		"null\0",
		"\"a\"\0");
	judge("{\"enum\":[1,\"a\",null,[1,{\"x\":true}],2.5]}",
		"1\0"
		"1.0\0\"a\"\0null\0[1,{\"x\":true}]\0"
		"2.50\0",
		"2\0\"b\"\0[1]\0[1,{}]\0true\0");
	judge("{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"b\":{\"type\":\"string\"}},"
	      "\"required\":[\"a\"],\"additionalProperties\":false}",
		"{\"a\":1}\0{\"a\":1,\"b\":\"x\"}\0{\"b\":\"x\",\"a\":1}\0{\"\\u0061\":1}\0",
		"{}\0{\"b\":\"x\"}\0{\"a\":\"x\"}\0{\"a\":1,\"c\":1}\0{\"a\":1,\"a\":2}\0");
	judge("{\"properties\":{\"foo\":{\"type\":\"null\"}},\"patternProperties\":{\"^f\":{\"enum\":[null,1]},\"o$\":{}},"
	      "\"additionalProperties\":{\"type\":\"boolean\"}}",
		"{\"foo\":null,\"f\":1,\"x\":true,\"xo\":\"any\"}\0[]\0",
		"{\"foo\":1}\0{\"f\":2}\0{\"x\":1}\0");
	judge("{\"type\":\"array\",\"prefixItems\":[{\"type\":\"integer\"}],\"items\":{\"type\":\"string\"},\"minItems\":1,\"maxItems\":3}",
		"[1]\0[1,\"a\"]\0[1,\"a\",\"b\"]\0",
		"[]\0[\"a\"]\0[1,2]\0[1,\"a\",\"b\",\"c\"]\0");
	judge("{\"$ref\":\"#/$defs/tree\",\"$defs\":{\"tree\":{\"type\":\"object\",\"properties\":{\"kids\":{\"type\":\"array\","
	      "\"items\":{\"$ref\":\"#/$defs/tree\"}}},\"required\":[\"kids\"],\"additionalProperties\":false}}}",
		"{\"kids\":[]}\0{\"kids\":[{\"kids\":[]},{\"kids\":[]}]}\0",
		"{}\0{\"kids\":[{}]}\0");
	judge("{\"anyOf\":[{\"properties\":{\"t\":{\"const\":1},\"a\":{\"type\":\"string\"}},\"required\":[\"t\",\"a\"]},"
	      "{\"properties\":{\"t\":{\"const\":2},\"a\":{\"type\":\"number\"}},\"required\":[\"t\",\"a\"]}],\"type\":\"object\"}",
		"{\"t\":1,\"a\":\"x\"}\0{\"a\":5,\"t\":2}\0",
		"{\"t\":1,\"a\":5}\0{\"a\":5,\"t\":1}\0{\"t\":3,\"a\":1}\0");
	judge("{\"oneOf\":[{\"type\":\"string\",\"pattern\":\"^a\"},{\"type\":\"string\",\"pattern\":\"^b\"},{\"type\":\"integer\"}]}",
		"\"ab\"\0\"b\"\0"
		"1\0",
		"\"c\"\0null\0");
	judge("{\"allOf\":[{\"properties\":{\"a\":{\"minimum\":3}},\"required\":[\"a\"]},{\"properties\":{\"a\":{\"maximum\":5},\"b\":false}}],\"type\":\"object\"}",
		"{\"a\":4}\0", "{\"a\":2}\0{\"a\":6}\0{}\0{\"a\":4,\"b\":1}\0");
	judge("{\"format\":\"date-time\",\"type\":\"string\"}",
		"\"2024-02-29T23:59:59.5Z\"\0\"2023-01-31t00:00:00+01:00\"\0",
		"\"2023-02-29T00:00:00Z\"\0\"2023-01-31\"\0");
	/* those of the JSON Schema Test Suite */
	judge("{\"format\":\"date-time\",\"type\":\"string\"}",
		"\"1998-12-31T23:59:60Z\"\0\"1998-12-31T15:59:60.123-08:00\"\0",
		"\"1998-12-31T23:59:61Z\"\0\"1998-12-31T23:58:60Z\"\0\"1998-12-31T22:59:60Z\"\0");
	judge("{\"format\":\"time\",\"type\":\"string\"}",
		"\"23:59:60Z\"\0\"23:59:60+00:00\"\0\"01:29:60+01:30\"\0\"23:29:60+23:30\"\0\"15:59:60-08:00\"\0\"00:29:60-23:30\"\0"
		"\"05:29:60.5+05:30\"\0\"14:29:60-09:30\"\0\"08:59:60+09:00\"\0\"23:59:60-00:00\"\0",
		"\"22:59:60Z\"\0\"23:58:60Z\"\0\"22:59:60+00:00\"\0\"23:58:60+00:00\"\0\"23:59:60+01:00\"\0\"23:59:60+00:30\"\0"
		"\"23:59:60-01:00\"\0\"23:59:60-00:30\"\0\"24:59:60+01:00\"\0\"08:59:60-09:00\"\0\"05:44:60+05:30\"\0");
	judge("{\"format\":\"ipv6\",\"type\":\"string\"}",
		"\"::1\"\0\"1:2:3:4:5:6:7:8\"\0\"::ffff:1.2.3.4\"\0\"1::\"\0",
		"\"1:2\"\0\"12345::\"\0\":::\"\0");
	judge("{\"format\":\"email\",\"type\":\"string\"}", "\"a.b@c.de\"\0",
		"\"a@b\"\0\"@c.de\"\0\"a..b@c.de\"\0");
	judge("{\"format\":\"uri\",\"type\":\"string\"}",
		"\"http://a.b:80/c?d#e\"\0\"urn:x:y\"\0\"mailto:a@b\"\0",
		"\"//a\"\0\"a b:c\"\0\"http://a b\"\0");
	judge("{\"format\":\"uuid\",\"type\":\"string\"}",
		"\"2eb8aa08-AA98-11ea-b4aa-73b441d16380\"\0",
		"\"2eb8aa08-aa98-11ea-b4aa-73b441d1638\"\0");
}

/* A format takes its states once, however many properties have it. */
static void many_dates(void)
{
	json_t *properties = json_object(), *schema;
	struct lm_matcher *m;
	struct lm_grammar *g;
	char name[16];

	for (int i = 0; i < LM_GRAMMAR_PROPERTIES_MAX; i++) {
		snprintf(name, sizeof name, "p%d", i);
		json_object_set_new(properties, name,
			json_pack("{s:s,s:s}", "type", "string", "format", "date-time"));
	}
	schema = json_pack("{s:s,s:o}", "type", "object", "properties", properties);
	CHECK(lm_grammar_schema(&g, schema) == 0);
	m = lm_matcher_new(g, NULL);
	CHECK_I64(36,
		(int64_t)lm_matcher_push(m,
			"{\"p7\":\"2024-02-29T23:59:60Z\",\"p9\":\"2x4", 38));
	lm_matcher_free(m);
	lm_grammar_free(g);
	json_decref(schema);
}

static void bounds(void)
{
	struct buf deep = BUF_INIT;
	struct lm_grammar *g;

	refused("{\"properties\":{\"a\":{\"not\":{\"type\":\"null\"}}}}",
		"schema.properties.a.not: this keyword is not supported");
	refused("{\"type\":\"object\",\"minProperties\":1}", "schema.minProperties: ");
	refused("{\"items\":[{},{\"uniqueItems\":true}]}",
		"schema.items[1].uniqueItems: ");
	refused("{\"type\":\"text\"}", "schema.type: ");
	refused("{\"$ref\":\"#\"}", "itself");
	refused("{\"$ref\":\"#/$defs/none\"}", "schema.$ref: ");
	refused("{\"$ref\":\"other.json\"}", "schema.$ref: ");
	refused("{\"pattern\":\"(?=a)b\"}", "schema.pattern: ");
	refused("{\"pattern\":\"((a{1000}){1000}){1000}\"}", "schema.pattern: ");
	refused("{\"pattern\":\"^(a|b)*a(a|b){20}$\"}", "schema");
	refused("{\"oneOf\":[{\"type\":\"integer\"},{\"minimum\":2}]}", "schema.oneOf: ");
	refused("{\"multipleOf\":99991}", "schema.multipleOf: ");
	refused("{\"multipleOf\":0.5}", "schema.multipleOf: ");
	refused("{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no value");
	refused("{\"enum\":[]}", "no value");
	refused("{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
		"no value");
	refused("{\"format\":\"hostname\"}", "schema.format: ");
	refused("3", "schema: must be an object");
	/* deep enough, and no deeper */
	g = compile("{\"type\":\"array\",\"items\":{\"$ref\":\"#\"}}");
	for (int i = 0; i < 64; i++)
		buf_addc(&deep, '[');
	for (int i = 0; i < 64; i++)
		buf_addc(&deep, ']');
	CHECK(accepts(g, buf_text(&deep)));
	buf_reset(&deep);
	for (int i = 0; i < 65; i++)
		buf_addc(&deep, '[');
	{
		struct lm_matcher *m = lm_matcher_new(g, NULL);

		CHECK_I64(64, (int64_t)lm_matcher_push(m, buf_text(&deep), deep.len));
		lm_matcher_free(m);
	}
	lm_grammar_free(g);
	buf_release(&deep);
}

/* --- masks ------------------------------------------------------------------------------------------- */

static bool bit(const uint64_t *bits, uint32_t i)
{
	return bits[i / 64] >> i % 64 & 1;
}

/* Of the tokens that are allowed, one that may close something, or `unless`. */
static uint32_t closing(const uint64_t *bits, struct rng *r, uint32_t unless)
{
	static const char closers[] = "}]\"}\"";
	uint32_t at = (uint32_t)rng_below(r, 5);

	for (uint32_t i = 0; i < 5; i++) {
		uint32_t c = (uint32_t)(unsigned char)closers[(at + i) % 5];

		if (bit(bits, c))
			return c;
	}
	return unless;
}

/* Walks through the masks of g; every: each mask is held against a token at a time. Returns whether
 * the text ended where it may. */
static bool walk(struct lm_grammar *g, const struct lm_vocabulary *v, struct rng *r,
	struct buf *text, uint32_t max, bool every)
{
	struct lm_matcher *m = lm_matcher_new(g, v);
	bool ended = false;

	for (uint32_t n = 0; !ended; n++) {
		const uint64_t *bits = lm_matcher_mask(m);
		uint32_t allowed = 0, pick, token = 0;
		bool done = lm_matcher_done(m);

		for (uint32_t i = 0; i < token_count; i++) {
			bool is = bit(bits, i);

			allowed += is;
			if (every && n < 30 && tokens[i].len && !tokens[i].ends) {
				struct lm_matcher *again = lm_matcher_new(g, NULL);
				bool want;

				lm_matcher_push(again, buf_text(text), text->len);
				want = lm_matcher_push(again, tokens[i].text,
					       tokens[i].len) == tokens[i].len;
				if (want != is)
					fprintf(stderr,
						"after %s: token %u '%.*s' is %d\n",
						buf_text(text), i, (int)tokens[i].len,
						tokens[i].text, is);
				CHECK(want == is);
				lm_matcher_free(again);
			} else if (tokens[i].ends) {
				CHECK(is == done || (is && allowed == 1));
			}
		}
		CHECK(allowed > 0);
		if (!allowed)
			break;
		/* a text that grows long is led to its end: quotes, brackets */
		pick = (uint32_t)(rng_u64(r) % allowed);
		for (uint32_t i = 0; i < token_count; i++)
			if (bit(bits, i) && pick-- == 0)
				token = i;
		if (done && (n > max || rng_below(r, 4) == 0))
			token = token_count - 2;
		else if (n > max)
			token = closing(bits, r, token);
		if (n > 10 * max + 400)
			break;
		CHECK(lm_matcher_take(m, token));
		ended = tokens[token].ends;
		if (!ended)
			buf_add(text, tokens[token].text, tokens[token].len);
	}
	lm_matcher_free(m);
	return ended;
}

static void masks(void)
{
	static const char *const tried[] = {
		"{}",
		"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"integer\"},\"ab\":{\"type\":\"string\",\"maxLength\":3}},\"required\":[\"a\"]}",
		"{\"type\":\"object\",\"properties\":{\"foo\":{\"enum\":[\"bar\",\"baz\",1.5]},\"x\":{\"type\":\"array\",\"items\":{\"type\":\"boolean\"}}},\"additionalProperties\":false}",
		"{\"anyOf\":[{\"type\":\"array\",\"items\":{\"type\":\"number\",\"minimum\":1.5,\"maximum\":20}},{\"type\":\"array\",\"items\":{\"type\":\"string\",\"pattern\":\"^[a-f]+$\"},\"minItems\":2}]}",
		"{\"type\":\"string\",\"format\":\"date-time\"}",
		"{\"type\":\"string\",\"minLength\":3,\"maxLength\":9}",
		"{\"type\":\"array\",\"items\":{\"type\":\"string\",\"maxLength\":2},\"minItems\":3}",
		"{\"type\":\"object\",\"properties\":{\"a\":{\"type\":\"string\",\"minLength\":12},\"b\":{\"type\":\"string\",\"minLength\":2,\"maxLength\":2}},\"required\":[\"a\",\"b\"]}"
	};
	struct lm_vocabulary *v = lm_vocabulary_new(tokens, token_count);

	for (size_t i = 0; i < sizeof tried / sizeof *tried; i++) {
		struct lm_grammar *g = compile(tried[i]);

		CHECK(g != NULL);
		for (uint64_t seed = 0; g && seed < 2; seed++) {
			struct buf text = BUF_INIT;
			struct rng r;

			rng_seed(&r, seed, 0);
			if (walk(g, v, &r, &text, 8, true))
				CHECK(accepts(g, buf_text(&text)));
			buf_release(&text);
		}
		lm_grammar_free(g);
	}
	lm_vocabulary_free(v);
}

static void sequences(void)
{
	json_t *schema = json_pack("{s:s,s:{s:{s:s}},s:b}", "type", "object",
		"properties", "x", "type", "integer", "additionalProperties", 0);
	struct lm_grammar_part call[] = { { .kind = LM_GRAMMAR_TOKEN, .token = 3 },
		{ .kind = LM_GRAMMAR_TEXT,
			.text = "\n{\"name\": \"f\", \"arguments\": " },
		{ .kind = LM_GRAMMAR_SCHEMA, .schema = schema },
		{ .kind = LM_GRAMMAR_TEXT, .text = "}\n" },
		{ .kind = LM_GRAMMAR_TEXT, .text = "</call>" },
		{ .kind = LM_GRAMMAR_CHOICE }, { 0 } };
	static const struct lm_grammar_part nothing[] = { { 0 } };
	const struct lm_grammar_part *const again[] = { call, nothing, NULL };
	static const char one[] =
		"\n{\"name\": \"f\", \"arguments\": {\"x\":17}}\n</call>";
	struct lm_vocabulary *v = lm_vocabulary_new(tokens, token_count);
	struct lm_grammar *g = NULL;
	struct lm_matcher *m;
	const uint64_t *bits;

	call[5].choices = again;
	CHECK(lm_grammar_parts(&g, call) == 0);
	m = lm_matcher_new(g, v);
	for (int i = 0; i < 3; i++) {
		bits = lm_matcher_mask(m);
		for (uint32_t k = 0; k < token_count; k++)
			CHECK(bit(bits, k) == (k == 3 || (i && tokens[k].ends)));
		CHECK(lm_matcher_take(m, 3));
		CHECK_I64((int64_t)strlen(one),
			(int64_t)lm_matcher_push(m, one, strlen(one)));
		CHECK(lm_matcher_done(m));
	}
	CHECK(lm_matcher_push(m, "x", 1) == 0);
	lm_matcher_free(m);
	lm_grammar_free(g);
	lm_vocabulary_free(v);
	json_decref(schema);
}

/* Patterns between texts, and branches that begin alike. */
static void patterns(void)
{
	static const struct lm_grammar_part three[] = { { .kind = LM_GRAMMAR_TEXT,
								.text = "(" },
		{ .kind = LM_GRAMMAR_PATTERN, .text = "^[a-z]{3}$" },
		{ .kind = LM_GRAMMAR_TEXT, .text = "" },
		{ .kind = LM_GRAMMAR_TEXT, .text = ")" }, { 0 } };
	static const struct lm_grammar_part digits[] = { { .kind = LM_GRAMMAR_TEXT,
								 .text = "(" },
		{ .kind = LM_GRAMMAR_PATTERN, .text = "^[0-9]+$" }, { 0 } };
	static const struct lm_grammar_part *const both[] = { three, digits, NULL };
	static const struct lm_grammar_part all[] = {
		{ .kind = LM_GRAMMAR_CHOICE, .choices = both }, { 0 }
	};
	static const struct lm_grammar_part bad[] = {
		{ .kind = LM_GRAMMAR_PATTERN, .text = "(" }, { 0 }
	};
	struct lm_grammar *g = NULL;

	CHECK(lm_grammar_parts(&g, all) == 0);
	CHECK(accepts(g, "(abc)"));
	CHECK(accepts(g, "(7"));
	CHECK(accepts(g, "(7123"));
	CHECK(!accepts(g, "(ab)"));
	CHECK(!accepts(g, "(abcd)"));
	CHECK(!accepts(g, "(abc"));
	CHECK(!accepts(g, "(7)"));
	CHECK(!accepts(g, "("));
	lm_grammar_free(g);
	CHECK_FAILS(EX_DATAERR, lm_grammar_parts(&g, bad));
}

/* --- as a filter -------------------------------------------------------------------------------------- */

static json_t *check_line(struct lm_grammar *g, const json_t *line)
{
	json_t *ok = json_array(), *text;
	size_t i;

	json_array_foreach(json_object_get(line, "texts"), i, text)
		json_array_append_new(ok,
			json_boolean(accepts(g, json_string_value(text))));
	return json_pack("{s:o}", "ok", ok);
}

static json_t *walk_line(struct lm_grammar *g, const struct lm_vocabulary *v, long n,
	uint64_t seed)
{
	json_t *all = json_array();
	struct buf text = BUF_INIT;
	struct rng r;

	for (long i = 0; i < n; i++) {
		buf_reset(&text);
		rng_seed(&r, seed, (uint64_t)i);
		if (walk(g, v, &r, &text, 40, false))
			json_array_append_new(all,
				json_stringn_nocheck(buf_text(&text), text.len));
	}
	buf_release(&text);
	return all;
}

static int filter(long walks, uint64_t seed)
{
	struct lm_vocabulary *v = walks ? lm_vocabulary_new(tokens, token_count) : NULL;
	size_t cap = 0;
	char *in = NULL;
	ssize_t n;

	while ((n = getline(&in, &cap, stdin)) > 0) {
		json_t *line = json_loadb(in, (size_t)n, JSON_ALLOW_NUL, NULL), *out;
		struct lm_grammar *g = NULL;

		if (!line || lm_grammar_schema(&g, json_object_get(line, "schema")) < 0)
			out = json_pack("{s:s}", "error",
				line ? err_get()->text : "not JSON");
		else
			out = walks ? walk_line(g, v, walks, seed++) :
				      check_line(g, line);
		json_dumpf(out, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
		putchar('\n');
		json_decref(out);
		json_decref(line);
		lm_grammar_free(g);
	}
	free(in);
	lm_vocabulary_free(v);
	return test_failures > 0;
}

static double now_us(void)
{
	return (double)clock() / CLOCKS_PER_SEC * 1e6;
}

/* Measures the processor time of a mask per token: over whole texts, including their first
 * masks. */
static int measure(void)
{
	static const char *const schemas_of[] = {
		"{}",
		"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},\"age\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":150},\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"address\":{\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},\"city\":{\"type\":\"string\"}},\"required\":[\"street\",\"city\"],\"additionalProperties\":false}},\"required\":[\"name\",\"age\",\"tags\",\"address\"],\"additionalProperties\":false}",
		"{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\",\"maxLength\":40}}}"
	};
	static const char *const said[] = {
		"{\"a\": [1, 2, {\"bafo\": \"some words in a string, as models say them\"}], \"list\": [\"one\", \"two\", \"three\"], \"n\": null}",
		"{\"name\": \"Ana Novak from somewhere\", \"age\": 42, \"tags\": [\"one\", \"two\", \"three\"], \"address\": {\"street\": \"Long street 12\", \"city\": \"Ljubljana\"}}",
		"{\"name\": \"Ana Novak from somewhere in the hills\"}"
	};
	double begin = now_us(), compile_us, vocabulary_us;
	struct lm_vocabulary *v = lm_vocabulary_new(tokens, token_count);

	vocabulary_us = now_us() - begin;
	for (int i = 0; i < 3; i++) {
		struct lm_grammar *g;
		struct lm_matcher *m;
		double first = 0, worst = 0;
		uint32_t count = 0;

		begin = now_us();
		g = compile(schemas_of[i]);
		compile_us = now_us() - begin;
		m = lm_matcher_new(g, v);
		for (const char *s = said[i]; *s; s += 4) {
			size_t len = strlen(s) < 4 ? strlen(s) : 4;
			double one = now_us();

			lm_matcher_mask(m);
			one = now_us() - one;
			first += one;
			worst = one > worst ? one : worst;
			count++;
			if (lm_matcher_push(m, s, len) != len)
				return 1;
			if (len < 4)
				break;
		}
		printf("{\"vocabulary\":%u,\"schema\":%d,\"vocabulary_us\":%.0f,\"compile_us\":%.0f,"
		       "\"mask_us\":%.1f,\"worst_us\":%.0f,\"tokens\":%u}\n",
			token_count, i, vocabulary_us, compile_us, first / count, worst,
			count);
		lm_matcher_free(m);
		lm_grammar_free(g);
	}
	lm_vocabulary_free(v);
	return 0;
}

int main(int argc, char **argv)
{
	bool timed = argc > 1 && strcmp(argv[1], "--time") == 0;
	int rc;

	make_tokens(timed && argc > 2 ? (uint32_t)atol(argv[2]) :
			timed         ? 127000 :
			argc > 1      ? 1500 :
					40);
	if (argc > 1) {
		rc = timed ? measure() :
			     filter(argc > 2 ? atol(argv[2]) : 0,
				     argc > 3 ? strtoull(argv[3], NULL, 10) : 1);
		free_tokens();
		return rc;
	}
	schemas();
	many_dates();
	bounds();
	masks();
	sequences();
	patterns();
	free_tokens();
	TEST_END();
}
