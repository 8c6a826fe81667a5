/* chart.c - draws curves, steps, bands and points of a chart, and places labels where they
 * do not overlap. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/mem.h"
#include "common/plot/plot.h"
#include "common/plot/axis.h"
#include "common/plot/draw.h"
#include "common/plot/frame.h"

#define PLOT_HEIGHT 320.0
#define LEGEND_ROW  20.0
#define LABELS_MAX  400

/* --- the area ------------------------------------------------------------------------------ */

static double widest_tick(const struct axis *a)
{
	double widest = 0;

	for (size_t i = 0; i < a->n; i++)
		widest = fmax(widest, draw_width(a->ticks[i].text, FRAME_TEXT_SIZE));
	return widest;
}

static void frame(struct plot *p, const struct area *a)
{
	double right = a->left + a->width, bottom = a->top + a->height;

	draw_line(&p->body, a->left, bottom, right, bottom, DRAW_QUIET, 1);
	draw_line(&p->body, a->left, a->top, a->left, bottom, DRAW_QUIET, 1);
}

/* Opens a group that is clipped at the edges of the area; it ends with "</g>". */
static void clip(struct plot *p, const struct area *a, int nth)
{
	buf_addf(&p->body, "<clipPath id=\"c%d-%d-%.0f\"><rect x=\"", p->charts, nth,
		frame_width(p));
	draw_number(&p->body, a->left);
	buf_adds(&p->body, "\" y=\"");
	draw_number(&p->body, a->top);
	buf_adds(&p->body, "\" width=\"");
	draw_number(&p->body, a->width);
	buf_adds(&p->body, "\" height=\"");
	draw_number(&p->body, a->height);
	buf_addf(&p->body, "\"/></clipPath>\n<g clip-path=\"url(#c%d-%d-%.0f)\">\n",
		p->charts, nth, frame_width(p));
}

/* --- curves -------------------------------------------------------------------------------- */

static bool drawable(const struct area *a, double x, double y)
{
	return axis_takes(a->x.scale, x) && axis_takes(a->y.scale, y);
}

/* Draws a curve as a path that begins anew after each gap. Several values in one column of
 * pixels become its first, lowest, highest and last, so that a curve of a million values looks
 * as it would with all of them. */
struct path {
	struct buf *out;
	bool open, steps;
	double column, last_x, last_y;
	double low, high; /* range of the values in this column that are not drawn yet */
	bool held;
};

static void path_point(struct path *t, double x, double y)
{
	buf_addc(t->out, t->open ? 'L' : 'M');
	if (t->open && t->steps) {
		draw_number(t->out, x);
		buf_addc(t->out, ' ');
		draw_number(t->out, t->last_y);
		buf_addc(t->out, 'L');
	}
	draw_number(t->out, x);
	buf_addc(t->out, ' ');
	draw_number(t->out, y);
	t->open = true;
	t->last_x = x;
	t->last_y = y;
}

static void path_flush(struct path *t, double x, double y)
{
	if (!t->held)
		return;
	t->held = false;
	path_point(t, x, t->low);
	path_point(t, x, t->high);
	path_point(t, x, y);
}

static void path_add(struct path *t, const double at[2], const double before[2])
{
	double column = floor(at[0]);

	if (!t->open || column != t->column) {
		path_flush(t, before[0], before[1]);
		path_point(t, at[0], at[1]);
		t->column = column;
		return;
	}
	t->low = t->held ? fmin(t->low, at[1]) : at[1];
	t->high = t->held ? fmax(t->high, at[1]) : at[1];
	t->held = true;
}

static void path_of(struct buf *out, const struct area *a, const struct plot_line *l)
{
	struct path t = { .out = out, .steps = l->style == PLOT_STEPS };
	double at[2] = { 0, 0 }, before[2] = { 0, 0 };

	for (size_t i = 0; i < l->n; i++) {
		if (!drawable(a, l->x[i], l->y[i])) {
			path_flush(&t, at[0], at[1]);
			t.open = false;
			continue;
		}
		memcpy(before, at, sizeof at);
		at[0] = area_x(a, l->x[i]);
		at[1] = area_y(a, l->y[i]);
		path_add(&t, at, before);
	}
	path_flush(&t, at[0], at[1]);
}

static void draw_curve(struct plot *p, const struct area *a, const struct plot_line *l,
	size_t nth)
{
	const char *dash = l->dashed ? "5 4" : draw_dash(nth);

	buf_adds(&p->body, "<path d=\"");
	path_of(&p->body, a, l);
	buf_addf(&p->body,
		"\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.8\" stroke-linejoin=\"round\"",
		draw_colour(nth));
	if (*dash)
		buf_addf(&p->body, " stroke-dasharray=\"%s\"", dash);
	buf_adds(&p->body, "/>\n");
}

static bool has_interval(const struct area *a, const struct plot_line *l, size_t i)
{
	return l->low && l->high && drawable(a, l->x[i], l->low[i]) &&
		drawable(a, l->x[i], l->high[i]) && l->low[i] <= l->high[i];
}

/* Draws the band of one run of values without a gap: forth along the highs, back along the
 * lows. */
static void band_piece(struct plot *p, const struct area *a, const struct plot_line *l,
	size_t from, size_t to)
{
	buf_adds(&p->body, "<path d=\"");
	for (size_t k = 0; k < 2 * (to - from); k++) {
		bool forth = k < to - from;
		size_t i = forth ? from + k : to - 1 - (k - (to - from));

		buf_addc(&p->body, k ? 'L' : 'M');
		draw_number(&p->body, area_x(a, l->x[i]));
		buf_addc(&p->body, ' ');
		draw_number(&p->body, area_y(a, forth ? l->high[i] : l->low[i]));
	}
	buf_adds(&p->body, "Z\"/>\n");
}

static void draw_band(struct plot *p, const struct area *a, const struct plot_line *l,
	size_t nth)
{
	buf_addf(&p->body, "<g fill=\"%s\" fill-opacity=\"0.18\">\n", draw_colour(nth));
	for (size_t from = 0; from < l->n;) {
		size_t to = from;

		while (to < l->n && has_interval(a, l, to))
			to++;
		if (to > from + 1)
			band_piece(p, a, l, from, to);
		from = to + 1;
	}
	buf_adds(&p->body, "</g>\n");
}

static void whisker_up(struct plot *p, const struct area *a, const struct plot_line *l,
	size_t i, const char *colour)
{
	double x = area_x(a, l->x[i]);
	double low = area_y(a, l->low[i]), high = area_y(a, l->high[i]);

	draw_line(&p->body, x, low, x, high, colour, 1.4);
	draw_line(&p->body, x - 4, low, x + 4, low, colour, 1.4);
	draw_line(&p->body, x - 4, high, x + 4, high, colour, 1.4);
}

/* Whether a point lies within the ends of both axes; its mark may reach beyond them. */
static bool inside(const struct area *a, double x, double y)
{
	double at_x, at_y;

	if (!drawable(a, x, y))
		return false;
	at_x = axis_place(&a->x, x);
	at_y = axis_place(&a->y, y);
	return at_x > -1e-9 && at_x < 1 + 1e-9 && at_y > -1e-9 && at_y < 1 + 1e-9;
}

static void draw_points(struct plot *p, const struct area *a, const struct plot_chart *c,
	size_t nth)
{
	const struct plot_line *l = &c->lines[nth];

	for (size_t i = 0; i < l->n; i++) {
		char x[AXIS_TEXT_MAX], y[AXIS_TEXT_MAX];
		struct buf title = BUF_INIT;

		if (!inside(a, l->x[i], l->y[i]))
			continue;
		if (has_interval(a, l, i))
			whisker_up(p, a, l, i, draw_colour(nth));
		axis_text(x, l->x[i], c->x.unit);
		axis_text(y, l->y[i], c->y.unit);
		if (l->labels && l->labels[i])
			buf_addf(&title, "%s: ", l->labels[i]);
		else if (l->name)
			buf_addf(&title, "%s: ", l->name);
		buf_addf(&title, "%s, %s", x, y);
		draw_mark(&p->body, nth, area_x(a, l->x[i]), area_y(a, l->y[i]),
			title.data);
		buf_release(&title);
	}
}

/* --- texts beside points ------------------------------------------------------------------- */

struct box {
	double x, y, width, height;
};

struct boxes {
	struct box at[LABELS_MAX];
	size_t n;
};

static bool box_is_free(const struct boxes *taken, const struct area *a,
	const struct box *b)
{
	if (b->x < a->left || b->x + b->width > a->left + a->width || b->y < a->top ||
		b->y + b->height > a->top + a->height)
		return false;
	for (size_t i = 0; i < taken->n; i++) {
		const struct box *t = &taken->at[i];

		if (b->x < t->x + t->width && t->x < b->x + b->width &&
			b->y < t->y + t->height && t->y < b->y + b->height)
			return false;
	}
	return true;
}

static void take(struct boxes *taken, struct box b)
{
	if (taken->n < LABELS_MAX)
		taken->at[taken->n++] = b;
}

#define LABEL_HEIGHT 14.0
#define LABEL_RINGS  4
#define LABEL_SIDES  8

/* Returns the place of a label beside its point, at this distance: right, left, above, below,
 * then the corners. */
static struct box label_place(const double at[2], double width, int side, double away)
{
	static const int across[LABEL_SIDES] = { 1, -1, 0, 0, 1, 1, -1, -1 },
			 down[LABEL_SIDES] = { 0, 0, -1, 1, -1, 1, -1, 1 };
	double x = across[side] > 0 ? at[0] + away :
		across[side] < 0    ? at[0] - away - width :
				      at[0] - width / 2;
	double y = down[side] > 0 ? at[1] + away :
		down[side] < 0    ? at[1] - away - LABEL_HEIGHT :
				    at[1] - LABEL_HEIGHT / 2;

	return (struct box){ x, y, width, LABEL_HEIGHT };
}

/* Finds the nearest free place for a label; one that is not beside its point gets a line to it.
 * Where no place is free the label is left out: the point's mark has it as a title. */
static void draw_label(struct plot *p, const struct area *a, struct boxes *taken,
	const double at[2], const char *text)
{
	double width = draw_width(text, FRAME_TEXT_SIZE) + 4;
	struct box b;
	bool found = false;
	int ring;

	for (ring = 0; ring < LABEL_RINGS && !found; ring++)
		for (int side = 0; side < LABEL_SIDES && !found; side++) {
			b = label_place(at, width, side, 8 + 16 * ring);
			found = box_is_free(taken, a, &b);
		}
	if (!found || taken->n == LABELS_MAX)
		return;
	take(taken, b);
	if (ring > 1)
		draw_line(&p->body, at[0], at[1], fmin(fmax(at[0], b.x), b.x + b.width),
			fmin(fmax(at[1], b.y), b.y + b.height), DRAW_QUIET, 0.6);
	draw_text(&p->body,
		&(struct draw_text){ .x = b.x + b.width / 2,
			.y = b.y + 11,
			.size = FRAME_TEXT_SIZE,
			.anchor = DRAW_MIDDLE,
			.colour = DRAW_INK,
			.halo = 1 },
		text);
}

static void draw_labels(struct plot *p, const struct area *a, const struct plot_chart *c)
{
	struct boxes *taken = xcalloc(1, sizeof *taken);

	/* all marks first, so that no text is covered by one */
	for (size_t k = 0; k < c->n; k++)
		for (size_t i = 0; c->lines[k].labels && i < c->lines[k].n; i++)
			if (inside(a, c->lines[k].x[i], c->lines[k].y[i]))
				take(taken,
					(struct box){ area_x(a, c->lines[k].x[i]) - 5,
						area_y(a, c->lines[k].y[i]) - 5, 10,
						10 });
	for (size_t k = 0; k < c->n; k++)
		for (size_t i = 0; c->lines[k].labels && i < c->lines[k].n; i++) {
			const struct plot_line *l = &c->lines[k];

			if (!l->labels[i] || !inside(a, l->x[i], l->y[i]))
				continue;
			draw_label(p, a, taken,
				(double[2]){ area_x(a, l->x[i]), area_y(a, l->y[i]) },
				l->labels[i]);
		}
	free(taken);
}

/* --- the legend ---------------------------------------------------------------------------- */

static void legend_sample(struct plot *p, const struct plot_line *l, size_t nth, double x,
	double y)
{
	const char *dash = l->dashed ? "5 4" : draw_dash(nth);

	if (l->style != PLOT_POINTS) {
		buf_adds(&p->body, "<path d=\"M");
		draw_number(&p->body, x);
		buf_addc(&p->body, ' ');
		draw_number(&p->body, y);
		buf_addf(&p->body, "h24\" fill=\"none\" stroke=\"%s\" stroke-width=\"2\"",
			draw_colour(nth));
		if (*dash)
			buf_addf(&p->body, " stroke-dasharray=\"%s\"", dash);
		buf_adds(&p->body, "/>\n");
	}
	if (l->style == PLOT_POINTS || l->style == PLOT_MARKED)
		draw_mark(&p->body, nth, x + 12, y, NULL);
}

static void legend(struct plot *p, const struct plot_chart *c)
{
	double x = 16;
	bool any = false;

	for (size_t i = 0; i < c->n; i++) {
		double width;

		if (!c->lines[i].name)
			continue;
		width = 30 + draw_width(c->lines[i].name, FRAME_TEXT_SIZE) + 18;
		if (!any || (x > 16 && x + width > frame_width(p) - 10)) {
			p->height += LEGEND_ROW;
			x = 16;
		}
		any = true;
		legend_sample(p, &c->lines[i], i, x, p->height - 4);
		frame_text(p, x + 30, p->height, DRAW_START, DRAW_INK, c->lines[i].name);
		x += width;
	}
	if (any)
		p->height += 6;
}

/* --- charts -------------------------------------------------------------------------------- */

static void ranges(const struct plot_chart *c, struct range *x, struct range *y)
{
	*x = *y = (struct range)RANGE_INIT;
	for (size_t k = 0; k < c->n; k++) {
		const struct plot_line *l = &c->lines[k];

		for (size_t i = 0; i < l->n; i++) {
			if (!axis_takes(c->x.scale, l->x[i]) ||
				!axis_takes(c->y.scale, l->y[i]))
				continue;
			range_include(x, c->x.scale, l->x[i]);
			range_include(y, c->y.scale, l->y[i]);
			if (l->low && l->high && l->style != PLOT_STEPS) {
				range_include(y, c->y.scale, l->low[i]);
				range_include(y, c->y.scale, l->high[i]);
			}
		}
	}
}

static void draw_lines(struct plot *p, const struct area *a, const struct plot_chart *c)
{
	clip(p, a, 0);
	for (size_t i = 0; i < c->n; i++)
		if (c->lines[i].style == PLOT_CURVE && c->lines[i].low &&
			c->lines[i].high)
			draw_band(p, a, &c->lines[i], i);
	for (size_t i = 0; i < c->n; i++)
		if (c->lines[i].style != PLOT_POINTS)
			draw_curve(p, a, &c->lines[i], i);
	buf_adds(&p->body, "</g>\n");
	for (size_t i = 0; i < c->n; i++)
		if (c->lines[i].style == PLOT_POINTS || c->lines[i].style == PLOT_MARKED)
			draw_points(p, a, c, i);
	draw_labels(p, a, c);
}

void plot_add_chart(struct plot *p, const struct plot_chart *c)
{
	struct area a = { .height = PLOT_HEIGHT };
	struct range x, y;

	frame_begin(p, c->title);
	legend(p, c);
	ranges(c, &x, &y);
	axis_make(&a.y, &c->y, y.low, y.high, 6);
	axis_make(&a.x, &c->x, x.low, x.high,
		(int)(frame_width(p) / (c->x.scale == PLOT_TIME ? 120 : 95)));
	a.top = p->height + 10;
	a.left = (c->y.label ? 34 : 12) + widest_tick(&a.y) + 8;
	a.width = frame_width(p) - FRAME_RIGHT - a.left;
	frame_x_axis(p, &a, c->x.label);
	frame_y_axis(p, &a, c->y.label);
	if (x.low > x.high)
		frame_no_data(p, &a);
	else
		draw_lines(p, &a, c);
	frame(p, &a);
	frame_end(p, a.top + a.height + (c->x.label ? 40 : 20));
}
