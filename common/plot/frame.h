/* frame.h - places a chart in its picture: margins, axes, title. For plot only. */
#ifndef RNP_COMMON_PLOT_FRAME_H
#define RNP_COMMON_PLOT_FRAME_H

#include "common/plot/plot.h"
#include "common/plot/axis.h"
#include "common/plot/draw.h"

#define FRAME_WIDTH     860.0 /* of the whole picture, unless its maker says another */
#define FRAME_RIGHT     28.0  /* margin, wide enough for half a tick's text */
#define FRAME_LEFT      16.0
#define FRAME_TEXT_SIZE 12.0

/* The area in which the values of a chart are drawn. */
struct area {
	double left, top, width, height;
	struct axis x, y;
};

struct range {
	double low, high; /* low > high: nothing yet */
};

/* clang-format off */
#define RANGE_INIT { 1, 0 }
/* clang-format on */

double frame_width(const struct plot *p);

void range_include(struct range *r, enum plot_scale scale, double v);

/* Return the place of a value in the picture, in pixels. */
double area_x(const struct area *a, double v);
double area_y(const struct area *a, double v);

/* Begin and end a chart with its title. bottom is the lowest pixel of the chart; frame_end sets
 * p->height to where the next chart may begin. */
void frame_begin(struct plot *p, const char *title);
void frame_end(struct plot *p, double bottom);

void frame_text(struct plot *p, double x, double y, enum draw_anchor anchor,
	const char *colour, const char *text);
void frame_x_axis(struct plot *p, const struct area *a, const char *label);
void frame_y_axis(struct plot *p, const struct area *a, const char *label);
void frame_no_data(struct plot *p, const struct area *a);

#endif
