#include "cmd/rnp-bench/measure.h"

#include <stdlib.h>

#include "common/clock.h"
#include "common/hw.h"
#include "common/mem.h"

#define WARM_NS         INT64_C(300000000)
#define WARM_QUICK_NS   INT64_C(50000000)
#define SAMPLE_NS       INT64_C(10000000) /* long against the clock's grain and an interrupt */
#define SAMPLE_QUICK_NS INT64_C(3000000)
#define SAMPLES_MIN     10
#define SAMPLES_QUICK   6
#define SAMPLES_MAX     20000

struct samples {
	double *value, *mhz;
	size_t n, cap, cap_mhz;
};

double measure_clock_mhz(void)
{
#if defined(__x86_64__)
	double best = 0;

	/* the fastest of some short runs: an interrupt only makes one slower */
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
	return s->n >= (quick ? SAMPLES_QUICK : SAMPLES_MIN) &&
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

/* Steps for at least ns; work done and time taken. */
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

static int take_sample(const struct test *t, const struct settings *s, struct samples *to)
{
	double work, taken;
	int64_t ns;

	if (run_for(t, s->quick ? SAMPLE_QUICK_NS : SAMPLE_NS, &work, &ns) < 0)
		return -1;
	taken = (double)ns;
	to->value = xgrow(to->value, &to->cap, to->n + 1, sizeof *to->value);
	to->mhz = xgrow(to->mhz, &to->cap_mhz, to->n + 1, sizeof *to->mhz);
	to->value[to->n] = t->per_work ? taken / work : work / taken * 1e9;
	to->mhz[to->n] = measure_clock_mhz();
	to->n++;
	return 0;
}

static int take_samples(const struct test *t, const struct settings *s,
	struct progress *bar, int64_t bar_from_ms, struct samples *to,
	struct stats *stats)
{
	int64_t from = clock_mono_ns(), spent_ms = 0;
	size_t looked_at = 0;

	do {
		if (take_sample(t, s, to) < 0)
			return -1;
		spent_ms = (clock_mono_ns() - from) / 1000000;
		progress_update(bar,
			bar_from_ms + (spent_ms < s->time_ms ? spent_ms : s->time_ms));
		/* sorting all samples after each would cost more than they do */
		if (to->n < looked_at + looked_at / 8 + 1)
			continue;
		looked_at = to->n;
		stats_of(to->value, to->n, stats);
		if (measure_enough(stats, s->quick))
			return 0;
	} while (spent_ms < s->time_ms && to->n < SAMPLES_MAX);
	stats_of(to->value, to->n, stats);
	return 0;
}

int measure(const struct test *t, const struct settings *s, struct progress *bar,
	int64_t bar_from_ms, struct measured *out)
{
	struct samples samples = { 0 };
	int64_t ns, throttled = hw_throttle_count();
	struct stats clock;
	double work;
	int rc = run_for(t, s->quick ? WARM_QUICK_NS : WARM_NS, &work, &ns);

	if (rc == 0)
		rc = take_samples(t, s, bar, bar_from_ms, &samples, &out->stats);
	if (rc == 0 && t->check)
		rc = t->check();
	if (rc == 0) {
		stats_of(samples.mhz, samples.n, &clock);
		out->clock_mhz = (int)(clock.median + 0.5);
		out->throttled = hw_throttle_count() != throttled ||
			measure_clock_fell(samples.mhz, samples.n);
	}
	free(samples.value);
	free(samples.mhz);
	return rc;
}
