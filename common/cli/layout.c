/* layout.c - chooses and measures the columns of a kind of records. */
#include "common/cli/layout.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/cli/cell.h"
#include "common/cli/human.h"

static const char *kind_of(const json_t *record)
{
	const char *kind = json_string_value(json_object_get(record, "kind"));

	return kind ? kind : "";
}

bool layout_shown(const char *key)
{
	return strcmp(key, "kind") && strcmp(key, "v") && strcmp(key, "proof");
}

/* "gpus.0.model=GPU", "median|low|high=figure" */
static void add_column(struct layout *l, const char *spec, size_t len)
{
	const char *heading = memchr(spec, '=', len);
	size_t path = heading ? (size_t)(heading - spec) : len;
	struct buf text = BUF_INIT;

	if (l->n == TABLE_COLUMNS_MAX)
		return;
	l->paths[l->n] = xstrndup(spec, path);
	if (heading)
		buf_add(&text, heading + 1, len - path - 1);
	else
		human_heading(&text, l->paths[l->n]);
	l->headings[l->n] = buf_take(&text);
	l->columns[l->n] = (struct table_column){ .number = true };
	table_heading(&l->columns[l->n], l->headings[l->n]);
	l->n++;
}

/* Finds the table of a kind: "COLUMNS;KIND:COLUMNS;KIND:". Sets its length, without its kind.
 * Returns NULL where there is none. */
static const char *table_of(const char *tables, const char *kind, const char **unnamed,
	size_t *len)
{
	const char *free_one = NULL;
	size_t free_len = 0, n;

	for (const char *at = tables; *at; at += n + (at[n] == ';')) {
		size_t name = strcspn(at, ":;");

		n = strcspn(at, ";");
		if (at[name] != ':') {
			free_one = at;
			free_len = n;
		} else if (name == strlen(kind) && strncmp(at, kind, name) == 0) {
			*len = n - name - 1;
			return at + name + 1;
		}
	}
	if (!free_one || (*unnamed && strcmp(*unnamed, kind) != 0))
		return NULL;
	*unnamed = kind;
	*len = free_len;
	return free_one;
}

static void add_plain(struct layout *l, const json_t *record)
{
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)record, key, v)
		if ((json_is_string(v) || json_is_number(v) || json_is_boolean(v)) &&
			layout_shown(key))
			add_column(l, key, strlen(key));
}

void layout_init(struct layout *l, const char *columns, const json_t *record,
	const char **unnamed)
{
	const char *at;
	size_t len = 0;

	memset(l, 0, sizeof *l);
	l->group = -1;
	snprintf(l->kind, sizeof l->kind, "%s", kind_of(record));
	if (!columns) {
		add_plain(l, record);
		return;
	}
	at = table_of(columns, l->kind, unnamed, &len);
	for (const char *end = at + len; at && at < end;) {
		size_t n = strcspn(at, ",;"), mark = *at == '+';

		if (mark)
			l->group = l->n;
		add_column(l, at + mark, n - mark);
		at += n + 1;
	}
	if (l->group >= 0)
		l->value = cell_text(record, l->paths[l->group], 0);
}

bool layout_takes(const struct layout *l, const json_t *record, int64_t now_ms)
{
	bool takes = !*kind_of(record) || strcmp(l->kind, kind_of(record)) == 0;
	char *value;

	if (!takes || l->group < 0)
		return takes;
	value = cell_text(record, l->paths[l->group], now_ms);
	takes = value && l->value ? strcmp(value, l->value) == 0 : value == l->value;
	free(value);
	return takes;
}

void layout_release(struct layout *l)
{
	for (int i = 0; i < l->n; i++) {
		free(l->paths[i]);
		free(l->headings[i]);
	}
	free(l->value);
	memset(l, 0, sizeof *l);
}

bool layout_measure(struct layout *l, const json_t *record, int64_t now_ms)
{
	bool more = false;

	for (int i = 0; i < l->n; i++) {
		char *text = cell_text(record, l->paths[i], now_ms);

		if (text)
			table_measure(&l->columns[i], text);
		if (text && *text && !l->filled[i])
			more = l->filled[i] = true;
		free(text);
		l->columns[i].number &= cell_is_number(record, l->paths[i]);
	}
	return more;
}

void layout_fit(struct layout *l, size_t width)
{
	bool all = true; /* a table of nothing has its headings */

	for (int i = 0; i < l->n; i++)
		all = all && !l->filled[i];
	l->nshown = 0;
	for (int i = 0; i < l->n; i++)
		if (all || l->filled[i]) {
			l->fit[l->nshown] = l->columns[i];
			l->shown[l->nshown++] = i;
		}
	l->fitted = true;
	l->cards = !l->n || !table_fit(l->fit, l->nshown, width);
}

void layout_headings(struct buf *out, const struct layout *l, const char *on,
	const char *off)
{
	const char *texts[TABLE_COLUMNS_MAX];

	for (int i = 0; i < l->nshown; i++)
		texts[i] = l->headings[l->shown[i]];
	table_headings(out, l->fit, l->nshown, texts, on, off);
}

void layout_row(struct buf *out, const struct layout *l, const json_t *record,
	int64_t now_ms)
{
	char *cells[TABLE_COLUMNS_MAX];

	for (int i = 0; i < l->nshown; i++)
		cells[i] = cell_text(record, l->paths[l->shown[i]], now_ms);
	table_row(out, l->fit, l->nshown, (const char *const *)cells);
	for (int i = 0; i < l->nshown; i++)
		free(cells[i]);
}
