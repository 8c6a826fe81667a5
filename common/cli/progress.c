/* progress.c - draws a bar on standard error while long work goes on. */
#include "common/cli/progress.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/cli/human.h"
#include "common/cli/prog.h"

#define SILENT_NS   INT64_C(2000000000)
#define REDRAW_NS   INT64_C(100000000)
#define WINDOW_NS   INT64_C(5000000000)
#define CELLS       24
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

/* 12345678 as "12.3 M" */
static void short_number(char *out, size_t size, double v)
{
	static const char *const prefixes[] = { "", "k", "M", "G", "T", "P" };
	int i = 0;

	while (v >= 999.5 && i < 5) {
		v /= 1000;
		i++;
	}
	snprintf(out, size,
		v < 10          ? "%.2f %s" :
			v < 100 ? "%.1f %s" :
				  "%.0f %s",
		v, prefixes[i]);
}

static void left_text(char *out, size_t size, double seconds)
{
	struct buf text = BUF_INIT;

	human_duration(&text, seconds);
	snprintf(out, size, "%s", text.data);
	buf_release(&text);
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

void progress_text(char *out, int size, const struct progress *p, int64_t done,
	int64_t elapsed_ns)
{
	double seconds = (double)(elapsed_ns - p->from.elapsed_ns) / 1e9;
	double rate = seconds > 0 ? (double)(done - p->from.done) / seconds : 0;
	char count[32], speed[32], left[32], bar[CELLS + 1];
	const char *comma = *p->note ? ", " : "";
	int filled;

	short_number(count, sizeof count, (double)done);
	short_number(speed, sizeof speed, rate);
	if (p->total <= 0) {
		snprintf(out, (size_t)size, "%s: %s%s, %s%s/s%s%s", p->what, count,
			p->unit, speed, p->unit, comma, p->note);
		return;
	}
	if (done > p->total)
		done = p->total;
	filled = (int)((double)done / (double)p->total * CELLS);
	memset(bar, '.', CELLS);
	memset(bar, '#', (size_t)filled);
	bar[CELLS] = '\0';
	if (rate <= 0) {
		snprintf(out, (size_t)size, "%s [%s]%s%s", p->what, bar, comma, p->note);
		return;
	}
	snprintf(left, sizeof left, "%.0f s", (double)(p->total - done) / rate);
	if ((double)(p->total - done) / rate >= 120)
		left_text(left, sizeof left, (double)(p->total - done) / rate);
	snprintf(out, (size_t)size, "%s [%s] %" PRId64 "%%  %s%s/s  %s left%s%s", p->what,
		bar, (int64_t)((double)done * 100 / (double)p->total), speed, p->unit,
		left, comma, p->note);
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
