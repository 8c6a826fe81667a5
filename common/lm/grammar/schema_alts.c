/* schema_alts.c - lists of alternatives, their automata, and joining what several schemas say about
 * one value. */
#include "common/lm/grammar/schema_parts.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"

void pointers_add(struct schema *s, struct pointers *p, const void *value)
{
	dfa_use(&s->budget, p->n / 8, 0);
	for (size_t i = 0; i < p->n; i++)
		if (p->at[i] == value)
			return;
	if (p->n == p->cap) {
		size_t cap = p->cap ? 2 * p->cap : 4;
		size_t words = cap * sizeof *p->at / sizeof(uint32_t);

		dfa_use(&s->budget, 1, words);
		const void **at = arena_alloc(&s->arena, cap * sizeof *at);

		if (p->n)
			memcpy(at, p->at, p->n * sizeof *at);
		p->at = at;
		p->cap = cap;
	}
	p->at[p->n++] = value;
}

struct alt *alts_add(struct schema *s, struct alts *l, const struct alt *a)
{
	if (l->n == l->cap) {
		size_t cap = l->cap ? 2 * l->cap : 8;
		size_t words = cap * sizeof *l->at / sizeof(uint32_t);

		dfa_use(&s->budget, 8 * cap, words);
		struct alt *at = arena_alloc(&s->arena, cap * sizeof *at);

		if (l->n)
			memcpy(at, l->at, l->n * sizeof *at);
		l->at = at;
		l->cap = cap;
	}
	l->at[l->n] = *a;
	return &l->at[l->n++];
}

/* --- automata ----------------------------------------------------------------------------- */

struct lm_dfa **schema_kept(struct schema *s, const void *of, int purpose)
{
	dfa_use(&s->budget, s->dfa_count / 8, 0);
	for (size_t i = 0; i < s->dfa_count; i++)
		if (s->dfas[i].of == of && s->dfas[i].purpose == purpose)
			return &s->dfas[i].dfa;
	s->dfas = xgrow(s->dfas, &s->dfas_cap, s->dfa_count + 1, sizeof *s->dfas);
	s->dfas[s->dfa_count].of = of;
	s->dfas[s->dfa_count].purpose = purpose;
	s->dfas[s->dfa_count].dfa = NULL;
	s->dfas[s->dfa_count].pattern = NULL;
	return &s->dfas[s->dfa_count++].dfa;
}

const struct lm_dfa *schema_pattern(struct schema *s, const json_t *where,
	const char *pattern, size_t len, const void *of)
{
	struct lm_dfa **kept, *d;

	dfa_use(&s->budget, s->dfa_count / 8, 0);
	for (size_t i = 0; i < s->dfa_count; i++)
		if (s->dfas[i].pattern && s->dfas[i].len == len &&
			memcmp(s->dfas[i].pattern, pattern, len) == 0)
			return s->dfas[i].dfa;
	kept = schema_kept(s, of, 0);
	d = xcalloc(1, sizeof *d);
	if (dfa_regex(d, pattern, len, "pattern", &s->budget) < 0) {
		char why[ERR_TEXT_MAX];

		free(d);
		s->dfa_count--;
		/* to find its place is a walk over the whole schema, for an error alone */
		if (s->leaves_out)
			return NULL;
		snprintf(why, sizeof why, "%s", err_get()->text);
		schema_refuse(s, where, NULL, "%.200s", why);
		return NULL;
	}
	*kept = d;
	s->dfas[s->dfa_count - 1].pattern = pattern;
	s->dfas[s->dfa_count - 1].len = len;
	return d;
}

#define MONTHS                                                                              \
	"(\\d{4}-((0[13578]|1[02])-(0[1-9]|[12]\\d|3[01])|(0[469]|11)-(0[1-9]|[12]\\d|30)|" \
	"02-(0[1-9]|1\\d|2[0-8]))|(\\d\\d(0[48]|[2468][048]|[13579][26])|"                  \
	"([02468][048]|[13579][26])00)-02-29)"
#define FRACTION "(\\.\\d+)?"
/* A leap second is 23:59:60 of UTC. Other zones have it at the hour `local`, where they are `east`
 * of it by whole hours, `west`, or by half an hour more. Quarters would be twice as many states,
 * and all minutes 1,440 local times to remember up to the offset. */
#define LEAP(local, east, west)                                              \
	local ":(59:60" FRACTION "([+]" east "|-" west "):00|29:60" FRACTION \
	      "([+]" local "|-" west "):30)|"
#define LEAP_SECOND            \
	LEAP("00", "01", "23") \
	LEAP("01", "02", "22") \
	LEAP("02", "03", "21") \
	LEAP("03", "04", "20") \
	LEAP("04", "05", "19") \
	LEAP("05", "06", "18") \
	LEAP("06", "07", "17") \
	LEAP("07", "08", "16") \
	LEAP("08", "09", "15") \
	LEAP("09", "10", "14") \
	LEAP("10", "11", "13") \
	LEAP("11", "12", "12") \
	LEAP("12", "13", "11") \
	LEAP("13", "14", "10") \
	LEAP("14", "15", "09") \
	LEAP("15", "16", "08") \
	LEAP("16", "17", "07") \
	LEAP("17", "18", "06") \
	LEAP("18", "19", "05") \
	LEAP("19", "20", "04") \
	LEAP("20", "21", "03") \
	LEAP("21", "22", "02") \
	LEAP("22", "23", "01") \
	LEAP("23", "00", "00") "23:59:60" FRACTION "[zZ]"
#define TIME                                           \
	"(([01]\\d|2[0-3]):[0-5]\\d:[0-5]\\d" FRACTION \
	"([zZ]|[+-]([01]\\d|2[0-3]):[0-5]\\d)|" LEAP_SECOND ")"
#define OCTET "(25[0-5]|2[0-4]\\d|1\\d\\d|[1-9]?\\d)"
#define IPV4  OCTET "\\." OCTET "\\." OCTET "\\." OCTET
#define H16   "[0-9a-fA-F]{1,4}"
#define LS32  "(" H16 ":" H16 "|" IPV4 ")"
#define IPV6                                                                            \
	"((" H16 ":){6}" LS32 "|::(" H16 ":){5}" LS32 "|(" H16 ")?::(" H16 ":){4}" LS32 \
	"|((" H16 ":){0,1}" H16 ")?::(" H16 ":){3}" LS32 "|((" H16 ":){0,2}" H16        \
	")?::(" H16 ":){2}" LS32 "|((" H16 ":){0,3}" H16 ")?::" H16 ":" LS32 "|((" H16  \
	":){0,4}" H16 ")?::" LS32 "|((" H16 ":){0,5}" H16 ")?::" H16 "|((" H16          \
	":){0,6}" H16 ")?::)"
#define ATOM  "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+"
#define LABEL "[A-Za-z0-9]([A-Za-z0-9-]*[A-Za-z0-9])?"
#define UCHAR "([A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})"
/* parts of RFC 3986's grammar, as far as formats share them */
#define UNOCOLON   "([A-Za-z0-9._~!$&'()*+,;=@-]|%[0-9A-Fa-f]{2})"
#define UAUTHORITY "//((" UHOST "|:)*@)?(" UHOST "|\\[" IPV6 "\\])(:\\d*)?(/" UCHAR "*)*"
#define UABSOLUTE  "/(" UCHAR "+(/" UCHAR "*)*)?"
#define UREST      "(\\?(" UCHAR "|[/?])*)?(#(" UCHAR "|[/?])*)?"
/* of RFC 1123: a label has at most 63 characters */
#define HLABEL "[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
#define DTIME  "(\\d+H(\\d+M(\\d+S)?)?|\\d+M(\\d+S)?|\\d+S)"
#define UHOST  "([A-Za-z0-9._~!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*"

static const struct {
	const char *name, *pattern; /* NULL: known, and not supported */
} formats[] = {
	{ "date", "^" MONTHS "$" },
	{ "time", "^" TIME "$" },
	{ "date-time", "^" MONTHS "[tT]" TIME "$" },
	{ "uuid",
		"^[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}$" },
	{ "ipv4", "^" IPV4 "$" },
	{ "ipv6", "^" IPV6 "$" },
	{ "email", "^" ATOM "(\\." ATOM ")*@(" LABEL "\\.)+" LABEL "$" },
	{ "uri",
		"^[A-Za-z][A-Za-z0-9+.-]*:(" UAUTHORITY "|" UABSOLUTE "|" UCHAR
		"+(/" UCHAR "*)*)" UREST "$" },
	/* a relative path's first part has no colon, which would end a scheme; it may be empty */
	{ "uri-reference",
		"^([A-Za-z][A-Za-z0-9+.-]*:(" UAUTHORITY "|" UABSOLUTE "|" UCHAR
		"+(/" UCHAR "*)*)|" UAUTHORITY "|" UABSOLUTE "|" UNOCOLON "+(/" UCHAR
		"*)*|)" UREST "$" },
	{ "hostname", "^" HLABEL "(\\." HLABEL ")*$" },
	/* ISO 8601 as in RFC 3339's appendix A: weeks alone, or each unit at most once, in order */
	{ "duration",
		"^P(\\d+W|(\\d+Y(\\d+M(\\d+D)?)?|\\d+M(\\d+D)?|\\d+D)(T" DTIME
		")?|T" DTIME ")$" },
	{ "idn-email", NULL },
	{ "idn-hostname", NULL },
	{ "iri", NULL },
	{ "iri-reference", NULL },
	{ "uri-template", NULL },
	{ "json-pointer", NULL },
	{ "relative-json-pointer", NULL },
	{ "regex", NULL },
};

int schema_format(struct schema *s, const json_t *schema, const json_t *v, struct alt *a)
{
	const char *name = json_string_value(v);

	if (!name)
		return schema_refuse(s, schema, "format", "must be a string");
	for (size_t i = 0; i < sizeof formats / sizeof *formats; i++) {
		const struct lm_dfa *d;

		if (strcmp(formats[i].name, name) != 0)
			continue;
		if (!formats[i].pattern)
			return schema_leave_out(s, schema, "format",
				"'%s' is not supported", name);
		d = schema_pattern(s, v, formats[i].pattern, strlen(formats[i].pattern),
			formats[i].pattern);
		if (!d)
			return -1;
		pointers_add(s, &a->dfas, d);
	}
	return 0; /* names that nobody defined constrain nothing */
}

int schema_number(struct schema *s, const struct alt *a, struct lm_dfa *out)
{
	return dfa_number(out, &a->number, &s->budget);
}

const struct lm_dfa *schema_one_dfa(const struct alt *a)
{
	return a->type == ALT_STRING && a->dfas.n == 1 && !a->min &&
			a->max == UINT64_MAX ?
		a->dfas.at[0] :
		NULL;
}

int schema_string(struct schema *s, const struct alt *a, struct lm_dfa *out)
{
	struct lm_dfa all;
	int rc;

	if (!a->dfas.n)
		return dfa_any(out, &s->budget);
	if (dfa_product(&all, (const struct lm_dfa *const *)(const void *)a->dfas.at,
		    a->dfas.n, true, &s->budget) < 0)
		return -1;
	if (!a->min && a->max == UINT64_MAX) {
		*out = all;
		return 0;
	}
	rc = dfa_length(out, &all, a->min, a->max, &s->budget);
	dfa_release(&all);
	return rc;
}

/* --- joining ------------------------------------------------------------------------------ */

/* Makes a the least number of which both are parts, in the finer of their places. */
static int multiples_join(struct lm_number *a, const struct lm_number *b)
{
	uint64_t x, y, other = b->multiple;
	uint32_t places = b->places;

	for (; a->places < places; a->places++)
		a->multiple *= 10;
	for (; places < a->places; places++)
		other *= 10;
	x = a->multiple, y = other;
	while (y) {
		uint64_t rest = x % y;

		x = y;
		y = rest;
	}
	if (__builtin_mul_overflow(a->multiple / x, other, &a->multiple) ||
		a->multiple > UINT64_MAX / 16)
		return err_set(EX_DATAERR, "multipleOf is too large");
	return 0;
}

int numbers_join(struct lm_number *a, const struct lm_number *b)
{
	int c;

	a->whole |= b->whole;
	if (b->has_min) {
		c = a->has_min ? decimal_compare(&b->min, &a->min) : 1;
		if (c > 0) {
			a->min = b->min;
			a->min_excluded = b->min_excluded;
		} else if (c == 0) {
			a->min_excluded |= b->min_excluded;
		}
		a->has_min = true;
	}
	if (b->has_max) {
		c = a->has_max ? decimal_compare(&b->max, &a->max) : -1;
		if (c < 0) {
			a->max = b->max;
			a->max_excluded = b->max_excluded;
		} else if (c == 0) {
			a->max_excluded |= b->max_excluded;
		}
		a->has_max = true;
	}
	if (b->multiple && a->multiple)
		return multiples_join(a, b);
	if (b->multiple) {
		a->multiple = b->multiple;
		a->places = b->places;
	}
	return 0;
}

static bool number_possible(const struct lm_number *n)
{
	int c = n->has_min && n->has_max ? decimal_compare(&n->min, &n->max) : -1;

	return c < 0 || (c == 0 && !n->min_excluded && !n->max_excluded);
}

bool alt_possible(const struct alt *a)
{
	return a->type == ALT_BOOL    ? a->bools != 0 :
		a->type == ALT_NUMBER ? number_possible(&a->number) :
					a->min <= a->max;
}

int alt_join(struct schema *s, struct alt *a, const struct alt *b)
{
	if (dfa_spend(&s->budget, 0, 64 + a->names.n * b->names.n / 4) < 0)
		return -1;
	if (a->type != b->type)
		return 0;
	/* lists are shared until they grow */
	a->dfas.cap = a->dfas.n;
	a->parts.cap = a->parts.n;
	a->names.cap = a->names.n;
	a->bools &= b->bools;
	if (b->min > a->min)
		a->min = b->min;
	if (b->max < a->max)
		a->max = b->max;
	a->unique = a->unique ? a->unique : b->unique;
	a->sized = a->sized ? a->sized : b->sized;
	for (size_t i = 0; i < b->dfas.n; i++)
		pointers_add(s, &a->dfas, b->dfas.at[i]);
	for (size_t i = 0; i < b->parts.n; i++)
		pointers_add(s, &a->parts, b->parts.at[i]);
	for (size_t i = 0; i < b->names.n; i++) {
		bool there = false;

		for (size_t j = 0; j < a->names.n; j++)
			there |= strcmp(a->names.at[j], b->names.at[i]) == 0;
		if (!there)
			pointers_add(s, &a->names, b->names.at[i]);
	}
	if (a->type == ALT_NUMBER && numbers_join(&a->number, &b->number) < 0)
		return -1;
	return alt_possible(a);
}

int alts_join(struct schema *s, struct alts *a, const struct alts *b)
{
	struct alts out = { 0 };

	for (size_t i = 0; i < a->n; i++)
		for (size_t j = 0; j < b->n; j++) {
			struct alt both = a->at[i];
			int rc = alt_join(s, &both, &b->at[j]);

			if (rc < 0)
				return -1;
			if (!rc)
				continue;
			alts_add(s, &out, &both);
			if (out.n > ALTS_MAX)
				return schema_refuse(s, s->root, NULL,
					"anyOf and allOf make too many combinations");
		}
	*a = out;
	return 0;
}

void alts_full(struct schema *s, struct alts *out, unsigned types)
{
	*out = (struct alts){ 0 };
	for (unsigned t = 0; t < ALT_TYPES; t++)
		if (types >> t & 1) {
			struct alt a = { .type = (uint8_t)t,
				.bools = 3,
				.max = UINT64_MAX };

			alts_add(s, out, &a);
		}
}
