/* picture.c - draws the records of a run: bars, lines of messages, points of compressors, a
 * roofline. */
#include "cmd/rnp-bench/figures/picture.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/compress_data.h"
#include "common/record/gpu.h"
#include "common/base/mem.h"
#include "common/plot/plot.h"

static const char *text(const json_t *record, const char *key)
{
	const char *v = json_string_value(json_object_get(record, key));

	return v ? v : "";
}

static double number(const json_t *record, const char *key)
{
	return json_number_value(json_object_get(record, key));
}

/* Nanoseconds are drawn as seconds, so that the axis can choose the prefix. */
static double scale_of(const char *unit)
{
	return strcmp(unit, "ns") == 0 ? 1e-9 : 1;
}

/* --- bars ---------------------------------------------------------------------------------- */

static bool same_chart(const json_t *a, const json_t *b)
{
	return strcmp(text(a, "suite"), text(b, "suite")) == 0 &&
		strcmp(text(a, "unit"), text(b, "unit")) == 0;
}

/* The smaller of two values with this ratio could not be seen on a linear axis. */
#define DECADES 100

/* Draws the figures of one suite in one unit. */
static void add_bars(struct plot *p, const json_t *records, const json_t *first)
{
	struct plot_bar *bars = xcalloc(json_array_size(records), sizeof *bars);
	const char *unit = text(first, "unit");
	double scale = scale_of(unit);
	struct plot_bars chart = { .bars = bars };
	double min = 0, max = 0;
	char title[200];
	size_t i;
	json_t *r;

	json_array_foreach(records, i, r) {
		if (!same_chart(r, first))
			continue;
		bars[chart.n++] = (struct plot_bar){ text(r, "test"),
			number(r, "median") * scale, number(r, "low") * scale,
			number(r, "high") * scale,
			json_is_true(json_object_get(r, "throttled")) ? "throttled" :
									NULL };
	}
	for (i = 0; i < chart.n; i++) {
		min = bars[i].value > 0 && (min <= 0 || bars[i].value < min) ?
			bars[i].value :
			min;
		max = bars[i].value > max ? bars[i].value : max;
	}
	chart.axis.scale = min > 0 && max > DECADES * min ? PLOT_LOG : PLOT_LINEAR;
	snprintf(title, sizeof title, "%s, %s%s%s", text(first, "suite"),
		scale < 1 ? "time, less is better" : unit,
		*text(first, "device") ? ": " : "", text(first, "device"));
	chart.title = title;
	chart.axis.unit = scale < 1 ? "s" : strcmp(unit, "1/s") == 0 ? "/s" : unit;
	plot_add_bars(p, &chart);
	free(bars);
}

static void add_all_bars(struct plot *p, const json_t *records)
{
	size_t i, k;
	json_t *r, *before;

	json_array_foreach(records, i, r) {
		bool drawn = strcmp(text(r, "suite"), "comm") == 0;

		json_array_foreach(records, k, before)
			drawn = drawn || (k < i && same_chart(r, before));
		if (!drawn)
			add_bars(p, records, r);
	}
}

/* --- messages over sizes --------------------------------------------------------------------- */

#define BACKENDS_MAX 8
#define SIZES_MAX    32

/* Draws the times of one backend. */
struct curve {
	const char *backend;
	size_t n;
	double bytes[SIZES_MAX], median[SIZES_MAX], low[SIZES_MAX], high[SIZES_MAX];
};

static struct curve *curve_of(struct curve *curves, size_t *n, const char *backend)
{
	for (size_t i = 0; i < *n; i++)
		if (strcmp(curves[i].backend, backend) == 0)
			return &curves[i];
	if (*n == BACKENDS_MAX)
		return NULL;
	curves[*n].backend = backend;
	return &curves[(*n)++];
}

static size_t find_curves(struct curve *curves, const json_t *records, const char *test)
{
	size_t n = 0, i;
	json_t *r;

	json_array_foreach(records, i, r) {
		const json_t *params = json_object_get(r, "params");
		struct curve *c;

		if (strcmp(text(r, "suite"), "comm") != 0 ||
			strcmp(text(r, "test"), test) != 0)
			continue;
		c = curve_of(curves, &n, text(params, "backend"));
		if (!c || c->n == SIZES_MAX)
			continue;
		c->bytes[c->n] = number(params, "bytes");
		c->median[c->n] = number(r, "median") * 1e-9;
		c->low[c->n] = number(r, "low") * 1e-9;
		c->high[c->n++] = number(r, "high") * 1e-9;
	}
	return n;
}

/* Draws the lines of the suite comm, which meet at its crossovers. */
static void add_messages(struct plot *p, const json_t *records, const char *test,
	const char *title)
{
	struct curve *curves = xcalloc(BACKENDS_MAX, sizeof *curves);
	struct plot_line lines[BACKENDS_MAX];
	struct plot_chart chart = { .title = title,
		.x = { .label = "bytes", .unit = "B", .scale = PLOT_LOG },
		.y = { .label = "time, less is better", .unit = "s", .scale = PLOT_LOG },
		.lines = lines,
		.n = find_curves(curves, records, test) };

	for (size_t i = 0; i < chart.n; i++)
		lines[i] = (struct plot_line){ .name = curves[i].backend,
			.style = PLOT_MARKED,
			.n = curves[i].n,
			.x = curves[i].bytes,
			.y = curves[i].median,
			.low = curves[i].low,
			.high = curves[i].high };
	if (chart.n)
		plot_add_chart(p, &chart);
	free(curves);
}

/* --- rooflines ----------------------------------------------------------------------------- */

#define ROOFS_MAX 8
#define WORKS_MAX 64

struct roofline {
	struct plot_roof memory[ROOFS_MAX], peaks[ROOFS_MAX];
	struct plot_work work[WORKS_MAX];
	char names[ROOFS_MAX][64];
	struct plot_roofline chart;
	const char *device;
};

/* Returns the operations for each byte that has to move from or to memory once; 0: the test has
 * none. */
static double intensity(const json_t *record)
{
	const json_t *params = json_object_get(record, "params");
	double n = number(params, "n"), bytes = number(params, "bytes_per_token");
	const char *type = text(params, "type");
	double element = strcmp(type, "f32") == 0                     ? 4 :
		strcmp(type, "bf16") == 0 || strcmp(type, "f16") == 0 ? 2 :
									1;

	if (bytes > 0)
		return number(params, "flop_per_token") / bytes;
	if (strncmp(text(record, "test"), "matmul_", 7) == 0 && n > 0)
		return 2 * n / (2 * element + 4);
	return strcmp(text(record, "test"), "triad") == 0 ? 2.0 / 24 : 0;
}

static void add_work(struct roofline *r, const json_t *record)
{
	double at = intensity(record);
	/* a triad is measured in bytes: 2 operations for 24 bytes */
	double scale = strcmp(text(record, "unit"), "B/s") == 0 ? at : 1;

	if (strcmp(text(record, "unit"), "tokens/s") == 0)
		scale = number(json_object_get(record, "params"), "flop_per_token");

	if (at > 0 && r->chart.n < WORKS_MAX)
		r->work[r->chart.n++] = (struct plot_work){ text(record, "test"), at,
			number(record, "median") * scale, number(record, "low") * scale,
			number(record, "high") * scale };
}

static void add_peak(struct roofline *r, const char *name, double rate)
{
	size_t i = r->chart.n_peaks;

	if (i == ROOFS_MAX || rate <= 0)
		return;
	snprintf(r->names[i], sizeof r->names[i], "%s", name);
	r->peaks[i] = (struct plot_roof){ r->names[i], rate };
	r->chart.n_peaks++;
}

/* The suites train and serve measure roofs of their own; elsewhere the same tests count as
 * work. */
static bool is_model_roof(const json_t *record)
{
	const char *suite = text(record, "suite");

	return (strcmp(suite, "train") == 0 || strcmp(suite, "serve") == 0) &&
		strcmp(text(record, "unit"), "tokens/s") != 0;
}

static void add_memory(struct roofline *r, const char *name, double rate)
{
	r->memory[r->chart.memories].name = name;
	r->memory[r->chart.memories++].rate = rate;
}

static void add_record(struct roofline *r, const json_t *record)
{
	const char *test = text(record, "test");

	if (is_model_roof(record) && strcmp(test, "read") == 0)
		add_memory(r, "memory, as read", number(record, "median"));
	else if (is_model_roof(record) || strncmp(test, "peak_", 5) == 0)
		add_peak(r, test, number(record, "median"));
	else
		add_work(r, record);
	if (strcmp(test, "triad") == 0 || strcmp(test, "copy") == 0)
		add_memory(r,
			strcmp(test, "triad") == 0 ? "memory, as triad has it" :
						     "memory, as copy has it",
			number(record, "median"));
	if (strncmp(test, "matmul_", 7) == 0 || strncmp(test, "peak_", 5) == 0)
		r->device = text(record, "device");
}

/* Draws the roofline of one device from the named suites: its peaks and its memory. */
static void add_roofline(struct plot *p, const json_t *records, const char *one,
	const char *two)
{
	struct roofline r = { 0 };
	const struct gpu_model *gpu;
	char title[200];
	size_t i;
	json_t *record;

	json_array_foreach(records, i, record) {
		const char *suite = text(record, "suite");

		if ((strcmp(suite, one) == 0 || strcmp(suite, two) == 0) &&
			r.chart.memories + 1 < ROOFS_MAX)
			add_record(&r, record);
	}
	gpu = r.device && strcmp(one, "gpu") == 0 ? gpu_find(r.device, 0) : NULL;
	if (gpu) {
		add_peak(&r, "f32 by datasheet", (double)gpu->f32_gflops * 1e9);
		add_peak(&r, "tensor cores, f16, by datasheet",
			(double)gpu->tensor_gflops * 1e9);
	}
	if (!r.chart.n || (!r.chart.memories && !r.chart.n_peaks))
		return;
	snprintf(title, sizeof title, "roofline%s%s", r.device && *r.device ? ": " : "",
		r.device ? r.device : "");
	r.chart.title = title;
	r.chart.memory = r.memory;
	r.chart.peaks = r.peaks;
	r.chart.work = r.work;
	plot_add_roofline(p, &r.chart);
}

/* --- bits against errors ------------------------------------------------------------------ */

/* Draws a point for each method of suite compress on one kind of data. */
static size_t add_points(struct plot_line *line, const json_t *records, const char *kind)
{
	char bits_key[64], error_key[64];
	double *x = xcalloc(json_array_size(records), sizeof *x);
	double *y = xcalloc(json_array_size(records), sizeof *y);
	const char **labels = xcalloc(json_array_size(records), sizeof *labels);
	size_t i;
	json_t *r;

	snprintf(bits_key, sizeof bits_key, "%s_microbits", kind);
	snprintf(error_key, sizeof error_key, "%s_error_ppm", kind);
	*line = (struct plot_line){ .name = kind,
		.style = PLOT_POINTS,
		.x = x,
		.y = y,
		.labels = labels };
	json_array_foreach(records, i, r) {
		const json_t *params = json_object_get(r, "params");

		/* each method occurs twice: encode and decode */
		if (strcmp(text(r, "suite"), "compress") != 0 ||
			strncmp(text(r, "test"), "encode_", 7) != 0 ||
			number(params, error_key) <= 0)
			continue;
		x[line->n] = number(params, bits_key) * 1e-6;
		y[line->n] = number(params, error_key) * 1e-6;
		labels[line->n++] = text(params, "method");
	}
	return line->n;
}

static void add_errors(struct plot *p, const json_t *records)
{
	struct plot_line lines[COMPRESS_KINDS];
	struct plot_chart chart = { .title = "compress: what bits cost in truth",
		.x = { .label = "bits an element", .zero = true },
		.y = { .label = "relative error, L2", .scale = PLOT_LOG },
		.lines = lines };
	size_t points = 0;

	for (int k = 0; k < COMPRESS_KINDS; k++)
		points += add_points(&lines[chart.n++], records, compress_kinds[k]);
	if (points)
		plot_add_chart(p, &chart);
	for (size_t k = 0; k < chart.n; k++) {
		free((void *)(uintptr_t)lines[k].x);
		free((void *)(uintptr_t)lines[k].y);
		free((void *)(uintptr_t)lines[k].labels);
	}
}

static void add_all(struct plot *p, const json_t *records)
{
	add_all_bars(p, records);
	add_messages(p, records, "pingpong", "comm, a message, one way");
	add_messages(p, records, "allreduce", "comm, the sum of two vectors");
	add_roofline(p, records, "cpu", "mem");
	add_roofline(p, records, "gpu", "gpu");
	add_roofline(p, records, "train", "train");
	add_roofline(p, records, "serve", "serve");
	add_errors(p, records);
}

int picture_save(const json_t *records, const char *path)
{
	struct plot p = PLOT_INIT;
	char note[200];
	int rc;

	add_all(&p, records);
	snprintf(note, sizeof note, "rnp-bench %s, %s: medians with 95%% intervals",
		RNP_VERSION, text(json_array_get(records, 0), "at"));
	rc = plot_save(&p, "rnp-bench", note, path);
	plot_release(&p);
	return rc;
}

void picture_write(struct buf *out, const json_t *records, const char *title)
{
	struct plot p = PLOT_INIT;

	add_all(&p, records);
	plot_embed(out, &p, title);
	plot_release(&p);
}
