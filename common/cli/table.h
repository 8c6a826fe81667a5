/* table.h - columns and cards of text, wrapped to a width: whatever does not fit is wrapped between
 * words or parts of names. Nothing is truncated but keys and hashes, of which a narrow column shows
 * both ends; cards and JSON have them whole. Pure. Uses buf, mem. */
#ifndef RNP_COMMON_CLI_TABLE_H
#define RNP_COMMON_CLI_TABLE_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"

#define TABLE_COLUMNS_MAX 24
#define TABLE_GAP         2 /* blanks between columns */

struct table_column {
	size_t width;  /* characters; grows with table_heading and table_measure */
	size_t needed; /* those of the cells, and of the heading's longest word */
	bool number;   /* all cells so far are numbers: aligned right */
	bool key;      /* a cell is a key or hash, of which both ends are enough */
};

/* Returns the number of characters of a UTF-8 text. */
size_t table_width(const char *text);

/* Widens c to fit its heading, which may be wrapped between words, or a cell. */
void table_heading(struct table_column *c, const char *text);
void table_measure(struct table_column *c, const char *text);

/* Shrinks the widest columns until all n fit into width characters: first keys are shortened to
 * 24 characters, then headings are wrapped, then texts, never numbers. Returns false, and leaves
 * them as they were, if texts would become narrower than 12 characters: then cards are better.
 * width 0: no limit. */
bool table_fit(struct table_column *columns, int n, size_t width);

/* Append the headings, or one row: texts that are wider than their column continue in further lines
 * of it, numbers are never broken. An absent cell (NULL) is "-". on, off: escape sequences for the
 * headings' colour, "" for none. */
void table_headings(struct buf *out, const struct table_column *columns, int n,
	const char *const *cells, const char *on, const char *off);
void table_row(struct buf *out, const struct table_column *columns, int n,
	const char *const *cells);

/* Appends `label  text`, the text in lines of at most width characters (0: no limit), those after
 * the first under its beginning. A key or hash that is longer has a line of its own, whole. */
void table_card_line(struct buf *out, const char *label, size_t label_width,
	const char *text, size_t width);

/* The same for advice, as in `next` and `remedy`: "WORDS: COMMAND" has its command in lines of its
 * own, which are only broken behind | and &&, so that they can be pasted. */
void table_card_advice(struct buf *out, const char *label, size_t label_width,
	const char *text, size_t width);

/* Returns the command of an advice, or NULL if it has none. */
const char *table_advice_command(const char *text);

#endif
