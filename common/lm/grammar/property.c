/* property.c - asks PCRE2 for the runs of a property in a text of all characters, once a
 * property. */
#include "common/lm/grammar/property.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/token/pre.h"

#define NAME_MAX_BYTES 40

struct property {
	struct property *next;
	char name[NAME_MAX_BYTES + 1];
	uint32_t *bounds;
	size_t n, cap;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct property *known; /* there are some three hundred names */

/* The long names of general categories, of which PCRE2 has the short ones. */
static const char *const categories[][2] = { { "Letter", "L" },
	{ "Uppercase_Letter", "Lu" }, { "Lowercase_Letter", "Ll" },
	{ "Titlecase_Letter", "Lt" }, { "Modifier_Letter", "Lm" },
	{ "Other_Letter", "Lo" }, { "Mark", "M" }, { "Nonspacing_Mark", "Mn" },
	{ "Spacing_Mark", "Mc" }, { "Enclosing_Mark", "Me" }, { "Number", "N" },
	{ "Decimal_Number", "Nd" }, { "digit", "Nd" }, { "Letter_Number", "Nl" },
	{ "Other_Number", "No" }, { "Punctuation", "P" }, { "punct", "P" },
	{ "Connector_Punctuation", "Pc" }, { "Dash_Punctuation", "Pd" },
	{ "Open_Punctuation", "Ps" }, { "Close_Punctuation", "Pe" },
	{ "Initial_Punctuation", "Pi" }, { "Final_Punctuation", "Pf" },
	{ "Other_Punctuation", "Po" }, { "Symbol", "S" }, { "Math_Symbol", "Sm" },
	{ "Currency_Symbol", "Sc" }, { "Modifier_Symbol", "Sk" },
	{ "Other_Symbol", "So" }, { "Separator", "Z" }, { "Space_Separator", "Zs" },
	{ "Line_Separator", "Zl" }, { "Paragraph_Separator", "Zp" }, { "Other", "C" },
	{ "Control", "Cc" }, { "cntrl", "Cc" }, { "Format", "Cf" },
	{ "Private_Use", "Co" }, { "Unassigned", "Cn" } };

/* Takes the name without what it is a value of. Returns false for what is no name. */
static bool take_name(char to[NAME_MAX_BYTES + 1], const char *name, size_t bytes)
{
	static const char *const of[] = { "General_Category=", "gc=", "Script=", "sc=" };

	for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
		size_t n = strlen(of[i]);

		if (bytes > n && memcmp(name, of[i], n) == 0) {
			name += n;
			bytes -= n;
			break;
		}
	}
	if (!bytes || bytes > NAME_MAX_BYTES)
		return false;
	memcpy(to, name, bytes);
	to[bytes] = '\0';
	if (to[strspn(to, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_")])
		return false;
	for (size_t i = 0; i < sizeof categories / sizeof *categories; i++)
		if (strcmp(categories[i][0], to) == 0)
			strcpy(to, categories[i][1]);
	return true;
}

static uint32_t char_at(const unsigned char *s, unsigned n)
{
	uint32_t c = n == 1 ? *s : *s & (0x7fu >> n);

	for (unsigned i = 1; i < n; i++)
		c = c << 6 | (s[i] & 63u);
	return c;
}

static unsigned bytes_of(unsigned char first)
{
	return first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
}

/* Takes a run of characters, which follow one another but for the surrogates. */
static int take_run(void *ctx, const char *piece, size_t bytes)
{
	const unsigned char *s = (const unsigned char *)piece, *last = s + bytes - 1;
	struct property *p = ctx;

	while ((*last & 0xc0) == 0x80)
		last--;
	p->bounds = xgrow(p->bounds, &p->cap, 2 * (p->n + 1), sizeof *p->bounds);
	p->bounds[2 * p->n] = char_at(s, bytes_of(*s));
	p->bounds[2 * p->n + 1] = char_at(last, bytes_of(*last));
	p->n++;
	return 0;
}

/* Every character but NUL, in order. */
static void add_all(struct buf *text)
{
	for (uint32_t c = 1; c < 0x110000; c++) {
		if (c >= 0xd800 && c < 0xe000)
			continue;
		if (c < 0x80) {
			buf_addc(text, (char)c);
		} else {
			unsigned n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;

			buf_addc(text, (char)((0xf00u >> n & 0xf0) | c >> 6 * (n - 1)));
			while (--n)
				buf_addc(text, (char)(0x80 | (c >> 6 * (n - 1) & 63)));
		}
	}
}

static int find_runs(struct property *p)
{
	struct buf text = BUF_INIT, pattern = BUF_INIT;
	struct pre pre = { 0 };
	struct pre_run run = { 0 };
	int rc;

	buf_addf(&pattern, "\\p{%s}+", p->name);
	rc = pre_add(&pre, buf_text(&pattern), pattern.len, PRE_MATCHES_ONLY, "pattern");
	if (rc == 0)
		rc = pre_run_init(&run);
	if (rc == 0) {
		add_all(&text);
		rc = pre_split(&pre, &run, buf_text(&text), text.len, take_run, p);
		pre_run_release(&run);
	}
	pre_release(&pre);
	buf_release(&pattern);
	buf_release(&text);
	return rc < 0 || p->n ? rc : err_set(EX_DATAERR, "no character is '%s'", p->name);
}

/* The one of this name, or NULL; with the lock. */
static struct property *find_known(const char *name)
{
	struct property *p = known;

	while (p && strcmp(p->name, name) != 0)
		p = p->next;
	return p;
}

bool property_is_known(const char *name, size_t bytes)
{
	char plain[NAME_MAX_BYTES + 1];
	bool is;

	if (!take_name(plain, name, bytes))
		return false;
	pthread_mutex_lock(&lock);
	is = find_known(plain) != NULL;
	pthread_mutex_unlock(&lock);
	return is;
}

size_t property_find(const char *name, size_t bytes, const uint32_t **out)
{
	struct property *p = xcalloc(1, sizeof *p), *there;

	if (!take_name(p->name, name, bytes)) {
		free(p);
		err_set(EX_DATAERR, "not the name of a property");
		return 0;
	}
	pthread_mutex_lock(&lock);
	there = find_known(p->name);
	if (!there && find_runs(p) == 0) {
		p->next = known;
		known = there = p;
	} else {
		free(p->bounds);
		free(p);
	}
	pthread_mutex_unlock(&lock);
	if (!there)
		return 0;
	*out = there->bounds;
	return there->n;
}
