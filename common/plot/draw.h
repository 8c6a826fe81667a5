/* draw.h - draws shapes and texts of an SVG file, in pixels from the top left. For plot
 * only; uses buf. */
#ifndef RNP_COMMON_PLOT_DRAW_H
#define RNP_COMMON_PLOT_DRAW_H

#include <stddef.h>

#include "common/base/buf.h"

#define DRAW_INK   "#222"
#define DRAW_QUIET "#666"
#define DRAW_GRID  "#ddd"

enum draw_anchor { DRAW_START, DRAW_MIDDLE, DRAW_END };

struct draw_text {
	double x, y; /* of the baseline */
	double size;
	enum draw_anchor anchor;
	const char *colour;
	/* 0 or 1 each; upwards: read from below; halo: legible on lines */
	int bold, upwards, halo;
};

/* Appends text as XML content or attribute: escaped, and characters that XML does not allow as
 * U+FFFD. */
void draw_escaped(struct buf *out, const char *text);

void draw_text(struct buf *out, const struct draw_text *t, const char *text);

/* Estimates the width of a text in a common sans-serif font, rather too wide than too narrow. */
double draw_width(const char *text, double size);

/* Appends the text, or its beginning and an ellipsis when the text is wider than the limit. */
void draw_fitting(struct buf *out, const char *text, double size, double width);

/* Appends a number with at most two decimals, none where they are 0. */
void draw_number(struct buf *out, double v);

void draw_line(struct buf *out, double x1, double y1, double x2, double y2,
	const char *colour, double width);

/* Return the colour of the i-th series, and the SVG dash pattern of the i-th line ("" is
 * solid). */
const char *draw_colour(size_t i);
const char *draw_dash(size_t i);

/* Draws a mark of the i-th shape around x, y: not all readers can tell colours apart. */
void draw_mark(struct buf *out, size_t i, double x, double y, const char *title);

#endif
