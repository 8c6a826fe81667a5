/* html.h - pages for browsers: self-contained, without scripts, light and dark, and readable on
 * a phone.
 *
 * Pure. Uses buf. */
#ifndef RNP_COMMON_CLI_HTML_H
#define RNP_COMMON_CLI_HTML_H

#include "common/base/buf.h"

/* Appends untrusted text, escaped: within an element, or an attribute between double quotes.
 * Control characters become spaces. */
void html_text(struct buf *out, const char *text);

/* The same within <bdi>, so that right-to-left letters do not reorder the text beside them. */
void html_name(struct buf *out, const char *text);

/* Begins a page: head, style, <body> and <h1>. The page loads nothing. Elements of class "narrow"
 * are shown on narrow screens only, those of class "wide" on others. */
void html_begin(struct buf *out, const char *title);

/* Ends the page. */
void html_end(struct buf *out);

/* Opens a table whose rows become cards on narrow screens. headings: "Node|State|GPU". Cells
 * are opened with the heading that precedes them on a phone. */
void html_table(struct buf *out, const char *headings);
void html_cell(struct buf *out, const char *heading, const char *text); /* a whole cell */
void html_open_cell(struct buf *out, const char *heading); /* ends with </td> */
void html_table_end(struct buf *out);

#endif
