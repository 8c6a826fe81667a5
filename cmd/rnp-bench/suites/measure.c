/* measure.c - runs batches of a test, and decides when its median is known well enough. */
#include "cmd/rnp-bench/suites/measure.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/hw/hw.h"
#include "common/base/mem.h"

#define WARM_NS       INT64_C(50000000)
#define WARM_QUICK_NS INT64_C(10000000)
/* long compared with the clock's resolution and an interrupt */
#define SAMPLE_NS       INT64_C(10000000)
#define SAMPLE_QUICK_NS INT64_C(3000000)
#define BATCHES         24
#define BATCHES_MIN     10
#define BATCHES_QUICK   8
#define SAMPLES_MAX     20000

/* Returns the clock of this CPU now, in MHz, or 0: timed by a chain of multiplications, which
 * take 3 cycles each on x86 CPUs since 2008. */
static double measure_clock_mhz(void)
{
#if defined(__x86_64__)
	double best = 0;

	/* takes the fastest of some short runs: an interrupt only makes one slower */
	for (int run = 0; run < 4; run++) {
		int64_t from = clock_mono_ns(), ns;
		unsigned x = 3;

		for (int i = 0; i < 1000; i++)
			__asm__ volatile(
				"imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0\n\t"
				"imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0\n\t"
				"imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0\n\t"
				"imul %0, %0\n\timul %0, %0\n\timul %0, %0\n\timul %0, %0"
				: "+r"(x));
		ns = clock_mono_ns() - from;
		if (ns > 0 && 16 * 3 * 1000 * 1e3 / (double)ns > best)
			best = 16 * 3 * 1000 * 1e3 / (double)ns;
	}
	return best;
#else
	return 0;
#endif
}

bool measure_enough(const struct stats *s, bool quick)
{
	return s->n >= (quick ? BATCHES_QUICK : BATCHES_MIN) &&
		stats_spread_ppm(s) <= MEASURE_SPREAD_PPM;
}

bool measure_clock_fell(const double *mhz, size_t n)
{
	struct stats late;
	double best = 0;

	if (n < 4)
		return false;
	for (size_t i = 0; i < n; i++)
		if (mhz[i] > best)
			best = mhz[i];
	stats_of(mhz + n / 2, n - n / 2, &late);
	return late.median < 0.95 * best;
}

void measurement_release(struct measurement *m)
{
	free(m->batches);
	free(m->mhz);
	*m = (struct measurement)MEASUREMENT_INIT;
}

int measure_batches(const struct settings *s)
{
	return s->quick ? BATCHES_QUICK : BATCHES;
}

/* --- watching the CPU ---------------------------------------------------------------------- */

static int64_t throttles;

static void cpu_begin(void)
{
	throttles = hw_throttle_count();
}

static int cpu_sample(double *mhz)
{
	*mhz = measure_clock_mhz();
	return 0;
}

static void cpu_end(struct run_conditions *out)
{
	*out = (struct run_conditions)RUN_CONDITIONS_INIT;
	out->throttled = hw_throttle_count() != throttles;
	strcpy(out->unknown, "not measured on this kind of CPU");
}

static const struct watch cpu_watch = { cpu_begin, cpu_sample, cpu_end };

/* --- a batch ------------------------------------------------------------------------------- */

/* Runs steps for at least ns; returns the work done and the time taken. */
static int run_for(const struct test *t, int64_t ns, double *work, int64_t *taken_ns)
{
	int64_t from = clock_mono_ns();
	double piece;

	*work = 0;
	do {
		if (t->step(&piece) < 0)
			return -1;
		*work += piece;
		*taken_ns = clock_mono_ns() - from;
	} while (*taken_ns < ns);
	return 0;
}

struct samples {
	double *at;
	size_t n, cap;
};

static int take_sample(struct measurement *m, const struct test *t,
	const struct watch *watch, int64_t sample_ns, struct samples *to)
{
	double work, mhz;
	int64_t ns;

	if (run_for(t, sample_ns, &work, &ns) < 0 || watch->sample(&mhz) < 0)
		return -1;
	to->at = xgrow(to->at, &to->cap, to->n + 1, sizeof *to->at);
	to->at[to->n++] = t->per_work ? (double)ns / work : work / (double)ns * 1e9;
	m->mhz = xgrow(m->mhz, &m->cap_mhz, m->n_mhz + 1, sizeof *m->mhz);
	m->mhz[m->n_mhz++] = mhz;
	return 0;
}

static int take_samples(struct measurement *m, const struct test *t,
	const struct watch *watch, const struct settings *s, struct samples *to)
{
	int64_t batch_ns = s->time_ms * 1000000 / measure_batches(s);
	int64_t warm_ns = s->quick ? WARM_QUICK_NS : WARM_NS, from;
	double work;

	if (run_for(t, warm_ns < batch_ns ? warm_ns : batch_ns, &work, &from) < 0)
		return -1;
	from = clock_mono_ns();
	do {
		if (take_sample(m, t, watch, s->quick ? SAMPLE_QUICK_NS : SAMPLE_NS, to) <
			0)
			return -1;
	} while (clock_mono_ns() - from < batch_ns && to->n < SAMPLES_MAX);
	return t->check ? t->check() : 0;
}

/* Adds the run conditions of another batch. */
static void add_run_conditions(struct run_conditions *all, const struct run_conditions *w)
{
	all->throttled |= w->throttled;
	if (w->cause[0])
		memcpy(all->cause, w->cause, sizeof all->cause);
	if (w->temperature_c > all->temperature_c)
		all->temperature_c = w->temperature_c;
	if (w->others > all->others)
		all->others = w->others;
	memcpy(all->unknown, w->unknown, sizeof all->unknown);
}

static void add_batch(struct measurement *m, double median, int64_t repetitions,
	const struct run_conditions *seen)
{
	m->batches = xgrow(m->batches, &m->cap, m->n + 1, sizeof *m->batches);
	m->batches[m->n++] = median;
	m->repetitions += repetitions;
	add_run_conditions(&m->conditions, seen);
}

void measurement_move(struct measurement *m, struct measurement *part)
{
	struct stats stats;

	if (part->n) {
		stats_of(part->batches, part->n, &stats);
		add_batch(m, stats.median, part->repetitions, &part->conditions);
	}
	if (part->n_mhz) {
		m->mhz = xgrow(m->mhz, &m->cap_mhz, m->n_mhz + part->n_mhz,
			sizeof *m->mhz);
		memcpy(m->mhz + m->n_mhz, part->mhz, part->n_mhz * sizeof *m->mhz);
		m->n_mhz += part->n_mhz;
	}
	measurement_release(part);
}

int measure_batch(struct measurement *m, const struct test *t, const struct watch *watch,
	const struct settings *s)
{
	struct samples samples = { 0 };
	struct run_conditions seen;
	struct stats stats;
	struct err error;
	int rc;

	if (!watch)
		watch = &cpu_watch;
	watch->begin();
	rc = take_samples(m, t, watch, s, &samples);
	err_save(&error);
	watch->end(&seen); /* reads files, and may fail to */
	err_restore(&error);
	if (rc == 0) {
		stats_of(samples.at, samples.n, &stats);
		add_batch(m, stats.median, (int64_t)samples.n, &seen);
	}
	free(samples.at);
	return rc;
}

void measure_result(const struct measurement *m, struct measured *out)
{
	struct stats clock;

	stats_of(m->batches, m->n, &out->stats);
	stats_of(m->mhz, m->n_mhz, &clock);
	out->repetitions = m->repetitions;
	out->clock_mhz = (int)(clock.median + 0.5);
	out->conditions = m->conditions;
	out->conditions.throttled |= measure_clock_fell(m->mhz, m->n_mhz);
}
