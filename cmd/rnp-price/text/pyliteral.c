/* pyliteral.c - turns a Python literal into a JSON value. */
#include "cmd/rnp-price/text/pyliteral.h"

#include <stdbool.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/num.h"

struct reader {
	const char *at, *where;
	int depth;
};

static json_t *read_value(struct reader *r);

static json_t *fail(struct reader *r, const char *wanted)
{
	err_set(EX_DATAERR, "%s: %s wanted at '%.20s'", r->where, wanted, r->at);
	return NULL;
}

static void skip_space(struct reader *r)
{
	r->at += strspn(r->at, " \t\r\n");
}

/* Steps over the next character if it is c. */
static bool take(struct reader *r, char c)
{
	skip_space(r);
	if (*r->at != c)
		return false;
	r->at++;
	return true;
}

static void add_utf8(struct buf *out, unsigned c)
{
	if (c < 0x80) {
		buf_addc(out, (char)c);
	} else if (c < 0x800) {
		buf_addc(out, (char)(0xc0 | c >> 6));
		buf_addc(out, (char)(0x80 | (c & 63)));
	} else {
		buf_addc(out, (char)(0xe0 | c >> 12));
		buf_addc(out, (char)(0x80 | (c >> 6 & 63)));
		buf_addc(out, (char)(0x80 | (c & 63)));
	}
}

/* Returns the character that a backslash escape stands for; -1: an unknown escape. */
static int read_escape(struct reader *r, struct buf *out)
{
	static const char from[] = "\\'\"nrt/", to[] = "\\'\"\n\r\t/";
	const char *p = *r->at ? strchr(from, *r->at) : NULL;
	unsigned c = 0;

	if (p) {
		buf_addc(out, to[p - from]);
		r->at++;
		return 0;
	}
	if (*r->at != 'u')
		return -1;
	for (int i = 1; i <= 4; i++) {
		static const char hex[] = "0123456789abcdefABCDEF";
		const char *digit = r->at[i] ? strchr(hex, r->at[i]) : NULL;

		if (!digit)
			return -1;
		c = c * 16 + (unsigned)(digit - hex < 16 ? digit - hex : digit - hex - 6);
	}
	if (c == 0 || (c >= 0xd800 && c < 0xe000))
		return -1;
	add_utf8(out, c);
	r->at += 5;
	return 0;
}

static json_t *read_string(struct reader *r)
{
	struct buf text = BUF_INIT;
	char quote = *r->at++;
	json_t *v = NULL;

	while (*r->at && *r->at != quote) {
		if (*r->at != '\\') {
			buf_addc(&text, *r->at++);
			continue;
		}
		r->at++;
		if (read_escape(r, &text) < 0) {
			fail(r, "a known escape");
			goto out;
		}
	}
	if (*r->at != quote) {
		fail(r, "the closing quote");
		goto out;
	}
	r->at++;
	v = json_stringn(buf_text(&text), text.len);
	if (!v)
		fail(r, "UTF-8");
out:
	buf_release(&text);
	return v;
}

static json_t *read_number(struct reader *r)
{
	size_t n = strspn(r->at, "0123456789+-.eE");
	char text[64];
	int64_t whole;
	double real;

	if (n >= sizeof text)
		return fail(r, "a shorter number");
	memcpy(text, r->at, n);
	text[n] = '\0';
	if (strpbrk(text, ".eE")) {
		if (num_f64(text, r->where, &real) < 0)
			return NULL;
		r->at += n;
		return json_real(real);
	}
	if (num_i64(text, r->where, INT64_MIN, INT64_MAX, &whole) < 0)
		return NULL;
	r->at += n;
	return json_integer(whole);
}

static json_t *read_word(struct reader *r)
{
	static const char *const words[] = { "True", "False", "None", "true", "false",
		"null" };

	for (int i = 0; i < 6; i++) {
		size_t n = strlen(words[i]);

		if (strncmp(r->at, words[i], n) != 0)
			continue;
		r->at += n;
		return i % 3 == 0 ? json_true() : i % 3 == 1 ? json_false() : json_null();
	}
	return fail(r, "a value");
}

/* Reads items up to the closing bracket; a trailing comma is allowed, as in Python. */
static json_t *read_list(struct reader *r, char end)
{
	json_t *list = json_array();

	r->at++;
	while (!take(r, end)) {
		json_t *v = read_value(r);

		if (!v || json_array_append_new(list, v) < 0)
			goto bad;
		if (take(r, end))
			break;
		if (!take(r, ',')) {
			fail(r, "a comma");
			goto bad;
		}
	}
	return list;
bad:
	json_decref(list);
	return NULL;
}

static int read_member(struct reader *r, json_t *dict)
{
	json_t *key, *v = NULL;
	int rc = -1;

	skip_space(r);
	if (*r->at != '\'' && *r->at != '"') {
		fail(r, "a quoted key");
		return -1;
	}
	key = read_string(r);
	if (!key)
		return -1;
	if (strlen(json_string_value(key)) != json_string_length(key) ||
		json_object_get(dict, json_string_value(key)))
		fail(r, "a key that stands once");
	else if (!take(r, ':'))
		fail(r, "a colon");
	else if ((v = read_value(r)))
		rc = json_object_set_new(dict, json_string_value(key), v);
	json_decref(key);
	return rc;
}

static json_t *read_dict(struct reader *r)
{
	json_t *dict = json_object();

	r->at++;
	while (!take(r, '}')) {
		if (read_member(r, dict) < 0)
			goto bad;
		if (take(r, '}'))
			break;
		if (!take(r, ',')) {
			fail(r, "a comma");
			goto bad;
		}
	}
	return dict;
bad:
	json_decref(dict);
	return NULL;
}

static json_t *read_value(struct reader *r)
{
	json_t *v;

	skip_space(r);
	if (r->depth == PYLITERAL_DEPTH_MAX)
		return fail(r, "less depth");
	r->depth++;
	if (*r->at == '{')
		v = read_dict(r);
	else if (*r->at == '[' || *r->at == '(')
		v = read_list(r, *r->at == '[' ? ']' : ')');
	else if (*r->at == '\'' || *r->at == '"')
		v = read_string(r);
	else if (*r->at && strchr("0123456789-", *r->at))
		v = read_number(r);
	else
		v = read_word(r);
	r->depth--;
	return v;
}

json_t *pyliteral_parse(const char *text, const char *where)
{
	struct reader r = { .at = text, .where = where };
	json_t *v = read_value(&r);

	skip_space(&r);
	if (v && *r.at) {
		json_decref(v);
		return fail(&r, "the end");
	}
	return v;
}
