/* plot.h - measurements as pictures: charts one below the other in one SVG file. Uses libc,
 * buf, mem, io, utf8.
 *
 * The file is self-contained: no script, no font, nothing that is loaded; on a dark screen it is
 * dark. The same input gives the same
 * bytes. Texts are UTF-8; characters that XML does not allow become U+FFFD. Values that are not
 * finite, beyond 1e300, or not above 0 on a logarithmic axis are left out: a curve has a gap
 * there. All arguments are borrowed for the call. */
#ifndef RNP_COMMON_PLOT_PLOT_H
#define RNP_COMMON_PLOT_PLOT_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"

enum plot_scale {
	PLOT_LINEAR,
	PLOT_LOG,
	PLOT_TIME /* values are milliseconds since 1970; written in UTC */
};

struct plot_axis {
	const char *label; /* "round", "time, UTC"; NULL: no label */
	const char *unit;  /* "B/s": values are written "1.2 GB/s"; NULL: "1200", "12k" */
	enum plot_scale scale;
	double min, max; /* the ends; where min >= max they come from the values */
	bool zero; /* for a linear axis whose ends come from the values: include 0 */
};

enum plot_style {
	PLOT_CURVE,  /* low and high are a band */
	PLOT_STEPS,  /* each value holds until the next; no band */
	PLOT_MARKED, /* a curve with a mark at each point; low and high are whiskers */
	PLOT_POINTS  /* no curve */
};

struct plot_line {
	const char *name; /* in the legend; NULL: left out of it */
	enum plot_style style;
	bool dashed;
	size_t n;
	const double *x, *y;
	const double *low, *high;  /* 95% interval of y; NULL: none */
	const char *const *labels; /* n texts beside the points, any NULL; NULL: none */
};

struct plot_chart {
	const char *title;
	struct plot_axis x, y;
	const struct plot_line *lines;
	size_t n;
};

/* Horizontal bars from 0, one a row, their values written after them. On a logarithmic axis, for
 * values that span decades, they begin at a power of ten. */
struct plot_bar {
	const char *name;
	double value, low, high; /* low > high: no interval */
	const char *note;        /* after the value; NULL: none */
};

struct plot_bars {
	const char *title;
	struct plot_axis axis; /* linear or logarithmic */
	const struct plot_bar *bars;
	size_t n;
};

/* A roofline chart: what a machine can do and what some work reaches (Williams, Waterman and
 * Patterson, Roofline, 2009). */
struct plot_roof {
	const char *name;
	double rate; /* memory: bytes a second; peaks: operations a second */
};

struct plot_work {
	const char *name;
	double intensity;       /* operations for each byte that has to be moved */
	double rate, low, high; /* operations a second; low > high: no interval */
};

struct plot_roofline {
	const char *title;
	const struct plot_roof *memory, *peaks;
	const struct plot_work *work;
	size_t memories, n_peaks, n;
};

struct plot {
	/* of the picture, in pixels: set before the first chart; 0: 860. On a narrow screen a
	 * picture of its own width is readable where a wide one is scaled down with its texts. */
	double width;
	struct buf body;
	double height;
	int charts;
};
/* clang-format off */
#define PLOT_INIT { 0 }
/* clang-format on */

void plot_release(struct plot *p);

/* Adds one chart below the others. A chart without a value to draw says "no data". */
void plot_add_chart(struct plot *p, const struct plot_chart *c);
void plot_add_bars(struct plot *p, const struct plot_bars *b);
void plot_add_roofline(struct plot *p, const struct plot_roofline *r);

/* Appends the whole picture to out. title: above all charts; note: below them; NULL: none. */
void plot_write(struct buf *out, const struct plot *p, const char *title,
	const char *note);

/* Appends the picture as part of an HTML page, in a box of the class plot, which the page lets
 * scroll: scaled down to a phone nobody could read it. */
void plot_embed(struct buf *out, const struct plot *p, const char *title);

/* Writes the picture to a file, whole or not at all. Returns 0, or -1 with err_set (73, 74,
 * 77). */
int plot_save(const struct plot *p, const char *title, const char *note,
	const char *path);

#endif
