/* lm.c - runs the courses of the suites train and serve: roofs and models, segment by
 * segment. */
#include "cmd/rnp-bench/suites/lm.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/suites/record.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/threads.h"
#include "common/hw/device.h"
#include "common/hw/hw.h"
#include "common/hw/roof.h"
#include "common/json/json.h"
#include "common/cli/prog.h"

#define N            2048 /* of the matrices, as in the suite cpu */
#define N_QUICK      768
#define N_GPU        8192
#define MEMORY_MIN   (UINT64_C(256) << 20)
#define MEMORY_QUICK (UINT64_C(128) << 20)
#define MEMORY_GPU   (UINT64_C(2) << 30)
#define SLICE        (UINT64_C(32) << 20) /* that one step reads: a few milliseconds */
#define WORD         1
#define QUICK_SHARE  12 /* of --time: there are many models */
#define SAMPLES_MIN  6  /* the fewest that have an interval of 95% */
/* for models whose opening or single steps take longer than a batch should */
#define SAMPLES_LONG 3

static struct suite_lm *the; /* the open suite: tests have no argument */
static uint64_t wrong;       /* words that memory returned wrongly */

static int failed(struct suite_lm *l)
{
	return device_failed(&l->d);
}

static bool is_gpu(const struct suite_lm *l)
{
	return !l->d.is_host;
}

/* --- roofs --------------------------------------------------------------------------------- */

/* Four times the caches, as in the suite mem, when there is time for that. */
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

/* Counts the words that are not as they were written. */
static uint64_t read_words(const uint64_t *words, uint64_t n)
{
	const uint64_t want = WORD | (uint64_t)WORD << 32;
	uint64_t differ = 0;

#pragma omp parallel for schedule(static) reduction(| : differ)
	for (uint64_t i = 0; i < n; i++)
		differ |= words[i] ^ want;
	return differ;
}

/* The CPU reads a slice; a GPU copies one half over the other, and both directions count. */
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

/* --- a segment ----------------------------------------------------------------------------- */

static void describe_roofs(struct suite_lm *l)
{
	json_t *matrix = json_object(), *memory = json_object();

	json_set_i64(matrix, "n", (int64_t)l->matrices.product.n);
	json_set_text(matrix, "type", product_type_names[l->matrices.product.type]);
	json_set_text(matrix, "kernel",
		strcmp(l->d.kernel, "ref") == 0 ? "reference" : l->d.kernel);
	json_set_i64(memory, "array_bytes", (int64_t)l->memory_bytes);
	json_set_i64(memory, "cache_bytes", hw_cache_read());
	l->roof_params[SUITE_LM_MATRIX] = matrix;
	l->roof_params[SUITE_LM_MEMORY] = memory;
	for (int i = 0; i < SUITE_LM_ROOFS; i++)
		json_set_i64(l->roof_params[i], "threads", threads_max());
}

/* With --quick the roofs' memory is allocated once for all segments, because mapping its pages
 * takes time. */
static bool keeps_device(const struct suite_lm *l)
{
	return l->settings.quick && l->memory;
}

/* Prepares, in the first segment, what is the same in all segments. */
static void prepare(struct suite_lm *l, const struct settings *s)
{
	l->prepared = true;
	l->settings = *s;
	l->time_ms = s->time_ms;
	/* a batch has the share of time_ms that measure.c gives to each of its own */
	l->settings.time_ms = s->quick ? (s->time_ms + QUICK_SHARE - 1) / QUICK_SHARE :
					 s->time_ms * measure_batches(s) / SUITE_SEGMENTS;
	for (int i = 0; i < SUITE_LM_ROOFS; i++)
		l->roofs[i] = l->stretch[i] = (struct measurement)MEASUREMENT_INIT;
	for (int i = 0; i < SUITE_LM_MODELS_MAX; i++)
		for (int k = 0; k < SUITE_LM_TESTS_MAX; k++)
			l->models[i].tests[k].m = (struct measurement)MEASUREMENT_INIT;
}

static int open_device(struct suite_lm *l)
{
	const char *name = l->settings.device ? l->settings.device : getenv("RNP_DEVICE");
	uint64_t n = l->settings.quick ? N_QUICK : N;

	the = l;
	wrong = 0;
	l->at = 0;
	if (keeps_device(l))
		return 0;
	/* by default the CPU is measured, as in the neighbouring suites */
	if (device_open(&l->d, name && strncmp(name, "cuda", 4) == 0 ? name : "cpu") < 0)
		return -1;
	snprintf(l->device, sizeof l->device, "%s",
		l->d.model[0] ? l->d.model : suite_cpu_model());
	snprintf(l->isa, sizeof l->isa, "%s", l->d.isa);
	if (matrices_open(&l->matrices, &l->d, l->kind->type, is_gpu(l) ? N_GPU : n) < 0)
		return -1;
	if (open_memory(l) < 0)
		return -1;
	if (!l->roof_params[SUITE_LM_MATRIX])
		describe_roofs(l);
	return 0;
}

static void close_device(struct suite_lm *l)
{
	the = NULL;
	matrices_close(&l->matrices);
	if (l->d.ops)
		l->d.ops->free(&l->d, l->memory);
	l->memory = NULL;
	dev_close(&l->d);
}

/* Whether a model is not measured in further segments because it takes too long. */
static bool is_enough(const struct suite_lm *l, const struct suite_lm_model *m)
{
	/* of the roofs too */
	int64_t time_ns = l->time_ms * 1000000 * (int64_t)(m->ntests + SUITE_LM_ROOFS);

	if (m->left_out || m->n == SUITE_SEGMENTS)
		return true;
	if (l->settings.quick)
		return false;
	return (m->n >= SAMPLES_MIN && m->spent_ns > 2 * time_ns) ||
		(m->n >= SAMPLES_LONG && m->spent_ns > 10 * time_ns);
}

/* Measures a batch of each roof, and of each test of the open model. */
static int measure_batches_of(struct suite_lm *l, struct suite_lm_model *m)
{
	for (int i = 0; i < SUITE_LM_ROOFS; i++) {
		struct measurement *roof = &l->stretch[i];

		if (measure_batch(roof, &l->kind->suite->tests[i], NULL, &l->settings) <
			0)
			return -1;
		m->roofs[i][m->n] = roof->batches[roof->n - 1];
	}
	for (size_t i = 0; i < m->ntests; i++)
		if (measure_batch(&m->tests[i].m, m->tests[i].test, NULL, &l->settings) <
			0)
			return -1;
	m->n++;
	return 0;
}

/* Reported once; the test lacks a sample in later segments. */
static void leave_out(struct suite_lm *l, struct suite_lm_model *m)
{
	m->left_out = m->n == 0;
	if (m->left_out)
		prog_warn("%s %s: left out: %s", l->kind->suite->name,
			strchr(m->tests[0].test->name, '_') + 1, err_get()->text);
	err_clear();
}

static int measure_model(struct suite_lm *l, int i)
{
	struct suite_lm_model *m = &l->models[i];
	int64_t from = clock_mono_ns();
	int rc;

	if (is_enough(l, m))
		return 0;
	rc = l->kind->open(l, m, i);
	if (rc == 0)
		rc = measure_batches_of(l, m);
	l->kind->close();
	m->spent_ns += clock_mono_ns() - from;
	if (rc > 0) {
		leave_out(l, m);
		rc = 0;
	}
	return rc;
}

/* --- how long it takes -------------------------------------------------------------------- */

#define BATCH_S       0.05 /* to warm up */
#define OPEN_BPS      1e9  /* parameters are drawn by one thread */
#define STEPS         3    /* of a large model's batch: its warm-up is two */
#define REACHED       0.5  /* of the roof, by models */
#define UNKNOWN_FLOPS 1e11

/* Returns the seconds of one model in all segments, by the rules of is_enough. */
static double expect_model(const struct suite_lm_work *work, double flops,
	const struct settings *s)
{
	double batch = (double)s->time_ms / 1e3 / SUITE_SEGMENTS + BATCH_S;
	double time = (double)s->time_ms / 1e3 * (work->tests + SUITE_LM_ROOFS);
	double steps = STEPS * work->flop / (REACHED * flops);
	double once = SUITE_LM_ROOFS * batch + work->bytes / OPEN_BPS +
		(steps > work->tests * batch ? steps : work->tests * batch);

	if (s->quick)
		return SUITE_SEGMENTS * once / QUICK_SHARE;
	return once * SAMPLES_LONG > 10 * time ? once * SAMPLES_LONG :
		once * SAMPLES_MIN > 2 * time  ? once * SAMPLES_MIN :
						 once * SUITE_SEGMENTS;
}

/* Returns the roof of the device, 0 where it is not known; with --quick none is measured. */
static double flops_of(const struct suite_lm *l, const struct settings *s)
{
	const char *name = s->device ? s->device : getenv("RNP_DEVICE");
	struct figure roof = { 0 };
	struct dev d = DEV_INIT;

	if (s->quick ||
		device_open(&d, name && strncmp(name, "cuda", 4) == 0 ? name : "cpu") <
			0 ||
		roof_of(&roof, &d, l->kind->type, false) < 0)
		err_clear();
	dev_close(&d);
	return roof.best;
}

int64_t suite_lm_expect_ms(void *state, const struct settings *s)
{
	const struct suite_lm *l = state;
	double flops = flops_of(l, s), sum_s = 0;
	double memory = (double)hw_available_read() * 0.9;

	for (int i = 0; i < l->kind->count(s); i++) {
		struct suite_lm_work work = { 0 };

		l->kind->weigh(s, i, &work);
		if (work.tests && (memory <= 0 || work.bytes < memory))
			sum_s += expect_model(&work, flops > 0 ? flops : UNKNOWN_FLOPS,
				s);
	}
	return (int64_t)(sum_s * 1000);
}

/* --- the course --------------------------------------------------------------------------- */

int suite_lm_segment(void *state, const struct settings *s)
{
	struct suite_lm *l = state;
	int rc;

	if (!l->prepared)
		prepare(l, s);
	rc = open_device(l);
	for (int i = 0; rc == 0 && i < l->kind->count(s) && !*s->interrupted; i++)
		rc = measure_model(l, i);
	/* what was measured beside all these models is kept for other programs */
	if (!s->quick && l->stretch[SUITE_LM_MATRIX].n)
		roof_offer(&l->d, l->kind->type, l->stretch[SUITE_LM_MATRIX].batches,
			l->stretch[SUITE_LM_MATRIX].n);
	for (int i = 0; i < SUITE_LM_ROOFS; i++)
		measurement_move(&l->roofs[i], &l->stretch[i]);
	if (rc < 0 || !keeps_device(l))
		close_device(l);
	return rc;
}

/* --- records ------------------------------------------------------------------------------- */

static double median(const double *values, size_t n)
{
	struct stats stats;

	stats_of(values, n, &stats);
	return stats.median;
}

/* Sets a share in ppm. One above 1 is none: the model is not held by that limit, because its
 * weights lie in the cache or are multiplied in a smaller type, or the limit was measured while
 * something was in the way. */
static void set_share(json_t *record, const char *key, double share)
{
	char path[64];

	if (share <= 1) {
		json_set_i64(json_object_get(record, "params"), key,
			llround(1e6 * share));
		return;
	}
	snprintf(path, sizeof path, "params.%s", key);
	json_set_text(record_unknown(record), path,
		"the model was faster than this limit: weights in the cache or of 8 bits, or another program ran while the limit was measured");
}

static int emit_test(struct suite_lm *l, const struct suite_lm_model *model,
	const struct suite_lm_test *t, suite_emit emit, void *ctx)
{
	double matrix = median(model->roofs[SUITE_LM_MATRIX], model->n);
	double memory = median(model->roofs[SUITE_LM_MEMORY], model->n);
	double rate = median(t->m.batches, t->m.n);
	json_t *params = t->params, *record;

	json_set_text(params, "kernel", l->isa);
	json_set_i64(params, "threads", threads_max());
	json_set_i64(params, "flop_per_token", llround(t->flop));
	json_set_i64(params, "bytes_per_token", llround(t->bytes));
	json_set_i64(params, "token_ns", llround(1e9 / rate));
	json_set_i64(params, "matrix_flop_per_s", llround(matrix));
	json_set_i64(params, "memory_bytes_per_s", llround(memory));
	record = record_make(l->kind->suite->name, t->test, l->device, &t->m,
		json_incref(params));
	set_share(record, "matrix_ppm", rate * t->flop / matrix);
	set_share(record, "memory_ppm", rate * t->bytes / memory);
	set_share(record, "roof_ppm", rate / fmin(matrix / t->flop, memory / t->bytes));
	return emit(ctx, record);
}

int suite_lm_tell(void *state, suite_emit emit, void *ctx)
{
	struct suite_lm *l = state;

	for (int i = 0; i < SUITE_LM_MODELS_MAX; i++)
		for (size_t k = 0; l->models[i].n && k < l->models[i].ntests; k++)
			if (emit_test(l, &l->models[i], &l->models[i].tests[k], emit,
				    ctx) < 0)
				return -1;
	for (int i = 0; i < SUITE_LM_ROOFS; i++)
		if (l->roofs[i].n &&
			emit(ctx,
				record_make(l->kind->suite->name,
					&l->kind->suite->tests[i], l->device,
					&l->roofs[i], json_incref(l->roof_params[i]))) <
				0)
			return -1;
	return 0;
}

void suite_lm_release(void *state)
{
	struct suite_lm *l = state;

	close_device(l);
	for (int i = 0; i < SUITE_LM_MODELS_MAX; i++)
		for (size_t k = 0; k < SUITE_LM_TESTS_MAX; k++) {
			measurement_release(&l->models[i].tests[k].m);
			json_decref(l->models[i].tests[k].params);
		}
	for (int i = 0; i < SUITE_LM_ROOFS; i++) {
		measurement_release(&l->roofs[i]);
		json_decref(l->roof_params[i]);
	}
	*l = (struct suite_lm){ .kind = l->kind };
}

/* --- what fits ----------------------------------------------------------------------------- */

bool suite_lm_fits(struct suite_lm *l, uint64_t need)
{
	uint64_t available = (uint64_t)hw_available_read();

	if (is_gpu(l) && l->d.ops->mem_free(&l->d, &available) < 0) {
		failed(l);
		return false;
	}
	if (!available || need <= available / 10 * 9)
		return true;
	err_set(EX_UNAVAILABLE, "it needs %" PRIu64 " MiB, %" PRIu64 " MiB are available",
		need >> 20, available >> 20);
	return false;
}
