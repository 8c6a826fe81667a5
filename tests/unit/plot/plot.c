/* plot.c - tests the contents of pictures, that they are XML, and the texts beside their axes.
 * With an argument it writes examples to that file. */
#include "common/plot/plot.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>

#include "common/plot/axis.h"
#include "tests/unit/test.h"

/* --- is it XML? A strict reader of what we write: elements, attributes, five entities */

static const char *skip_entity(const char *at)
{
	static const char *const known[] = { "&amp;", "&lt;", "&gt;", "&quot;" };

	for (size_t i = 0; i < sizeof known / sizeof *known; i++)
		if (strncmp(at, known[i], strlen(known[i])) == 0)
			return at + strlen(known[i]);
	return NULL;
}

/* name="value" ... after an element's name; NULL: malformed */
static const char *skip_attributes(const char *at)
{
	while (*at == ' ') {
		at++;
		at += strspn(at, "abcdefghijklmnopqrstuvwxyz-1234567890BV");
		if (strncmp(at, "=\"", 2) != 0)
			return NULL;
		at += 2;
		while (*at && *at != '"') {
			if (*at == '<')
				return NULL;
			at = *at == '&' ? skip_entity(at) : at + 1;
			if (!at)
				return NULL;
		}
		if (*at++ != '"')
			return NULL;
	}
	return at;
}

static bool is_xml(const char *text)
{
	char open[32][32];
	size_t depth = 0, len;
	const char *at = strstr(text, "?>\n");

	if (!at)
		return false;
	for (at += 3; *at;) {
		if (*at == '&' || (unsigned char)*at < '\n') {
			at = *at == '&' ? skip_entity(at) : NULL;
			if (!at)
				return false;
			continue;
		}
		if (*at != '<') {
			at++;
			continue;
		}
		if (at[1] == '/') {
			len = strcspn(at + 2, ">");
			if (!depth-- || strlen(open[depth]) != len ||
				strncmp(open[depth], at + 2, len) != 0)
				return false;
			at += len + 3;
			continue;
		}
		len = strcspn(at + 1, " />");
		if (depth == 32 || len >= 32)
			return false;
		snprintf(open[depth++], 32, "%.*s", (int)len, at + 1);
		at = skip_attributes(at + 1 + len);
		if (!at || (*at != '/' && *at != '>'))
			return false;
		depth -= *at == '/';
		at += *at == '/' ? 2 : 1;
	}
	return depth == 0;
}

static size_t count(const char *text, const char *what)
{
	size_t n = 0;

	while ((text = strstr(text, what))) {
		n++;
		text += strlen(what);
	}
	return n;
}

static char *whole(const struct plot *p, const char *title, const char *note)
{
	struct buf out = BUF_INIT;

	plot_write(&out, p, title, note);
	return buf_take(&out);
}

/* --- texts and ticks ----------------------------------------------------------------------- */

static void check_texts(void)
{
	static const struct {
		double v;
		const char *unit, *text;
	} cases[] = { { 0, NULL, "0" }, { 0, "B", "0 B" }, { 1, NULL, "1" },
		{ 1234.5, NULL, "1234" }, { 9000, NULL, "9000" }, { 250, NULL, "250" },
		{ 0.02, NULL, "0.02" }, { 12345, NULL, "12.3k" }, { 1e6, NULL, "1.00M" },
		{ 4.0649e12, "OP/s", "4.06 TOP/s" }, { 999.9e9, "B/s", "1000 GB/s" },
		{ 8.5e-8, "s", "85.0 ns" }, { 2e-6, "s", "2.00 \xc2\xb5s" },
		{ -1500, "USD", "-1.50 kUSD" }, { 1.5e-7, NULL, "1.5e-7" },
		{ 1e30, "B", "1e30 B" }, { 5e-300, NULL, "5e-300" } };
	char text[AXIS_TEXT_MAX];

	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		axis_text(text, cases[i].v, cases[i].unit);
		CHECK_TEXT(cases[i].text, text);
	}
}

/* All texts of an axis, one space between. */
static const char *ticks(const struct plot_axis *want, double low, double high,
	int wanted)
{
	static char all[AXIS_TICKS_MAX * AXIS_TEXT_MAX];
	struct axis a;

	axis_make(&a, want, low, high, wanted);
	all[0] = '\0';
	for (size_t i = 0; i < a.n; i++) {
		strcat(all, i ? "|" : "");
		strcat(all, a.ticks[i].text);
		if (i && a.ticks[i].value <= a.ticks[i - 1].value)
			return "ticks do not ascend";
	}
	return all;
}

static void check_ticks(void)
{
	const struct plot_axis plain = { .label = "x" }, zero = { .zero = true };
	const struct plot_axis bytes = { .unit = "B/s" };
	const struct plot_axis logs = { .scale = PLOT_LOG };
	const struct plot_axis hz = { .unit = "OP/s", .scale = PLOT_LOG };
	const struct plot_axis when = { .scale = PLOT_TIME };
	const struct plot_axis fixed = { .min = 1, .max = 3 };
	const double day = 86400e3, start = 1767225600e3; /* 2026-01-01 */

	CHECK_TEXT("0|2|4|6|8|10", ticks(&plain, 0.3, 9.2, 6));
	CHECK_TEXT("5.0|5.2|5.4|5.6", ticks(&plain, 5.01, 5.55, 4));
	CHECK_TEXT("0|2|4|6", ticks(&zero, 5.01, 5.55, 4));
	CHECK_TEXT("-0.4|-0.2|0.0|0.2", ticks(&plain, -0.4, 0.11, 4));
	CHECK_TEXT("9.0|9.5|10.0|10.5|11.0", ticks(&plain, 10, 10, 4));
	CHECK_TEXT("-1.0|-0.5|0.0|0.5|1.0", ticks(&plain, 0, 0, 4));
	CHECK_TEXT("1.0|1.5|2.0|2.5|3.0", ticks(&fixed, 99, 100, 4));
	CHECK_TEXT("0k|20k|40k|60k", ticks(&plain, 100, 60000, 4));
	CHECK_TEXT("0 GB/s|20 GB/s|40 GB/s|60 GB/s", ticks(&bytes, 0, 5.5e10, 4));
	CHECK_TEXT("1|10|100|1000", ticks(&logs, 1, 1000, 5));
	CHECK_TEXT("2|5|10", ticks(&logs, 3, 8, 6));
	CHECK_TEXT("1 GOP/s|100 GOP/s|10 TOP/s", ticks(&hz, 1e9, 1e13, 3));
	CHECK_TEXT("2026-01-01|2026-01-02|2026-01-03",
		ticks(&when, start, start + 2 * day, 3));
	CHECK_TEXT("01-01 00:00|01-01 06:00|01-01 12:00",
		ticks(&when, start, start + day / 2, 3));
	CHECK_TEXT("2026-01|2026-04|2026-07|2026-10",
		ticks(&when, start, start + 300 * day, 4));
	CHECK_TEXT("2024|2025|2026",
		ticks(&when, start - 800 * day, start + 300 * day, 3));
	/* ends that no axis can show must not hang or overflow */
	ticks(&plain, -1e300, 1e300, 5);
	ticks(&plain, 0, 1e-300, 5);
	ticks(&plain, 1e300, 1e300, 5);
	ticks(&logs, 1e-299, 1e300, 5);
	ticks(&when, -1e300, 1e300, 5);
	ticks(&when, 1e300, 1e300, 5);
	CHECK(ticks(&plain, 1, 0, 5)[0] != '\0');
}

static void check_places(void)
{
	struct axis a;

	axis_make(&a, &(struct plot_axis){ .scale = PLOT_LOG }, 1, 10000, 5);
	CHECK(fabs(axis_place(&a, 100) - 0.5) < 1e-12);
	CHECK(axis_place(&a, 1) == 0 && axis_place(&a, 1e5) > 1);
	CHECK(!axis_takes(PLOT_LOG, 0) && !axis_takes(PLOT_LOG, -1) &&
		!axis_takes(PLOT_LINEAR, NAN) && !axis_takes(PLOT_LINEAR, INFINITY) &&
		!axis_takes(PLOT_LINEAR, 1e301) && axis_takes(PLOT_LINEAR, 0));
}

/* --- charts -------------------------------------------------------------------------------- */

#define ROUNDS 60

static void add_losses(struct plot *p)
{
	static double x[ROUNDS], a[ROUNDS], b[ROUNDS], low[ROUNDS], high[ROUNDS];

	for (int i = 0; i < ROUNDS; i++) {
		x[i] = i;
		a[i] = 2 + 3 * exp(-i / 12.0) + 0.06 * sin(i);
		b[i] = 2.3 + 3 * exp(-i / 20.0) + 0.05 * cos(3 * i);
		low[i] = a[i] - 0.15;
		high[i] = a[i] + 0.15;
	}
	b[30] = NAN;
	plot_add_chart(p,
		&(struct plot_chart){ .title = "loss by round",
			.x = { .label = "round" },
			.y = { .label = "loss, nats a token" },
			.n = 2,
			.lines = (const struct plot_line[]){
				{ .name = "DiLoCo, int4 <&> error feedback",
					.n = ROUNDS,
					.x = x,
					.y = a,
					.low = low,
					.high = high },
				{ .name = "all-reduce",
					.n = ROUNDS,
					.x = x,
					.y = b } } });
}

static void add_rates(struct plot *p)
{
	static const double bits[] = { 1, 2, 4, 8 }, error[] = { 0.4, 0.11, 0.012, 8e-4 };
	static const double other[] = { 0.5, 0.16, 0.03, 1e-3 };
	static const char *const names[] = { "sign", NULL, "int4", "int8" };

	plot_add_chart(p,
		&(struct plot_chart){ .title = "rate against error",
			.x = { .label = "bits a value", .zero = true },
			.y = { .label = "relative error", .scale = PLOT_LOG },
			.n = 2,
			.lines = (const struct plot_line[]){ { .name = "ours",
								     .style = PLOT_MARKED,
								     .n = 4,
								     .x = bits,
								     .y = error,
								     .labels = names },
				{ .name = "theirs",
					.style = PLOT_MARKED,
					.dashed = true,
					.n = 4,
					.x = bits,
					.y = other } } });
}

static void add_prices(struct plot *p)
{
	static const double at[] = { 1767225600e3, 1767312000e3, 1767400000e3,
		1767600000e3 };
	static const double usd[] = { 0.35, 0.41, 0.38, 0.44 };

	plot_add_chart(p,
		&(struct plot_chart){ .title = "price",
			.x = { .label = "time, UTC", .scale = PLOT_TIME },
			.y = { .label = "USD an hour", .zero = true },
			.n = 1,
			.lines = &(const struct plot_line){ .name = "ask",
				.style = PLOT_STEPS,
				.n = 4,
				.x = at,
				.y = usd } });
}

static void add_bars(struct plot *p)
{
	static const struct plot_bar bars[] = { { "cpu matmul_f32", 465e9, 440e9, 480e9,
							NULL },
		{ "cpu matmul_bf16", 930e9, 900e9, 935e9, "throttled" },
		{ "a name that goes on for much longer than there is room for it at the left",
			1.9e12, 1.88e12, 1.95e12, NULL },
		{ "single", 300e9, 1, 0, NULL }, { "broken", NAN, 1, 0, NULL } };

	plot_add_bars(p,
		&(struct plot_bars){ .title = "FLOP/s",
			.axis = { .unit = "FLOP/s" },
			.bars = bars,
			.n = 5 });
}

static void add_roofline(struct plot *p)
{
	static const struct plot_roof memory[] = { { "memory 57 GB/s", 57e9 } };
	static const struct plot_roof peaks[] = { { "f32 FMA", 541e9 },
		{ "bf16", 1.08e12 }, { "int8 VNNI", 2.16e12 } };
	static const struct plot_work work[] = { { "triad", 1. / 12, 4.7e9, 4.4e9, 5e9 },
		{ "matmul_f32", 341, 465e9, 440e9, 480e9 },
		{ "matmul_bf16", 512, 930e9, 900e9, 935e9 },
		{ "matmul_int8", 682, 1.9e12, 1.8e12, 2e12 } };

	plot_add_roofline(p,
		&(struct plot_roofline){ .title = "roofline",
			.memory = memory,
			.peaks = peaks,
			.work = work,
			.memories = 1,
			.n_peaks = 3,
			.n = 4 });
}

static void check_picture(const char *path)
{
	struct plot p = PLOT_INIT, again = PLOT_INIT;
	char *text, *other;

	add_losses(&p);
	add_rates(&p);
	add_prices(&p);
	add_bars(&p);
	add_roofline(&p);
	text = whole(&p, "a \"picture\" of <all> & more", "note");
	CHECK(is_xml(text));
	CHECK(strstr(text, "DiLoCo, int4 &lt;&amp;&gt; error feedback") != NULL);
	CHECK(strstr(text, "a &quot;picture&quot; of &lt;all&gt; &amp; more") != NULL);
	CHECK(strstr(text,
		      "930 GFLOP/s \xe2\x88\x92"
		      "3.2% +0.54%  throttled") != NULL);
	CHECK(strstr(text, "no data") != NULL); /* the broken bar */
	CHECK(strstr(text, "nan") == NULL && strstr(text, "inf") == NULL);
	CHECK(strstr(text, "http://www.w3.org/2000/svg") != NULL);
	CHECK_I64(1,
		(int64_t)count(text, "http")); /* the name space; nothing is loaded */
	add_losses(&again);
	add_rates(&again);
	add_prices(&again);
	add_bars(&again);
	add_roofline(&again);
	other = whole(&again, "a \"picture\" of <all> & more", "note");
	CHECK_TEXT(text, other);
	if (path)
		CHECK(plot_save(&p, "examples", "made by tests/unit/plot/plot.c", path) ==
			0);
	free(text);
	free(other);
	plot_release(&p);
	plot_release(&again);
}

/* A curve with a gap is two paths in one: two M. The band has none where a value lacks. */
static void check_gap(void)
{
	const double x[] = { 0, 1, 2, 3, 4 }, y[] = { 1, 2, NAN, 4, 5 };
	struct plot p = PLOT_INIT;
	char *text;
	const char *path;

	plot_add_chart(&p,
		&(struct plot_chart){ .n = 1,
			.lines = &(const struct plot_line){ .n = 5, .x = x, .y = y } });
	text = whole(&p, NULL, NULL);
	path = strstr(text, "<path d=\"");
	CHECK(path != NULL);
	if (path) {
		char *end = strchr(path + 9, '"');

		*end = '\0';
		CHECK_I64(2, (int64_t)count(path, "M"));
		CHECK_I64(2, (int64_t)count(path, "L"));
	}
	free(text);
	plot_release(&p);
}

static void check_many(void)
{
	const size_t n = 1000000;
	double *x = malloc(n * sizeof *x), *y = malloc(n * sizeof *y);
	struct plot p = PLOT_INIT;
	char *text;

	for (size_t i = 0; x && y && i < n; i++) {
		x[i] = (double)i;
		y[i] = i == 777777 ? 9 : sin((double)i / 1e5);
	}
	plot_add_chart(&p,
		&(struct plot_chart){ .y = { .min = -1, .max = 9 },
			.n = 1,
			.lines = &(const struct plot_line){ .n = n, .x = x, .y = y } });
	text = whole(&p, NULL, NULL);
	CHECK(strlen(text) < 100000);
	CHECK(is_xml(text));
	/* the one spike is there: it alone reaches the top of the area, 24 + 10 pixels down */
	CHECK_I64(1, (int64_t)count(text, " 34L"));
	free(text);
	free(x);
	free(y);
	plot_release(&p);
}

static void check_hostile(void)
{
	static const char bad[] = "a\x01\xff<\xed\xa0\x80 z\xef\xbf\xbf \xe4\xb8";
	const double inf[] = { INFINITY, 1, -1e308, 0 }, zero[] = { 0, 0, 0, 0 };
	struct plot p = PLOT_INIT;
	char *text;

	plot_add_chart(&p,
		&(struct plot_chart){ .title = bad,
			.x = { .label = bad, .scale = PLOT_LOG },
			.y = { .label = bad, .unit = bad, .scale = PLOT_LOG },
			.n = 1,
			.lines = &(const struct plot_line){ .name = bad,
				.n = 4,
				.x = inf,
				.y = zero } });
	plot_add_bars(&p, &(struct plot_bars){ .title = bad });
	plot_add_roofline(&p, &(struct plot_roofline){ .title = bad });
	text = whole(&p, bad, bad);
	CHECK(is_xml(text));
	CHECK_I64(3, (int64_t)count(text, "no data"));
	CHECK(strstr(text, "a\xef\xbf\xbd\xef\xbf\xbd&lt;") != NULL);
	CHECK(strchr(text, 1) == NULL && strstr(text, "\xef\xbf\xbf") == NULL);
	free(text);
	plot_release(&p);
	text = whole(&p, NULL, NULL); /* no chart at all */
	CHECK(is_xml(text));
	free(text);
}

int main(int argc, char **argv)
{
	check_texts();
	check_ticks();
	check_places();
	check_picture(argc > 1 ? argv[1] : NULL);
	check_gap();
	check_many();
	check_hostile();
	TEST_END();
}
