/* policy.c - reward policies: where they are found, what they require, and the score of RNP-004. */
#include "common/record/policy.h"

#include <dirent.h>
#include <inttypes.h>
#include <libgen.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/amount.h"
#include "common/base/buf.h"
#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/sha256.h"
#include "common/base/suggest.h"
#include "common/json/json.h"
#include "common/json/schema.h"

/* build/asan/unit/rnp-x/room/x is five directories below the tree */
#define ANCESTORS_MAX 6

/* a need has exactly one of "known", "more_than" ... */
static const char *const op_names[] = { "known", "more_than", "at_least", "one_of",
	"in_tables" };

/* Returns how amounts of this unit are written and doubted, or NULL. */
static const struct amount_kind *kind_of(const char *unit)
{
	static const struct {
		const char *unit;
		const struct amount_kind *kind;
	} kinds[] = { { "bit/s", &amount_bits }, { "B", &amount_memory },
		{ "ppm", &amount_ppm } };

	for (size_t i = 0; unit && i < sizeof kinds / sizeof *kinds; i++)
		if (strcmp(unit, kinds[i].unit) == 0)
			return kinds[i].kind;
	return NULL;
}

/* Reads the number of a requirement, or a text with a unit that stands for one. */
static int parse_value(const json_t *value, const char *where, struct policy_need *n)
{
	const struct amount_kind *kind = kind_of(n->unit);
	const char *text = json_string_value(value);
	char what[192];

	if (json_is_integer(value))
		n->value = json_integer_value(value);
	if (!text)
		return 0;
	if (!kind)
		return err_set(EX_DATAERR,
			"%s: '%s': '%.40s' is a text, and the unit none of bit/s, B, ppm",
			where, n->name, text);
	snprintf(what, sizeof what, "%.128s: '%.40s'", where, n->name);
	if (amount_read(text, what, kind, NULL, NULL, &n->value) < 0)
		return -1;
	return n->value >= 0 ? 0 : err_set(EX_DATAERR, "%s: below 0", what);
}

static int parse_need(const json_t *v, const char *where, struct policy_need *n)
{
	const char *text;
	int found = 0;

	memset(n, 0, sizeof *n);
	n->name = json_string_value(json_object_get(v, "name"));
	n->field = json_string_value(json_object_get(v, "field"));
	n->unit = json_string_value(json_object_get(v, "unit"));
	n->remedy = json_string_value(json_object_get(v, "remedy"));
	n->override = json_string_value(json_object_get(v, "override"));
	text = json_string_value(json_object_get(v, "unknown"));
	n->unknown_passes = text && strcmp(text, "pass") == 0;
	text = json_string_value(json_object_get(v, "when"));
	if (text)
		n->when = strcmp(text, "epoch") == 0 ? POLICY_EPOCH : POLICY_REGISTRATION;
	for (int i = 0; i < 5; i++) {
		const json_t *value = json_object_get(v, op_names[i]);

		if (!value)
			continue;
		found++;
		n->op = (enum policy_op)i;
		n->names = value;
		if (parse_value(value, where, n) < 0)
			return -1;
	}
	if (found != 1)
		return err_set(EX_DATAERR,
			"%s: '%s' needs exactly one of known, more_than, "
			"at_least, one_of, in_tables",
			where, n->name);
	return 0;
}

static int check_tables(const struct policy *p, const char *where,
	const struct policy_need *n)
{
	const json_t *tables = json_object_get(p->doc, "tables"), *name;
	size_t i;

	if (n->op != POLICY_IN_TABLES)
		return 0;
	json_array_foreach(n->names, i, name)
		if (!json_object_get(tables, json_string_value(name)))
			return err_set(EX_DATAERR, "%s: '%s': there is no table '%s'",
				where, n->name, json_string_value(name));
	return 0;
}

int policy_needs(const struct policy *p, const char *list, struct policy_need *out)
{
	const json_t *needs = json_object_get(p->doc, list), *need;
	char where[128];
	size_t i;

	json_array_foreach(needs, i, need) {
		if (i == POLICY_NEEDS_MAX)
			return err_set(EX_DATAERR,
				"policy %.64s: %s: more than %d entries", p->name, list,
				POLICY_NEEDS_MAX);
		snprintf(where, sizeof where, "policy %.64s: %s[%zu]", p->name, list, i);
		if (parse_need(need, where, &out[i]) < 0 ||
			check_tables(p, where, &out[i]) < 0)
			return -1;
	}
	return (int)json_array_size(needs);
}

bool policy_met_i64(const struct policy_need *n, int64_t value)
{
	switch (n->op) {
	case POLICY_KNOWN:
		return true;
	case POLICY_MORE_THAN:
		return value > n->value;
	case POLICY_MIN:
		return value >= n->value;
	default:
		return false;
	}
}

bool policy_met_text(const struct policy *p, const struct policy_need *n,
	const char *text)
{
	const json_t *tables = json_object_get(p->doc, "tables"), *name;
	size_t i;

	if (n->op == POLICY_KNOWN)
		return true;
	if (n->op != POLICY_ONE_OF && n->op != POLICY_IN_TABLES)
		return false;
	json_array_foreach(n->names, i, name) {
		const char *s = json_string_value(name);

		if (n->op == POLICY_ONE_OF ?
				strcmp(s, text) == 0 :
				json_object_get(json_object_get(tables, s), text) != NULL)
			return true;
	}
	return false;
}

/* Appends v with a decimal prefix, exactly: "940.5 Mbit/s". */
static void add_prefixed(struct buf *out, int64_t v, const char *unit)
{
	static const char *const prefixes[] = { "k", "M", "G", "T", "P" };
	int64_t one = 1, rest;
	int prefix = -1;

	while (prefix < 4 && v / one >= 1000)
		one *= 1000, prefix++;
	buf_add_i64(out, v / one);
	rest = v % one;
	if (rest)
		buf_addc(out, '.');
	while (rest) {
		one /= 10;
		buf_addc(out, (char)('0' + rest / one));
		rest %= one;
	}
	buf_addf(out, " %s%s", prefix < 0 ? "" : prefixes[prefix], unit);
}

void policy_amount_text(struct buf *out, int64_t v, const char *unit)
{
	if (unit && v >= 0 && (strcmp(unit, "bit/s") == 0 || strcmp(unit, "B") == 0)) {
		add_prefixed(out, v, unit);
	} else if (unit && v >= 0 && strcmp(unit, "ppm") == 0) {
		buf_add_i64(out, v / 10000);
		if (v % 10000) {
			char digits[8];

			snprintf(digits, sizeof digits, "%04d", (int)(v % 10000));
			for (int end = 3; digits[end] == '0'; end--)
				digits[end] = '\0';
			buf_addf(out, ".%s", digits);
		}
		buf_adds(out, " %");
	} else {
		buf_add_i64(out, v);
		if (unit)
			buf_addf(out, " %s", unit);
	}
}

static void add_need(struct buf *out, const struct policy_need *n, bool prefixes)
{
	const json_t *name;
	size_t i;

	switch (n->op) {
	case POLICY_KNOWN:
		buf_adds(out, "known");
		return;
	case POLICY_MORE_THAN:
	case POLICY_MIN:
		buf_adds(out, n->op == POLICY_MIN ? "at least " : "more than ");
		if (prefixes)
			policy_amount_text(out, n->value, n->unit);
		else
			buf_addf(out, "%" PRId64 "%s%s", n->value, n->unit ? " " : "",
				n->unit ? n->unit : "");
		return;
	case POLICY_ONE_OF:
	case POLICY_IN_TABLES:
		buf_adds(out,
			n->op == POLICY_ONE_OF ? "one of" : "a model of the tables");
		json_array_foreach(n->names, i, name)
			buf_addf(out, "%s %s", i ? "," : "", json_string_value(name));
		return;
	}
}

void policy_need_text(struct buf *out, const struct policy_need *n)
{
	add_need(out, n, false);
}

void policy_need_page(struct buf *out, const struct policy_need *n)
{
	add_need(out, n, true);
}

/* Doubts numbers that are probably of another unit. */
static int doubt(const struct policy_need *needs, int n, const char *where)
{
	char what[400];

	for (int i = 0; i < n; i++) {
		const struct amount_kind *kind = kind_of(needs[i].unit);

		if (!kind ||
			(needs[i].op != POLICY_MORE_THAN && needs[i].op != POLICY_MIN))
			continue;
		snprintf(what, sizeof what, "%.300s: %.40s", where, needs[i].name);
		if (amount_doubt(needs[i].value, what, kind) < 0)
			return -1;
	}
	return 0;
}

static int seal(struct policy *p, const char *where)
{
	struct policy_need needs[POLICY_NEEDS_MAX];
	unsigned char hash[SHA256_BYTES];
	struct buf canonical = BUF_INIT;
	const char *token;
	int rc = -1;

	if (schema_check(p->doc, where, "rnp.policy") < 0)
		return -1;
	p->name = json_string_value(json_object_get(p->doc, "name"));
	token = json_string_value(json_object_get(p->doc, "token"));
	p->token = token ? token : POLICY_TOKEN;
	for (int list = 0; list < 2; list++) {
		int n = policy_needs(p, list ? "recommends" : "requires", needs);

		if (n < 0 || doubt(needs, n, where) < 0)
			return -1;
	}
	if (canon_write(&canonical, p->doc) < 0) {
		err_add("%s", where);
		goto out;
	}
	sha256(hash, canonical.data, canonical.len);
	sodium_bin2hex(p->sha256, sizeof p->sha256, hash, sizeof hash);
	rc = 0;
out:
	buf_release(&canonical);
	return rc;
}

int policy_parse(struct policy *p, const char *text, size_t len, const char *where)
{
	*p = (struct policy)POLICY_INIT;
	p->doc = json_parse_object(text, len, where);
	if (!p->doc)
		return -1;
	if (seal(p, where) < 0) {
		policy_release(p);
		return -1;
	}
	return 0;
}

/* --- finding one by name ------------------------------------------------------------------- */

/* Appends the i-th directory where policies may be: those above the program, as in a build tree,
 * nearest first, then the installed one. Returns false when there are no more. */
static bool directory(int i, struct buf *out)
{
	char exe[4096];
	ssize_t n = readlink("/proc/self/exe", exe, sizeof exe - 1);
	char *dir = exe;

	buf_reset(out);
	if (n <= 0 || i > ANCESTORS_MAX)
		return false;
	exe[n] = '\0';
	dir = dirname(exe);
	if (i == ANCESTORS_MAX) {
		buf_addf(out, "%s/../share/rnp/policies", dir);
		return true;
	}
	for (int up = 0; up <= i; up++)
		dir = dirname(dir);
	buf_addf(out, "%s/cmd/rnp-reward/policies", strcmp(dir, "/") == 0 ? "" : dir);
	return true;
}

static int by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static bool ends_in_json(const char *name)
{
	size_t n = strlen(name);

	return n > 5 && strcmp(name + n - 5, ".json") == 0;
}

static int is_policy(const struct dirent *d)
{
	return ends_in_json(d->d_name);
}

static void no_such_policy(const char *name)
{
	struct suggest near = { .wanted = name };
	struct buf dir = BUF_INIT, names = BUF_INIT;
	char words[100];
	struct dirent **found;

	for (int i = 0; !names.len && directory(i, &dir); i++) {
		int n = scandir(dir.data, &found, is_policy, by_name);

		for (int k = 0; k < n; k++) {
			size_t len = strlen(found[k]->d_name) - 5;

			suggest_offer(&near, found[k]->d_name, len);
			buf_addf(&names, "%s%.*s", k ? ", " : "", (int)len,
				found[k]->d_name);
			free(found[k]);
		}
		if (n >= 0)
			free(found);
	}
	err_set(EX_USAGE, "there is no policy '%.64s'%s", name,
		suggest_text(&near, words, sizeof words));
	if (names.len && !near.best[0])
		err_hint("policies: %s; or the path of a file", names.data);
	buf_release(&dir);
	buf_release(&names);
}

static int find(const char *name, struct buf *path)
{
	if (strchr(name, '/') || ends_in_json(name)) {
		buf_adds(path, name);
		return 0;
	}
	for (int i = 0; directory(i, path); i++) {
		buf_addf(path, "/%s.json", name);
		if (access(path->data, F_OK) == 0)
			return 0;
	}
	no_such_policy(name);
	return -1;
}

int policy_load(struct policy *p, const char *name_or_path)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	int rc = -1;

	*p = (struct policy)POLICY_INIT;
	if (find(name_or_path, &path) < 0 ||
		io_read(&text, path.data, POLICY_BYTES_MAX) < 0)
		goto out;
	rc = policy_parse(p, buf_text(&text), text.len, path.data);
out:
	buf_release(&path);
	buf_release(&text);
	return rc;
}

void policy_release(struct policy *p)
{
	json_decref(p->doc);
	*p = (struct policy)POLICY_INIT;
}

/* --- the score of RNP-004 ------------------------------------------------------------------ */

#define PPM       1000000
#define SCORE_MAX INT64_C(1000000000000000)

static uint64_t gcd(uint64_t a, uint64_t b)
{
	while (b) {
		uint64_t r = a % b;

		a = b;
		b = r;
	}
	return a;
}

/* A whole number of any size, represented by its highest 64 bits. Ten factors of 60 bits would
 * not fit 128; ratios in lowest terms usually lose nothing, and the error is below 2^-60 of the
 * product, the same on every machine. */
struct wide {
	uint64_t top;
	int exponent;
};

static void wide_mul(struct wide *a, uint64_t b)
{
	unsigned __int128 product = (unsigned __int128)a->top * b;

	for (; product >> 64; product >>= 1)
		a->exponent++;
	a->top = (uint64_t)product;
}

/* Returns floor(a / b x 10^6), at most SCORE_MAX. */
static int64_t wide_ratio_ppm(const struct wide *a, const struct wide *b)
{
	int shift = a->exponent - b->exponent;
	unsigned __int128 num = (unsigned __int128)a->top * PPM, den = b->top;

	for (; shift > 0 && !(num >> 126); shift--)
		num <<= 1;
	for (; shift < 0 && den <= num; shift++)
		den <<= 1;
	if (shift > 0 || num / den >= (unsigned __int128)SCORE_MAX)
		return SCORE_MAX;
	return (int64_t)(num / den);
}

int64_t policy_score_ppm(const struct policy *p, const json_t *readings)
{
	const json_t *references = json_object_get(json_object_get(p->doc, "score"),
		"reference");
	struct wide num = { 1, 0 }, den = { 1, 0 };
	const char *name;
	json_t *reference;

	if (!json_object_size(references))
		return -1;
	json_object_foreach((json_t *)references, name, reference) {
		const json_t *v = json_object_get(readings, name);
		int64_t power = json_integer_value(json_object_get(reference, "power"));
		uint64_t value, unit, g;

		if (!json_is_integer(v) || json_integer_value(v) < 0)
			return -1;
		value = (uint64_t)json_integer_value(v);
		unit = (uint64_t)json_integer_value(json_object_get(reference, "value"));
		g = gcd(value, unit);
		for (; power > 0; power--) {
			wide_mul(&num, value / g);
			wide_mul(&den, unit / g);
		}
	}
	return num.top ? wide_ratio_ppm(&num, &den) : 0;
}
