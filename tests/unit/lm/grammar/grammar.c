/* grammar: what schemas let through and what not; masks against a token at a time; bounds;
 * sequences.
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
#include "common/lm/grammar/dfa.h"
#include "tests/unit/test.h"

/* --- a vocabulary ------------------------------------------------------------------------- */

static struct lm_vocabulary_token *tokens;
static uint32_t token_count;

static void add_token(const char *text, size_t len, bool ends)
{
	static size_t cap;

	tokens = xgrow(tokens, &cap, token_count + 1, sizeof *tokens);
	tokens[token_count++] = (struct lm_vocabulary_token){ xstrndup(text, len), len,
		ends };
}

/* Every byte, what JSON's punctuation is merged into, numbers, and syllables in words; then an
 * end. */
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

/* --- helpers ------------------------------------------------------------------------------ */

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

/* --- schemas ------------------------------------------------------------------------------ */

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

static void more_formats(void)
{
	judge("{\"format\":\"hostname\",\"type\":\"string\"}",
		"\"a\"\0\"a-1.example.com\"\0\"1.2\"\0",
		"\"\"\0\"-a\"\0\"a-\"\0\"a..b\"\0\"a.\"\0\"a_b\"\0"
		"\"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"\0");
	judge("{\"format\":\"duration\",\"type\":\"string\"}",
		"\"P4DT12H30M5S\"\0\"P2W\"\0\"PT1H\"\0\"P1Y\"\0\"P1Y2M3D\"\0\"PT1M2S\"\0",
		"\"P\"\0\"PT\"\0\"P1YT\"\0\"4D\"\0\"P1D2M\"\0\"P1Y1W\"\0\"P1Y1D\"\0\"PT1H1S\"\0");
	judge("{\"format\":\"uri-reference\",\"type\":\"string\"}",
		"\"\"\0\"/a/b\"\0\"a/b:c\"\0\"../a?b#c\"\0\"//host/p\"\0\"http://a.b:80/c?d#e\"\0\"#f\"\0\"urn:x\"\0",
		"\"a b\"\0\":a\"\0\"\\\\\\\\a\"\0\"#a#b\"\0");
	/* lengths that are counted beside an automaton, up to what is still needed */
	judge("{\"format\":\"uri\",\"type\":\"string\",\"minLength\":1,\"maxLength\":12}",
		"\"http://a.bcd\"\0\"a:b\"\0", "\"http://a.bcde\"\0\"\"\0\"a\"\0");
	judge("{\"type\":\"string\",\"pattern\":\"^(ab|cdef)*$\",\"minLength\":3,\"maxLength\":5}",
		"\"abab\"\0\"cdef\"\0", "\"ab\"\0\"ababab\"\0\"cdefab\"\0\"\"\0");
	refused("{\"type\":\"string\",\"pattern\":\"^abc$\",\"maxLength\":2,\"minLength\":1}",
		"no value");
	judge("{\"anyOf\":[{\"type\":\"string\",\"pattern\":\"^a*$\",\"maxLength\":2},"
	      "{\"type\":\"string\",\"pattern\":\"^b*$\",\"maxLength\":3}]}",
		"\"aa\"\0\"bbb\"\0", "\"aaa\"\0\"bbbb\"\0");
}

/* What pydantic makes of five addresses: each of up to 2,083 characters. */
static void bounded_addresses(void)
{
	struct lm_grammar *g;
	struct buf text = BUF_INIT;

	buf_adds(&text, "{\"type\":\"object\",\"properties\":{");
	for (int i = 0; i < 5; i++)
		buf_addf(&text,
			"%s\"u%d\":{\"format\":\"uri\",\"minLength\":1,\"maxLength\":2083,\"type\":\"string\"}",
			i ? "," : "", i);
	buf_adds(&text, "}}");
	g = compile(buf_text(&text));
	CHECK(g != NULL);
	CHECK(accepts(g, "{\"u4\":\"http://a.b/c\"}"));
	buf_reset(&text);
	buf_adds(&text, "{\"u0\":\"a:");
	for (int i = 0; i < 2081; i++)
		buf_addc(&text, 'x');
	buf_adds(&text, "\"}");
	CHECK(accepts(g, buf_text(&text)));
	text.len -= 2;
	buf_adds(&text, "x\"}");
	CHECK(!accepts(g, buf_text(&text)));
	lm_grammar_free(g);
	buf_release(&text);
}

static void names_of_properties(void)
{
	judge("{\"type\":\"object\",\"propertyNames\":{\"type\":\"string\"},\"additionalProperties\":{\"type\":\"boolean\"}}",
		"{}\0{\"a\":true}\0", "{\"a\":1}\0");
	judge("{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^[a-z]+$\",\"maxLength\":3},\"properties\":{\"AB\":{},\"ab\":{\"const\":1}}}",
		"{}\0{\"ab\":1,\"xyz\":null}\0",
		"{\"AB\":1}\0{\"abcd\":1}\0{\"\":1}\0{\"ab\":2}\0");
	judge("{\"type\":\"object\",\"propertyNames\":{\"enum\":[\"x\",\"y\"]}}",
		"{\"x\":1,\"y\":[]}\0", "{\"z\":1}\0");
	judge("{\"type\":\"object\",\"propertyNames\":{\"minLength\":2}}", "{\"xy\":1}\0",
		"{\"x\":1}\0");
	judge("{\"type\":\"object\",\"propertyNames\":false}", "{}\0", "{\"z\":1}\0");
	judge("{\"type\":\"object\",\"propertyNames\":{\"type\":\"integer\"}}", "{}\0",
		"{\"z\":1}\0");
	judge("{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^a\"},\"patternProperties\":{\"b$\":{\"const\":1}},\"required\":[\"ab\"]}",
		"{\"ab\":1,\"ac\":2}\0", "{\"ab\":2}\0{\"b\":1,\"ab\":1}\0{\"a\":1}\0");
	refused("{\"type\":\"object\",\"propertyNames\":{\"pattern\":\"^a\"},\"required\":[\"b\"]}",
		"no value");
	refused("{\"propertyNames\":3}", "schema.propertyNames: ");
	refused("{\"propertyNames\":{\"$ref\":\"#\"}}", "itself");
	refused("{\"propertyNames\":{\"anyOf\":[{\"type\":\"string\"},{\"propertyNames\":{\"$ref\":\"#/propertyNames\"}}]}}",
		"itself");
}

/* How many properties there are, beside those that must be there. */
static void counts_of_properties(void)
{
	judge("{\"type\":\"object\",\"minProperties\":1,\"maxProperties\":2}",
		"{\"a\":1}\0{\"a\":1,\"b\":{}}\0", "{}\0{\"a\":1,\"b\":2,\"c\":3}\0");
	judge("{\"type\":\"object\",\"maxProperties\":2,\"required\":[\"z\"]}",
		"{\"z\":1}\0{\"a\":1,\"z\":2}\0{\"z\":1,\"a\":2}\0",
		"{\"a\":1,\"b\":1,\"z\":1}\0{\"a\":1,\"b\":1}\0");
	judge("{\"type\":\"object\",\"maxProperties\":0}", "{}\0", "{\"a\":1}\0");
	judge("{\"type\":\"object\",\"minProperties\":2,\"properties\":{\"a\":{},\"b\":{\"const\":1},\"c\":false},"
	      "\"additionalProperties\":false}",
		"{\"a\":1,\"b\":1}\0{\"b\":1,\"a\":null}\0",
		"{\"a\":1}\0{}\0{\"a\":1,\"c\":1}\0");
	refused("{\"type\":\"object\",\"minProperties\":3,\"properties\":{\"a\":{},\"b\":{},\"c\":false},"
		"\"additionalProperties\":false}",
		"no value");
	judge("{\"allOf\":[{\"minProperties\":1},{\"maxProperties\":1}],\"type\":\"object\"}",
		"{\"a\":1}\0", "{}\0{\"a\":1,\"b\":1}\0");
}

/* Items that differ, where their values are few. */
static void different_items(void)
{
	struct buf text = BUF_INIT;

	judge("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[\"red\",\"re\",1,1.0,2.5,null,true]}}",
		"[]\0[\"re\",\"red\"]\0[1,\"red\",null,true,\"re\",2.5]\0[2.50,1.0]\0",
		"[\"re\",\"re\"]\0[1,1.0]\0[null,1,null]\0[\"r\"]\0");
	judge("{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":2,\"items\":{\"type\":\"integer\",\"minimum\":3,\"maximum\":5}}",
		"[5,3]\0[4,3,5]\0", "[3]\0[3,3]\0[3,4,5,3]\0");
	judge("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"boolean\"}}",
		"[true,false]\0", "[true,true]\0");
	judge("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\",\"pattern\":\"^[a-c]{1,2}$\"}}",
		"[\"a\",\"ab\",\"ba\"]\0", "[\"ab\",\"ab\"]\0[\"d\"]\0");
	judge("{\"type\":\"array\",\"uniqueItems\":true,\"maxItems\":1}", "[1]\0",
		"[1,1]\0");
	refused("{\"type\":\"array\",\"uniqueItems\":true,\"minItems\":3,\"items\":{\"type\":\"boolean\"}}",
		"no value");
	refused("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"string\"}}",
		"schema.uniqueItems: ");
	refused("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"array\",\"maxItems\":0}}",
		"schema.uniqueItems: ");
	buf_adds(&text,
		"{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"enum\":[0");
	for (int i = 1; i < 25; i++)
		buf_addf(&text, ",%d", i);
	buf_adds(&text, "]}}");
	refused(buf_text(&text), "schema.uniqueItems: ");
	buf_release(&text);
}

/* Numbers as other drafts and programs write their bounds. */
static void bounds_of_numbers(void)
{
	judge("{\"type\":\"number\",\"multipleOf\":0.01}",
		"1\0"
		"0.07\0"
		"-12.50\0"
		"3.1\0",
		"0.001\0"
		"1e1\0"
		"2.345\0");
	judge("{\"multipleOf\":2.5,\"minimum\":-5,\"type\":\"number\"}",
		"2.5\0"
		"-5\0"
		"7.5\0"
		"10.0\0",
		"2\0"
		"-7.5\0"
		"0.5\0");
	judge("{\"multipleOf\":0.75,\"type\":\"integer\"}",
		"3\0"
		"6.0\0",
		"1\0"
		"0.75\0");
	judge("{\"allOf\":[{\"multipleOf\":0.2},{\"multipleOf\":0.15}],\"type\":\"number\"}",
		"0.6\0"
		"3\0",
		"0.2\0"
		"0.3\0");
	judge("{\"type\":\"integer\",\"multipleOf\":2}", "4.0\0", "3.0\0");
	judge("{\"type\":\"number\",\"minimum\":3,\"exclusiveMinimum\":true,\"maximum\":5,\"exclusiveMaximum\":false}",
		"3.1\0"
		"5\0",
		"3\0"
		"5.1\0");
	judge("{\"type\":\"number\",\"minimum\":-1.7976931348623157e308,\"maximum\":1e308}",
		"0\0-5e10\0", "null\0");
	judge("{\"type\":\"integer\",\"minimum\":0,\"maximum\":1e308}",
		"12345678901234567890\0", "-1\0");
	judge("{\"type\":\"integer\",\"minimum\":0,\"maximum\":1e60}",
		"12345678901234567890\0", "-1\0");
	refused("{\"type\":\"number\",\"minimum\":1e308}", "schema.minimum: ");
}

/* References by name: anchors, and the schema's own address. */
static void references(void)
{
	judge("{\"$id\":\"https://example.com/a/root.json\",\"type\":\"array\",\"prefixItems\":[{\"$ref\":\"#n\"},{\"$ref\":\"root.json#/$defs/x\"},"
	      "{\"$ref\":\"https://example.com/a/root.json#old\"}],\"items\":{\"$ref\":\"root.json\"},\"$defs\":{\"x\":{\"$anchor\":\"n\",\"type\":\"integer\"},"
	      "\"y\":{\"$id\":\"#old\",\"type\":\"null\"}}}",
		"[1,2,null]\0[1,2,null,[3]]\0",
		"[\"a\"]\0[1,\"a\"]\0[1,2,3]\0[1,2,null,3]\0");
	refused("{\"$ref\":\"#none\"}", "schema.$ref: '#none' is no schema");
	refused("{\"$id\":\"a.json\",\"$ref\":\"b.json\"}", "schema.$ref: ");
	refused("{\"properties\":{\"a\":{\"$id\":\"other.json\"}}}",
		"schema.properties.a.$id: ");
}

/* What patterns of other programs have. */
static void more_patterns(void)
{
	judge("{\"type\":\"string\",\"pattern\":\"^\\\\p{Lu}\\\\p{Letter}*[\\\\p{Nd}_]\\\\P{L}$\"}",
		"\"Ab1.\"\0\"\xc3\x84\xc3\xa4_ \"\0\"\xd0\x96\xd9\xa3!\"\0",
		"\"ab1.\"\0\"Ab1a\"\0\"A1\"\0");
	judge("{\"type\":\"string\",\"pattern\":\"^\\\\p{Script=Greek}+$\"}",
		"\"\xce\xb1\xce\xb2\"\0", "\"ab\"\0");
	refused("{\"pattern\":\"\\\\p{Nonsense}\"}",
		"property of characters that is not known");
	judge("{\"type\":\"string\",\"pattern\":\"^(?=.*[A-Z])(?=.*\\\\d)(?!.*(x|[)]y))[A-Za-z\\\\d)]{3,5}$\"}",
		"\"A1b\"\0\"ab1C)\"\0",
		"\"abc\"\0\"A1\"\0\"A1x\"\0\"A1)y\"\0\"A1bcde\"\0");
	judge("{\"type\":\"string\",\"pattern\":\"^(?!admin$)[a-z]+$\"}",
		"\"adm\"\0\"admins\"\0", "\"admin\"\0\"A\"\0");
	refused("{\"pattern\":\"^(?=a)b|c\"}", "looks around");
	refused("{\"pattern\":\"a(?=b)\"}", "looks around");
	refused("{\"pattern\":\"(?<!a)b\"}", "looks around");
	judge("{\"type\":\"string\",\"pattern\":\"(?i)^ab[x-z]\\\\d$\"}",
		"\"aBX1\"\0\"ABz2\"\0",
		"\"ab1\"\0\"ab\xc3\xa4"
		"1\"\0");
	judge("{\"type\":\"string\",\"pattern\":\"^(?P<y>\\\\d{2})(?<m>a)$\"}",
		"\"12a\"\0", "\"1a\"\0");
	refused("{\"pattern\":\"(?i)\xc3\xa4\"}", "(?i) and characters beyond ASCII");
	refused("{\"pattern\":\"(?s).\"}", "flags other than (?i)");
}

/* Words of others are notes, and a null says nothing but in const. */
static void notes(void)
{
	judge("{\"type\":\"integer\",\"x-order\":1,\"errorMessage\":\"no\",\"propertyOrdering\":[\"a\"],\"enumNames\":[\"a\"],"
	      "\"discriminator\":{\"propertyName\":\"t\"},\"markdownDescription\":\"d\",\"id\":\"a\",\"strict\":true,\"default\":null}",
		"1\0", "\"a\"\0null\0");
	judge("{\"type\":\"string\",\"pattern\":null,\"enum\":null,\"minLength\":null,\"format\":null,\"title\":null,\"uniqueItems\":null,"
	      "\"anyOf\":null,\"if\":null}",
		"\"a\"\0", "1\0");
	judge("{\"type\":\"object\",\"properties\":null,\"required\":null,\"additionalProperties\":null,\"propertyNames\":null}",
		"{\"a\":1}\0", "1\0");
	judge("{\"type\":[\"array\",\"null\"],\"items\":null,\"prefixItems\":null,\"minItems\":null}",
		"[1]\0null\0", "1\0");
	judge("{\"anyOf\":[{\"not\":{}},{\"type\":\"integer\"}]}", "1\0",
		"\"a\"\0null\0");
	judge("{\"properties\":{\"a\":{\"not\":true}},\"type\":\"object\"}",
		"{}\0{\"b\":1}\0", "{\"a\":1}\0");
	judge("{\"const\":null}", "null\0", "1\0");
	judge("{\"type\":\"string\",\"nullable\":true}", "\"a\"\0null\0", "1\0");
	refused("{\"not\":{\"const\":1}}", "schema.not: ");
	refused("{\"dependencies\":{\"a\":[\"b\"]}}", "schema.dependencies: ");
}

/* Names that nest in names, and many words that cannot be held beside much else, cost little. */
static void costly_schemas(void)
{
	struct buf text = BUF_INIT, left = BUF_INIT;
	struct lm_grammar_part p[] = { { .kind = LM_GRAMMAR_SCHEMA, .left_out = &left },
		{ .kind = LM_GRAMMAR_END } };
	struct lm_grammar *g = NULL;
	json_t *schema;

	for (int i = 0; i < 200; i++)
		buf_adds(&text, "{\"propertyNames\":");
	buf_adds(&text, "{}");
	for (int i = 0; i < 200; i++)
		buf_addc(&text, '}');
	schema = json_parse_spelled(buf_text(&text), text.len, 300, "schema");
	CHECK_FAILS(EX_DATAERR, lm_grammar_schema(&g, schema));
	json_decref(schema);
	buf_reset(&text);
	buf_adds(&text, "{\"properties\":{");
	for (int i = 0; i < 100; i++)
		buf_addf(&text, "%s\"p%d\":{\"$ref\":\"#/$defs/w\"}", i ? "," : "", i);
	buf_adds(&text,
		"},\"$defs\":{\"w\":{\"not\":{\"const\":1},\"uniqueItems\":true,\"if\":{},\"then\":{}}},\"x\":[");
	for (int i = 0; i < 20000; i++)
		buf_adds(&text, i ? ",0" : "0");
	buf_adds(&text, "]}");
	schema = json_parse_spelled(buf_text(&text), text.len, 100, "schema");
	p[0].schema = schema;
	/* some 300 walks over the whole took 8 s */
	CHECK(lm_grammar_parts(&g, p) == 0);
	CHECK_TEXT(
		"schema.$defs.w.if, schema.$defs.w.then, schema.$defs.w.not, schema.$defs.w.uniqueItems",
		buf_text(&left));
	lm_grammar_free(g);
	json_decref(schema);
	buf_reset(&left);
	buf_reset(&text);
	buf_adds(&text, "{\"properties\":{");
	for (int i = 0; i < 40; i++)
		buf_addf(&text, "%s\"p%d\":{\"not\":{\"const\":1}}", i ? "," : "", i);
	buf_adds(&text, "}}");
	schema = json_parse_spelled(buf_text(&text), text.len, 100, "schema");
	p[0].schema = schema;
	CHECK(lm_grammar_parts(&g, p) == 0);
	CHECK(strstr(buf_text(&left), "schema.properties.p15.not, ...") != NULL);
	lm_grammar_free(g);
	json_decref(schema);
	buf_reset(&text);
	buf_adds(&text, "{\"allOf\":[");
	for (int i = 0; i < 200; i++)
		buf_addf(&text, "%s{\"patternProperties\":{\"^a%d\":{}}}", i ? "," : "",
			i);
	buf_adds(&text, "]}");
	schema = json_parse_spelled(buf_text(&text), text.len, 100, "schema");
	CHECK_FAILS(EX_DATAERR, lm_grammar_schema(&g, schema));
	json_decref(schema);
	buf_release(&text);
	buf_release(&left);
}

/* --- what compiling spends ---------------------------------------------------------------- */

/* Returns the steps that a schema takes, of which it is taken or refused; *taken. */
static uint64_t steps_of(const char *schema, bool *taken)
{
	json_t *s = json_parse_spelled(schema, strlen(schema), 100, "schema");
	struct lm_grammar_part p[] = { { .kind = LM_GRAMMAR_SCHEMA, .schema = s },
		{ .kind = LM_GRAMMAR_END } };
	struct lm_budget b = LM_GRAMMAR_BUDGET;
	struct lm_grammar *g = NULL;

	*taken = lm_grammar_parts_within(&g, p, &b) == 0;
	err_clear();
	lm_grammar_free(g);
	json_decref(s);
	return LM_GRAMMAR_STEPS_MAX - b.steps;
}

/* From one multiple to the next, not from one number to the next. */
static void far_multiples(void)
{
	judge("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"integer\",\"exclusiveMinimum\":-30,\"maximum\":25,\"multipleOf\":10}}",
		"[]\0[-20,-10,0,10,20]\0", "[-30]\0[0,0]\0[5]\0[30]\0");
	judge("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"integer\",\"minimum\":7,\"exclusiveMaximum\":4000,\"multipleOf\":1000}}",
		"[1000,3000,2000]\0", "[0]\0[4000]\0[1000,1000]\0");
	/* 10^15 numbers, of which one is a multiple of all four */
	refused("{\"type\":\"array\",\"uniqueItems\":true,\"items\":{\"type\":\"integer\",\"minimum\":0,\"maximum\":999999999999999,"
		"\"allOf\":[{\"multipleOf\":10000},{\"multipleOf\":9999},{\"multipleOf\":9997},{\"multipleOf\":9973}]}}",
		"too many states");
}

/* What is empty adds nothing to a pattern, however often it is repeated; what only looks so is paid
 * for. */
static void empty_patterns(void)
{
	bool taken;

	CHECK(steps_of("{\"pattern\":\"^[a-z]{20}(|()){0,9999}$\"}", &taken) <
		steps_of("{\"pattern\":\"^[a-z]{20}$\"}", &taken) + 100);
	CHECK(steps_of("{\"pattern\":\"(((){9999}){9999}){9999}a\"}", &taken) < 20000);
	CHECK(taken);
	/* each round of it is looked at for each of 40 characters */
	CHECK(steps_of(
		      "{\"pattern\":\"(^|){0,5000}(a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q.r.s.t.u)?$\"}",
		      &taken) > 500000);
	judge("{\"pattern\":\"^(a|){2}(b||c){1,3}()*$\"}", "\"\"\0\"a\"\0\"aabcb\"\0",
		"\"aaab\"\0\"bbbb\"\0");
}

/* A joined automaton costs as many automata as it is of, in steps and in memory. */
static void joined_automata(void)
{
	const struct lm_dfa *parts[500];
	struct lm_budget b = LM_GRAMMAR_BUDGET, before;
	struct lm_dfa d, all;

	CHECK(dfa_regex(&d, "^a{30}$", 7, "pattern", &b) == 0);
	for (size_t i = 0; i < 500; i++)
		parts[i] = &d;
	before = b;
	CHECK(dfa_product(&all, parts, 500, true, &b) == 0);
	CHECK_I64(d.states, all.states);
	CHECK(before.steps - b.steps >= (uint64_t)500 * d.states * d.intervals);
	/* keys are given back */
	CHECK_I64((int64_t)all.states * all.intervals, (int64_t)(before.words - b.words));
	dfa_release(&all);
	b.words = (uint64_t)500 * d.states / 2;
	CHECK_FAILS(EX_DATAERR, dfa_product(&all, parts, 500, true, &b));
	b.words = LM_GRAMMAR_WORDS_MAX;
	/* a state is paid for before it is kept */
	b.states = d.states - 1;
	CHECK_FAILS(EX_DATAERR, dfa_product(&all, parts, 500, true, &b));
	CHECK_I64(0, (int64_t)b.states);
	dfa_release(&d);
}

/* An enum whose automaton cannot be made is an error. */
static void enum_of_many_characters(void)
{
	struct buf text = BUF_INIT;

	buf_adds(&text, "{\"enum\":[\"");
	for (unsigned c = 0x3400; c < 0x3400 + DFA_CUT_MAX + 200; c += 2)
		buf_addf(&text, "\\u%04x", c);
	buf_adds(&text, "\"]}");
	refused(buf_text(&text), "too many characters apart");
	buf_release(&text);
}

/* Lists that are read again for each reference are paid for each time. */
static void lists_read_again(void)
{
	static const char *const lists[] = { "{\"required\":[%s]}", "{\"enum\":[%s]}",
		"{\"type\":\"string\",\"enum\":[1.5,%s]}",
		"{\"oneOf\":[{\"enum\":[%s]},false]}" };

	for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
		struct buf names = BUF_INIT, text = BUF_INIT;
		bool taken;

		for (int k = 0; k < 2000; k++)
			buf_addf(&names, "%s\"n%d\"", k ? "," : "", k);
		buf_adds(&text, "{\"$defs\":{\"a\":");
		buf_addf(&text, lists[i], buf_text(&names));
		buf_adds(&text, "},\"allOf\":[{}");
		for (int k = 0; k < 100; k++)
			buf_adds(&text, ",{\"$ref\":\"#/$defs/a\"}");
		buf_adds(&text, "]}");
		CHECK(steps_of(buf_text(&text), &taken) >= 200000);
		buf_release(&names);
		buf_release(&text);
	}
}

/* For a caller who may break them, words that cannot be held are left out and named, once each;
 * what is wrong is an error all the same. */
static void words_left_out(void)
{
	static const char text[] =
		"{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#/$defs/d\"},\"b\":{\"$ref\":\"#/$defs/d\"},"
		"\"c\":{\"type\":\"string\",\"pattern\":\"(?=x)y\",\"format\":\"iri\",\"maxLength\":2},"
		"\"e\":{\"oneOf\":[{\"type\":\"integer\"},{\"type\":\"number\",\"multipleOf\":0.50001}]}},"
		"\"minProperties\":2,\"additionalProperties\":{\"type\":\"null\"},"
		"\"$defs\":{\"d\":{\"type\":\"array\",\"uniqueItems\":true}}}";
	json_t *schema = json_parse_spelled(text, strlen(text), 100, "schema"),
	       *wrong = json_pack("{s:i}", "type", 3);
	struct buf left = BUF_INIT;
	struct lm_grammar_part p[] = {
		{ .kind = LM_GRAMMAR_SCHEMA, .schema = schema, .left_out = &left },
		{ .kind = LM_GRAMMAR_END }
	};
	struct lm_grammar *g = NULL;

	CHECK(lm_grammar_parts(&g, p) == 0);
	CHECK_TEXT(
		"schema.minProperties, schema.$defs.d.uniqueItems, schema.properties.c.pattern, "
		"schema.properties.c.format, schema.properties.e.oneOf[1].multipleOf, "
		"schema.properties.e.oneOf",
		buf_text(&left));
	CHECK(accepts(g, "{\"a\":[1,1],\"c\":\"zz\",\"e\":3}"));
	CHECK(accepts(g, "{\"c\":\"zz\"}") && !accepts(g, "{}"));
	CHECK(!accepts(g, "{\"c\":\"zzz\"}"));
	CHECK(!accepts(g, "{\"d\":1}"));
	lm_grammar_free(g);
	p[0].schema = wrong;
	CHECK_FAILS(EX_DATAERR, lm_grammar_parts(&g, p));
	json_decref(schema);
	json_decref(wrong);
	buf_release(&left);
}

/* A format or a pattern takes its states once, however many properties have it. */
static void many_dates(void)
{
	json_t *properties = json_object(), *schema;
	struct lm_matcher *m;
	struct lm_grammar *g;
	char name[16];

	for (int i = 0; i < LM_GRAMMAR_PROPERTIES_MAX; i++) {
		snprintf(name, sizeof name, "p%d", i);
		json_object_set_new(properties, name,
			i % 2 ? json_pack("{s:s,s:s}", "type", "string", "format",
					"date-time") :
				/* its greatest length is its own */
				json_pack("{s:s,s:s,s:i}", "type", "string", "pattern",
					"^[a-z]{1,60}(-[a-z0-9]{1,60}){0,9}$",
					"maxLength", 100 + i));
	}
	schema = json_pack("{s:s,s:o}", "type", "object", "properties", properties);
	CHECK(lm_grammar_schema(&g, schema) == 0);
	m = lm_matcher_new(g, NULL);
	CHECK_I64(36,
		(int64_t)lm_matcher_push(m,
			"{\"p7\":\"2024-02-29T23:59:60Z\",\"p9\":\"2x4", 38));
	CHECK(accepts(g, "{\"p6\":\"abc-d\"}") && !accepts(g, "{\"p6\":\"abc-\"}"));
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
	refused("{\"type\":\"object\",\"minProperties\":2}", "schema.minProperties: ");
	refused("{\"type\":\"object\",\"maxProperties\":1,\"required\":[\"a\",\"b\"]}",
		"no value");
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
	refused("{\"multipleOf\":0.50001}", "schema.multipleOf: ");
	refused("{\"type\":\"integer\",\"minimum\":3,\"maximum\":2}", "no value");
	refused("{\"enum\":[]}", "no value");
	refused("{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"}},\"required\":[\"a\"]}",
		"no value");
	refused("{\"format\":\"idn-hostname\"}", "schema.format: ");
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

/* --- masks -------------------------------------------------------------------------------- */

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
	static const struct lm_grammar_part words[] = {
		{ .kind = LM_GRAMMAR_PATTERN,
			.text = "^(?:größer|gr|[\xc3\xa4-\xc3\xa9]{2})$" },
		{ 0 }
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
	/* characters of several bytes end with the last of them */
	CHECK(lm_grammar_parts(&g, words) == 0);
	CHECK(accepts(g, "größer"));
	CHECK(accepts(g, "gr"));
	CHECK(accepts(g, "éä"));
	CHECK(!accepts(g, "gr\xc3"));
	CHECK(!accepts(g, "gr\xc3\xb6"));
	CHECK(!accepts(g, "éê"));
	CHECK(!accepts(g, "\xc0\xa4\xc3\xa4"));
	lm_grammar_free(g);
	CHECK_FAILS(EX_DATAERR, lm_grammar_parts(&g, bad));
}

/* --- as a filter -------------------------------------------------------------------------- */

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
	more_formats();
	bounded_addresses();
	names_of_properties();
	notes();
	counts_of_properties();
	different_items();
	bounds_of_numbers();
	references();
	more_patterns();
	words_left_out();
	costly_schemas();
	far_multiples();
	empty_patterns();
	joined_automata();
	lists_read_again();
	enum_of_many_characters();
	many_dates();
	bounds();
	masks();
	sequences();
	patterns();
	free_tokens();
	TEST_END();
}
