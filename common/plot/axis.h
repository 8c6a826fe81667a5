/* axis.h - maps values to places on an axis and chooses its ticks. Pure; for plot only. */
#ifndef RNP_COMMON_PLOT_AXIS_H
#define RNP_COMMON_PLOT_AXIS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/plot/plot.h"

#define AXIS_TICKS_MAX 40
#define AXIS_TEXT_MAX  48

struct axis {
	enum plot_scale scale;
	double min, max; /* min < max */
	size_t n;
	struct axis_tick {
		double value;
		char text[AXIS_TEXT_MAX];
	} ticks[AXIS_TICKS_MAX];
};

/* Whether a value can be drawn on an axis of this scale. */
bool axis_takes(enum plot_scale scale, double v);

/* Makes an axis for values from low to high (low > high: there are no values), with about
 * `wanted` ticks. */
void axis_make(struct axis *a, const struct plot_axis *want, double low, double high,
	int wanted);

/* Returns 0 at the axis's min and 1 at its max; values beyond the ends lie outside of 0..1. */
double axis_place(const struct axis *a, double v);

/* Writes a value with 3 significant digits and the unit: "1.23 GB/s"; "12.3k" without one; "no
 * data" for a value that cannot be drawn. */
void axis_text(char out[AXIS_TEXT_MAX], double v, const char *unit);

#endif
