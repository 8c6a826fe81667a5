/* call_format.c - renders conversations with calls of invented names, and takes the result
 * apart. */
#include "cmd/rnp-serve/model/call_format.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-serve/request/tools.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

/* What a probe contains; nothing like it is in any template. */
#define PROBE_TOOL "zqtool"
#define PROBE_TEXT "zqtext"
#define PROBE_KEY  "zqkey"

/* Call i has the name zqcalla, zqcallb ..., and the id zqident00, zqident01 .... */
static void probe_name(char out[16], uint32_t i)
{
	snprintf(out, 16, "zqcall%c", (char)('a' + i));
}

static void probe_id(char out[16], uint32_t i)
{
	snprintf(out, 16, "zqident%02u", i % 100);
}

static json_t *probe_calls(uint32_t calls, bool parsed)
{
	json_t *all = json_array();
	char name[16], id[16];

	for (uint32_t i = 0; i < calls; i++) {
		json_t *arguments = parsed ?
			json_pack("{s:s}", PROBE_KEY, PROBE_TEXT) :
			json_string("{\"" PROBE_KEY "\": \"" PROBE_TEXT "\"}");

		probe_name(name, i);
		probe_id(id, i);
		json_push(all,
			json_pack("{s:s,s:s,s:{s:s,s:o}}", "id", id, "type", "function",
				"function", "name", name, "arguments", arguments));
	}
	return all;
}

/* Appends what a template makes of a user's message and an answer: text, or calls (parsed: with
 * arguments as objects); or of the message alone, as a prompt. */
static int render(const struct lm_chat *chat, const char *answer, uint32_t calls,
	bool parsed, struct buf *out)
{
	json_t *messages = json_array(), *m, *v;
	int rc;

	json_push(messages,
		json_pack("{s:s,s:s}", "role", "user", "content", PROBE_TEXT));
	if (answer) {
		m = json_pack("{s:s,s:s}", "role", "assistant", "content", answer);
		if (calls)
			json_set(m, "tool_calls", probe_calls(calls, parsed));
		json_push(messages, m);
	}
	v = json_pack("{s:o,s:b,s:[{s:s,s:{s:s,s:s,s:{s:s,s:{}}}}]}", "messages",
		messages, "add_generation_prompt", !answer, "tools", "type", "function",
		"function", "name", PROBE_TOOL, "description", PROBE_TEXT, "parameters",
		"type", "object", "properties");
	buf_reset(out);
	rc = lm_chat_apply(chat, v, 0, out, NULL);
	err_clear();
	json_decref(v);
	return rc;
}

/* --- taking texts apart ------------------------------------------------------------------- */

/* Returns a part of a text with the ids of calls i - 1 and i replaced by their places. */
static char *part(const char *from, const char *to, uint32_t i)
{
	struct buf out = BUF_INIT;
	char own[16], other[16] = "";

	probe_id(own, i);
	if (i)
		probe_id(other, i - 1);
	while (from < to) {
		size_t left = (size_t)(to - from);

		if (left >= CALL_ID_BYTES && memcmp(from, own, CALL_ID_BYTES) == 0) {
			buf_addc(&out, CALL_OWN_ID);
			from += CALL_ID_BYTES;
		} else if (*other && left >= CALL_ID_BYTES &&
			memcmp(from, other, CALL_ID_BYTES) == 0) {
			buf_addc(&out, CALL_OTHER_ID);
			from += CALL_ID_BYTES;
		} else {
			buf_addc(&out, *from++);
		}
	}
	return out.len ? buf_take(&out) : xstrdup("");
}

/* Finds the arguments of a call after its name: {"zqkey": "zqtext"} with any blanks. */
static bool find_arguments(const char *text, const char **begin, const char **end)
{
	const char *key = strstr(text, "\"" PROBE_KEY "\""), *at = key;

	while (at && at > text &&
		(at[-1] == ' ' || at[-1] == '\n' || at[-1] == '\t' || at[-1] == '\r'))
		at--;
	if (!at || at == text || at[-1] != '{')
		return false;
	*begin = at - 1;
	*end = strchr(key, '}');
	if (!*end)
		return false;
	++*end;
	json_t *v = json_parse_object(*begin, (size_t)(*end - *begin), "arguments");
	bool good = v && json_object_get(v, PROBE_KEY);

	json_decref(v);
	err_clear();
	return good;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\t' || c == '\r';
}

/* Returns where an answer begins in a rendered conversation: after what it shares with the
 * prompt, but not within a mark that both merely begin alike; after empty reasoning. */
static const char *answer_begin(const char *text, const char *prompt, const char *name)
{
	static const char think_end[] = "</think>";
	size_t n = 0;
	const char *at;

	while (prompt[n] && text[n] == prompt[n])
		n++;
	if (prompt[n])
		while (n && text[n - 1] != '\n' && text[n - 1] != '>' &&
			text[n - 1] != ']')
			n--;
	at = text + n;
	if (at > name)
		return NULL;
	for (const char *think = at; (think = strstr(think, think_end)) && think < name;)
		at = think += sizeof think_end - 1;
	while (at < name && is_blank(*at))
		at++;
	return at;
}

/* Shortens what stands after the last call to what belongs to the call: without what ends
 * every answer, or a token that does. */
static void cut_end(char *close, const char *tail, const struct lm_token *t)
{
	size_t len = strlen(close), end = strlen(tail), same = 0;
	char *first = NULL;

	while (end && is_blank(tail[end - 1]))
		end--;
	while (len && is_blank(close[len - 1]))
		len--;
	close[len] = '\0';
	while (same < end && same < len && close[len - 1 - same] == tail[end - 1 - same])
		same++;
	if (same < end) /* a whole tag */
		while (same && close[len - same] != '<' && close[len - same] != '[')
			same--;
	if (same) {
		close[len - same] = '\0';
	} else {
		for (uint32_t id = 0; id < lm_token_count(t); id++) {
			size_t bytes;
			const char *name = lm_token_text(t, id, &bytes);
			char *at = lm_token_ends(t, id) && bytes ?
				memmem(close, strlen(close), name, bytes) :
				NULL;

			if (at && (!first || at < first))
				first = at;
		}
		if (first)
			*first = '\0';
	}
	for (len = strlen(close); len && is_blank(close[len - 1]);)
		close[--len] = '\0';
}

/* Takes a conversation with `calls` calls apart into f. Returns whether all is there. */
static bool take_apart(struct call_format *f, const char *text, const char *prompt,
	uint32_t calls)
{
	const char *at = text, *from = NULL, *begin, *end;
	char name[16];

	for (uint32_t i = 0; i < calls; i++) {
		const char *found;

		probe_name(name, i);
		found = strstr(at, name);
		if (!found)
			return false;
		if (i == 0)
			from = answer_begin(text, prompt, found);
		if (!from || !find_arguments(found, &begin, &end))
			return false;
		f->open[i] = part(from, found, i);
		f->middle[i] = part(found + strlen(name), begin, i);
		if (!*f->middle[i] || tools_name_byte(*f->middle[i]))
			return false;
		from = at = end;
	}
	f->close = part(at, at + strlen(at), calls);
	f->most = calls;
	return *f->open[0] != '\0';
}

/* --- marks -------------------------------------------------------------------------------- */

/* The mark is the first tag, bracketed word or special token; where a call begins as plain
 * JSON it is all up to the name. */
static void set_mark(struct call_format *f)
{
	const char *open = f->open[0], *end = NULL;

	if (*open == '<')
		end = strchr(open, '>');
	else if (*open == '[' && open[1] >= 'A' && open[1] <= 'Z')
		end = strchr(open, ']');
	f->at_start = *open == '{' || (*open == '[' && !end);
	f->mark = end ? xstrndup(open, (size_t)(end + 1 - open)) : xstrdup(open);
}

static bool contains(const struct call_format *f, const char *text)
{
	if (strstr(f->close, text))
		return true;
	for (uint32_t i = 0; i < f->most; i++)
		if (strstr(f->open[i], text) || strstr(f->middle[i], text))
			return true;
	return false;
}

/* Finds the tokens of the format whose text a decoder drops. */
static void find_tokens(struct call_format *f, const struct lm_token *t)
{
	struct buf name = BUF_INIT;
	size_t cap = 0;

	for (uint32_t id = 0; id < lm_token_count(t); id++) {
		if (lm_token_type(t, id) != LM_TOKEN_CONTROL)
			continue;
		buf_reset(&name);
		if (lm_token_piece(t, &name, id, false, true) < 0 || name.len < 2 ||
			!contains(f, buf_text(&name)))
			continue;
		f->tokens = xgrow(f->tokens, &cap, f->token_count + 1, sizeof *f->tokens);
		f->tokens[f->token_count++] = (struct call_token){ id,
			xstrdup(buf_text(&name)) };
	}
	err_clear();
	buf_release(&name);
}

/* --- learning ----------------------------------------------------------------------------- */

static void reset(struct call_format *f)
{
	bool knows_calls = f->knows_calls;

	for (uint32_t i = 0; i < CALLS_MAX; i++) {
		free(f->open[i]);
		free(f->middle[i]);
	}
	free(f->close);
	*f = (struct call_format){ .knows_calls = knows_calls };
}

static bool learn(struct call_format *f, const struct lm_chat *chat,
	const struct lm_token *t, uint32_t calls, bool parsed)
{
	struct buf prompt = BUF_INIT, text = BUF_INIT;
	const char *plain;
	char name[16];
	bool good = render(chat, NULL, 0, false, &prompt) == 0 &&
		render(chat, "", calls, parsed, &text) == 0;

	probe_name(name, 0);
	f->knows_calls |= good && strstr(buf_text(&text), name);
	good = good && take_apart(f, buf_text(&text), buf_text(&prompt), calls);
	if (good) {
		f->shows_calls = true;
		f->shows_tools = strstr(buf_text(&prompt), PROBE_TOOL) != NULL;
		/* the answer comes last, after the user's text and a tool's description */
		plain = render(chat, "zqanswer", 0, false, &text) == 0 ?
			strstr(buf_text(&text), "zqanswer") :
			NULL;
		cut_end(f->close, plain ? plain + strlen("zqanswer") : "", t);
	} else {
		reset(f);
	}
	buf_release(&prompt);
	buf_release(&text);
	return good;
}

/* The format that models are told about whose template shows no calls: that of most. */
static void use_own(struct call_format *f)
{
	f->most = CALLS_MAX;
	for (uint32_t i = 0; i < CALLS_MAX; i++) {
		f->open[i] = xstrdup(i ? "}\n</tool_call>\n<tool_call>\n{\"name\": \"" :
					 "<tool_call>\n{\"name\": \"");
		f->middle[i] = xstrdup("\", \"arguments\": ");
	}
	f->close = xstrdup("}\n</tool_call>");
}

void call_format_learn(struct call_format *f, const struct lm_chat *chat,
	const struct lm_token *t)
{
	*f = (struct call_format){ 0 };
	/* several calls where the template knows them, arguments as objects or as text */
	if (!learn(f, chat, t, CALLS_MAX, true) && !learn(f, chat, t, 1, true) &&
		!learn(f, chat, t, CALLS_MAX, false) && !learn(f, chat, t, 1, false))
		use_own(f);
	set_mark(f);
	find_tokens(f, t);
}

void call_format_release(struct call_format *f)
{
	for (uint32_t i = 0; i < f->token_count; i++)
		free(f->tokens[i].text);
	free(f->tokens);
	free(f->mark);
	reset(f);
}

const struct call_token *call_format_token(const struct call_format *f, const char *text)
{
	const struct call_token *best = NULL;

	for (uint32_t i = 0; i < f->token_count; i++) {
		const struct call_token *one = &f->tokens[i];

		if (strncmp(text, one->text, strlen(one->text)) == 0 &&
			(!best || strlen(one->text) > strlen(best->text)))
			best = one;
	}
	return best;
}

const struct call_token *call_format_special(const struct call_format *f, uint32_t id)
{
	for (uint32_t i = 0; i < f->token_count; i++)
		if (f->tokens[i].id == id)
			return &f->tokens[i];
	return NULL;
}
