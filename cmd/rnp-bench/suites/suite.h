/* suite.h - defines a benchmark: a step of work that is repeated and timed. */
#ifndef RNP_BENCH_SUITES_SUITE_H
#define RNP_BENCH_SUITES_SUITE_H

#include <jansson.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cli/opt.h"

struct settings {
	bool quick;
	int64_t time_ms;                 /* upper bound for one test */
	const char *dir;                 /* of the disk suite */
	int64_t size_bytes;              /* of its file */
	const char *device;              /* of --device; NULL: not given */
	const char *peer;                /* of net and comm: a URL, or NULL */
	const struct opt_list *backends; /* of comm; none: all that are available */
	/* set when the user ends the run: what takes long ends early, and keeps what it has */
	const volatile sig_atomic_t *interrupted;
};

/* A test keeps its state in its own file, since one runs at a time. It is opened, measured and
 * closed several times in a run, with the others in between. */
struct test {
	const char *name, *unit, *summary;
	bool per_work; /* the figure is ns per unit of work; else work per second */
	/* Prepares; returns 0, or with err_set -1: 69 this machine cannot run it; or 1: it
	 * cannot, but the rest of the suite should still run. */
	int (*open)(const struct settings *s);
	/* Does a small piece of work and returns how much it was (FLOP, bytes, hops). */
	int (*step)(double *work);
	/* Checks the result, so that a wrong one never counts as fast; NULL: nothing to check. */
	int (*check)(void);
	void (*describe)(json_t *params);
	void (*close)(void);
};

/* The conditions of a device while a test ran on it. */
struct run_conditions {
	bool throttled;
	char cause[96]; /* of throttling; "": unknown */
	int temperature_c,
		others;    /* maximum; -1: not known. others: processes that use it too */
	char unknown[256]; /* why the clock is not known */
};

/* clang-format off */
#define RUN_CONDITIONS_INIT { .temperature_c = -1, .others = -1 }
/* clang-format on */

struct watch {
	void (*begin)(void); /* of a batch */
	/* Called after each sample; mhz 0: unknown. -1 with err_set: the device is gone. */
	int (*sample)(double *mhz);
	void (*end)(struct run_conditions *out);
};

/* Takes the record, adds the node, prints it. Returns 0, or -1 with err_set. */
typedef int (*suite_emit)(void *ctx, json_t *takes_record);

/* A course, for suites whose work cannot be divided into batches of single tests: it consists
 * of a number of segments, spread over the run as batches are. One segment counts as one
 * sample. */
#define SUITE_SEGMENTS 8

struct suite_workload {
	/* Prepares, measures, and frees the machine for others. Returns 0, or -1 with
	 * err_set(), after which it is not called again. */
	int (*segment)(void *state, const struct settings *s);
	/* Returns how long all segments will take, about; NULL: as long as the settings say. */
	int64_t (*expect_ms)(void *state, const struct settings *s);
	/* Emits the records of what was measured, which may be less than all segments. Returns
	 * 0, or -1 with err_set. */
	int (*tell)(void *state, suite_emit emit, void *ctx);
	void (*release)(void *state); /* called even without a segment */
	void *state;                  /* of the suite; NULL: it has its own */
};

struct suite {
	const char *name;
	const struct test *tests; /* ends with a row without a name */
	const char *(*device)(
		void);             /* what is measured; valid until the suite is closed */
	void (*close)(void);       /* called after its last test; may be NULL */
	const struct watch *watch; /* NULL: the conditions of the CPU */
	/* its tests have names and no steps; NULL: they have steps */
	const struct suite_workload *workload;
};

extern const struct suite suite_cpu, suite_mem, suite_disk, suite_gpu, suite_link,
	suite_compress, suite_train, suite_serve, suite_net, suite_comm;

/* All suites, in order; ends with NULL. */
extern const struct suite *const suites[];

/* Returns the model of the CPU, "" if unknown. */
const char *suite_cpu_model(void);

#endif
