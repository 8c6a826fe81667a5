#include "cmd/rnp-bench/suite_lm.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/record.h"
#include "common/clock.h"
#include "common/err.h"
#include "common/hw.h"
#include "common/json.h"
#include "common/prog.h"

#define N             2048 /* of the matrices, as in the suite cpu */
#define N_QUICK       768
#define N_GPU         8192
#define MEMORY_MIN    (UINT64_C(256) << 20)
#define MEMORY_QUICK  (UINT64_C(128) << 20)
#define MEMORY_GPU    (UINT64_C(2) << 30)
#define SLICE         (UINT64_C(32) << 20) /* that one step reads: a few milliseconds */
#define WORD          1
#define QUICK_SHARE   12 /* of --time: there are many models */
#define BATCHES_QUICK 6  /* the least that has an interval of 95% */
#define BATCHES_MIN   10
#define BATCHES_LONG  3 /* of models whose single steps take longer than a batch should */

static struct suite_lm *the; /* that is open: tests have no argument */
static uint64_t wrong;       /* words that came out of memory other than they went in */

static int failed(struct suite_lm *l)
{
	return err_set(l->d.code, "%s", l->d.error);
}

static bool is_gpu(const struct suite_lm *l)
{
	return strcmp(l->d.name, "cpu") != 0;
}

/* --- roofs --------------------------------------------------------------------------------- */

/* Beyond the caches by four times, as the suite mem has it, where there is time for that. */
static int open_memory(struct suite_lm *l)
{
	uint64_t bytes = 4 * (uint64_t)hw_cache_read();

	if (bytes < MEMORY_MIN)
		bytes = MEMORY_MIN;
	if (l->settings.quick)
		bytes = MEMORY_QUICK;
	else if (is_gpu(l))
		bytes = MEMORY_GPU;
	l->memory_bytes = bytes / SLICE * SLICE;
	if (!suite_lm_fits(l, l->memory_bytes))
		return -1;
	if (l->d.ops->alloc(&l->d, &l->memory, l->memory_bytes) < 0 ||
		l->d.ops->fill(&l->d, l->memory, WORD, l->memory_bytes / 4) < 0)
		return failed(l);
	return 0;
}

int suite_lm_open(struct suite_lm *l, const struct suite *suite, const struct settings *s,
	suite_emit emit, void *ctx, enum product_type type)
{
	const char *name = s->device ? s->device : getenv("RNP_DEVICE");
	uint64_t n = s->quick ? N_QUICK : N;

	memset(l, 0, sizeof *l);
	l->settings = *s;
	l->suite = suite;
	l->emit = emit;
	l->ctx = ctx;
	for (int i = 0; i < SUITE_LM_ROOFS; i++)
		l->roofs[i] = (struct measurement)MEASUREMENT_INIT;
	if (s->quick)
		l->settings.time_ms = (s->time_ms + QUICK_SHARE - 1) / QUICK_SHARE;
	/* without a name it is the CPU, as in the suites beside these */
	if (dev_open(&l->d, name && strncmp(name, "cuda", 4) == 0 ? name : "cpu") < 0)
		return failed(l);
	snprintf(l->device, sizeof l->device, "%s",
		l->d.model[0] ? l->d.model : suite_cpu_model());
	the = l;
	wrong = 0;
	if (matrices_open(&l->matrices, &l->d, type, is_gpu(l) ? N_GPU : n) < 0)
		return -1;
	return open_memory(l);
}

void suite_lm_close(struct suite_lm *l)
{
	matrices_close(&l->matrices);
	if (l->d.ops)
		l->d.ops->free(&l->d, l->memory);
	dev_close(&l->d);
	for (int i = 0; i < SUITE_LM_ROOFS; i++)
		measurement_release(&l->roofs[i]);
	the = NULL;
}

const struct dev *suite_lm_dev(void)
{
	return &the->d;
}

int suite_lm_step_matrix(double *work)
{
	*work = matrices_work(&the->matrices);
	return matrices_step(&the->matrices, 1);
}

int suite_lm_check_matrix(void)
{
	return matrices_check(&the->matrices);
}

/* The words that are not as they were written. */
static uint64_t read_words(const uint64_t *words, uint64_t n)
{
	const uint64_t want = WORD | (uint64_t)WORD << 32;
	uint64_t differ = 0;

#pragma omp parallel for schedule(static) reduction(| : differ)
	for (uint64_t i = 0; i < n; i++)
		differ |= words[i] ^ want;
	return differ;
}

/* The CPU reads a slice; a GPU copies one half over the other, and both ways count. */
int suite_lm_step_memory(double *work)
{
	struct suite_lm *l = the;
	uint64_t half = l->memory_bytes / 2;
	char *from = l->memory;

	if (is_gpu(l)) {
		*work = 2 * (double)half;
		if (l->d.ops->copy(&l->d, from, from + half, half) < 0 ||
			l->d.ops->sync(&l->d) < 0)
			return failed(l);
		return 0;
	}
	wrong |= read_words((const uint64_t *)(from + l->at), SLICE / 8);
	l->at = (l->at + SLICE) % l->memory_bytes;
	*work = (double)SLICE;
	return 0;
}

int suite_lm_check_memory(void)
{
	if (wrong)
		bug("memory gives other words back");
	return 0;
}

/* --- batches ------------------------------------------------------------------------------- */

/* All are known well enough, or the time is over. */
static bool is_enough(const struct suite_lm *l, const struct suite_lm_model *models,
	size_t n, int64_t ns)
{
	size_t batches = models->m.n;
	/* of the roofs too */
	int64_t time_ns = l->settings.time_ms * 1000000 * (int64_t)(n + SUITE_LM_ROOFS);
	struct stats stats;

	if ((batches >= BATCHES_QUICK && (l->settings.quick || ns > 2 * time_ns)) ||
		(batches >= BATCHES_LONG && ns > 10 * time_ns))
		return true;
	if (batches < BATCHES_MIN)
		return false;
	if (batches == (size_t)measure_batches(&l->settings))
		return true;
	for (size_t i = 0; i < n; i++) {
		stats_of(models[i].m.batches, models[i].m.n, &stats);
		if (stats_spread_ppm(&stats) > MEASURE_SPREAD_PPM)
			return false;
	}
	return true;
}

/* The median of a roof's batches from `from` on. */
static double rate_since(const struct measurement *m, size_t from)
{
	struct stats stats;

	stats_of(m->batches + from, m->n - from, &stats);
	return stats.median;
}

int suite_lm_alternate(struct suite_lm *l, struct suite_lm_model *models, size_t n,
	struct suite_lm_token *token)
{
	size_t from = l->roofs[SUITE_LM_MATRIX].n;
	int64_t start = clock_mono_ns();

	do {
		for (size_t i = 0; i < SUITE_LM_ROOFS; i++)
			if (measure_batch(&l->roofs[i], &l->suite->tests[i], NULL,
				    &l->settings) < 0)
				return -1;
		for (size_t i = 0; i < n; i++)
			if (measure_batch(&models[i].m, models[i].test, NULL,
				    &l->settings) < 0)
				return -1;
	} while (!is_enough(l, models, n, clock_mono_ns() - start));
	token->matrix_rate = rate_since(&l->roofs[SUITE_LM_MATRIX], from);
	token->memory_rate = rate_since(&l->roofs[SUITE_LM_MEMORY], from);
	return 0;
}

/* --- records ------------------------------------------------------------------------------- */

int suite_lm_emit(struct suite_lm *l, const struct suite_lm_model *model,
	const struct suite_lm_token *t, json_t *params)
{
	double rate, roof = t->matrix_rate / t->flop;
	struct measured m;

	measure_result(&model->m, &m);
	rate = m.stats.median;
	if (t->memory_rate / t->bytes < roof)
		roof = t->memory_rate / t->bytes;
	json_set_text(params, "kernel", l->d.isa);
	json_set_i64(params, "threads", suite_threads());
	json_set_i64(params, "flop_per_token", llround(t->flop));
	json_set_i64(params, "bytes_per_token", llround(t->bytes));
	json_set_i64(params, "token_ns", llround(1e9 / rate));
	json_set_i64(params, "matrix_flop_per_s", llround(t->matrix_rate));
	json_set_i64(params, "memory_bytes_per_s", llround(t->memory_rate));
	json_set_i64(params, "matrix_ppm",
		llround(1e6 * rate * t->flop / t->matrix_rate));
	json_set_i64(params, "memory_ppm",
		llround(1e6 * rate * t->bytes / t->memory_rate));
	json_set_i64(params, "roof_ppm", llround(1e6 * rate / roof));
	return l->emit(l->ctx,
		record_make(l->suite->name, model->test, l->device, &model->m, params));
}

int suite_lm_emit_roofs(struct suite_lm *l)
{
	for (int i = 0; i < SUITE_LM_ROOFS; i++) {
		json_t *params;

		if (!l->roofs[i].n)
			continue;
		params = json_object();
		if (i == SUITE_LM_MATRIX) {
			json_set_i64(params, "n", (int64_t)l->matrices.product.n);
			json_set_text(params, "type",
				product_type_names[l->matrices.product.type]);
			json_set_text(params, "kernel",
				strcmp(l->d.kernel, "ref") == 0 ? "reference" :
								  l->d.kernel);
		} else {
			json_set_i64(params, "array_bytes", (int64_t)l->memory_bytes);
			json_set_i64(params, "cache_bytes", hw_cache_read());
		}
		json_set_i64(params, "threads", suite_threads());
		if (l->emit(l->ctx,
			    record_make(l->suite->name, &l->suite->tests[i], l->device,
				    &l->roofs[i], params)) < 0)
			return -1;
	}
	return 0;
}

/* --- what fits ----------------------------------------------------------------------------- */

bool suite_lm_fits(struct suite_lm *l, uint64_t need)
{
	uint64_t room = (uint64_t)hw_available_read();

	if (is_gpu(l) && l->d.ops->room(&l->d, &room) < 0) {
		failed(l);
		return false;
	}
	if (!room || need <= room / 10 * 9)
		return true;
	err_set(EX_UNAVAILABLE, "it needs %" PRIu64 " MiB, %" PRIu64 " MiB are available",
		need >> 20, room >> 20);
	return false;
}

void suite_lm_leave_out(const struct suite_lm *l, const char *what)
{
	prog_warn("%s %s: left out: %s", l->suite->name, what, err_get()->text);
	err_clear();
}
