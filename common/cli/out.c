#include "common/cli/out.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/mem.h"

#define COLUMNS_MAX 24

struct column {
	char *path;
	size_t width;
	bool text, number; /* only numbers are aligned right */
};

static struct {
	bool on;
	const char *wanted;
	struct column columns[COLUMNS_MAX];
	int ncolumns;
	char **cells; /* nrows x ncolumns; NULL: absent */
	size_t nrows, cap;
} table;

void out_use_table(bool on, const char *columns)
{
	table.on = on;
	table.wanted = columns;
}

void out_columns(const char *columns)
{
	table.wanted = columns;
}

static int write_failed(void)
{
	return err_sys(EX_IOERR, "cannot write to standard output");
}

int out_text(const char *data, size_t len)
{
	return len && fwrite(data, 1, len, stdout) != len ? write_failed() : 0;
}

int out_flush(void)
{
	return fflush(stdout) ? write_failed() : 0;
}

static bool plain(const json_t *v)
{
	return json_is_string(v) || json_is_number(v) || json_is_boolean(v);
}

static void add_column(const char *path, size_t len)
{
	if (table.ncolumns == COLUMNS_MAX)
		return;
	table.columns[table.ncolumns++] = (struct column){
		.path = xstrndup(path, len),
		.width = len,
	};
}

static void choose_columns(const json_t *record)
{
	const char *key;
	json_t *v;

	if (table.wanted) {
		for (const char *s = table.wanted; *s;) {
			size_t n = strcspn(s, ",");

			add_column(s, n);
			s += n + (s[n] == ',');
		}
		return;
	}
	json_object_foreach((json_t *)record, key, v)
		if (plain(v) && strcmp(key, "kind") && strcmp(key, "v"))
			add_column(key, strlen(key));
}

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

static char *cell_text(const json_t *v)
{
	struct buf text = BUF_INIT;

	if (json_is_string(v))
		buf_adds(&text, json_string_value(v));
	else
		json_write(&text, v);
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < 0x20)
			text.data[i] = ' ';
	return buf_take(&text);
}

static size_t width_of(const char *utf8)
{
	size_t n = 0;

	for (; *utf8; utf8++)
		n += ((unsigned char)*utf8 & 0xc0) != 0x80;
	return n;
}

static void keep_row(const json_t *record)
{
	if (!table.nrows)
		choose_columns(record);
	table.cells = xgrow(table.cells, &table.cap,
		(table.nrows + 1) * (size_t)table.ncolumns, sizeof *table.cells);
	for (int i = 0; i < table.ncolumns; i++) {
		struct column *c = &table.columns[i];
		const json_t *v = at_path(record, c->path);
		char *text = v ? cell_text(v) : NULL;

		table.cells[table.nrows * (size_t)table.ncolumns + (size_t)i] = text;
		if (text && width_of(text) > c->width)
			c->width = width_of(text);
		c->number |= v && json_is_number(v);
		c->text |= v && !json_is_number(v);
	}
	table.nrows++;
}

static int print_cell(const struct column *c, const char *text, bool last)
{
	int pad = (int)(c->width - width_of(text));

	if (c->number && !c->text)
		return printf("%*s%s%s", pad, "", text, last ? "\n" : "  ");
	return last ? printf("%s\n", text) : printf("%s%*s  ", text, pad, "");
}

static int print_table(void)
{
	int rc = 0, n = table.ncolumns;

	for (int i = 0; i < n && rc >= 0; i++)
		rc = print_cell(&table.columns[i], table.columns[i].path, i == n - 1);
	for (size_t row = 0; row < table.nrows && rc >= 0; row++)
		for (int i = 0; i < n && rc >= 0; i++) {
			const char *text = table.cells[row * (size_t)n + (size_t)i];

			rc = print_cell(&table.columns[i], text ? text : "-", i == n - 1);
		}
	return rc < 0 ? write_failed() : 0;
}

static void release_table(void)
{
	for (size_t i = 0; i < table.nrows * (size_t)table.ncolumns; i++)
		free(table.cells[i]);
	free(table.cells);
	for (int i = 0; i < table.ncolumns; i++)
		free(table.columns[i].path);
	memset(&table, 0, sizeof table);
}

int out_record(const json_t *record)
{
	struct buf line = BUF_INIT;
	int rc;

	if (table.on) {
		keep_row(record);
		return 0;
	}
	json_write(&line, record);
	buf_addc(&line, '\n');
	rc = out_text(line.data, line.len);
	buf_release(&line);
	return rc < 0 ? -1 : out_flush();
}

int out_lines(void *ctx, const char *data, size_t len)
{
	(void)ctx;
	if (!table.on)
		return out_text(data, len) < 0 ? -1 : out_flush();
	while (len) {
		const char *end = memchr(data, '\n', len);
		size_t n = end ? (size_t)(end - data) : len;
		json_t *record = json_parse_object(data, n, "output");

		if (!record)
			bug("%s", err_get()->text);
		keep_row(record);
		json_decref(record);
		data += n + (end != NULL);
		len -= n + (end != NULL);
	}
	return 0;
}

int out_close(void)
{
	int rc = 0;

	if (table.on && table.nrows)
		rc = print_table();
	release_table();
	/* a full disk may show only now; closing twice would hide it */
	if (fflush(stdout) || ferror(stdout) ||
		(close(STDOUT_FILENO) < 0 && errno != EBADF))
		rc = rc < 0 ? rc : write_failed();
	return rc;
}
