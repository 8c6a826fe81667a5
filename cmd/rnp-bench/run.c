/* run.c - rnp-bench run: measures this machine and prints rnp.bench records, one per test. */
#include <stdio.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/commands.h"
#include "cmd/rnp-bench/suites/gpu.h"
#include "cmd/rnp-bench/suites/measure.h"
#include "cmd/rnp-bench/figures/metrics.h"
#include "cmd/rnp-bench/figures/picture.h"
#include "cmd/rnp-bench/suites/record.h"
#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/base/mem.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"
#include "common/base/suggest.h"
#include "kernels/dev/cpu.h"

#define TIME_MS       3000
#define TIME_QUICK_MS 1000
/* for all tests together: with their preparation and the courses at most a minute */
#define QUICK_ALL_MS 8500
/* what takes longer says so before it begins */
#define SAY_MS 30000 /* who waits for less looks on */

const struct suite *const suites[] = { &suite_cpu, &suite_mem, &suite_disk, &suite_gpu,
	&suite_link, &suite_compress, &suite_train, &suite_serve, &suite_net, &suite_comm,
	NULL };

static struct {
	const char *device, *dir, *key, *plot, *metrics, *peer;
	struct opt_list backends, tests, suites;
	int64_t time_ms, size_bytes;
	bool quick;
} options = { .dir = "." };

/* Finds out whose machine this is, if there is a key. */
struct owner {
	char address[KEY_ADDRESS_MAX];
	char unknown[256];
};

static int find_owner(struct owner *o)
{
	struct key key = KEY_INIT;

	o->address[0] = o->unknown[0] = '\0';
	if (key_load(&key, options.key, NULL) < 0) {
		if (options.key)
			return -1;
		snprintf(o->unknown, sizeof o->unknown, "no key: %.240s",
			err_get()->text);
		err_clear();
		return 0;
	}
	strcpy(o->address, key.address);
	key_release(&key);
	return 0;
}

/* One test of this run, or a whole suite that has a course of its own. */
struct entry {
	const struct suite *suite;
	const struct test *test; /* NULL: the course */
	struct measurement measurement;
	char device[256];
	json_t *params;
	bool done, left_out;
	int64_t expected_ms; /* of a course */
};

struct entries {
	struct entry *at;
	size_t n, ntests; /* the tests come first */
};

static void add_owner(json_t *record, const struct owner *owner)
{
	if (owner->address[0])
		json_set_text(record, "node", owner->address);
	else
		json_set_text(record_unknown(record), "node", owner->unknown);
}

/* Whether the suite was asked for by name, or by the device it needs. */
static bool was_asked_for(const struct suite *suite)
{
	const char *device = options.device ? options.device : getenv("RNP_DEVICE");

	if (options.suites.n)
		return true;
	return suite->watch == &gpu_watch && device && *device &&
		strcmp(device, "auto") != 0 && strcmp(device, "cpu") != 0;
}

/* Ends a suite after an error: a suite that nobody named and that cannot run here is skipped,
 * any other error is reported; the other suites run in any case. Returns the exit code. */
static int give_up(struct entries *all, const struct suite *suite)
{
	int code = err_get()->code;
	bool passed_over = !was_asked_for(suite) &&
		(code == EX_UNAVAILABLE ||
			(code == EX_NOPERM && suite->watch == &gpu_watch));

	for (size_t i = 0; i < all->n; i++)
		if (all->at[i].suite == suite)
			all->at[i].done = true;
	if (strncmp(err_get()->text, suite->name, strlen(suite->name)) != 0)
		err_add("%s", suite->name);
	if (!passed_over)
		return err_report();
	prog_warn("left out: %s", err_get()->text);
	err_clear();
	return EX_OK;
}

static void leave_out(struct entry *e)
{
	prog_warn("%s %s: left out: %s", e->suite->name, e->test->name, err_get()->text);
	err_clear();
	e->done = e->left_out = true;
}

/* Runs one batch of one test. Returns 0 or -1. */
static int run_batch(struct entry *e, const struct settings *s)
{
	int rc = e->test->open(s);

	if (rc > 0) {
		leave_out(e);
		return 0;
	}
	if (rc == 0) {
		rc = measure_batch(&e->measurement, e->test, e->suite->watch, s);
		if (rc == 0 && !e->params) {
			e->params = json_object();
			e->test->describe(e->params);
			snprintf(e->device, sizeof e->device, "%s", e->suite->device());
		}
	}
	if (e->test->close)
		e->test->close();
	return rc;
}

static bool is_enough(const struct entry *e, const struct settings *s)
{
	struct stats stats;

	stats_of(e->measurement.batches, e->measurement.n, &stats);
	return measure_enough(&stats, s->quick) ||
		e->measurement.n == (size_t)measure_batches(s);
}

/* Returns how many segments of a course belong to this pass, so that they are spread over all
 * passes. */
static int segments_due(int pass, int passes)
{
	return (pass + 1) * SUITE_SEGMENTS / passes - pass * SUITE_SEGMENTS / passes;
}

static int run_segments(struct entry *e, const struct settings *s, int n)
{
	for (int i = 0; i < n && !*s->interrupted; i++)
		if (e->suite->workload->segment(e->suite->workload->state, s) < 0)
			return -1;
	return 0;
}

/* The state of the passes over all tests. */
struct passes {
	const struct settings *tests, *courses; /* these differ in time */
	int n, at;
	struct progress bar;
	int64_t bar_ms, expected_ms;
	bool said; /* how long it takes */
};

/* Who knows how long it takes does not end it shortly before its end. Said once, and not by a run
 * whose first test fails. */
static void say_time(struct passes *p)
{
	struct buf text = BUF_INIT;
	int64_t ms = p->expected_ms;

	if (p->said || ms < SAY_MS)
		return;
	p->said = true;
	human_duration(&text, (double)(ms / 1000));
	progress_wipe();
	prog_info(
		"this takes about %s; Ctrl-C ends it, and prints what is measured by then",
		buf_text(&text));
	buf_release(&text);
}

/* Runs one batch, or the segments that are due. Returns 0 or -1. */
static int run_entry(struct entry *e, struct passes *p)
{
	int due = segments_due(p->at, p->n), rc;

	if (!e->test && due) {
		progress_end(&p->bar); /* the course itself reports what it skips */
		say_time(p);
		p->bar_ms += due * e->expected_ms / SUITE_SEGMENTS;
		return e->done ? 0 : run_segments(e, p->courses, due);
	}
	if (!e->test)
		return 0;
	p->bar_ms += p->tests->time_ms / p->n;
	if (e->done)
		return 0;
	rc = run_batch(e, p->tests);
	if (rc == 0)
		say_time(p);
	if (rc == 0 && !e->done)
		e->done = is_enough(e, p->tests);
	return rc;
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int number)
{
	(void)number;
	interrupted = 1;
}

/* The first Ctrl-C ends the measuring after this batch, a second one the program. */
static void watch_interrupt(void)
{
	struct sigaction action = { .sa_handler = on_interrupt,
		.sa_flags = SA_RESTART | SA_RESETHAND };

	sigaction(SIGINT, &action, NULL);
	sigaction(SIGTERM, &action, NULL);
}

/* Runs a batch of each test that is not yet done, and of each course. Returns the first exit
 * code that is not 0. */
static int run_pass(struct entries *all, struct passes *p)
{
	int code = EX_OK;

	for (size_t i = 0; i < all->n && !interrupted; i++) {
		int rc = run_entry(&all->at[i], p);

		if (rc < 0) {
			progress_end(&p->bar);
			rc = give_up(all, all->at[i].suite);
			code = code ? code : rc;
		}
		progress_update(&p->bar, p->bar_ms);
	}
	return code;
}

static void add_entry(struct entries *all, size_t *cap, const struct suite *suite,
	const struct test *test)
{
	all->at = xgrow(all->at, cap, all->n + 1, sizeof *all->at);
	all->at[all->n++] = (struct entry){ .suite = suite,
		.test = test,
		.measurement = MEASUREMENT_INIT };
}

static bool is_wanted(const struct suite *suite)
{
	for (int i = 0; i < options.suites.n; i++)
		if (strcmp(options.suites.items[i], suite->name) == 0)
			return true;
	return options.suites.n == 0;
}

/* Whether --test names it, or names none. */
static bool is_named(const struct test *t)
{
	for (int i = 0; i < options.tests.n; i++)
		if (strcmp(options.tests.items[i], t->name) == 0)
			return true;
	return options.tests.n == 0;
}

/* Refuses a --test that no selected suite has, or whose suite is measured only as a whole.
 * Returns 0, or -1 with err_set. */
static int check_test(const char *name)
{
	struct suggest similar = { .wanted = name };
	const struct suite *whole = NULL;
	char text[96];

	for (int i = 0; suites[i]; i++)
		for (const struct test *t = suites[i]->tests;
			is_wanted(suites[i]) && t->name; t++) {
			suggest_offer(&similar, t->name, strlen(t->name));
			if (strcmp(t->name, name) != 0)
				continue;
			if (!suites[i]->workload)
				return 0;
			whole = suites[i];
		}
	if (whole)
		return err_set(EX_USAGE,
			"--test: '%.40s' cannot run by itself; --suite %s measures it",
			name, whole->name);
	return err_set(EX_USAGE,
		"--test: there is no '%.40s'%s; rnp-bench list shows all", name,
		suggest_text(&similar, text, sizeof text));
}

/* Lists the entries in the order of their records: single tests, then courses. */
static void add_entries(struct entries *all)
{
	size_t cap = 0;

	for (int i = 0; suites[i]; i++)
		for (const struct test *t = suites[i]->tests; t->name; t++)
			if (!suites[i]->workload && is_wanted(suites[i]) && is_named(t))
				add_entry(all, &cap, suites[i], t);
	all->ntests = all->n;
	for (int i = 0; suites[i]; i++)
		if (suites[i]->workload && is_wanted(suites[i]) && options.tests.n == 0)
			add_entry(all, &cap, suites[i], NULL);
}

static void release_entry(struct entry *e)
{
	measurement_release(&e->measurement);
	json_decref(e->params);
	if (!e->test)
		e->suite->workload->release(e->suite->workload->state);
}

static void release_entries(struct entries *all)
{
	for (size_t i = 0; i < all->n; i++)
		release_entry(&all->at[i]);
	free(all->at);
}

static int check_environment(void)
{
	const char *device = options.device ? options.device : getenv("RNP_DEVICE");
	enum cpu_level level;

	for (int i = 0; i < options.tests.n; i++)
		if (check_test(options.tests.items[i]) < 0)
			return -1;
	if (cpu_level_chosen(&level) < 0)
		return err_set(EX_USAGE, "RNP_ISA: this CPU has no '%.40s'",
			getenv("RNP_ISA"));
	if (device && *device && strcmp(device, "auto") != 0 &&
		strcmp(device, "cpu") != 0 &&
		(strncmp(device, "cuda", 4) != 0 || (device[4] && device[4] != ':')))
		return err_set(EX_USAGE, "--device: '%.40s' is not auto, cpu or cuda[:N]",
			device);
	return 0;
}

/* Destination of the records. */
struct output {
	const struct owner *owner;
	json_t *records; /* for the picture and the metrics */
};

static int emit(void *ctx, json_t *record)
{
	const struct output *to = ctx;
	int rc;

	add_owner(record, to->owner);
	rc = out_record(record);
	json_array_append_new(to->records, record);
	return rc;
}

/* Prints the records of all entries and adds them to records. Returns the exit code. */
static int give_out(struct entries *all, const struct owner *owner, json_t *records)
{
	struct output to = { owner, records };

	for (size_t i = 0; i < all->n; i++) {
		const struct entry *e = &all->at[i];
		int rc = 0;

		if (!e->test)
			rc = e->suite->workload->tell(e->suite->workload->state, emit,
				&to);
		else if (e->measurement.n)
			rc = emit(&to,
				record_make(e->suite->name, e->test, e->device,
					&e->measurement, json_incref(e->params)));
		if (rc < 0)
			return err_report();
	}
	return EX_OK;
}

/* Writes the files that cover all records. Returns the exit code. */
static int save(const json_t *records)
{
	int code = EX_OK;

	if (options.plot && picture_save(records, options.plot) < 0)
		code = err_report();
	if (options.metrics && metrics_save(records, options.metrics) < 0)
		code = err_report();
	return code;
}

/* Returns the time of each test if the user gave none: a share of what all of them may take
 * together. */
static int64_t share_ms(const struct entries *all, const struct settings *s)
{
	int64_t n = (int64_t)all->ntests;

	return s->quick && !options.time_ms && n * s->time_ms > QUICK_ALL_MS ?
		QUICK_ALL_MS / n :
		s->time_ms;
}

/* Returns about how long everything takes. */
static int64_t expect_ms(struct entries *all, const struct settings *tests,
	const struct settings *courses)
{
	int64_t sum_ms = tests->time_ms * (int64_t)all->ntests;

	for (size_t i = all->ntests; i < all->n; i++) {
		struct entry *e = &all->at[i];
		const struct suite_workload *w = e->suite->workload;

		e->expected_ms = w->expect_ms ? w->expect_ms(w->state, courses) :
						courses->time_ms * SUITE_SEGMENTS;
		sum_ms += e->expected_ms;
	}
	return sum_ms;
}

/* Runs all passes, then prints their records. Returns the exit code. */
static int run_all(struct entries *all, const struct settings *settings,
	const struct owner *owner, json_t *records)
{
	struct settings own = *settings;
	struct passes p = { .tests = &own,
		.courses = settings,
		.n = measure_batches(settings) };
	int code = EX_OK, rc;

	own.time_ms = share_ms(all, settings);
	p.expected_ms = expect_ms(all, &own, settings);
	progress_start(&p.bar, "benchmark", "", p.expected_ms);
	watch_interrupt();
	for (; p.at < p.n && !interrupted; p.at++) {
		rc = run_pass(all, &p);
		code = code ? code : rc;
	}
	progress_end(&p.bar);
	if (interrupted) {
		prog_warn(
			"interrupted: these are the results so far; run it again for all");
		code = EX_TEMPFAIL;
	}
	for (int i = 0; suites[i]; i++)
		if (suites[i]->close)
			suites[i]->close();
	rc = give_out(all, owner, records);
	return code ? code : rc;
}

/* Fails now rather than after minutes of measuring. */
static int check_places(void)
{
	if (options.plot && io_check_place(options.plot) < 0)
		return -1;
	return options.metrics ? io_check_place(options.metrics) : 0;
}

static int run(int n, char **args)
{
	struct settings s = { options.quick, options.time_ms, options.dir,
		options.size_bytes, options.device, options.peer, &options.backends,
		&interrupted };
	struct entries all = { 0 };
	struct owner owner;
	json_t *records;
	int code, rc;

	(void)n, (void)args;
	if (check_environment() < 0 || check_places() < 0 || find_owner(&owner) < 0)
		return err_report();
	if (!s.time_ms)
		s.time_ms = s.quick ? TIME_QUICK_MS : TIME_MS;
	add_entries(&all);
	records = json_array();
	code = run_all(&all, &s, &owner, records);
	rc = save(records);
	code = code ? code : rc;
	json_decref(records);
	release_entries(&all);
	opt_list_release(&options.backends);
	opt_list_release(&options.tests);
	opt_list_release(&options.suites);
	return code;
}

static const struct opt opts[] = {
	OPT(LIST, "suite", &options.suites, "S",
		"only this suite, may be given several times: cpu, mem, disk, gpu, link, compress, train, serve, net or comm",
		.choices = "cpu|mem|disk|gpu|link|compress|train|serve|net|comm"),
	OPT(LIST, "test", &options.tests, "T",
		"only this test of them (see list); may be given several times"),
	OPT(TEXT, "device", &options.device, "D",
		"auto, cpu or cuda[:N]: the GPU of gpu, link, compress, train and serve (default $RNP_DEVICE, else auto)"),
	OPT_SWITCH("quick", &options.quick,
		"smaller sizes, fewer batches: all suites in less than a minute"),
	OPT(DURATION, "time", &options.time_ms, "D",
		"at most this long for a test (default 3s, with --quick 1s, less for many)"),
	OPT(TEXT, "dir", &options.dir, "DIR",
		"where the disk suite makes its file (default .)"),
	OPT(SIZE, "size", &options.size_bytes, "N",
		"bytes of that file (default 1GiB, with --quick 128MiB)"),
	OPT(TEXT, "plot", &options.plot, "F",
		"draw the figures as SVG: bars, and a roofline"),
	OPT(TEXT, "metrics-file", &options.metrics, "F",
		"write them for Prometheus' textfile collector"),
	OPT(TEXT, "peer", &options.peer, "URL",
		"an rnp-bench serve for net and comm (comm: default this machine)",
		.url = true),
	OPT(LIST, "backend", &options.backends, "B",
		"of comm: http, tcp, mpi or nccl (default all that are here)"),
	OPT_KEY(&options.key),
	{ 0 },
};

const struct command command_run = {
	.name = "run",
	.args_max = 0,
	.summary = "Measure this machine.",
	.details =
		"Writes one rnp.bench record a test when all are done: their batches alternate.",
	.columns = BENCH_COLUMNS,
	.opts = opts,
	.run = run,
};
