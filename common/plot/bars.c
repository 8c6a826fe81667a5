/* bars.c - draws horizontal bars with their names, values and intervals. */
#include <math.h>

#include "common/plot/plot.h"
#include "common/plot/axis.h"
#include "common/plot/draw.h"
#include "common/plot/frame.h"

#define BAR_HEIGHT 26.0
#define NAME_WIDTH 300.0 /* widest name that is drawn, in pixels */

/* Returns where bars begin: at 0 or, on a logarithmic axis, which has no 0, at its low end. */
static double bar_start(const struct area *a)
{
	return a->x.scale == PLOT_LOG ? a->left : area_x(a, 0);
}

static bool bar_has_interval(const struct plot_bar *b)
{
	return b->low <= b->high && axis_takes(PLOT_LINEAR, b->low) &&
		axis_takes(PLOT_LINEAR, b->high);
}

/* Appends "Â±3%", or "â2% +9%" where the median is not in the middle of its interval. */
static void add_interval(struct buf *out, const struct plot_bar *b)
{
	double below = (b->value - b->low) / fabs(b->value) * 100;
	double above = (b->high - b->value) / fabs(b->value) * 100;
	double mean = (below + above) / 2;
	bool even = fabs(above - below) <= 0.4 * mean || mean < 0.5;

	if (even)
		buf_addf(out, mean < 9.95 ? " \xc2\xb1%.2g%%" : " \xc2\xb1%.0f%%", mean);
	else
		buf_addf(out,
			mean < 9.95 ? " \xe2\x88\x92%.2g%% +%.2g%%" :
				      " \xe2\x88\x92%.0f%% +%.0f%%",
			below, above);
}

static void bar_text(struct buf *out, const struct plot_bar *b, const char *unit)
{
	char text[AXIS_TEXT_MAX];

	axis_text(text, b->value, unit);
	buf_adds(out, text);
	if (bar_has_interval(b) && b->value != 0)
		add_interval(out, b);
	if (b->note)
		buf_addf(out, "  %s", b->note);
}

static double name_width(const struct plot *p)
{
	return fmin(NAME_WIDTH, 0.35 * frame_width(p));
}

static void draw_bar(struct plot *p, const struct area *a, const struct plot_bars *c,
	size_t i)
{
	const struct plot_bar *b = &c->bars[i];
	double y = a->top + ((double)i + 0.5) * BAR_HEIGHT;
	double zero = bar_start(a), x = area_x(a, b->value);
	double right = fmax(zero, x);
	struct buf text = BUF_INIT;

	draw_fitting(&text, b->name, FRAME_TEXT_SIZE, name_width(p));
	frame_text(p, a->left - 7, y + 4, DRAW_END, DRAW_INK, buf_text(&text));
	buf_reset(&text);
	if (!axis_takes(a->x.scale, b->value)) {
		frame_text(p, zero + 6, y + 4, DRAW_START, DRAW_QUIET, "no data");
		buf_release(&text);
		return;
	}
	buf_adds(&p->body, "<rect x=\"");
	draw_number(&p->body, fmin(zero, x));
	buf_adds(&p->body, "\" y=\"");
	draw_number(&p->body, y - 8);
	buf_adds(&p->body, "\" width=\"");
	draw_number(&p->body, fabs(x - zero));
	buf_addf(&p->body, "\" height=\"16\" fill=\"%s\"/>\n", draw_colour(0));
	if (bar_has_interval(b)) {
		double low = axis_takes(a->x.scale, b->low) ? area_x(a, b->low) : a->left;
		double high = area_x(a, b->high);

		draw_line(&p->body, low, y, high, y, DRAW_INK, 1.4);
		draw_line(&p->body, low, y - 4, low, y + 4, DRAW_INK, 1.4);
		draw_line(&p->body, high, y - 4, high, y + 4, DRAW_INK, 1.4);
		right = fmax(right, high);
	}
	bar_text(&text, b, c->axis.unit);
	frame_text(p, right + 7, y + 4, DRAW_START, DRAW_INK, buf_text(&text));
	buf_release(&text);
}

/* Measures the space that the widest name and the widest value need. */
static void bar_widths(const struct plot *p, const struct plot_bars *c, double *names,
	double *values)
{
	double most = name_width(p);

	*names = *values = 0;
	for (size_t i = 0; i < c->n; i++) {
		struct buf text = BUF_INIT;

		bar_text(&text, &c->bars[i], c->axis.unit);
		*names = fmax(*names, draw_width(c->bars[i].name, FRAME_TEXT_SIZE));
		*values = fmax(*values, draw_width(buf_text(&text), FRAME_TEXT_SIZE));
		buf_release(&text);
	}
	*names = fmin(*names, most);
	*values = fmin(*values, most);
}

void plot_add_bars(struct plot *p, const struct plot_bars *c)
{
	struct plot_axis axis = c->axis;
	struct area a = { .height = (double)c->n * BAR_HEIGHT };
	struct range x = RANGE_INIT;
	double names, values;

	frame_begin(p, c->title);
	for (size_t i = 0; i < c->n; i++) {
		range_include(&x, axis.scale, c->bars[i].value);
		if (bar_has_interval(&c->bars[i])) {
			range_include(&x, axis.scale, c->bars[i].low);
			range_include(&x, axis.scale, c->bars[i].high);
		}
	}
	axis.zero = axis.scale == PLOT_LINEAR;
	/* so that the smallest value has a bar, too */
	if (axis.scale == PLOT_LOG && x.low > 0)
		x.low = pow(10, floor(log10(x.low) - 0.01));
	axis_make(&a.x, &axis, x.low, x.high, 5);
	bar_widths(p, c, &names, &values);
	if (!c->n)
		a.height = 2 * BAR_HEIGHT;
	a.top = p->height + 4;
	a.left = 16 + names + 10;
	/* values are written right of the axis when a bar reaches its end */
	a.width = frame_width(p) - FRAME_RIGHT - a.left - values - 10;
	frame_x_axis(p, &a, axis.label);
	for (size_t i = 0; i < c->n; i++)
		draw_bar(p, &a, c, i);
	if (!c->n)
		frame_no_data(p, &a);
	draw_line(&p->body, bar_start(&a), a.top, bar_start(&a), a.top + a.height,
		DRAW_QUIET, 1);
	frame_end(p, a.top + a.height + (axis.label ? 40 : 20));
}
