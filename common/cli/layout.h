/* layout.h - how records of one kind are laid out for people: the columns of a table of their own,
 * or cards. Uses table, cell, human, json. */
#ifndef RNP_COMMON_CLI_LAYOUT_H
#define RNP_COMMON_CLI_LAYOUT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/cli/table.h"

#define LAYOUT_KIND_MAX 64

struct layout {
	char kind[LAYOUT_KIND_MAX];
	char *paths[TABLE_COLUMNS_MAX], *headings[TABLE_COLUMNS_MAX];
	/* as wide as they would like to be; filled: a record had a value for it */
	struct table_column columns[TABLE_COLUMNS_MAX];
	bool filled[TABLE_COLUMNS_MAX];
	int n;
	/* the column that has one value in a table, -1: none; and that value, NULL: absent */
	int group;
	char *value;
	/* those shown, as layout_fit left them */
	struct table_column fit[TABLE_COLUMNS_MAX];
	int shown[TABLE_COLUMNS_MAX], nshown;
	bool cards, fitted;
};

/* Begins the layout of the kind of a record. columns: as in struct out_form; *unnamed is the kind
 * that has its table without a kind, NULL while that is free; it then points into l. A kind for
 * which there is no table has cards. */
void layout_init(struct layout *l, const char *columns, const json_t *record,
	const char **unnamed);
void layout_release(struct layout *l);

/* Whether a field is shown where no columns are chosen: not what every record has. */
bool layout_shown(const char *key);

/* Whether a record belongs into this table: by its kind, and by the value of the grouping column. A
 * record without a kind belongs into any. */
bool layout_takes(const struct layout *l, const json_t *record, int64_t now_ms);

/* Widens the columns for a record. Returns whether it has a value for one that was empty so far. */
bool layout_measure(struct layout *l, const json_t *record, int64_t now_ms);

/* Fits the columns that are not empty into width characters (0: no limit), or turns the table into
 * cards. */
void layout_fit(struct layout *l, size_t width);

/* Append the headings, or the row of a record. on, off: as table_headings. */
void layout_headings(struct buf *out, const struct layout *l, const char *on,
	const char *off);
void layout_row(struct buf *out, const struct layout *l, const json_t *record,
	int64_t now_ms);

#endif
