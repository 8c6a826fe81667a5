/* ignore.c - reads and applies rules. Where gitignore(5) is not exact, this does what git does
 * (2.39): the literal part of a rule with a slash is compared first, and the rest alone is a
 * pattern. */
#include "cmd/rnp-register/pack/ignore.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

/* Returns the length without the blanks at the end that no backslash precedes. */
static size_t without_blanks(const char *line, size_t len)
{
	size_t end = 0;

	for (size_t i = 0; i < len; i++) {
		if (line[i] == ' ')
			continue;
		if (line[i] == '\\' && i + 1 < len)
			i++;
		end = i + 1;
	}
	return end;
}

/* Takes a line without its end. */
static void rule_init(struct ignore_rule *r, const char *p, size_t len)
{
	memset(r, 0, sizeof *r);
	if (len && *p == '!') {
		r->keeps = true;
		p++, len--;
	}
	if (len && p[len - 1] == '/') {
		r->only_dirs = true;
		len--;
	}
	r->any_dir = !memchr(p, '/', len);
	if (!r->any_dir && *p == '/')
		p++, len--;
	r->text = xstrndup(p, len);
	r->len = len;
	r->literal = wild_literal(p, len);
	r->ending = len && *p == '*' && wild_literal(p + 1, len - 1) == len - 1;
	if (r->any_dir)
		wild_compile(&r->wild, p, len);
	else
		wild_compile(&r->wild, p + r->literal, len - r->literal);
}

static int read_line(struct ignore_list *list, const char *line, size_t len,
	const char *name, int number)
{
	size_t end = strnlen(line, len);

	if (!end || *line == '#')
		return 0;
	end = without_blanks(line, end);
	if (end > IGNORE_RULE_BYTES_MAX || list->n >= IGNORE_RULES_MAX)
		return err_set(EX_DATAERR, "%s:%d: %s", name, number,
			list->n >= IGNORE_RULES_MAX ? "more than 20000 rules" :
						      "a rule has more than 4096 bytes");
	if (!end)
		return 0;
	list->rules = xgrow(list->rules, &list->cap, list->n + 1, sizeof *list->rules);
	rule_init(&list->rules[list->n++], line, end);
	return 0;
}

int ignore_read(struct ignore_list *list, const char *text, size_t len, const char *base,
	struct ignore_list *outer, const char *name)
{
	const char *p = text, *end = text + len;
	int number = 1;

	memset(list, 0, sizeof *list);
	list->base = xstrdup(base);
	list->outer = outer;
	if (len >= 3 && memcmp(p, "\xef\xbb\xbf", 3) == 0)
		p += 3;
	for (; p < end; number++) {
		const char *eol = memchr(p, '\n', (size_t)(end - p));
		size_t n = (size_t)((eol ? eol : end) - p);

		if (n && p[n - 1] == '\r')
			n--;
		if (read_line(list, p, n, name, number) < 0) {
			ignore_release(list);
			return -1;
		}
		p = eol ? eol + 1 : end;
	}
	return 0;
}

void ignore_release(struct ignore_list *list)
{
	for (size_t i = 0; i < list->n; i++) {
		free(list->rules[i].text);
		wild_release(&list->rules[i].wild);
	}
	free(list->rules);
	free(list->base);
	memset(list, 0, sizeof *list);
}

static bool matches_name(const struct ignore_rule *r, const char *name, size_t len)
{
	if (r->literal == r->len)
		return len == r->len && memcmp(r->text, name, len) == 0;
	if (r->ending)
		return len >= r->len - 1 &&
			memcmp(r->text + 1, name + len - (r->len - 1), r->len - 1) == 0;
	return wild_match(&r->wild, name, len);
}

/* path: below the directory of the file of rules */
static bool matches_path(const struct ignore_rule *r, const char *path, size_t len)
{
	if (r->literal > len || memcmp(r->text, path, r->literal) != 0)
		return false;
	return wild_match(&r->wild, path + r->literal, len - r->literal);
}

static enum ignore_said ask_one(const struct ignore_list *list, const char *path,
	size_t len, const char *name, bool is_dir)
{
	size_t base = strlen(list->base), skip = base ? base + 1 : 0;
	size_t name_len = (size_t)(path + len - name);

	if (len <= skip || (base && path[base] != '/') ||
		memcmp(path, list->base, base) != 0)
		return IGNORE_NOTHING;
	for (size_t i = list->n; i-- > 0;) {
		const struct ignore_rule *r = &list->rules[i];

		if (r->only_dirs && !is_dir)
			continue;
		if (r->any_dir ? matches_name(r, name, name_len) :
				 matches_path(r, path + skip, len - skip))
			return r->keeps ? IGNORE_KEEP : IGNORE_LEAVE_OUT;
	}
	return IGNORE_NOTHING;
}

enum ignore_said ignore_ask(const struct ignore_list *list, const char *path, size_t len,
	bool is_dir)
{
	const char *slash = memrchr(path, '/', len), *name = slash ? slash + 1 : path;

	for (; list; list = list->outer) {
		enum ignore_said said = ask_one(list, path, len, name, is_dir);

		if (said != IGNORE_NOTHING)
			return said;
	}
	return IGNORE_NOTHING;
}
