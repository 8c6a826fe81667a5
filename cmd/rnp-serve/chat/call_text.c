/* call_text.c - a scanner for a format's mark, and one for the calls after it. */
#include "cmd/rnp-serve/chat/call_text.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"

/* --- the mark ----------------------------------------------------------------------------- */

void call_watch_init(struct call_watch *w, const struct call_format *f)
{
	*w = (struct call_watch){ .format = f };
}

void call_watch_release(struct call_watch *w)
{
	buf_release(&w->held);
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\n' || c == '\r' || c == '\t';
}

/* Compares a text with a mark, blanks aside. Returns how many bytes of the text the whole mark
 * takes, 0 if the text may become one, or -1. */
static long match_loosely(const char *text, size_t len, const char *mark)
{
	size_t i = 0;

	for (;;) {
		while (is_blank(*mark))
			mark++;
		if (!*mark)
			return (long)i;
		while (i < len && is_blank(text[i]))
			i++;
		if (i == len)
			return 0;
		if (text[i++] != *mark++)
			return -1;
	}
}

/* Gives the first n held bytes away as content. */
static void give(struct call_watch *w, size_t n, struct buf *content)
{
	if (!n)
		return;
	buf_add(content, w->held.data, n);
	for (size_t i = 0; i < n; i++)
		w->started |= !is_blank(w->held.data[i]);
	w->held.len -= n;
	memmove(w->held.data, w->held.data + n, w->held.len + 1);
}

/* Returns where the longest end of the held text begins that may become the mark. */
static size_t mark_may_begin(const struct call_watch *w)
{
	size_t n = strlen(w->format->mark) - 1;

	if (n > w->held.len)
		n = w->held.len;
	while (n && memcmp(w->held.data + w->held.len - n, w->format->mark, n) != 0)
		n--;
	return w->held.len - n;
}

static bool only_blanks(const struct call_watch *w)
{
	for (size_t i = 0; i < w->held.len; i++)
		if (!is_blank(w->held.data[i]))
			return false;
	return true;
}

static size_t leading_blanks(const struct buf *b)
{
	size_t n = 0;

	while (n < b->len && is_blank(b->data[n]))
		n++;
	return n;
}

/* The mark begins at this byte of the held text. Blanks in front of the first call belong to the
 * mark: they are nobody's if it is a call. */
static bool found_at(struct call_watch *w, size_t at, struct buf *content)
{
	if (w->started || leading_blanks(&w->held) < at)
		give(w, at, content);
	else
		w->blanks = at;
	w->begun = true;
	return true;
}

bool call_watch_push(struct call_watch *w, const char *text, size_t len,
	struct buf *content)
{
	const char *mark = w->format->mark, *at;
	long n;

	buf_add(&w->held, text, len);
	if (!w->started && only_blanks(w))
		return false;
	if (w->format->at_start) {
		n = w->started ? -1 : match_loosely(w->held.data, w->held.len, mark);
		if (n > 0)
			return found_at(w, leading_blanks(&w->held), content);
		if (n < 0)
			give(w, w->held.len, content);
		return false;
	}
	at = w->held.len ? memmem(w->held.data, w->held.len, mark, strlen(mark)) : NULL;
	if (at)
		return found_at(w, (size_t)(at - w->held.data), content);
	if (!w->started && mark_may_begin(w) <= leading_blanks(&w->held))
		return false;
	give(w, mark_may_begin(w), content);
	return false;
}

size_t call_watch_mark(const struct call_watch *w)
{
	if (!w->format->at_start)
		return w->blanks + strlen(w->format->mark);
	return (size_t)match_loosely(w->held.data, w->held.len, w->format->mark);
}

/* Ends the text: what was held back is content. */
static void call_watch_end(struct call_watch *w, struct buf *content)
{
	give(w, w->held.len, content);
}

/* --- calls -------------------------------------------------------------------------------- */

void calls_init(struct calls *c, const struct call_format *f, const struct tools *tools)
{
	*c = (struct calls){ .tools = tools };
	call_watch_init(&c->watch, f);
}

void calls_release(struct calls *c)
{
	call_watch_release(&c->watch);
	for (uint32_t i = 0; i < c->count; i++) {
		buf_release(&c->at[i].name);
		buf_release(&c->at[i].arguments);
	}
	free(c->at);
	buf_release(&c->raw);
	buf_release(&c->name);
	*c = (struct calls){ 0 };
}

static void enter(struct calls *c, int state)
{
	c->state = state;
	c->done = 0;
	c->id_bytes = 0;
}

/* The text is no call after all: it is content, unless one was certain before. */
static void give_up(struct calls *c, struct buf *content)
{
	if (c->count) {
		enter(c, CALLS_OVER);
		return;
	}
	buf_add(content, c->raw.data, c->raw.len);
	buf_reset(&c->raw);
	enter(c, CALLS_PLAIN);
}

/* A new id, in the form that clients of OpenAI's API know. */
static void make_id(char out[40])
{
	unsigned char random[12];

	randombytes_buf(random, sizeof random);
	snprintf(out, 40, "call_");
	sodium_bin2hex(out + 5, 2 * sizeof random + 1, random, sizeof random);
}

static void add_call(struct calls *c)
{
	struct call *call;

	c->at = xrealloc(c->at, ((size_t)c->count + 1) * sizeof *c->at);
	call = &c->at[c->count++];
	*call = (struct call){ .name = c->name };
	if (*c->id)
		memcpy(call->id, c->id, sizeof call->id);
	else
		make_id(call->id);
	c->name = (struct buf)BUF_INIT;
	buf_reset(&c->raw);
}

static bool is_id_byte(char c)
{
	return tools_name_byte(c) && c != '_' && c != '-';
}

/* Reads a byte of a part of the format. Returns 1 when the part is complete, 0 before that, or
 * -1 if it differs. */
static int read_part(struct calls *c, const char *part, char byte)
{
	char want = part[c->done];

	if (want == CALL_OWN_ID || want == CALL_OTHER_ID) {
		if (!is_id_byte(byte))
			return -1;
		if (want == CALL_OWN_ID) {
			c->id[c->id_bytes] = byte;
			c->id[c->id_bytes + 1] = '\0';
		}
		if (++c->id_bytes < CALL_ID_BYTES)
			return 0;
		c->id_bytes = 0;
	} else if (want != byte) {
		return -1;
	}
	return part[++c->done] ? 0 : 1;
}

/* Reads a byte of a call's arguments, an object. */
static void read_argument(struct calls *c, char byte)
{
	struct call *call = &c->at[c->count - 1];

	buf_addc(&call->arguments, byte);
	if (c->quoted) {
		if (c->escaped)
			c->escaped = false;
		else if (byte == '\\')
			c->escaped = true;
		else if (byte == '"')
			c->quoted = false;
	} else if (byte == '"') {
		c->quoted = true;
	} else if (byte == '{' || byte == '[') {
		c->depth++;
	} else if ((byte == '}' || byte == ']') && --c->depth <= 0) {
		call->complete = true;
		c->depth = 0;
		c->number++;
		*c->id = '\0';
		enter(c, c->number < c->watch.format->most ? CALLS_BEHIND : CALLS_OVER);
	}
}

/* Reads a byte of a name, or the one after it. */
static void read_name(struct calls *c, char byte, struct buf *content);

static void read_byte(struct calls *c, char byte, struct buf *content)
{
	const struct call_format *f = c->watch.format;
	int rc;

	switch (c->state) {
	case CALLS_OPEN:
	case CALLS_BEHIND:
		rc = read_part(c, f->open[c->number], byte);
		if (rc < 0 && c->state == CALLS_BEHIND)
			enter(c, CALLS_OVER); /* it was the last one */
		else if (rc < 0)
			give_up(c, content);
		else if (rc > 0)
			enter(c, CALLS_NAME);
		break;
	case CALLS_NAME:
		read_name(c, byte, content);
		break;
	case CALLS_MIDDLE:
		rc = read_part(c, f->middle[c->number], byte);
		if (rc < 0) {
			give_up(c, content);
		} else if (rc > 0) {
			add_call(c);
			enter(c, CALLS_ARGUMENTS);
		}
		break;
	case CALLS_ARGUMENTS:
		read_argument(c, byte);
		break;
	default:
		break;
	}
}

static void read_name(struct calls *c, char byte, struct buf *content)
{
	if (tools_name_byte(byte) && c->name.len < TOOLS_NAME_BYTES) {
		buf_addc(&c->name, byte);
		return;
	}
	if (!tools_have(c->tools, buf_text(&c->name), c->name.len)) {
		give_up(c, content);
		return;
	}
	enter(c, CALLS_MIDDLE);
	read_byte(c, byte, content);
}

void calls_push(struct calls *c, const char *text, size_t len, struct buf *content)
{
	const struct buf *held = &c->watch.held;
	size_t from = 0, skip;

	if (c->state == CALLS_WATCH) {
		if (!call_watch_push(&c->watch, text, len, content))
			return;
		/* the mark may differ from the format's in blanks */
		skip = call_watch_mark(&c->watch);
		buf_add(&c->raw, held->data, skip);
		enter(c, CALLS_OPEN);
		c->done = strlen(c->watch.format->mark);
		if (!c->watch.format->open[0][c->done])
			enter(c, CALLS_NAME);
		text = held->data;
		len = held->len;
		from = skip;
	}
	for (; from < len && c->state != CALLS_PLAIN; from++) {
		if (!c->count)
			buf_addc(&c->raw, text[from]);
		read_byte(c, text[from], content);
	}
	if (c->state == CALLS_PLAIN)
		buf_add(content, text + from, len - from);
}

void calls_end(struct calls *c, struct buf *content)
{
	if (c->state == CALLS_WATCH)
		call_watch_end(&c->watch, content);
	else if (!c->count && c->state != CALLS_PLAIN)
		give_up(c, content);
}
