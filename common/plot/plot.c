/* plot.c - puts charts one below the other and writes the picture: title, legends, the file
 * itself. */
#include "common/plot/plot.h"

#include <string.h>
#include <math.h>

#include "common/base/io.h"
#include "common/plot/frame.h"

#define TITLE_SIZE 16.0
#define CHART_GAP  24.0

/* --- values and pixels --------------------------------------------------------------------- */

void range_include(struct range *r, enum plot_scale scale, double v)
{
	if (!axis_takes(scale, v))
		return;
	if (r->low > r->high)
		r->low = r->high = v;
	r->low = fmin(r->low, v);
	r->high = fmax(r->high, v);
}

double area_x(const struct area *a, double v)
{
	return a->left + axis_place(&a->x, v) * a->width;
}

double area_y(const struct area *a, double v)
{
	return a->top + (1 - axis_place(&a->y, v)) * a->height;
}

double frame_width(const struct plot *p)
{
	return p->width > 0 ? p->width : FRAME_WIDTH;
}

/* --- the frame of a chart ------------------------------------------------------------------ */

void frame_text(struct plot *p, double x, double y, enum draw_anchor anchor,
	const char *colour, const char *text)
{
	draw_text(&p->body,
		&(struct draw_text){ .x = x,
			.y = y,
			.size = FRAME_TEXT_SIZE,
			.anchor = anchor,
			.colour = colour },
		text);
}

/* Writes a title in bold, shortened to the space there is. */
static void heading(const struct plot *p, struct buf *out, double y, double size,
	const char *text)
{
	struct buf fitting = BUF_INIT;

	/* bold letters are wider than text_width() assumes */
	draw_fitting(&fitting, text, size * 1.06, frame_width(p) - 2 * FRAME_LEFT);
	draw_text(out,
		&(struct draw_text){ .x = FRAME_LEFT,
			.y = y,
			.size = size,
			.colour = DRAW_INK,
			.bold = 1 },
		buf_text(&fitting));
	buf_release(&fitting);
}

void frame_begin(struct plot *p, const char *title)
{
	p->charts++;
	p->height += CHART_GAP;
	buf_adds(&p->body, "<g>\n");
	if (!title)
		return;
	p->height += TITLE_SIZE;
	heading(p, &p->body, p->height, TITLE_SIZE, title);
	p->height += 10;
}

void frame_end(struct plot *p, double bottom)
{
	buf_adds(&p->body, "</g>\n");
	p->height = bottom;
}

/* Draws ticks; one that would touch the text before it has no text. */
void frame_x_axis(struct plot *p, const struct area *a, const char *label)
{
	double bottom = a->top + a->height, last = -1e9;

	for (size_t i = 0; i < a->x.n; i++) {
		double x = area_x(a, a->x.ticks[i].value);
		double half = draw_width(a->x.ticks[i].text, FRAME_TEXT_SIZE) / 2;

		draw_line(&p->body, x, a->top, x, bottom, DRAW_GRID, 1);
		if (x - half < last + 6)
			continue;
		frame_text(p, x, bottom + 17, DRAW_MIDDLE, DRAW_QUIET,
			a->x.ticks[i].text);
		last = x + half;
	}
	if (label)
		frame_text(p, a->left + a->width / 2, bottom + 36, DRAW_MIDDLE, DRAW_INK,
			label);
}

void frame_y_axis(struct plot *p, const struct area *a, const char *label)
{
	for (size_t i = 0; i < a->y.n; i++) {
		double y = area_y(a, a->y.ticks[i].value);

		draw_line(&p->body, a->left, y, a->left + a->width, y, DRAW_GRID, 1);
		frame_text(p, a->left - 7, y + 4, DRAW_END, DRAW_QUIET,
			a->y.ticks[i].text);
	}
	if (label)
		draw_text(&p->body,
			&(struct draw_text){ .x = 24,
				.y = a->top + a->height / 2,
				.size = FRAME_TEXT_SIZE,
				.anchor = DRAW_MIDDLE,
				.colour = DRAW_INK,
				.upwards = 1 },
			label);
}

void frame_no_data(struct plot *p, const struct area *a)
{
	frame_text(p, a->left + a->width / 2, a->top + a->height / 2, DRAW_MIDDLE,
		DRAW_QUIET, "no data");
}

/* --- the document -------------------------------------------------------------------------- */

void plot_release(struct plot *p)
{
	buf_release(&p->body);
	*p = (struct plot)PLOT_INIT;
}

/* On a dark screen paper and inks change places; the colours of series are readable on both. */
static const char dark[] = "<style>@media(prefers-color-scheme:dark){"
			   "svg [fill=\"#fff\"]{fill:#181a1b}svg [fill=\"" DRAW_INK
			   "\"]{fill:#ddd}"
			   "svg [stroke=\"" DRAW_INK
			   "\"]{stroke:#ddd}svg [stroke=\"#fff\"]{stroke:#181a1b}"
			   "svg [fill=\"" DRAW_QUIET
			   "\"]{fill:#aaa}svg [stroke=\"" DRAW_QUIET "\"]{stroke:#aaa}"
			   "svg [stroke=\"" DRAW_GRID "\"]{stroke:#333}}</style>\n";

void plot_write(struct buf *out, const struct plot *p, const char *title,
	const char *note)
{
	double top = title ? 40 : 4;
	double height = top + p->height + (note ? 32 : 14);

	buf_adds(out,
		"<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
		"<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" width=\"");
	draw_number(out, frame_width(p));
	buf_adds(out, "\" height=\"");
	draw_number(out, height);
	buf_adds(out, "\" viewBox=\"0 0 ");
	draw_number(out, frame_width(p));
	buf_addc(out, ' ');
	draw_number(out, height);
	buf_adds(out,
		"\" font-family=\"Helvetica, Arial, 'DejaVu Sans', sans-serif\">\n"
		"<title>");
	draw_escaped(out, title ? title : "plot");
	buf_adds(out, "</title>\n");
	buf_adds(out, dark);
	buf_adds(out, "<rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n");
	if (title)
		heading(p, out, 30, 19, title);
	buf_adds(out, "<g transform=\"translate(0 ");
	draw_number(out, top);
	buf_adds(out, ")\">\n");
	buf_add(out, buf_text(&p->body), p->body.len);
	buf_adds(out, "</g>\n");
	if (note)
		draw_text(out,
			&(struct draw_text){ .x = FRAME_LEFT,
				.y = height - 12,
				.size = 11,
				.colour = DRAW_QUIET },
			note);
	buf_adds(out, "</svg>\n");
}

void plot_embed(struct buf *out, const struct plot *p, const char *title)
{
	struct buf picture = BUF_INIT;

	plot_write(&picture, p, title, NULL);
	buf_adds(out, "<div class=\"plot\" tabindex=\"0\">\n");
	buf_adds(out, strstr(picture.data, "<svg")); /* without the XML declaration */
	buf_adds(out, "</div>\n");
	buf_release(&picture);
}

int plot_save(const struct plot *p, const char *title, const char *note, const char *path)
{
	struct buf out = BUF_INIT;
	int rc;

	plot_write(&out, p, title, note);
	rc = io_replace(path, out.data, out.len, 0644);
	buf_release(&out);
	return rc;
}
