/* json_items.c - cuts a JSON document that arrives in pieces into the items of one list: see
 * json_items.h. */
#include "cmd/rnp-price/text/json_items.h"

#include <stdio.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/text.h"

#define DEPTH_MAX JSON_DEPTH_MAX

/* What comes next, white space aside. */
enum state {
	START,       /* the document's brace */
	FIRST_KEY,   /* a key, or the end of the object */
	NEXT_KEY,    /* a key, after a comma */
	IN_KEY,      /* the rest of a key */
	COLON,       /* after a key */
	VALUE,       /* of a key */
	FIRST_ITEM,  /* an item, or the end of the list */
	NEXT_ITEM,   /* an item, after a comma */
	IN_VALUE,    /* the rest of a value */
	AFTER_VALUE, /* a comma, or the end of what the value is in */
	DONE,        /* nothing */
};

void json_items_init(struct json_items *s, const char *where, const char *list,
	const char *inside, json_items_fn fn, void *ctx)
{
	memset(s, 0, sizeof *s);
	s->where = where;
	s->list = list;
	s->inside = inside;
	s->fn = fn;
	s->ctx = ctx;
	s->state = START;
}

void json_items_release(struct json_items *s)
{
	buf_release(&s->value);
}

static int broken(const struct json_items *s)
{
	return err_set(EX_DATAERR, "%s: not an object or a list in JSON", s->where);
}

/* --- keys --------------------------------------------------------------------------------- */

static int take_key(struct json_items *s)
{
	json_t *key = json_parse(s->value.data, s->value.len, 1, s->where);
	size_t len = json_string_length(key);

	/* a longer name is none that anybody asks for */
	snprintf(s->key, sizeof s->key, "%s",
		len < sizeof s->key ? json_string_value(key) : "");
	json_decref(key);
	snprintf(s->path, sizeof s->path, "%s%s%s", s->level == 2 ? s->inside : "",
		s->level == 2 ? "." : "", s->key);
	s->state = COLON;
	return key ? 0 : -1;
}

/* Returns how many bytes belong to the key, with its quotes. */
static size_t scan_key(struct json_items *s, const char *p, size_t len, bool *ended)
{
	*ended = false;
	for (size_t i = 0; i < len; i++) {
		if (s->escaped)
			s->escaped = false;
		else if (p[i] == '\\')
			s->escaped = true;
		else if (p[i] == '"') {
			*ended = true;
			return i + 1;
		}
	}
	return len;
}

/* --- values ------------------------------------------------------------------------------- */

static int pass_on(struct json_items *s)
{
	struct json_items_value v = { .path = s->path,
		.item = s->is_list,
		.index = s->in_array ? s->index++ : -1,
		.text = s->value.data,
		.len = s->value.len };

	s->state = AFTER_VALUE;
	return s->fn(s->ctx, &v);
}

/* bytes that count outside strings */
static const bool bracket
	[256] = { ['"'] = true, ['{'] = true, ['}'] = true, ['['] = true, [']'] = true };

/* Returns how many of the bytes belong to the value in progress. */
static size_t scan_value(struct json_items *s, const char *p, size_t len, bool *ended)
{
	size_t i = 0;

	*ended = true;
	if (s->depth < 0) {
		while (i < len && !json_text_is_space(p[i]) && !memchr(",]}", p[i], 3))
			i++;
		*ended = i < len;
		return i;
	}
	for (; i < len; i++) {
		while (!s->in_string && i < len && !bracket[(unsigned char)p[i]])
			i++;
		if (i == len)
			break;
		if (s->in_string) {
			if (s->escaped) {
				s->escaped = false;
				continue;
			}
			while (i < len && p[i] != '"' && p[i] != '\\')
				i++;
			if (i == len)
				break;
			if (p[i] == '\\')
				s->escaped = true;
			else
				s->in_string = false;
		} else if (p[i] == '"') {
			s->in_string = true;
		} else if (p[i] == '{' || p[i] == '[') {
			s->depth++;
		} else if (p[i] == '}' || p[i] == ']') {
			s->depth--;
		}
		if (!s->depth && !s->in_string)
			return i + 1;
	}
	*ended = false;
	return len;
}

static int begin_value(struct json_items *s, char c)
{
	buf_reset(&s->value);
	s->in_string = s->escaped = false;
	s->depth = c == '{' || c == '[' || c == '"' ? 0 : -1;
	s->state = IN_VALUE;
	return 0;
}

/* Whether a key is one of "items|offers". */
static bool is_list(const struct json_items *s)
{
	size_t n = strlen(s->key);

	for (const char *at = s->list; n && *at;) {
		size_t len = strcspn(at, "|");

		if (len == n && memcmp(at, s->key, n) == 0)
			return true;
		at += len + (at[len] == '|');
	}
	return false;
}

/* A value of a key: the list and the object around it are entered. */
static int enter_value(struct json_items *s, char c, bool *used)
{
	s->is_list = is_list(s);
	if (s->is_list && s->lists++)
		return err_set(EX_DATAERR, "%s: '%s' is there twice", s->where, s->key);
	s->in_array = s->is_list && c == '[';
	s->index = 0;
	*used = true;
	if (s->in_array) {
		s->state = FIRST_ITEM;
		return 0;
	}
	if (s->level == 1 && c == '{' && s->inside && strcmp(s->key, s->inside) == 0) {
		s->level = 2;
		s->state = FIRST_KEY;
		return 0;
	}
	*used = false;
	return begin_value(s, c);
}

static int after_value(struct json_items *s, char c)
{
	if (c == ',') {
		s->state = s->in_array ? NEXT_ITEM : NEXT_KEY;
		return 0;
	}
	if (c == ']' && s->in_array) {
		s->in_array = s->is_list = false;
		if (!s->level)
			s->state = DONE;
		return 0;
	}
	if (c != '}' || s->in_array)
		return broken(s);
	s->state = --s->level ? AFTER_VALUE : DONE;
	return 0;
}

/* --- bytes -------------------------------------------------------------------------------- */

/* The first byte of the document, a byte order mark aside. */
static int start(struct json_items *s, char c)
{
	static const char mark[] = "\xef\xbb\xbf";

	if (s->marks < 3 && (s->marks || c == *mark))
		return c == mark[s->marks++] ? 0 : broken(s);
	if (!c || c == '\xff' || c == '\xfe')
		return err_set(EX_DATAERR, "%s: UTF-16 or UTF-32: save it as UTF-8",
			s->where);
	if (c == '\x1f') /* no JSON begins so, and gzip does */
		return err_set(EX_DATAERR, "%s: compressed with gzip: unpack it first",
			s->where);
	if (c == '[') {
		s->in_array = s->is_list = true;
		s->lists = 1;
		s->state = FIRST_ITEM;
		return 0;
	}
	s->level = 1;
	s->state = FIRST_KEY;
	return c == '{' ? 0 : broken(s);
}

/* Takes one byte that is no space, outside keys and values; *used: it is done with. */
static int step(struct json_items *s, char c, bool *used)
{
	*used = true;
	if (!c) /* a bracket of two bytes came before */
		s->state = START;
	switch (s->state) {
	case START:
		return start(s, c);
	case FIRST_KEY:
		if (c == '}') {
			s->state = AFTER_VALUE;
			return after_value(s, c);
		}
		/* fall through */
	case NEXT_KEY:
		buf_reset(&s->value);
		buf_addc(&s->value, c);
		s->escaped = false;
		s->state = IN_KEY;
		return c == '"' ? 0 : broken(s);
	case COLON:
		s->state = VALUE;
		return c == ':' ? 0 : broken(s);
	case VALUE:
		return enter_value(s, c, used);
	case FIRST_ITEM:
		if (c == ']') {
			s->state = AFTER_VALUE;
			return after_value(s, c);
		}
		/* fall through */
	case NEXT_ITEM:
		*used = false;
		return begin_value(s, c);
	case AFTER_VALUE:
		return after_value(s, c);
	}
	return err_set(EX_DATAERR, "%s: something follows the end", s->where);
}

/* Takes the bytes of a key or value in progress. Returns how many, or -1. */
static long take_part(struct json_items *s, const char *p, size_t len)
{
	bool ended, key = s->state == IN_KEY;
	size_t n = key ? scan_key(s, p, len, &ended) : scan_value(s, p, len, &ended);

	if (s->value.len + n > JSON_ITEMS_BYTES_MAX)
		return err_set(EX_DATAERR, "%s: a value of more than %zu bytes", s->where,
			JSON_ITEMS_BYTES_MAX);
	buf_add(&s->value, p, n);
	if (ended && !s->value.len)
		return broken(s);
	if (ended && (key ? take_key(s) : pass_on(s)) < 0)
		return -1;
	return (long)n;
}

int json_items_push(struct json_items *s, const char *data, size_t len)
{
	for (size_t i = 0; i < len;) {
		if (s->state == IN_KEY || s->state == IN_VALUE) {
			long n = take_part(s, data + i, len - i);

			if (n < 0)
				return -1;
			i += (size_t)n;
		} else if (json_text_is_space(data[i])) {
			i++;
		} else {
			bool used;

			if (step(s, data[i], &used) < 0)
				return -1;
			i += used;
		}
	}
	return 0;
}

int json_items_end(struct json_items *s)
{
	if (s->state == START)
		return err_set(EX_DATAERR, "%s: the feed is empty", s->where);
	if (s->state != DONE)
		return err_set(EX_DATAERR, "%s: it ends in the middle", s->where);
	return 0;
}

/* --- an object without some of its fields ------------------------------------------------- */

struct pick {
	struct json_text t;
	bool doubtful; /* a string that only a parser can check: escapes, bytes beyond ASCII */
};

static bool skip_string(struct pick *p)
{
	if (!json_text_take(&p->t, '"'))
		return false;
	for (; p->t.at < p->t.end && *p->t.at != '"'; p->t.at++) {
		if (*p->t.at >= 0x20 && *p->t.at < 0x7f && *p->t.at != '\\')
			continue;
		p->doubtful = true;
		if (*p->t.at == '\\' && ++p->t.at == p->t.end)
			return false;
	}
	return json_text_take(&p->t, '"');
}

/* Skips a number that is surely finite: its exponent has at most two digits, and there are few
 * digits before the point. */
static bool skip_number(struct pick *p)
{
	struct json_digits n;

	return json_text_number(&p->t, &n) && n.whole <= 100 && n.exponent <= 2;
}

static bool skip_value(struct pick *p, int depth);

static bool skip_inside(struct pick *p, char close, bool keys, int depth)
{
	p->t.at++;
	json_text_space(&p->t);
	if (json_text_take(&p->t, close))
		return true;
	do {
		json_text_space(&p->t);
		if (keys) {
			if (!skip_string(p))
				return false;
			json_text_space(&p->t);
			if (!json_text_take(&p->t, ':'))
				return false;
			json_text_space(&p->t);
		}
		if (!skip_value(p, depth - 1))
			return false;
		json_text_space(&p->t);
	} while (json_text_take(&p->t, ','));
	return json_text_take(&p->t, close);
}

static bool skip_value(struct pick *p, int depth)
{
	if (p->t.at == p->t.end || depth < 1)
		return false;
	switch (*p->t.at) {
	case '"':
		return skip_string(p);
	case '{':
		return skip_inside(p, '}', true, depth);
	case '[':
		return skip_inside(p, ']', false, depth);
	case 't':
		return json_text_word(&p->t, "true");
	case 'f':
		return json_text_word(&p->t, "false");
	case 'n':
		return json_text_word(&p->t, "null");
	}
	return skip_number(p);
}

/* text: a key with its quotes */
static bool is_one_of(const char *const *names, const char *text, size_t len)
{
	for (; *names; names++)
		if (**names == text[1] && strncmp(*names, text + 1, len - 2) == 0 &&
			!(*names)[len - 2])
			return true;
	return false;
}

bool json_items_pick(struct buf *out, const char *text, size_t len,
	const char *const *names)
{
	struct pick p = { .t = { text, text + len } };

	buf_reset(out);
	if (!json_text_take(&p.t, '{'))
		return false;
	buf_addc(out, '{');
	do {
		const char *key;
		bool wanted;

		json_text_space(&p.t);
		key = p.t.at;
		if (!skip_string(&p) || p.doubtful)
			return false;
		wanted = is_one_of(names, key, (size_t)(p.t.at - key));
		json_text_space(&p.t);
		if (!json_text_take(&p.t, ':'))
			return false;
		json_text_space(&p.t);
		if (!skip_value(&p, DEPTH_MAX - 1))
			return false;
		if (wanted || p.doubtful) {
			if (out->len > 1)
				buf_addc(out, ',');
			buf_add(out, key, (size_t)(p.t.at - key));
		}
		p.doubtful = false;
		json_text_space(&p.t);
	} while (json_text_take(&p.t, ','));
	buf_addc(out, '}');
	return json_text_take(&p.t, '}') && p.t.at == p.t.end;
}
