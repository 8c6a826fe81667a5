/* text_logprobs.c - collects the logprobs of a text's tokens, and writes them in the forms of the
 * API. */
#include "cmd/rnp-serve/chat/text_logprobs.h"

#include <stddef.h>
#include <string.h>

#include "common/base/utf8.h"
#include "common/json/canon.h"
#include "common/json/json.h"

struct one {
	uint32_t id;
	bool predicted; /* p is set */
	size_t offset;
	struct lm_logprobs p;
};

/* Entries are kept without the places for alternatives that they do not have: there may be a
 * million. */
#define HEAD_BYTES offsetof(struct one, p.top)

static void keep(struct buf *all, const struct one *o)
{
	buf_add(all, o, HEAD_BYTES);
	buf_add(all, o->p.top, o->p.n * sizeof *o->p.top);
	buf_add(all, o->p.top_logprob, o->p.n * sizeof *o->p.top_logprob);
}

/* Returns how many bytes the entry takes. */
static size_t recall(struct one *o, const char *at)
{
	size_t ids, values;

	memcpy(o, at, HEAD_BYTES);
	ids = o->p.n * sizeof *o->p.top;
	values = o->p.n * sizeof *o->p.top_logprob;
	memcpy(o->p.top, at + HEAD_BYTES, ids);
	memcpy(o->p.top_logprob, at + HEAD_BYTES + ids, values);
	return HEAD_BYTES + ids + values;
}

void text_logprobs_init(struct text_logprobs *l, const struct lm_token *t, bool started)
{
	*l = (struct text_logprobs){ .token = t };
	lm_detoken_init(&l->detoken, t);
	l->detoken.started = started;
}

void text_logprobs_release(struct text_logprobs *l)
{
	buf_release(&l->all);
}

void text_logprobs_add(struct text_logprobs *l, uint32_t id, const struct lm_logprobs *p)
{
	struct one one = { .id = id, .predicted = p, .offset = l->chars };
	struct buf text = BUF_INIT;

	if (p)
		one.p = *p;
	keep(&l->all, &one);
	if (id < lm_token_count(l->token))
		lm_detoken_push(&l->detoken, &text, id);
	l->chars += utf8_count(buf_text(&text), text.len);
	buf_release(&text);
}

void text_logprobs_part(struct text_logprobs *l, bool started)
{
	struct buf text = BUF_INIT;

	lm_detoken_end(&l->detoken, &text);
	l->chars += utf8_count(buf_text(&text), text.len);
	l->detoken.started = started;
	buf_release(&text);
}

bool text_logprobs_any(const struct text_logprobs *l)
{
	return l->all.len > 0;
}

void text_logprobs_clear(struct text_logprobs *l)
{
	buf_reset(&l->all);
}

/* --- writing --------------------------------------------------------------------------------- */

static void add_name(struct buf *out, const struct lm_token *t, uint32_t id)
{
	struct buf text = BUF_INIT, name = BUF_INIT;

	if (id < lm_token_count(t))
		lm_token_piece(t, &text, id, false, true);
	/* few parsers of JSON accept NUL */
	if (utf8_valid(buf_text(&text), text.len) &&
		!memchr(buf_text(&text), 0, text.len)) {
		canon_string(out, buf_text(&text), text.len);
	} else {
		buf_adds(&name, "bytes:");
		for (size_t i = 0; i < text.len; i++)
			buf_addf(&name, "\\x%02x", (unsigned char)text.data[i]);
		canon_string(out, name.data, name.len);
	}
	buf_release(&text);
	buf_release(&name);
}

static void add_value(struct buf *out, float logprob)
{
	canon_number(out, logprob > -9999 ? (double)logprob : -9999.0);
}

/* Whether the last of n names is one of the others: a byte and a letter may look alike. */
static bool is_repeated(const struct buf *names, const size_t *from, uint32_t n)
{
	size_t len = names->len - from[n - 1];

	for (uint32_t i = 0; i + 1 < n; i++)
		if (from[i + 1] - from[i] == len &&
			memcmp(names->data + from[i], names->data + from[n - 1], len) ==
				0)
			return true;
	return false;
}

/* Of tokens of the same name the most likely one stands for it. */
static void add_top(struct buf *out, const struct lm_token *t, const struct one *o)
{
	size_t from[LM_TOP_LOGPROBS_MAX];
	struct buf names = BUF_INIT;

	if (!o->predicted) {
		buf_adds(out, "null");
		return;
	}
	buf_addc(out, '{');
	for (uint32_t i = 0; i < o->p.n; i++) {
		from[i] = names.len;
		add_name(&names, t, o->p.top[i]);
		if (is_repeated(&names, from, i + 1))
			continue;
		if (i)
			buf_addc(out, ',');
		buf_add(out, names.data + from[i], names.len - from[i]);
		buf_addc(out, ':');
		add_value(out, o->p.top_logprob[i]);
	}
	buf_addc(out, '}');
	buf_release(&names);
}

enum column { TOKENS, VALUES, TOPS, OFFSETS };

static void add_entry(struct buf *out, const struct lm_token *t, const struct one *o,
	size_t base, enum column column)
{
	if (column == TOKENS)
		add_name(out, t, o->id);
	else if (column == TOPS)
		add_top(out, t, o);
	else if (column == OFFSETS)
		buf_addf(out, "%zu", o->offset + base);
	else if (o->predicted)
		add_value(out, o->p.token);
	else
		buf_adds(out, "null");
}

static void add_column(struct buf *out, const struct text_logprobs *const parts[2],
	enum column column)
{
	size_t base = 0;
	bool more = false;

	buf_addc(out, '[');
	for (int k = 0; k < 2; k++) {
		for (size_t at = 0; parts[k] && at < parts[k]->all.len;) {
			struct one o;

			at += recall(&o, parts[k]->all.data + at);
			if (more)
				buf_addc(out, ',');
			more = true;
			add_entry(out, parts[k]->token, &o, base, column);
		}
		base = parts[k] ? parts[k]->chars : 0;
	}
	buf_addc(out, ']');
}

void text_logprobs_write(struct buf *out, const struct text_logprobs *first,
	const struct text_logprobs *l)
{
	static const char *const names[] = { "tokens", "token_logprobs", "top_logprobs",
		"text_offset" };
	const struct text_logprobs *const parts[2] = { first, l };

	for (int i = 0; i < 4; i++) {
		buf_addf(out, "%c\"%s\":", i ? ',' : '{', names[i]);
		add_column(out, parts, (enum column)i);
	}
	buf_addc(out, '}');
}

/* --- the form of chats ----------------------------------------------------------------------- */

/* Begins the object of a token: its text, its logprob and its bytes. */
static void begin_object(struct buf *out, const struct lm_token *t, uint32_t id,
	float logprob)
{
	struct buf text = BUF_INIT;

	if (id < lm_token_count(t))
		lm_token_piece(t, &text, id, false, true);
	buf_adds(out, "{\"token\":");
	json_write_text(out, buf_text(&text));
	buf_adds(out, ",\"logprob\":");
	add_value(out, logprob);
	buf_adds(out, ",\"bytes\":[");
	for (size_t i = 0; i < text.len; i++)
		buf_addf(out, "%s%u", i ? "," : "", (unsigned char)text.data[i]);
	buf_addc(out, ']');
	buf_release(&text);
}

void text_logprobs_write_list(struct buf *out, const struct text_logprobs *l)
{
	buf_addc(out, '[');
	for (size_t at = 0; at < l->all.len;) {
		struct one o;

		if (at)
			buf_addc(out, ',');
		at += recall(&o, l->all.data + at);
		begin_object(out, l->token, o.id, o.p.token);
		buf_adds(out, ",\"top_logprobs\":[");
		for (uint32_t i = 0; i < o.p.n; i++) {
			if (i)
				buf_addc(out, ',');
			begin_object(out, l->token, o.p.top[i], o.p.top_logprob[i]);
			buf_addc(out, '}');
		}
		buf_adds(out, "]}");
	}
	buf_addc(out, ']');
}
