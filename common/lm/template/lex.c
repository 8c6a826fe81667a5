/* lex.c - a template's text into tokens, and which blanks and line breaks around tags stay. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/lm/template/ast.h"

struct lexer {
	struct lm_template *t;
	const char *s;
	size_t n, at;
	int line;
	bool line_starts; /* a line begins at the text that follows */
};

static bool is_space(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r');
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool begins_name(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80);
}

static int refuse(const struct lexer *l, const char *what)
{
	return err_set(EX_DATAERR, "%s:%d: %s", l->t->where, l->line, what);
}

static struct tpl_token *push(struct lexer *l, enum tpl_token_kind kind, const char *text,
	size_t len)
{
	struct lm_template *t = l->t;

	t->tokens = xgrow(t->tokens, &t->tokens_cap, t->token_count + 1,
		sizeof *t->tokens);
	t->tokens[t->token_count] = (struct tpl_token){ .kind = kind,
		.line = l->line,
		.text = text,
		.len = len };
	return &t->tokens[t->token_count++];
}

/* Moves to at, counting lines. */
static void advance(struct lexer *l, size_t to)
{
	for (; l->at < to; l->at++)
		l->line += l->s[l->at] == '\n';
}

static bool looking_at(const struct lexer *l, size_t at, const char *text)
{
	size_t len = strlen(text);

	return l->n - at >= len && memcmp(l->s + at, text, len) == 0;
}

/* --- text outside of tags -------------------------------------------------------------------- */

/* The place of the next tag or comment, or the end. */
static size_t next_tag(const struct lexer *l, size_t at)
{
	while (at + 1 < l->n) {
		const char *brace = memchr(l->s + at, '{', l->n - 1 - at);

		if (!brace)
			break;
		if (brace[1] == '{' || brace[1] == '%' || brace[1] == '#')
			return (size_t)(brace - l->s);
		at = (size_t)(brace - l->s) + 1;
	}
	return l->n;
}

/* Emits the text from l->at to end. sign: what follows the tag's opening, which is of this kind
 * ('{', '%', '#', or 0 at the end of the template). */
static void text_before(struct lexer *l, size_t end, char kind, char sign)
{
	size_t begin = l->at, stop = end;

	if (sign == '-') {
		while (stop > begin && is_space(l->s[stop - 1]))
			stop--;
	} else if (sign != '+' && (kind == '%' || kind == '#')) {
		size_t line = end;

		while (line > begin && l->s[line - 1] != '\n')
			line--;
		if (line > begin || l->line_starts) {
			size_t i = line;

			while (i < end && is_space(l->s[i]))
				i++;
			if (i == end)
				stop = line;
		}
	}
	if (stop > begin)
		push(l, TOK_DATA, l->s + begin, stop - begin);
	advance(l, end);
}

/* After a tag's end: '-' takes all white space, a block takes one line break. */
static void after_tag(struct lexer *l, char sign, bool block)
{
	size_t at = l->at;

	if (sign == '-')
		while (at < l->n && is_space(l->s[at]))
			at++;
	else if (block && sign != '+' && at < l->n && l->s[at] == '\n')
		at++;
	advance(l, at);
	l->line_starts = at > 0 && l->s[at - 1] == '\n';
}

static int comment(struct lexer *l)
{
	size_t at = l->at + 2;

	while (at + 1 < l->n && !(l->s[at] == '#' && l->s[at + 1] == '}'))
		at++;
	if (at + 1 >= l->n)
		return refuse(l, "a comment without its end");
	char sign = l->s[at - 1];

	if (at - 1 < l->at + 2)
		sign = 0;
	advance(l, at + 2);
	after_tag(l, sign, true);
	return 0;
}

/* Whether a tag `{% word %}` stands at at: its end, or 0. *sign gets the sign before %}. */
static size_t bare_tag(const struct lexer *l, size_t at, const char *word, char *sign)
{
	if (!looking_at(l, at, "{%"))
		return 0;
	at += 2;
	if (at < l->n && (l->s[at] == '-' || l->s[at] == '+'))
		at++;
	while (at < l->n && is_space(l->s[at]))
		at++;
	if (!looking_at(l, at, word))
		return 0;
	at += strlen(word);
	while (at < l->n && is_space(l->s[at]))
		at++;
	*sign = 0;
	if (at < l->n && (l->s[at] == '-' || l->s[at] == '+'))
		*sign = l->s[at++];
	return looking_at(l, at, "%}") ? at + 2 : 0;
}

/* {% raw %}: everything up to {% endraw %} is text. */
static int raw(struct lexer *l, size_t end, char sign)
{
	size_t at, close = 0, stop;
	char close_sign = 0;

	advance(l, end);
	after_tag(l, sign, false);
	for (at = l->at; at < l->n && !close; at++)
		if (l->s[at] == '{')
			close = bare_tag(l, at, "endraw", &close_sign);
	if (!close)
		return refuse(l, "raw without endraw");
	stop = --at;
	if (l->s[at + 2] == '-')
		while (stop > l->at && is_space(l->s[stop - 1]))
			stop--;
	if (stop > l->at)
		push(l, TOK_DATA, l->s + l->at, stop - l->at);
	advance(l, close);
	after_tag(l, close_sign, true);
	return 0;
}

/* --- inside of tags --------------------------------------------------------------------------- */

static void add_code_point(struct buf *out, unsigned c)
{
	if (c < 0x80) {
		buf_addc(out, (char)c);
	} else if (c < 0x800) {
		buf_addc(out, (char)(0xc0 | c >> 6));
		buf_addc(out, (char)(0x80 | (c & 63)));
	} else if (c < 0x10000) {
		buf_addc(out, (char)(0xe0 | c >> 12));
		buf_addc(out, (char)(0x80 | (c >> 6 & 63)));
		buf_addc(out, (char)(0x80 | (c & 63)));
	} else {
		buf_addc(out, (char)(0xf0 | c >> 18));
		buf_addc(out, (char)(0x80 | (c >> 12 & 63)));
		buf_addc(out, (char)(0x80 | (c >> 6 & 63)));
		buf_addc(out, (char)(0x80 | (c & 63)));
	}
}

static int hex(const char *s, size_t n, unsigned *out)
{
	*out = 0;
	for (size_t i = 0; i < n; i++) {
		char c = s[i];
		unsigned digit = is_digit(c) ? (unsigned)(c - '0') :
			c >= 'a' && c <= 'f' ? (unsigned)(c - 'a' + 10) :
			c >= 'A' && c <= 'F' ? (unsigned)(c - 'A' + 10) :
					       16;

		if (digit == 16)
			return -1;
		*out = *out << 4 | digit;
	}
	return *out > 0x10ffff || (*out >= 0xd800 && *out < 0xe000) ? -1 : 0;
}

/* Appends the escape at s[1]; returns how many characters it has after the backslash, or 0. */
static size_t escape(struct buf *out, const char *s, size_t n)
{
	static const char from[] = "ntr\\'\"abfv", to[] = "\n\t\r\\'\"\a\b\f\v";
	size_t digits = s[1] == 'x' ? 2 : s[1] == 'u' ? 4 : s[1] == 'U' ? 8 : 0;
	const char *known;
	unsigned c = 0;

	if (s[1] == '\n')
		return 1;
	known = s[1] ? strchr(from, s[1]) : NULL;
	if (known) {
		buf_addc(out, to[known - from]);
		return 1;
	}
	if (digits) {
		if (n < 2 + digits || hex(s + 2, digits, &c) < 0 || !c)
			return 0;
		add_code_point(out, c);
		return 1 + digits;
	}
	if (s[1] >= '0' && s[1] <= '7') {
		while (digits < 3 && 1 + digits < n && s[1 + digits] >= '0' &&
			s[1 + digits] <= '7')
			c = c * 8 + (unsigned)(s[1 + digits++] - '0');
		if (!c)
			return 0;
		add_code_point(out, c);
		return digits;
	}
	buf_addc(out, '\\'); /* as Python: what is no escape stays */
	buf_addc(out, s[1]);
	return 1;
}

static int string(struct lexer *l)
{
	struct buf out = BUF_INIT;
	char quote = l->s[l->at];
	size_t at = l->at + 1;
	char *copy;

	while (at < l->n && l->s[at] != quote) {
		if (l->s[at] == '\\' && at + 1 < l->n) {
			size_t len = escape(&out, l->s + at, l->n - at);

			if (!len) {
				buf_release(&out);
				return refuse(l,
					"a string with an escape that is no character");
			}
			at += 1 + len;
		} else {
			buf_addc(&out, l->s[at++]);
		}
	}
	if (at >= l->n) {
		buf_release(&out);
		return refuse(l, "a string without its end");
	}
	copy = arena_alloc(&l->t->arena, out.len + 1);
	memcpy(copy, buf_text(&out), out.len);
	push(l, TOK_STRING, copy, out.len);
	buf_release(&out);
	advance(l, at + 1);
	return 0;
}

static int number(struct lexer *l)
{
	char digits[64];
	size_t at = l->at, n = 0;
	bool real = false;
	struct tpl_token *t;

	while (at < l->n && n < sizeof digits - 1) {
		char c = l->s[at], next = at + 1 < l->n ? l->s[at + 1] : 0;

		if (c == '_' && is_digit(next)) {
			at++;
			continue;
		}
		if (c == '.' && is_digit(next) && !real)
			real = true;
		else if ((c == 'e' || c == 'E') &&
			(is_digit(next) ||
				((next == '-' || next == '+') && at + 2 < l->n &&
					is_digit(l->s[at + 2])))) {
			real = true;
			digits[n++] = l->s[at++];
			if (n == sizeof digits - 1)
				break;
		} else if (!is_digit(c))
			break;
		digits[n++] = l->s[at++];
	}
	digits[n] = '\0';
	if (n == sizeof digits - 1)
		return refuse(l, "a number that is too long");
	t = push(l, real ? TOK_FLOAT : TOK_INT, l->s + l->at, at - l->at);
	errno = 0;
	if (real)
		t->f = strtod(digits, NULL);
	else
		t->i = strtoll(digits, NULL, 10);
	if (errno)
		return refuse(l, "a number that is too large");
	advance(l, at);
	return 0;
}

static int op(struct lexer *l)
{
	static const char *two[] = { "==", "!=", "<=", ">=", "//", "**" };
	char c = l->s[l->at];

	for (size_t i = 0; i < sizeof two / sizeof *two; i++)
		if (looking_at(l, l->at, two[i])) {
			push(l, TOK_OP, two[i], 2);
			advance(l, l->at + 2);
			return 0;
		}
	if (!c || !strchr("+-*/%~()[]{},:.|<>=;", c)) {
		char message[] = "a character that has no meaning here: 'x'";

		message[sizeof message - 3] = c >= 32 && c < 127 ? c : '?';
		return refuse(l, message);
	}
	push(l, TOK_OP, l->s + l->at, 1);
	advance(l, l->at + 1);
	return 0;
}

/* The end of a tag at l->at: 0 when it is none. */
static size_t tag_end(const struct lexer *l, bool print, char *sign)
{
	const char *end = print ? "}}" : "%}";
	char c = l->s[l->at];

	*sign = 0;
	if (looking_at(l, l->at, end))
		return l->at + 2;
	if ((c == '-' || (c == '+' && !print)) && looking_at(l, l->at + 1, end)) {
		*sign = c;
		return l->at + 3;
	}
	return 0;
}

static int tag(struct lexer *l, bool print, size_t begin)
{
	char open[64], sign;
	unsigned depth = 0;
	size_t end;

	push(l, print ? TOK_PRINT : TOK_TAG, l->s + l->at, 2);
	advance(l, begin);
	for (;;) {
		size_t at = l->at;
		char c;

		while (at < l->n && is_space(l->s[at]))
			at++;
		advance(l, at);
		if (at >= l->n)
			return refuse(l, "a tag without its end");
		if (!depth && (end = tag_end(l, print, &sign))) {
			push(l, print ? TOK_PRINT_END : TOK_TAG_END, l->s + at, end - at);
			advance(l, end);
			after_tag(l, sign, !print);
			return 0;
		}
		c = l->s[at];
		if (begins_name(c)) {
			while (at < l->n && (begins_name(l->s[at]) || is_digit(l->s[at])))
				at++;
			push(l, TOK_NAME, l->s + l->at, at - l->at);
			advance(l, at);
			continue;
		}
		if (is_digit(c) || c == '"' || c == '\'') {
			if ((is_digit(c) ? number(l) : string(l)) < 0)
				return -1;
			continue;
		}
		if (c == '(' || c == '[' || c == '{') {
			if (depth == sizeof open)
				return refuse(l, "brackets nest too deep");
			open[depth++] = c == '(' ? ')' : c == '[' ? ']' : '}';
		} else if (c == ')' || c == ']' || c == '}') {
			if (!depth || open[--depth] != c)
				return refuse(l, "a bracket closes that was not opened");
		}
		if (op(l) < 0)
			return -1;
	}
}

int tpl_lex(struct lm_template *t, size_t bytes)
{
	struct lexer l = { .t = t,
		.s = t->text,
		.n = bytes,
		.line = 1,
		.line_starts = true };

	while (l.at < l.n) {
		size_t open = next_tag(&l, l.at), begin = open + 2, end;
		char kind = open < l.n ? l.s[open + 1] : 0;
		char sign = begin < l.n ? l.s[begin] : 0, raw_sign;
		int rc;

		if (!kind || (sign != '-' && sign != '+'))
			sign = 0;
		text_before(&l, open, kind, sign);
		if (!kind)
			break;
		if (kind == '#')
			rc = comment(&l);
		else if (kind == '%' && (end = bare_tag(&l, open, "raw", &raw_sign)))
			rc = raw(&l, end, raw_sign);
		else
			rc = tag(&l, kind == '{', begin + (sign != 0));
		if (rc < 0)
			return -1;
	}
	push(&l, TOK_END, "", 0);
	return 0;
}
