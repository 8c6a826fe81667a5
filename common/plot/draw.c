/* draw.c - writes SVG elements: lines, paths, marks, and texts that are valid XML. */
#include "common/plot/draw.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

/* Okabe and Ito's colours, which people with any kind of colour vision can tell apart, the
 * lightest last. */
static const char *const colours[] = { "#0072b2", "#d55e00", "#009e73", "#cc79a7",
	"#56b4e9", "#e69f00", "#444444" };
#define COLOURS (sizeof colours / sizeof *colours)

const char *draw_colour(size_t i)
{
	return colours[i % COLOURS];
}

const char *draw_dash(size_t i)
{
	static const char *const dashes[] = { "", "7 3", "2 3", "9 3 2 3" };

	return dashes[i / COLOURS % 4];
}

/* Returns the length of the UTF-8 character at text and its number; 0 when it is malformed. */
static size_t character(const unsigned char *text, uint32_t *out)
{
	static const uint32_t least[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t n = *text < 0x80 ? 1 :
		*text < 0xc0    ? 0 :
		*text < 0xe0    ? 2 :
		*text < 0xf0    ? 3 :
		*text < 0xf8    ? 4 :
				  0;

	if (n < 2) {
		*out = *text;
		return n;
	}
	*out = *text & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
		*out = *out << 6 | (text[i] & 0x3f);
	}
	return *out < least[n] || *out > 0x10ffff ? 0 : n;
}

/* XML 1.0, production 2 */
static int is_xml(uint32_t c)
{
	return c == 9 || c == 10 || c == 13 || (c >= 0x20 && c <= 0xd7ff) ||
		(c >= 0xe000 && c <= 0xfffd) || c >= 0x10000;
}

void draw_escaped(struct buf *out, const char *text)
{
	const unsigned char *at = (const unsigned char *)text;

	while (*at) {
		uint32_t c;
		size_t n = character(at, &c);

		if (!n || !is_xml(c))
			buf_adds(out, "\xef\xbf\xbd");
		else if (c == '&')
			buf_adds(out, "&amp;");
		else if (c == '<')
			buf_adds(out, "&lt;");
		else if (c == '>')
			buf_adds(out, "&gt;");
		else if (c == '"')
			buf_adds(out, "&quot;");
		else
			buf_add(out, at, n);
		at += n ? n : 1;
	}
}

/* Estimates the width of a character, in em, in a common sans-serif font. */
static double em_of(uint32_t c)
{
	if (c >= 0x1100) /* East Asian characters are as wide as they are high */
		return 1;
	if (c < 0x80 && strchr("MW@mw%", (int)c))
		return 0.9;
	return c < 0x80 && strchr("fijlrt.,:;'|! ()[]", (int)c) ? 0.36 : 0.6;
}

double draw_width(const char *text, double size)
{
	const unsigned char *at = (const unsigned char *)text;
	double em = 0;

	while (*at) {
		uint32_t c;
		size_t n = character(at, &c);

		em += em_of(n ? c : 0xfffd);
		at += n ? n : 1;
	}
	return em * size;
}

void draw_fitting(struct buf *out, const char *text, double size, double width)
{
	const unsigned char *at = (const unsigned char *)text;
	double used = draw_width("\xe2\x80\xa6", size);

	if (draw_width(text, size) <= width) {
		buf_adds(out, text);
		return;
	}
	while (*at) {
		uint32_t c;
		size_t n = character(at, &c);

		used += em_of(n ? c : 0xfffd) * size;
		if (used > width)
			break;
		at += n ? n : 1;
	}
	buf_add(out, text, (size_t)((const char *)at - text));
	buf_adds(out, "\xe2\x80\xa6");
}

void draw_number(struct buf *out, double v)
{
	char text[64];
	size_t len;

	/* a picture has some thousand pixels: a point farther out cannot be seen */
	v = fmin(fmax(v, -99999), 99999);
	snprintf(text, sizeof text, "%.2f", v);
	len = strlen(text);
	while (text[len - 1] == '0')
		len--;
	if (text[len - 1] == '.')
		len--;
	text[len] = '\0';
	buf_adds(out, strcmp(text, "-0") == 0 ? "0" : text);
}

static void attribute(struct buf *out, const char *name, double v)
{
	buf_addf(out, " %s=\"", name);
	draw_number(out, v);
	buf_addc(out, '"');
}

void draw_text(struct buf *out, const struct draw_text *t, const char *text)
{
	static const char *const anchors[] = { "start", "middle", "end" };

	buf_adds(out, "<text");
	attribute(out, "x", t->x);
	attribute(out, "y", t->y);
	attribute(out, "font-size", t->size);
	buf_addf(out, " fill=\"%s\"", t->colour);
	if (t->anchor != DRAW_START)
		buf_addf(out, " text-anchor=\"%s\"", anchors[t->anchor]);
	if (t->bold)
		buf_adds(out, " font-weight=\"bold\"");
	if (t->halo)
		buf_adds(out,
			" stroke=\"#fff\" stroke-width=\"3\" paint-order=\"stroke\"");
	if (t->upwards) {
		buf_adds(out, " transform=\"rotate(-90 ");
		draw_number(out, t->x);
		buf_addc(out, ' ');
		draw_number(out, t->y);
		buf_adds(out, ")\"");
	}
	buf_addc(out, '>');
	draw_escaped(out, text);
	buf_adds(out, "</text>\n");
}

void draw_line(struct buf *out, double x1, double y1, double x2, double y2,
	const char *colour, double width)
{
	buf_adds(out, "<line");
	attribute(out, "x1", x1);
	attribute(out, "y1", y1);
	attribute(out, "x2", x2);
	attribute(out, "y2", y2);
	buf_addf(out, " stroke=\"%s\"", colour);
	attribute(out, "stroke-width", width);
	buf_adds(out, "/>\n");
}

void draw_mark(struct buf *out, size_t i, double x, double y, const char *title)
{
	static const struct {
		int n;
		signed char at[4][2];
	} shapes[] = { { 0, { { 0 } } },
		{ 4, { { -4, -4 }, { 4, -4 }, { 4, 4 }, { -4, 4 } } },
		{ 3, { { 0, -5 }, { 5, 4 }, { -5, 4 } } },
		{ 4, { { 0, -6 }, { 6, 0 }, { 0, 6 }, { -6, 0 } } },
		{ 3, { { 0, 5 }, { 5, -4 }, { -5, -4 } } } };
	size_t shape = i % (sizeof shapes / sizeof *shapes);

	if (shapes[shape].n == 0) {
		buf_adds(out, "<circle");
		attribute(out, "cx", x);
		attribute(out, "cy", y);
		buf_adds(out, " r=\"4\"");
	} else {
		buf_adds(out, "<polygon points=\"");
		for (int k = 0; k < shapes[shape].n; k++) {
			draw_number(out, x + shapes[shape].at[k][0]);
			buf_addc(out, ',');
			draw_number(out, y + shapes[shape].at[k][1]);
			buf_adds(out, k + 1 < shapes[shape].n ? " " : "\"");
		}
	}
	buf_addf(out, " fill=\"%s\" stroke=\"#fff\" stroke-width=\"0.7\">",
		draw_colour(i));
	if (title) {
		buf_adds(out, "<title>");
		draw_escaped(out, title);
		buf_adds(out, "</title>");
	}
	buf_adds(out, shapes[shape].n == 0 ? "</circle>\n" : "</polygon>\n");
}
