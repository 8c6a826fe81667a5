/* yaml_words.c - which type a plain word has: to PyYAML's resolver for YAML 1.1, to YAML 1.2's core
 * schema (section 10.3.2), and so to a reader who trusts neither alone. */
#include "cmd/rnp-register/customer/yaml_tree.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define DIGITS "0123456789"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool among(const char *text, const char *words)
{
	size_t len = strlen(text);

	for (const char *p = words; *p; p += strcspn(p, "|"), p += *p == '|')
		if (len && strcspn(p, "|") == len && strncmp(p, text, len) == 0)
			return true;
	return false;
}

/* Characters of a set from p on; returns what stands behind them. */
static const char *skip(const char *p, const char *set)
{
	return p + strspn(p, set);
}

static const char *skip_sign(const char *p)
{
	return p + (*p == '-' || *p == '+');
}

/* "8", "-12", not "08": to both a decimal number. */
static bool is_decimal(const char *text)
{
	const char *p = skip_sign(text);

	return is_digit(*p) && !*skip(p, DIGITS) && (*p != '0' || !p[1]);
}

/* "0.5", "1.", "1.0e-5": to both a float. With a bare exponent's sign missing, or without a point,
 * PyYAML reads a text. */
static bool is_float(const char *text)
{
	const char *p = skip_sign(text), *whole = p;

	p = skip(p, DIGITS);
	if (*p != '.' || (p == whole && whole != text))
		return false;
	if (p == whole && !is_digit(p[1]))
		return false;
	p = skip(p + 1, DIGITS);
	if (*p == 'e' || *p == 'E') {
		p++;
		if ((*p != '-' && *p != '+') || !is_digit(p[1]))
			return false;
		p = skip(p + 1, DIGITS);
	}
	return !*p;
}

/* "1_000", "1_000.5", ".5_", "1_0.5e+3": '_' in digits is YAML 1.1's. */
static bool has_underscores(const char *p)
{
	p = skip(p, DIGITS "_.");
	return !*p || ((*p == 'e' || *p == 'E') && !*skip(p + 1, DIGITS "_+-"));
}

/* What is a number to one of the two only, or another one. */
static bool is_doubtful_number(const char *text)
{
	const char *p = skip_sign(text);

	if (p[0] == '0' && (p[1] == 'x' || p[1] == 'o' || p[1] == 'b'))
		return p[2] &&
			!*skip(p + 2,
				p[1] == 'x'         ? "0123456789abcdefABCDEF_" :
					p[1] == 'o' ? "01234567" :
						      "01_");
	if (strchr(p, '_') && is_digit(p[*p == '.']) && has_underscores(p))
		return true;
	if (!is_digit(*p))
		return among(p, ".inf|.Inf|.INF|.nan|.NaN|.NAN");
	/* 08, 0644 */
	if (!*skip(p, DIGITS))
		return true;
	/* 12:30, 1:30:00.5: to YAML 1.1 of base 60 */
	p = skip(p, DIGITS "_");
	while (*p == ':' && is_digit(p[1])) {
		size_t n = strspn(p + 1, DIGITS);

		if (n > 2 || (n == 2 && p[1] > '5'))
			return false;
		p += 1 + n;
		if (!*p)
			return *skip_sign(text) != '0';
		if (*p == '.' && !*skip(p + 1, DIGITS "_"))
			return true;
	}
	return false;
}

/* "2026-11-29", "2026-11-29T10:00:00Z" */
static bool is_date(const char *text)
{
	static const char form[] = "dddd-dd-dd";
	const char *p = text;

	for (size_t i = 0; form[i] == '-' || form[i] == 'd'; i++, p++) {
		if (form[i] == 'd' ? !is_digit(*p) : *p != '-') {
			/* a month or a day of one digit may stand before a time */
			if (form[i] != 'd' || (form[i + 1] == 'd' && i != 5 && i != 8))
				return false;
			p--;
		}
	}
	return !*p || *p == 'T' || *p == 't' || *p == ' ' || *p == '\t';
}

static const char *doubt_of(const char *text)
{
	if (among(text, "yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF"))
		return "true or false to some readers of YAML and text to others";
	if (is_doubtful_number(text))
		return "a number to some readers of YAML and another one, or text, to others";
	if (is_date(text))
		return "a date to some readers of YAML and text to others";
	if (among(text, "<<|="))
		return "a word with a meaning of its own in YAML 1.1";
	return NULL;
}

void yaml_resolve(struct yaml *v)
{
	v->type = YAML_TEXT;
	v->doubt = NULL;
	if (!*v->text || among(v->text, "~|null|Null|NULL")) {
		v->type = YAML_NULL;
	} else if (among(v->text, "true|True|TRUE|false|False|FALSE")) {
		v->type = YAML_BOOL;
		v->yes = *v->text == 't' || *v->text == 'T';
	} else if (is_decimal(v->text)) {
		errno = 0;
		v->whole = strtoll(v->text, NULL, 10);
		v->type = errno ? YAML_TEXT : YAML_INT;
		if (errno)
			v->doubt = "a number beyond 64 bits";
	} else if (is_float(v->text)) {
		v->type = YAML_REAL;
	} else {
		v->doubt = doubt_of(v->text);
	}
}
