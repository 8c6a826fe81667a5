/* run - measure this machine: rnp.bench records, one a test. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/commands.h"
#include "cmd/rnp-bench/measure.h"
#include "cmd/rnp-bench/suite.h"
#include "common/bench.h"
#include "common/cuda.h"
#include "common/err.h"
#include "common/json.h"
#include "common/key.h"
#include "common/out.h"
#include "common/prog.h"
#include "kernels/cpu.h"

#define TIME_MS       3000
#define TIME_QUICK_MS 500

const struct suite *const suites[] = { &suite_cpu, &suite_mem, &suite_disk, NULL };

static struct {
	const char *suite, *device, *dir, *key;
	int64_t time_ms, size_bytes;
	bool quick;
} options = { .dir = "." };

/* Whose machine this is, when there is a key. */
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

static int print(const struct suite *suite, const struct test *t,
	const struct measured *m, const struct owner *owner)
{
	const char *device = suite->device();
	json_t *record = bench_record(suite->name, t->name, *device ? device : NULL,
		t->unit, &m->stats);
	json_t *unknown = json_object();
	int rc;

	if (owner->address[0])
		json_set_text(record, "node", owner->address);
	else
		json_set_text(unknown, "node", owner->unknown);
	t->describe(bench_params(record));
	if (m->clock_mhz)
		json_set_i64(record, "clock_mhz", m->clock_mhz);
	else
		json_set_text(unknown, "clock_mhz", "not measured on this kind of CPU");
	json_set_bool(record, "throttled", m->throttled);
	if (!*device)
		json_set_text(unknown, "device", "/proc/cpuinfo does not name the CPU");
	if (json_object_size(unknown))
		json_set(record, "unknown", unknown);
	else
		json_decref(unknown);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

static int count_tests(void)
{
	int n = 0;

	for (int i = 0; suites[i]; i++)
		for (const struct test *t = suites[i]->tests; t->name; t++)
			n += !options.suite ||
				strcmp(options.suite, suites[i]->name) == 0;
	return n;
}

static int run_test(const struct suite *suite, const struct test *t,
	const struct settings *s, struct progress *bar, int64_t bar_from_ms,
	const struct owner *owner)
{
	struct measured m;
	int rc = t->open(s);

	if (rc == 0)
		rc = measure(t, s, bar, bar_from_ms, &m);
	progress_end(bar);
	if (rc == 0)
		rc = print(suite, t, &m, owner);
	if (t->close)
		t->close();
	return rc;
}

static int run_suite(const struct suite *suite, const struct settings *s,
	struct progress *bar, int64_t *bar_ms, const struct owner *owner)
{
	int rc = 0;

	for (const struct test *t = suite->tests; rc == 0 && t->name; t++) {
		rc = run_test(suite, t, s, bar, *bar_ms, owner);
		*bar_ms += s->time_ms;
	}
	if (suite->close)
		suite->close();
	/* a suite that nobody asked for by name and that cannot be run here is passed over */
	if (rc < 0 && !options.suite && err_get()->code == EX_UNAVAILABLE) {
		prog_warn("%s: left out: %s", suite->name, err_get()->text);
		err_clear();
		rc = 0;
	}
	return rc;
}

/* The CPU and what hangs on it are all that these suites measure. */
static int check_device(void)
{
	const char *device = options.device ? options.device : getenv("RNP_DEVICE");
	enum cpu_level level;

	if (cpu_level_chosen(&level) < 0)
		return err_set(EX_USAGE, "RNP_ISA: this CPU has no '%.40s'",
			getenv("RNP_ISA"));
	if (!device || strcmp(device, "auto") == 0 || strcmp(device, "cpu") == 0)
		return 0;
	if (strncmp(device, "cuda", 4) != 0 || (device[4] && device[4] != ':'))
		return err_set(EX_USAGE, "--device: '%.40s' is not auto, cpu or cuda[:N]",
			device);
	if (!cuda_symbol("rnp_cuda_probe"))
		return -1;
	return err_set(EX_UNAVAILABLE, "no suite measures '%.40s' yet", device);
}

static int run(int n, char **args)
{
	struct settings s = { options.quick, options.time_ms, options.dir,
		options.size_bytes };
	struct progress bar;
	struct owner owner;
	int64_t bar_ms = 0;
	int rc = 0;

	(void)n, (void)args;
	if (check_device() < 0 || find_owner(&owner) < 0)
		return err_report();
	if (!s.time_ms)
		s.time_ms = s.quick ? TIME_QUICK_MS : TIME_MS;
	signal(SIGXFSZ, SIG_IGN); /* a limit on file sizes is an error of writing */
	progress_start(&bar, "benchmark", "ms", s.time_ms * count_tests());
	for (int i = 0; suites[i] && rc == 0; i++)
		if (!options.suite || strcmp(options.suite, suites[i]->name) == 0)
			rc = run_suite(suites[i], &s, &bar, &bar_ms, &owner);
	return rc < 0 ? err_report() : EX_OK;
}

static const struct opt opts[] = {
	{ .name = "suite",
		.kind = OPT_CHOICE,
		.to = &options.suite,
		.metavar = "S",
		.choices = "cpu|mem|disk",
		.help = "only this suite: cpu, mem or disk" },
	{ .name = "device",
		.kind = OPT_TEXT,
		.to = &options.device,
		.metavar = "D",
		.help = "auto or cpu (default $RNP_DEVICE, else auto)" },
	{ .name = "quick",
		.kind = OPT_FLAG,
		.to = &options.quick,
		.help = "smaller sizes, fewer samples: seconds instead of a minute" },
	{ .name = "time",
		.kind = OPT_DURATION,
		.to = &options.time_ms,
		.metavar = "D",
		.help = "at most this long for a test (default 3s, with --quick 0.5s)" },
	{ .name = "dir",
		.kind = OPT_TEXT,
		.to = &options.dir,
		.metavar = "DIR",
		.help = "where the disk suite makes its file (default .)" },
	{ .name = "size",
		.kind = OPT_SIZE,
		.to = &options.size_bytes,
		.metavar = "N",
		.help = "bytes of that file (default 1GiB, with --quick 128MiB)" },
	OPT_KEY(&options.key),
	{ 0 },
};

const struct command command_run = {
	.name = "run",
	.args_max = 0,
	.summary = "Measure this machine.",
	.details = "Writes one rnp.bench record a test, as soon as it is done.",
	.columns = "suite,test,unit,median,low,high,samples,throttled",
	.opts = opts,
	.run = run,
};
