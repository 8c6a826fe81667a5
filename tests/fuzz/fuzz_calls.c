/* fuzz_calls.c - fuzz target: a stranger's template and tools, and a model's text with calls.
 *
 * uses: cmd/rnp-serve
 *
 * The input is a template, a byte 0, the tools as JSON (an array, or an object with "tools" and
 * "tool_choice"), a byte 0, and the text. It checks that
 * the format that is learned from the template is usable, that what is found in the text does
 * not depend on how it was divided, that no byte of a text without calls is lost, and that a
 * grammar of the tools lets a call through in the format that it was made of. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/chat/call_text.h"
#include "cmd/rnp-serve/chat/tool_grammar.h"
#include "common/base/err.h"
#include "common/json/json.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static struct lm_token *bytes(void)
{
	static struct lm_token *t;
	static const char json[] =
		"{\"added_tokens\":[{\"id\":2,\"content\":\"<|a|>\",\"special\":true}],\"model\":"
		"{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"<|a|>\":2},\"merges\":[]}}";
	static const char config[] = "{\"bos_token\":\"<|a|>\"}";

	if (!t &&
		lm_token_read_json(&t, json, sizeof json - 1, config, sizeof config - 1,
			"bytes") < 0)
		abort();
	return t;
}

/* What was found in a text: names and arguments, and then the content. */
static void find(const struct call_format *f, const struct tools *tools, const char *text,
	size_t len, size_t step, struct buf *out)
{
	struct buf content = BUF_INIT;
	struct calls c;

	calls_init(&c, f, tools);
	for (size_t i = 0; i < len; i += step)
		calls_push(&c, text + i, len - i < step ? len - i : step, &content);
	calls_end(&c, &content);
	must(c.count <= f->most);
	must(c.count || content.len == len);
	for (uint32_t i = 0; i < c.count; i++) {
		must(tools_have(tools, buf_text(&c.at[i].name), c.at[i].name.len));
		must(*c.at[i].id != '\0');
		buf_addf(out, "%s(%s)", buf_text(&c.at[i].name),
			buf_text(&c.at[i].arguments));
	}
	buf_add(out, content.data, content.len);
	calls_release(&c);
	buf_release(&content);
}

static void check_text(const struct call_format *f, const struct tools *tools,
	const char *text, size_t len)
{
	struct buf whole = BUF_INIT;

	find(f, tools, text, len, len ? len : 1, &whole);
	for (size_t step = 1; step < 5; step++) {
		struct buf some = BUF_INIT;

		find(f, tools, text, len, step, &some);
		must(some.len == whole.len &&
			(!some.len || memcmp(some.data, whole.data, some.len) == 0));
		buf_release(&some);
	}
	buf_release(&whole);
}

/* The beginning of a call, up to its arguments, is a text of the grammar. */
static void check_grammar(const struct call_format *f, const struct tools *tools,
	bool behind)
{
	const struct tool *bad = NULL;
	struct lm_grammar *g = NULL;
	struct lm_matcher *m;
	struct buf text = BUF_INIT, left = BUF_INIT;

	if (tool_grammar(&g, f, tools, behind, NULL, &left, &bad) < 0) {
		must(err_get()->code == EX_DATAERR);
		err_clear();
		return;
	}
	buf_release(&left);
	m = lm_matcher_new(g, NULL);
	buf_addf(&text, "%s%s%s", f->open[0] + (behind ? strlen(f->mark) : 0),
		tools->at[0].name, f->middle[0]);
	for (size_t i = 0; i < text.len; i++)
		if (text.data[i] == CALL_OWN_ID || text.data[i] == CALL_OTHER_ID) {
			text.len = 0; /* a place of an id */
			break;
		}
	if (!f->token_count)
		must(lm_matcher_push(m, buf_text(&text), text.len) == text.len);
	lm_matcher_free(m);
	lm_grammar_free(g);
	buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const char *template = (const char *)data, *tools_text, *text;
	struct tools_error e;
	struct tools tools = { 0 };
	struct call_format f;
	struct lm_chat *chat = NULL;
	json_t *given, *list;

	if (size > 20000 || !memchr(template, 0, size))
		return 0;
	tools_text = template + strlen(template) + 1;
	if (!memchr(tools_text, 0, size - (size_t)(tools_text - template)))
		return 0;
	text = tools_text + strlen(tools_text) + 1;
	given = json_parse(tools_text, strlen(tools_text), 64, "tools");
	list = json_is_object(given) ? json_object_get(given, "tools") : given;
	if (list && !json_is_array(list))
		list = NULL;
	if (list &&
		tools_read(&tools, list, json_object_get(given, "tool_choice"), true,
			&e) == 0 &&
		tools.count &&
		lm_chat_open(&chat, bytes(), template, strlen(template), "template") ==
			0) {
		call_format_learn(&f, chat, bytes());
		must(*f.mark && *f.open[0] && *f.middle[0] && f.close && f.most >= 1 &&
			f.most <= CALLS_MAX);
		must(strncmp(f.open[0], f.mark, strlen(f.mark)) == 0);
		check_text(&f, &tools, text, size - (size_t)(text - template));
		check_grammar(&f, &tools, false);
		check_grammar(&f, &tools, true);
		call_format_release(&f);
	}
	lm_chat_close(chat);
	tools_release(&tools);
	json_decref(given);
	err_clear();
	return 0;
}
