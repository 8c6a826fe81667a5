/* figure.c - measures figures of this machine, and keeps them as lines of one file. */
#include "common/hw/figure.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/threads.h"
#include "common/hw/hw.h"
#include "common/json/json.h"
#include "common/record/bench.h"

#define FILE_NAME      "measured.jsonl"
#define FILE_BYTES_MAX ((size_t)1 << 20)
#define KEPT_MS        (INT64_C(30) * 86400000)
#define BATCHES_MIN    6 /* the fewest that have an interval of 95% */
#define BATCHES_MAX    64
#define SPREAD_PPM     20000
#define LINES_MAX      64 /* figures that are kept: of other devices and programs, too */

int figure_place(struct buf *out, const char *name)
{
	const char *service = getenv("CACHE_DIRECTORY");
	const char *cache = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int rc;

	buf_reset(out);
	if (service && *service == '/')
		buf_adds(out, service);
	else if (cache && *cache == '/')
		buf_addf(out, "%s/rnp", cache);
	else if (home && *home == '/')
		buf_addf(out, "%s/.cache/rnp", home);
	else
		return err_set(EX_NOINPUT,
			"no place for what is measured: neither XDG_CACHE_HOME nor HOME is set");
	rc = io_make_default_dirs(buf_text(out), 0700);
	buf_addf(out, "/%s", name);
	return rc;
}

void figure_init(struct figure *f, const struct dev *d, const char *suite,
	const char *test, const char *unit)
{
	struct hw_causes why = { 0 };
	struct hw_cpu cpu;

	*f = (struct figure){ .suite = suite, .test = test, .unit = unit };
	snprintf(f->device, sizeof f->device, "%s", d->model);
	/* a home may be on several machines */
	if (d->is_host && !f->device[0]) {
		hw_cpu_read(&cpu, &why);
		snprintf(f->device, sizeof f->device, "%s", cpu.model);
	}
	if (!f->device[0])
		snprintf(f->device, sizeof f->device, "%s", d->name);
	/* d->kernel is known only after the first product */
	snprintf(f->kernel, sizeof f->kernel, "%s", d->isa);
	f->threads = d->is_host ? threads_max() : 1;
}

/* --- lines ------------------------------------------------------------------------------------ */

static bool same_text(const json_t *obj, const char *key, const char *want)
{
	const char *text = json_string_value(json_object_get(obj, key));

	return text && strcmp(text, want) == 0;
}

static bool is_of(const json_t *record, const struct figure *f)
{
	const json_t *params = json_object_get(record, "params");

	return same_text(record, "suite", f->suite) &&
		same_text(record, "test", f->test) &&
		same_text(record, "unit", f->unit) &&
		same_text(record, "device", f->device) &&
		same_text(params, "kernel", f->kernel) &&
		json_integer_value(json_object_get(params, "threads")) == f->threads;
}

static bool is_fresh(const json_t *record)
{
	const char *at = json_string_value(json_object_get(record, "at"));
	int64_t at_ms, age_ms;

	if (!at || clock_parse(at, FILE_NAME, &at_ms) < 0)
		return false;
	age_ms = clock_now_ms() - at_ms;
	return age_ms >= -KEPT_MS && age_ms < KEPT_MS;
}

static double number_of(const json_t *record, const char *key)
{
	return (double)json_integer_value(json_object_get(record, key));
}

static void take(struct figure *f, const json_t *record)
{
	f->best = number_of(json_object_get(record, "params"), "best");
	f->batches = (struct stats){ .median = number_of(record, "median"),
		.low = number_of(record, "low"),
		.high = number_of(record, "high"),
		.n = (size_t)number_of(record, "samples"),
		.coverage_ppm = STATS_COVERAGE_PPM };
	if (json_object_get(record, "coverage_ppm"))
		f->batches.coverage_ppm = (int64_t)number_of(record, "coverage_ppm");
}

/* Reads the file. What is damaged, old or of f is left out of `others`; f, which may be NULL, takes
 * its own. Nothing that goes wrong here is an error: the figure is measured then. */
static bool read_kept(struct figure *f, struct buf *others)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	bool found = false;
	int n = 0;

	if (figure_place(&path, FILE_NAME) < 0 ||
		io_read(&text, path.data, FILE_BYTES_MAX) < 0)
		buf_reset(&text);
	for (char *at = text.len ? text.data : NULL, *end;
		at && (end = strchr(at, '\n')) && n < LINES_MAX; at = end + 1) {
		json_t *record = json_parse_object(at, (size_t)(end - at), FILE_NAME);

		if (record && is_fresh(record)) {
			if (!is_of(record, f)) {
				buf_add(others, at, (size_t)(end - at) + 1);
				n++;
			} else if (number_of(json_object_get(record, "params"), "best") >=
				1) {
				take(f, record);
				found = true;
			}
		}
		json_decref(record);
	}
	err_clear();
	buf_release(&text);
	buf_release(&path);
	return found;
}

bool figure_kept(struct figure *f)
{
	struct buf others = BUF_INIT;
	bool found = read_kept(f, &others);

	buf_release(&others);
	return found;
}

static void keep(const struct figure *f)
{
	struct buf path = BUF_INIT, text = BUF_INIT;
	struct figure before = *f;
	json_t *record = bench_record(f->suite, f->test, f->device, f->unit, &f->batches);

	json_set_text(bench_params(record), "kernel", f->kernel);
	json_set_i64(bench_params(record), "threads", f->threads);
	json_set_i64(bench_params(record), "best", llround(f->best));
	read_kept(&before, &text);
	json_write(&text, record);
	buf_addc(&text, '\n');
	if (figure_place(&path, FILE_NAME) == 0)
		io_replace(path.data, text.data, text.len, 0644);
	err_clear();
	json_decref(record);
	buf_release(&text);
	buf_release(&path);
}

/* --- measuring -------------------------------------------------------------------------------- */

static bool is_enough(const double *rates, size_t n)
{
	struct stats s;

	if (n < BATCHES_MIN)
		return false;
	stats_of(rates, n, &s);
	return stats_spread_ppm(&s) <= SPREAD_PPM;
}

static int run_batches(double *rates, size_t *n, figure_batch_fn batch, void *ctx,
	int64_t time_ms)
{
	int64_t from = clock_mono_ns(), warm_ns = time_ms * 100000, until;
	int rc;

	do
		rc = batch(ctx, &rates[0]);
	while (rc == 0 && clock_mono_ns() - from < warm_ns);
	until = clock_mono_ns() + time_ms * 1000000;
	for (*n = 0; rc == 0 && *n < BATCHES_MAX && !is_enough(rates, *n) &&
		(!*n || clock_mono_ns() < until);) {
		rc = batch(ctx, &rates[*n]);
		*n += rc == 0;
	}
	return rc;
}

void figure_offer(struct figure *f, const double *rates, size_t n)
{
	struct figure before = *f;

	before.best = 0;
	figure_kept(&before);
	f->best = fmax(f->best, before.best);
	for (size_t i = 0; i < n; i++)
		f->best = fmax(f->best, rates[i]);
	stats_of(rates, n, &f->batches);
	keep(f);
}

int figure_measure(struct figure *f, figure_batch_fn batch, void *ctx, int64_t time_ms)
{
	double rates[BATCHES_MAX];
	size_t n;

	if (run_batches(rates, &n, batch, ctx, time_ms) < 0)
		return -1;
	figure_offer(f, rates, n);
	return 0;
}
