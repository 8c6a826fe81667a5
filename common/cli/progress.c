/* progress.c - draws a bar on standard error while long work goes on. */
#include "common/cli/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/mem.h"
#include "common/cli/human.h"
#include "common/cli/prog.h"

#define SILENT_NS   INT64_C(2000000000)
#define REDRAW_NS   INT64_C(100000000)
#define WINDOW_NS   INT64_C(5000000000)
#define CELLS       24
#define CELLS_FEW   10 /* in a narrow terminal, beside the figures */
#define COLUMNS_MAX 100

/* Whether a bar stands on the terminal's last line. */
static bool on_line;

void progress_wipe(void)
{
	if (on_line)
		fputs("\r\033[K", stderr);
	on_line = false;
}

void progress_start(struct progress *p, const char *what, const char *unit, int64_t total)
{
	*p = (struct progress){ .what = what,
		.unit = unit,
		.total = total,
		.begun_ns = clock_mono_ns() };
	p->on = !prog_quiet() && isatty(STDERR_FILENO);
}

void progress_note(struct progress *p, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(p->note, sizeof p->note, fmt, args);
	va_end(args);
}

/* The last 5 to 10 seconds: after a pause, or when the work gets harder, the mean since the
 * beginning says little of what is left. */
static void remember(struct progress *p, int64_t done, int64_t elapsed_ns)
{
	if (elapsed_ns - p->next.elapsed_ns < WINDOW_NS)
		return;
	p->from = p->next;
	p->next = (struct progress_mark){ done, elapsed_ns };
}

/* A line that wraps could not be wiped. */
static int columns(void)
{
	struct winsize size;

	return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 &&
			size.ws_col < COLUMNS_MAX ?
		size.ws_col :
		COLUMNS_MAX;
}

/* Appends a part where the line has room for all of it. */
static void add_part(struct buf *out, int size, const char *before, const char *part)
{
	if (out->len + strlen(before) + strlen(part) >= (size_t)size)
		return;
	buf_adds(out, before);
	buf_adds(out, part);
}

/* Appends a number with its unit, or a rate. */
static void add_number(struct buf *out, int size, const char *before, double v,
	const char *unit, const char *each)
{
	struct buf text = BUF_INIT;
	char name[32];

	snprintf(name, sizeof name, "%s%s", unit, each);
	human_number(&text, v, name);
	add_part(out, size, before, buf_text(&text));
	buf_release(&text);
}

static void add_left(struct buf *out, int size, double seconds)
{
	struct buf text = BUF_INIT;

	if (seconds >= 120)
		human_duration(&text, seconds);
	else
		buf_addf(&text, "%.0f s", seconds);
	buf_adds(&text, " left");
	add_part(out, size, "  ", buf_text(&text));
	buf_release(&text);
}

/* Appends the note, whose parts are separated by ", ". */
static void add_note(struct buf *out, int size, const char *note)
{
	const char *before = " ";

	if (out->len && out->data[out->len - 1] != ']')
		before = ", ";
	while (*note) {
		const char *end = strstr(note, ", ");
		size_t n = end ? (size_t)(end - note) : strlen(note);
		char *part = xstrndup(note, n);

		add_part(out, size, before, part);
		free(part);
		before = ", ";
		note += end ? n + 2 : n;
	}
}

static void add_bar(struct buf *out, int size, double share)
{
	int cells = size < COLUMNS_MAX ? CELLS_FEW : CELLS;
	char bar[CELLS + 3];

	bar[0] = '[';
	memset(bar + 1, '.', (size_t)cells);
	memset(bar + 1, '#', (size_t)(share * cells));
	memcpy(bar + 1 + cells, "]", 2);
	add_part(out, size, " ", bar);
}

void progress_text(char *out, int size, const struct progress *p, int64_t done,
	int64_t elapsed_ns)
{
	double seconds = (double)(elapsed_ns - p->from.elapsed_ns) / 1e9;
	double rate = seconds > 0 ? (double)(done - p->from.done) / seconds : 0;
	struct buf text = BUF_INIT;

	add_part(&text, size, "", p->what);
	if (p->total <= 0) {
		add_number(&text, size, ": ", (double)done, p->unit, "");
		add_number(&text, size, ", ", rate, p->unit, "/s");
	} else {
		double share;

		if (done > p->total)
			done = p->total;
		share = (double)done / (double)p->total;
		add_bar(&text, size, share);
		if (rate > 0) {
			char percent[8];

			snprintf(percent, sizeof percent, "%d%%", (int)(share * 100));
			add_part(&text, size, " ", percent);
			if (*p->unit)
				add_number(&text, size, "  ", rate, p->unit, "/s");
			add_left(&text, size, (double)(p->total - done) / rate);
		}
	}
	add_note(&text, size, p->note);
	snprintf(out, (size_t)size, "%s", buf_text(&text));
	buf_release(&text);
}

void progress_update(struct progress *p, int64_t done)
{
	char text[COLUMNS_MAX];
	int64_t now;

	if (!p->on)
		return;
	now = clock_mono_ns();
	if (now - p->begun_ns < SILENT_NS || now - p->drawn_ns < REDRAW_NS)
		return;
	remember(p, done, now - p->begun_ns);
	progress_text(text, columns(), p, done, now - p->begun_ns);
	fprintf(stderr, "\r%s\033[K", text);
	p->drawn_ns = now;
	p->drawn = on_line = true;
}

void progress_end(struct progress *p)
{
	if (p->drawn)
		progress_wipe();
	p->drawn = false;
}
