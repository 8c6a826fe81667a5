/* watch.c - refuses work that cannot end in time before it begins, and ends what is late. */
#include "cmd/rnp-bench/prove/watch.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "cmd/rnp-bench/prove/hour.h"
#include "cmd/rnp-bench/prove/speed.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/threads.h"
#include "common/cli/human.h"
#include "common/cli/prog.h"
#include "common/hw/hw.h"
#include "kernels/dev/dev.h"

/* Work that even the slowest machine does in this time is not worth measuring for. */
#define SMALL_S 2.0
/* After so long it is known whether the work will be done in time. */
#define WARN_NS INT64_C(5000000000)
/* A speed that was kept is measured again before a challenge is refused because of it, but not for
 * each of many. */
#define AGAIN_NS INT64_C(600000000000)

/* Work is due with the roots, where they have a time of their own. */
static int64_t had_ms(const struct watch *w)
{
	return w->c->roots_ms ? w->c->roots_ms : w->c->deadline_ms;
}

static int64_t left_ms(const struct watch *w)
{
	return had_ms(w) - (clock_mono_ns() - w->came_ns) / 1000000;
}

static int64_t hour_left_ms(const struct watch *w)
{
	return w->per_hour_ms - w->spent_ms;
}

static double sum(const double *s)
{
	return s[PROVE_CHAIN] + s[PROVE_MATMUL] + s[PROVE_MEMORY];
}

/* --- why it was late -------------------------------------------------------------------------- */

static int64_t processor_ns(void)
{
	struct rusage u;

	if (getrusage(RUSAGE_SELF, &u) < 0)
		return 0;
	return ((int64_t)u.ru_utime.tv_sec + u.ru_stime.tv_sec) * 1000000000 +
		((int64_t)u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1000;
}

/* Returns the least share that a device has done of its work. */
static double share_done(const struct watch *w)
{
	double least = 1;

	for (int i = 0; i < w->c->ndevices; i++) {
		double all = sum(w->devices[i].work_s);
		double share = all > 0 ? sum(w->devices[i].done_s) / all : 0;

		least = share < least ? share : least;
	}
	return least;
}

/* Appends what else this machine did meanwhile. */
static void add_conditions(struct buf *out, const struct watch *w)
{
	double wall = (double)(clock_mono_ns() - w->began_ns) * threads_max();
	double load[1];

	if (wall > 0)
		buf_addf(out, "; it got %.0f%% of %d processor%s",
			100 * (double)(processor_ns() - w->cpu_ns) / wall, threads_max(),
			threads_max() == 1 ? "" : "s");
	if (getloadavg(load, 1) == 1)
		buf_addf(out, ", load %.1f", load[0]);
	buf_addf(out, ", priority (nice) %d", getpriority(PRIO_PROCESS, 0));
	if (hw_quota_count() > w->quota)
		buf_adds(out, ", held back by its quota of processor time");
}

static int late(const struct watch *w)
{
	struct buf text = BUF_INIT;

	buf_adds(&text, "late: ");
	human_duration(&text, (double)(clock_mono_ns() - w->came_ns) / 1e9);
	buf_adds(&text, " passed, ");
	human_duration(&text, (double)had_ms(w) / 1e3);
	buf_addf(&text, " were allowed, and %.0f%% of the work was done",
		100 * share_done(w));
	add_conditions(&text, w);
	err_set(EX_TEMPFAIL, "%s: %s", w->where, buf_text(&text));
	err_hint(
		"stop other work on this machine, or let the service go before it: its unit has Nice=-10");
	buf_release(&text);
	return -1;
}

/* --- before the work -------------------------------------------------------------------------- */

/* Returns 0, or -1 with err_set(): all of the work does not fit into the time, or into the hour. */
static int check(const struct watch *w, double need_s)
{
	bool fits = need_s * 1000 <= (double)left_ms(w);
	struct buf text = BUF_INIT;

	if (fits && need_s * 1000 <= (double)hour_left_ms(w))
		return 0;
	buf_adds(&text, "the work takes at least ");
	human_duration(&text, need_s);
	buf_adds(&text, " here, and ");
	if (!fits) {
		buf_adds(&text, "the challenge gives ");
		human_duration(&text, (double)had_ms(w) / 1e3);
	} else {
		buf_adds(&text, "of the ");
		human_duration(&text, (double)w->per_hour_ms / 1e3);
		buf_adds(&text, " that challenges may take in an hour (--per-hour) ");
		human_duration(&text,
			hour_left_ms(w) > 0 ? (double)hour_left_ms(w) / 1e3 : 0);
		buf_adds(&text, " are left");
	}
	err_set(fits ? EX_TEMPFAIL : EX_UNAVAILABLE, "%s: refused: %s", w->where,
		buf_text(&text));
	buf_release(&text);
	return -1;
}

/* Sets the work of d at this machine's speed. Returns 0 or -1. */
static int weigh(double *work_s, const struct poc_device *d, struct dev *dev, bool again)
{
	static int64_t measured_ns;
	struct poc_speed speed;
	int rc;

	if (again && measured_ns && clock_mono_ns() - measured_ns < AGAIN_NS)
		return 0;
	rc = speed_of(&speed, dev, again);
	if (rc == 1)
		measured_ns = clock_mono_ns();
	if (rc >= 0)
		poc_plan_work_s(work_s, d, &speed);
	return rc < 0 ? -1 : 0;
}

static int on_begin(void *ctx, const struct poc_device *d, struct dev *dev)
{
	struct watch *w = ctx;
	double *work_s = w->devices[d - w->c->devices].work_s;
	struct poc_speed slowest;
	int rc;

	poc_slowest_speed(&slowest, d);
	poc_plan_work_s(work_s, d, &slowest);
	rc = sum(work_s) > SMALL_S ? -1 : check(w, sum(work_s));
	for (int again = 0; rc < 0 && again < 2; again++) {
		err_clear();
		if (weigh(work_s, d, dev, again) < 0)
			return -1;
		rc = check(w, sum(work_s));
	}
	prog_detail("%s: %s: at least %.3g s of work", w->where, d->uuid, sum(work_s));
	return rc;
}

/* --- during the work -------------------------------------------------------------------------- */

/* With the lock. The time that is left is what a person can still change. */
static void warn_early(struct watch *w, double share)
{
	int64_t worked_ns = clock_mono_ns() - w->began_ns;
	double needs_s = (double)worked_ns / 1e9 * (1 - share) / (share > 0 ? share : 1);
	struct buf text = BUF_INIT;

	if (w->warned || worked_ns < WARN_NS || share <= 0 ||
		needs_s * 1000 <= (double)left_ms(w))
		return;
	w->warned = true;
	buf_addf(&text, "the challenge will be late: %.0f%% is done, the rest takes ",
		100 * share);
	human_duration(&text, needs_s);
	buf_adds(&text, " at this rate, and ");
	human_duration(&text, (double)left_ms(w) / 1e3);
	buf_adds(&text, " are left");
	add_conditions(&text, w);
	progress_wipe();
	prog_warn("%s: %s", w->where, buf_text(&text));
	buf_release(&text);
}

static int on_part(void *ctx, const struct poc_device *d, enum prove_test test,
	int64_t done, int64_t all)
{
	struct watch *w = ctx;
	struct watched *v = &w->devices[d - w->c->devices];
	int64_t worked_ms;
	double share;
	int rc = 0;

	pthread_mutex_lock(&w->lock);
	v->done_s[test] = v->work_s[test] * (double)done / (double)all;
	worked_ms = (clock_mono_ns() - w->began_ns) / 1000000;
	share = share_done(w);
	if (left_ms(w) < 0)
		rc = late(w);
	else if (worked_ms > hour_left_ms(w))
		rc = err_set(EX_TEMPFAIL,
			"%s: ended: it used up what challenges may take in an hour (--per-hour)",
			w->where);
	if (rc == 0) {
		warn_early(w, share);
		progress_update(&w->bar, (int64_t)(share * (double)w->bar.total));
	}
	pthread_mutex_unlock(&w->lock);
	return rc;
}

static void on_begun(void *ctx)
{
	struct watch *w = ctx;

	if (w->begun)
		w->begun(w->ctx);
}

const struct prove_hooks *watch_start(struct watch *w)
{
	w->hooks = (struct prove_hooks){ .ctx = w,
		.begin = on_begin,
		.begun = on_begun,
		.part = on_part };
	pthread_mutex_init(&w->lock, NULL);
	w->began_ns = clock_mono_ns();
	w->cpu_ns = processor_ns();
	w->quota = hw_quota_count();
	w->spent_ms = hour_spent_ms();
	prog_detail("%s: %.3g s are left for the work", w->where,
		(double)left_ms(w) / 1e3);
	progress_start(&w->bar, "challenge", "", 1000);
	return &w->hooks;
}

void watch_end(struct watch *w)
{
	struct err error;

	err_save(&error);
	progress_end(&w->bar);
	pthread_mutex_destroy(&w->lock);
	err_clear();
	if (error.code)
		err_restore(&error);
}

void watch_count(const struct watch *w)
{
	struct err error;

	if (!w->began_ns)
		return;
	err_save(&error);
	hour_add((clock_mono_ns() - w->began_ns) / 1000000);
	err_clear();
	if (error.code)
		err_restore(&error);
}
