/* sf.c - reads structured fields: one pass through the text, as the algorithms of RFC 9651,
 * section 4.2. */
#include "common/httpsig/sf.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/utf8.h"
#include "common/httpsig/sf_parts.h"

#define INTEGER_DIGITS  15
#define DECIMAL_DIGITS  12 /* before the point */
#define FRACTION_DIGITS 3

struct parser {
	const char *text, *what;
	size_t at, len;
	struct sf *out;
};

static int fail(const struct parser *p, const char *why)
{
	return err_set(EX_DATAERR, "%.60s: %s at byte %zu", p->what, why, p->at);
}

/* Returns the next byte, or 0 at the end; no rule allows a NUL byte in the text either. */
static char peek(const struct parser *p)
{
	return p->at < p->len ? p->text[p->at] : '\0';
}

static bool take(struct parser *p, char c)
{
	if (p->at == p->len || p->text[p->at] != c)
		return false;
	p->at++;
	return true;
}

static void skip(struct parser *p, const char *set)
{
	while (p->at < p->len && p->text[p->at] && strchr(set, p->text[p->at]))
		p->at++;
}

/* Copies bytes into the arena, with a NUL after them. */
static char *keep(struct parser *p, const char *bytes, size_t len)
{
	char *copy = arena_alloc(&p->out->arena, len + 1);

	if (len)
		memcpy(copy, bytes, len);
	return copy;
}

static int parse_key(struct parser *p, const char **key)
{
	size_t from = p->at;

	if (!sf_is_lower(peek(p)) && peek(p) != '*')
		return fail(p, "a key is missing");
	while (sf_is_key_char(peek(p)))
		p->at++;
	if (p->at - from > SF_KEY_MAX)
		return fail(p, "a key is too long");
	*key = keep(p, p->text + from, p->at - from);
	return 0;
}

static int parse_number(struct parser *p, struct sf_value *v)
{
	int digits = 0, fraction = 0;
	bool minus = take(p, '-');

	for (; sf_is_digit(peek(p)); digits++, p->at++) {
		if (digits == INTEGER_DIGITS)
			return fail(p, "a number is too large");
		v->number = v->number * 10 + (peek(p) - '0');
	}
	if (!digits)
		return fail(p, "a number has no digits");
	v->type = SF_INTEGER;
	if (take(p, '.')) {
		if (digits > DECIMAL_DIGITS)
			return fail(p, "a number is too large");
		v->type = SF_DECIMAL;
		for (; sf_is_digit(peek(p)); fraction++, p->at++) {
			if (fraction == FRACTION_DIGITS)
				return fail(p, "a number has too many digits");
			v->number = v->number * 10 + (peek(p) - '0');
		}
		if (!fraction)
			return fail(p, "a number ends with its point");
		for (; fraction < FRACTION_DIGITS; fraction++)
			v->number *= 10;
	}
	if (minus)
		v->number = -v->number;
	return 0;
}

static int parse_string(struct parser *p, struct sf_value *v)
{
	size_t end = ++p->at;
	char *to;

	/* looks for the end first: memory for the whole rest of the text would be too much for
	 * each string */
	while (end < p->len && p->text[end] != '"')
		end += p->text[end] == '\\' ? 2 : 1;
	if (end >= p->len)
		return fail(p, "a string does not end");
	v->type = SF_STRING;
	v->text = to = arena_alloc(&p->out->arena, end - p->at + 1);
	for (; p->at < end; p->at++) {
		char c = p->text[p->at];

		if (c < 0x20 || c > 0x7e)
			return fail(p, "a string has a wrong character");
		if (c == '\\') {
			c = p->text[++p->at];
			if (c != '"' && c != '\\')
				return fail(p, "a string has a wrong escape");
		}
		to[v->len++] = c;
	}
	p->at++;
	return 0;
}

static int hex_of(char c)
{
	if (sf_is_digit(c))
		return c - '0';
	return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static int parse_display(struct parser *p, struct sf_value *v)
{
	const char *end;
	char *to;

	v->type = SF_DISPLAY;
	p->at++;
	if (!take(p, '"'))
		return fail(p, "a display string does not begin");
	end = memchr(p->text + p->at, '"', p->len - p->at);
	if (!end)
		return fail(p, "a display string does not end");
	v->text = to = arena_alloc(&p->out->arena, (size_t)(end - p->text) - p->at + 1);
	while (!take(p, '"')) {
		char c = p->text[p->at];

		if (c < 0x20 || c > 0x7e)
			return fail(p, "a display string has a wrong character");
		p->at++;
		if (c == '%') {
			int high = hex_of(peek(p)), low;

			p->at += high >= 0;
			low = hex_of(peek(p));
			p->at += low >= 0;
			if (high < 0 || low < 0)
				return fail(p, "a display string has a wrong escape");
			c = (char)(high * 16 + low);
		}
		to[v->len++] = c;
	}
	return utf8_valid(v->text, v->len) ? 0 : fail(p, "a display string is not UTF-8");
}

static int parse_bytes(struct parser *p, struct sf_value *v)
{
	const char *from = p->text + p->at + 1, *end;
	size_t n;
	char *to;

	v->type = SF_BYTES;
	p->at++;
	end = memchr(from, ':', p->len - p->at);
	if (!end)
		return fail(p, "a byte sequence does not end");
	n = (size_t)(end - from);
	v->text = to = arena_alloc(&p->out->arena, n / 4 * 3 + 4);
	if (sodium_base642bin((unsigned char *)to, n / 4 * 3 + 3, from, n, NULL, &v->len,
		    NULL, sodium_base64_VARIANT_ORIGINAL) < 0)
		return fail(p, "a byte sequence is not base64");
	to[v->len] = '\0';
	p->at += n + 1;
	return 0;
}

static int parse_token(struct parser *p, struct sf_value *v)
{
	size_t from = p->at;

	while (sf_is_token_char(peek(p)))
		p->at++;
	v->type = SF_TOKEN;
	v->len = p->at - from;
	v->text = keep(p, p->text + from, v->len);
	return 0;
}

static int parse_value(struct parser *p, struct sf_value *v)
{
	char c = peek(p);

	*v = (struct sf_value){ .number = 0 };
	if (c == '-' || sf_is_digit(c))
		return parse_number(p, v);
	if (c == '"')
		return parse_string(p, v);
	if (c == ':')
		return parse_bytes(p, v);
	if (c == '%')
		return parse_display(p, v);
	if (sf_is_alpha(c) || c == '*')
		return parse_token(p, v);
	if (c == '@') {
		p->at++;
		if (parse_number(p, v) < 0)
			return -1;
		if (v->type != SF_INTEGER)
			return fail(p, "a date has a fraction");
		v->type = SF_DATE;
		return 0;
	}
	if (c == '?') {
		p->at++;
		v->type = SF_BOOLEAN;
		v->number = peek(p) == '1';
		return take(p, '0') || take(p, '1') ? 0 : fail(p, "a boolean is wrong");
	}
	return fail(p, "a value is missing");
}

/* Without "=value" a key stands for true. */
static int parse_optional(struct parser *p, struct sf_value *v)
{
	*v = (struct sf_value){ .type = SF_BOOLEAN, .number = 1 };
	return take(p, '=') ? parse_value(p, v) : 0;
}

static int parse_params(struct parser *p, const struct sf_param **params, int *n)
{
	struct sf_param *list = NULL, one;
	struct sf_param *copy;
	size_t cap = 0;
	int rc = 0, i;

	*n = 0;
	while (rc == 0 && take(p, ';')) {
		skip(p, " ");
		rc = parse_key(p, &one.key);
		if (rc == 0)
			rc = parse_optional(p, &one.value);
		if (rc < 0)
			break;
		for (i = 0; i < *n && strcmp(list[i].key, one.key) != 0; i++)
			;
		if (i == SF_PARAMS_MAX) {
			rc = fail(p, "too many parameters");
			break;
		}
		if (i < *n)
			p->out->repeated = true;
		else
			list = xgrow(list, &cap, (size_t)++ * n, sizeof *list);
		list[i] = one;
	}
	if (rc == 0 && *n) {
		*params = copy = arena_alloc(&p->out->arena, (size_t)*n * sizeof *copy);
		memcpy(copy, list, (size_t)*n * sizeof *copy);
	}
	free(list);
	return rc;
}

static int parse_item(struct parser *p, struct sf_item *item)
{
	*item = (struct sf_item){ .nparams = 0 };
	if (parse_value(p, &item->value) < 0)
		return -1;
	return parse_params(p, &item->params, &item->nparams);
}

/* Copies n items from list into the arena as the items of m. */
static void keep_items(struct parser *p, struct sf_member *m, const struct sf_item *list,
	int n)
{
	struct sf_item *copy = arena_alloc(&p->out->arena, (size_t)n * sizeof *copy);

	if (n)
		memcpy(copy, list, (size_t)n * sizeof *copy);
	m->items = copy;
	m->nitems = n;
}

static int parse_inner(struct parser *p, struct sf_member *m)
{
	struct sf_item *list = NULL;
	size_t cap = 0;
	int n = 0, rc = 0;

	m->inner = true;
	p->at++;
	for (;;) {
		skip(p, " ");
		if (take(p, ')'))
			break;
		if (n == SF_MEMBERS_MAX) {
			rc = fail(p, "an inner list is too long");
			break;
		}
		list = xgrow(list, &cap, (size_t)n + 1, sizeof *list);
		rc = parse_item(p, &list[n]);
		if (rc < 0)
			break;
		n++;
		if (peek(p) != ' ' && peek(p) != ')') {
			rc = fail(p, "an inner list does not end");
			break;
		}
	}
	if (rc == 0)
		keep_items(p, m, list, n);
	free(list);
	return rc < 0 ? -1 : parse_params(p, &m->params, &m->nparams);
}

static int parse_member(struct parser *p, struct sf_member *m)
{
	struct sf_item item;

	if (peek(p) == '(')
		return parse_inner(p, m);
	if (parse_item(p, &item) < 0)
		return -1;
	keep_items(p, m, &item, 1);
	m->params = item.params;
	m->nparams = item.nparams;
	return 0;
}

static int parse_entry(struct parser *p, struct sf_member *m)
{
	struct sf_item item = { .value = { .type = SF_BOOLEAN, .number = 1 } };

	if (parse_key(p, &m->key) < 0)
		return -1;
	if (take(p, '='))
		return parse_member(p, m);
	if (parse_params(p, &item.params, &item.nparams) < 0)
		return -1;
	keep_items(p, m, &item, 1);
	m->params = item.params;
	m->nparams = item.nparams;
	return 0;
}

/* Returns where m belongs: the place of the same key, which it replaces, or the end. */
static int place_of(struct parser *p, const struct sf_member *list, int n,
	const struct sf_member *m)
{
	for (int i = 0; m->key && i < n; i++)
		if (strcmp(list[i].key, m->key) == 0) {
			p->out->repeated = true;
			return i;
		}
	return n;
}

static int parse_members(struct parser *p, enum sf_kind kind, struct sf_member **list,
	int *n)
{
	struct sf_member m;
	size_t cap = 0;
	int i;

	while (p->at < p->len) {
		m = (struct sf_member){ .key = NULL };
		if ((kind == SF_LIST ? parse_member(p, &m) : parse_entry(p, &m)) < 0)
			return -1;
		i = place_of(p, *list, *n, &m);
		if (i == SF_MEMBERS_MAX)
			return fail(p, "too many members");
		if (i == *n)
			*list = xgrow(*list, &cap, (size_t)++ * n, sizeof **list);
		(*list)[i] = m;
		skip(p, " \t");
		if (p->at == p->len)
			return 0;
		if (!take(p, ','))
			return fail(p, "a comma is missing");
		skip(p, " \t");
		if (p->at == p->len)
			return fail(p, "nothing follows the comma");
	}
	return 0;
}

int sf_parse(struct sf *out, enum sf_kind kind, const char *text, size_t len,
	const char *what)
{
	struct parser p = { .text = text, .what = what, .len = len, .out = out };
	struct sf_member *list = NULL, *copy;
	int n = 0, rc;

	*out = (struct sf)SF_INIT;
	if (len > SF_TEXT_MAX)
		return fail(&p, "the field is too long");
	skip(&p, " ");
	if (kind == SF_ITEM) {
		list = xcalloc(1, sizeof *list);
		rc = peek(&p) == '(' ? fail(&p, "an item is missing") :
				       parse_member(&p, &list[n++]);
		skip(&p, " ");
		if (rc == 0 && p.at < p.len)
			rc = fail(&p, "something follows the item");
	} else {
		while (p.len > p.at && p.text[p.len - 1] == ' ')
			p.len--;
		rc = parse_members(&p, kind, &list, &n);
	}
	if (rc == 0 && n) {
		out->members = copy = arena_alloc(&out->arena, (size_t)n * sizeof *copy);
		memcpy(copy, list, (size_t)n * sizeof *copy);
		out->nmembers = n;
	}
	free(list);
	if (rc < 0)
		sf_release(out);
	return rc;
}

void sf_release(struct sf *f)
{
	arena_release(&f->arena);
	*f = (struct sf)SF_INIT;
}

const struct sf_member *sf_find(const struct sf *dictionary, const char *key)
{
	for (int i = 0; i < dictionary->nmembers; i++)
		if (strcmp(dictionary->members[i].key, key) == 0)
			return &dictionary->members[i];
	return NULL;
}

const struct sf_value *sf_param(const struct sf_param *params, int n, const char *key)
{
	for (int i = 0; i < n; i++)
		if (strcmp(params[i].key, key) == 0)
			return &params[i].value;
	return NULL;
}
