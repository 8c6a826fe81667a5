/* cell.c - the text of one cell of a table: the value at a path of a record, with its unit, and
 * with its interval where the path names one. */
#include "common/cli/cell.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/mem.h"
#include "common/cli/human.h"

static const json_t *at_path(const json_t *v, const char *path)
{
	char key[64];

	while (v && *path) {
		size_t n = strcspn(path, ".");

		if (n >= sizeof key)
			return NULL;
		memcpy(key, path, n);
		key[n] = '\0';
		v = json_is_array(v) ? json_array_get(v, (size_t)atoi(key)) :
				       json_object_get(v, key);
		path += n + (path[n] == '.');
	}
	return v;
}

static const char *last_name(const char *path)
{
	const char *dot = strrchr(path, '.');

	return dot ? dot + 1 : path;
}

/* Appends the value at a path; its unit is named by the path's last name, or by the one before
 * that. Returns false if the record has no such field. */
static bool add_value(struct buf *text, const json_t *record, const char *path,
	int64_t now_ms)
{
	const json_t *v = at_path(record, path);
	const char *last = last_name(path);
	char outer[64] = "";

	if (!v)
		return false;
	if (last > path && (size_t)(last - path) <= sizeof outer) {
		memcpy(outer, path, (size_t)(last - path - 1));
		outer[last - path - 1] = '\0';
	}
	human_value(text, human_key(last_name(outer), last), v,
		json_string_value(json_object_get(record, "unit")), now_ms);
	return true;
}

/* Appends the interval of a median as " (66.1 to 144)"; its bounds have their units only where
 * those are not the median's. */
static void add_interval(struct buf *text, const json_t *record, const char *median,
	const char *bounds, int64_t now_ms)
{
	const char *high = strchr(bounds, '|') + 1, *unit = strchr(median, ' ');
	char *low = xstrndup(bounds, (size_t)(high - 1 - bounds));
	const char *paths[] = { low, high };
	struct buf bound = BUF_INIT;

	for (int i = 0; i < 2; i++) {
		const char *own;

		buf_reset(&bound);
		if (!add_value(&bound, record, paths[i], now_ms))
			buf_adds(&bound, "-");
		own = strchr(buf_text(&bound), ' ');
		buf_adds(text, i ? " to " : " (");
		buf_add(text, bound.data,
			own && unit && strcmp(own, unit) == 0 ?
				(size_t)(own - bound.data) :
				bound.len);
	}
	buf_addc(text, ')');
	buf_release(&bound);
	free(low);
}

char *cell_text(const json_t *record, const char *path, int64_t now_ms)
{
	const char *bounds = strchr(path, '|');
	char *first = xstrndup(path, bounds ? (size_t)(bounds - path) : strlen(path));
	struct buf text = BUF_INIT;
	bool there;

	human_use_token_of(record);
	there = add_value(&text, record, first, now_ms);
	free(first);
	if (!there)
		return NULL;
	if (bounds) {
		char *median = xstrndup(buf_text(&text), text.len);

		add_interval(&text, record, median, bounds + 1, now_ms);
		free(median);
	}
	if (!text.len)
		buf_adds(&text, "");
	return buf_take(&text);
}

bool cell_is_number(const json_t *record, const char *path)
{
	const json_t *v = at_path(record, path);
	const char *text = json_string_value(v);

	/* a whole number beyond 2^53 is a text in records */
	return !strchr(path, '|') &&
		(!v || json_is_number(v) ||
			(text && strlen(text) >= 16 &&
				!text[strspn(text, "0123456789")]));
}
