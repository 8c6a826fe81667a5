/* template.c - what Jinja renders, worked out by hand and held against Jinja 3.1;
 * where bytes come from; limits; what is refused, and with which line.
 *
 * `template --time` prints how long a conversation of 40,000 bytes takes (processor time).
 * `template FILE` renders FILE with each line of standard input, an object of variables, and
 * prints {"text":...} or {"error":...}: tests/rnp-serve/template.bats holds it against others. */
#include "common/lm/template/template.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static const struct lm_template_env env = { "<s>", "</s>",
	1795348800 }; /* 2026-11-22 12:00 */

static json_t *variables(const char *json)
{
	json_t *v = json_parse_spelled(json, strlen(json), 512, "variables");

	CHECK(v != NULL);
	return v;
}

/* Renders; the text, or "error: ..." (static). *from gets I and T for each byte. */
static const char *render(const char *text, const char *json, const char **from)
{
	static struct buf shown = BUF_INIT, origins = BUF_INIT;
	struct lm_template_text out = { 0 };
	struct lm_template *t = NULL;
	json_t *v = variables(json);

	buf_reset(&shown);
	buf_reset(&origins);
	if (lm_template_parse(&t, text, strlen(text), "t") < 0 ||
		lm_template_render(t, v, &env, &out) < 0) {
		CHECK_I64(EX_DATAERR, err_get()->code);
		buf_addf(&shown, "error: %s", err_get()->text);
		err_clear();
	} else {
		CHECK_I64((int64_t)out.text.len, (int64_t)out.from.len);
		buf_add(&shown, buf_text(&out.text), out.text.len);
		for (size_t i = 0; i < out.from.len; i++)
			buf_addc(&origins, out.from.data[i] ? 'T' : 'I');
	}
	if (from)
		*from = buf_text(&origins);
	lm_template_text_release(&out);
	lm_template_free(t);
	json_decref(v);
	return buf_text(&shown);
}

#define IS(want, text, json) CHECK_TEXT(want, render(text, json, NULL))

static void white_space(void)
{
	IS("a\nb\n", "a\n{% if x %}\nb\n{% endif %}\n", "{\"x\":1}");
	IS("a\n  b", "a\n  {% if x %}\n  b\n  {%- endif %}\n", "{\"x\":1}");
	IS("ab", "a  \n {%- if x -%} \n b {%- endif %}", "{\"x\":1}");
	IS(" 1 ", "{#c#} {{ x }} {# d #}", "{\"x\":1}");
	IS("1", " {{- x -}} ", "{\"x\":1}");
	IS("  x", "  {%+ if true %}x{% endif %}", "{}");
	IS("\nx", "{% if true +%}\nx{% endif %}", "{}");
	IS("{{ x }}", "{% raw %}{{ x }}{% endraw %}", "{}");
	IS("a\nb", "a\r\nb\r\n", "{}");
	IS("1 {% x", "{{ 1 }} {{ '{% x' }}", "{}");
}

static void expressions(void)
{
	IS("7 1 2.5 2 1 8",
		"{{ 1 + 2 * 3 }} {{ 7 % 2 }} {{ 5 / 2 }} {{ 5 // 2 }} {{ -5 % 2 }} {{ 2 ** 3 }}",
		"{}");
	IS("True False True",
		"{{ 1 < 2 < 3 }} {{ 1 < 2 > 2 }} {{ not false and 'a' in 'cat' }}", "{}");
	IS("a2", "{{ 'a' ~ 2 }}", "{}");
	IS("b", "{{ 'a' if x else 'b' }}", "{}");
	IS("", "{{ 'a' if x }}", "{}");
	IS("[1, 'a', None, True, 1.5, {'k': \"it's\"}]",
		"{{ [1, 'a', none, true, 1.5, {'k': \"it's\"}] }}", "{}");
	IS("(1, 2) (1,) ()", "{{ (1, 2) }} {{ (1,) }} {{ () }}", "{}");
	IS("cba b [2, 3] [3, 1]",
		"{{ 'abc'[::-1] }} {{ 'abc'[1] }} {{ l[1:] }} {{ l[::-2] }}",
		"{\"l\":[1,2,3]}");
	IS("\xc3\xa9 2", "{{ '\xc3\xa9t'[0] }} {{ '\xc3\xa9t'|length }}", "{}");
	IS("1e+16 1e-05 0.1 100000.0 -0.0",
		"{{ 1e16 }} {{ 1e-5 }} {{ 0.1 }} {{ 1e5 }} {{ -0.0 }}", "{}");
	IS("5 5", "{{ m.a.b }} {{ m['a']['b'] }}", "{\"m\":{\"a\":{\"b\":5}}}");
	IS("yes", "{% if x is defined and x is not none and x is string %}yes{% endif %}",
		"{\"x\":\"\"}");
	IS("\n\t'\\x \xe2\x9c\x93", "{{ '\\n\\t\\'\\\\x \\u2713' }}", "{}");
	IS("ab", "{{ 'a' 'b' }}", "{}");
	IS("1 and 2", "{{ '%s and %d' % (1, 2) }}", "{}");
}

static void statements(void)
{
	IS("0a,1b",
		"{% for x in l %}{{ loop.index0 }}{{ x }}{{ ',' if not loop.last }}{% endfor %}",
		"{\"l\":[\"a\",\"b\"]}");
	IS("none", "{% for x in l %}x{% else %}none{% endfor %}", "{\"l\":[]}");
	IS("24", "{% for x in l if x is even %}{{ x }}{% endfor %}",
		"{\"l\":[1,2,3,4,5]}");
	IS("12",
		"{% for x in l %}{% if x == 3 %}{% break %}{% endif %}{{ x }}{% endfor %}",
		"{\"l\":[1,2,3,4]}");
	IS("124",
		"{% for x in l %}{% if x == 3 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
		"{\"l\":[1,2,3,4]}");
	IS("a=1b=2", "{% for k, v in m.items() %}{{ k }}={{ v }}{% endfor %}",
		"{\"m\":{\"a\":1,\"b\":2}}");
	IS("11",
		"{% set x = 1 %}{% for i in [1] %}{% set x = 2 %}{% endfor %}{{ x }}{% if true %}{% set y = 1 %}{% endif %}{{ y }}",
		"{}");
	IS("3", "{% set ns = namespace(n=0) %}{% for i in [1, 2] %}{% set ns.n = ns.n + i %}{% endfor %}{{ ns.n }}",
		"{}");
	IS("<a-1><b-2>",
		"{% macro m(x, y=1) %}<{{ x }}-{{ y }}>{% endmacro %}{{ m('a') }}{{ m('b', y=2) }}",
		"{}");
	IS("[in]",
		"{% macro m() %}[{{ caller() }}]{% endmacro %}{% call m() %}in{% endcall %}",
		"{}");
	IS("AB", "{% filter upper %}a{% if true %}b{% endif %}{% endfilter %}", "{}");
	IS("x", "{% set t %} x {% endset %}{{ t | trim }}", "{}");
	IS("hi", "{% generation %}hi{% endgeneration %}", "{}");
	IS("12;", "{% for a, b in [(1, 2)] %}{{ a }}{{ b }};{% endfor %}", "{}");
	IS("abab", "{% for i in range(4) %}{{ loop.cycle('a', 'b') }}{% endfor %}", "{}");
}

static void filters(void)
{
	IS("{\"a\": [1, 2.0, \"<\\n\xc3\xa9\\\"\", null, true]}", "{{ v | tojson }}",
		"{\"v\":{\"a\":[1,2.0,\"<\\n\xc3\xa9\\\"\",null,true]}}");
	IS("{\n  \"a\": [\n    1\n  ]\n}", "{{ v | tojson(indent=2) }}",
		"{\"v\":{\"a\":[1]}}");
	IS("a-b", "{{ ['a', 'b'] | join('-') }}", "{}");
	IS("ab", "{{ m | selectattr('r', 'equalto', 'u') | map(attribute='c') | join }}",
		"{\"m\":[{\"r\":\"u\",\"c\":\"a\"},{\"r\":\"s\",\"c\":\"x\"},{\"r\":\"u\",\"c\":\"b\"}]}");
	IS("x 3 a", "{{ u | default('x') }} {{ '3' | int }} {{ '' | d('a', true) }}",
		"{}");
	IS("[1, 2, 3] [('a', 1), ('b', 2)]",
		"{{ [3, 1, 2] | sort }} {{ {'b': 2, 'a': 1} | dictsort }}", "{}");
	IS("a\n  b", "{{ 'a\\nb' | indent(2) }}", "{}");
	IS("['a', 'b,c']", "{{ 'a,b,c'.split(',', 1) }}", "{}");
	IS("Hello World hello", "{{ 'hello world'.title() }} {{ ' hello '.strip() }}",
		"{}");
	IS("2026-11-22 November",
		"{{ strftime_now('%Y-%m-%d') }} {{ strftime_now('%B') }}", "{}");
	IS("True True", "{{ 'abc'.startswith('ab') }} {{ 'abc'.endswith(('x', 'c')) }}",
		"{}");
}

static void provenance(void)
{
	const char *from;

	CHECK_TEXT("<|user|>Hi<|end|>",
		render("{{ '<|' + m.role + '|>' }}{{ m.c }}<|end|>",
			"{\"m\":{\"role\":\"user\",\"c\":\"Hi\"}}", &from));
	CHECK_TEXT("TTIIIITTIITTTTTTT", from);
	/* a role of a message is one of a short list, and counts as the template's */
	CHECK_TEXT("<|user|>Hi",
		render("{% for m in messages %}{{ '<|' + m.role + '|>' + m.content }}{% endfor %}",
			"{\"messages\":[{\"role\":\"user\",\"content\":\"Hi\"}]}",
			&from));
	CHECK_TEXT("TTTTTTTTII", from);
	CHECK_TEXT("<evil>",
		render("{% for m in messages %}{{ '<' + m.role + '>' }}{% endfor %}",
			"{\"messages\":[{\"role\":\"evil\"}]}", &from));
	CHECK_TEXT("TIIIIT", from);
	/* through every way that keeps text: slices, macros, case, replacing, JSON, joining */
	CHECK_TEXT("AB-x/xbA",
		render("{% macro m(a) %}{{ a }}-{% endmacro %}{{ m(x | upper) }}{{ 'x/y' | replace('y', 'x' ~ x[1:]) }}{{ x[0] | upper }}",
			"{\"x\":\"ab\"}", &from));
	CHECK_TEXT("IITTTTII", from);
	CHECK_TEXT("{\"k\": \"T\"}a<s>b",
		render("{{ {k: 'T'} | tojson }}{{ [x, bos_token, y] | join }}",
			"{\"k\":\"k\",\"x\":\"a\",\"y\":\"b\"}", &from));
	CHECK_TEXT("IIIIIIITIIITTTI", from);
}

static void refusals(void)
{
	IS("error: t:2: a tag that we know expected, not 'include'",
		"\n{% include 'x' %}", "{}");
	IS("error: t:1: a filter that we know expected, not 'shuffle'",
		"{{ x | shuffle }}", "{}");
	IS("error: t:1: a test that we know expected, not 'pretty'", "{{ x is pretty }}",
		"{}");
	IS("error: t:3: a method that we do not know: 'system'",
		"a\nb\n{{ x.system('rm') }}", "{}");
	IS("error: t:1: a tag that we know expected, not 'endif'", "{% endif %}", "{}");
	IS("error: t:1: 'a' of 'x', which is undefined", "{{ x.a }}", "{}");
	IS("error: t:1: the template refuses this conversation: no",
		"{{ raise_exception('no') }}", "{}");
	IS("error: t:1: 'append' would change a value, which templates may not",
		"{% set _ = [].append(1) %}", "{}");
	IS("error: t:1: the template takes more than 1000000 steps",
		"{% for a in range(2000) %}{% for b in range(2000) %}{% endfor %}{% endfor %}",
		"{}");
	IS("error: t:1: the macro 'm' calls itself more than 64 deep",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "{}");
	/* as the template of Hermes 2 Pro does for a type that it does not know: the letters of
	 * its name, each of which is a type again */
	IS("error: t:1: the macro 'm' calls itself more than 64 deep, with {'type': 'n'}",
		"{% macro m(s) %}{% for t in s.type %}{{ m({'type': t}) }}{% endfor %}{% endmacro %}"
		"{{ m({'type': 'null'}) }}",
		"{}");
	/* many that call each other take no more steps than one */
	IS("error: t:1: the macro 'a' calls itself more than 64 deep, with 2",
		"{% macro a(i) %}{{ b(i) }}{{ b(i) }}{% endmacro %}"
		"{% macro b(i) %}{{ a(i) }}{{ a(i) }}{% endmacro %}{{ a(2) }}",
		"{}");
	IS("error: t:1: the template makes more than 16777216 bytes",
		"{{ 'aaaaaaaaaaaaaaaaaaaaaaaa' * 900000 }}", "{}");
}

/* As the comment at the top says. */
static int filter(const char *path)
{
	struct buf text = BUF_INIT, line = BUF_INIT, error = BUF_INIT;
	struct lm_template *t = NULL;
	size_t cap = 0;
	char *in = NULL;
	ssize_t n;

	if (io_read(&text, path, 4 * LM_TEMPLATE_BYTES_MAX) < 0 ||
		lm_template_parse(&t, buf_text(&text), text.len, "template") < 0)
		buf_adds(&error, err_get()->text);
	while ((n = getline(&in, &cap, stdin)) > 0) {
		json_t *v = json_parse_spelled(in, (size_t)n, 512, "stdin"),
		       *o = json_object();
		struct lm_template_text out = { 0 };

		if (v && t && lm_template_render(t, v, &env, &out) == 0)
			json_set_text(o, "text", buf_text(&out.text));
		else
			json_set_text(o, "error", t ? err_get()->text : buf_text(&error));
		buf_reset(&line);
		json_write(&line, o);
		puts(line.data);
		json_decref(v);
		json_decref(o);
		lm_template_text_release(&out);
	}
	free(in);
	buf_release(&text);
	buf_release(&line);
	buf_release(&error);
	lm_template_free(t);
	return 0;
}

/* 8,000 tokens are some 40,000 bytes: 40 messages of 1,000, in the manner of ChatML. */
static int measure(void)
{
	static const char text[] =
		"{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + "
		"m['content'] | trim + '<|im_end|>\\n' }}{% endfor %}";
	struct lm_template_text out = { 0 };
	struct lm_template *t = NULL;
	json_t *messages = json_array(), *v = json_pack("{s:O}", "messages", messages);
	char words[1001];
	clock_t begin;

	for (int i = 0; i < 1000; i++)
		words[i] = "The quick brown fox. "[i % 21];
	words[1000] = '\0';
	for (int i = 0; i < 40; i++)
		json_array_append_new(messages,
			json_pack("{s:s,s:s}", "role", i % 2 ? "assistant" : "user",
				"content", words));
	begin = clock();
	for (int i = 0; i < 100; i++) {
		lm_template_text_release(&out);
		out = (struct lm_template_text){ 0 };
		if (lm_template_parse(&t, text, strlen(text), "t") < 0 ||
			lm_template_render(t, v, &env, &out) < 0)
			return 1;
		lm_template_free(t);
	}
	printf("{\"bytes\":%zu,\"us\":%.1f}\n", out.text.len,
		(double)(clock() - begin) / CLOCKS_PER_SEC * 1e6 / 100);
	lm_template_text_release(&out);
	json_decref(messages);
	json_decref(v);
	return 0;
}

int main(int argc, char **argv)
{
	if (argc > 1 && strcmp(argv[1], "--time") == 0)
		return measure();
	if (argc > 1)
		return filter(argv[1]);
	white_space();
	expressions();
	statements();
	filters();
	provenance();
	refusals();
	TEST_END();
}
