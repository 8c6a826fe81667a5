/* suite.h - what a benchmark is: a step of work that is repeated and timed. */
#ifndef RNP_BENCH_SUITE_H
#define RNP_BENCH_SUITE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/cli/opt.h"

struct settings {
	bool quick;
	int64_t time_ms;                 /* at most, for one test */
	const char *dir;                 /* of the disk suite */
	int64_t size_bytes;              /* of its file */
	const char *device;              /* as --device says; NULL: it does not */
	const char *peer;                /* of net and comm: a URL, or NULL */
	const struct opt_list *backends; /* of comm; none: all that are here */
};

/* A test keeps its state in its own file: one runs at a time. It is opened, measured and closed several times in a
 * run, with the others between. */
struct test {
	const char *name, *unit, *summary;
	bool per_work; /* the figure is ns per unit of work; else work per second */
	/* Prepare; 0, or with err_set -1: 69 when this machine cannot do it; 1: it cannot, and that is no
	 * reason for the rest of the suite not to run. */
	int (*open)(const struct settings *s);
	/* Do a small piece of work and say how much it was (FLOP, bytes, hops). */
	int (*step)(double *work);
	/* Check what came out, so that nothing that is wrong is ever fast; NULL: nothing to check. */
	int (*check)(void);
	void (*describe)(json_t *params);
	void (*close)(void);
};

/* What is seen of a device while a test runs on it. */
struct run_conditions {
	bool throttled;
	char cause[96]; /* of throttling; "" not known */
	int temperature_c,
		others;    /* most; -1: not known. others: processes that use it too */
	char unknown[256]; /* why the clock is not known */
};

/* clang-format off */
#define RUN_CONDITIONS_INIT { .temperature_c = -1, .others = -1 }
/* clang-format on */

struct watch {
	void (*begin)(void); /* of a batch */
	/* After each sample; mhz 0: not known. -1 with err_set: the device is gone. */
	int (*sample)(double *mhz);
	void (*end)(struct run_conditions *out);
};

/* Takes the record, adds whose it is, prints it. Returns 0, or -1 with err_set. */
typedef int (*suite_emit)(void *ctx, json_t *takes_record);

/* Where the work of a suite cannot be cut into batches of single tests: a course that comes in so many segments, spread
 * over the run as the batches of the tests are. What one segment gives counts as one sample. */
#define SUITE_SEGMENTS 8

struct suite_course {
	/* Prepare, measure, and leave the machine to others. Returns 0 or -1 with err_set(): then it was the last one. */
	int (*segment)(const struct settings *s);
	/* Emit the records of what there is. Returns 0, or -1 with err_set. */
	int (*tell)(suite_emit emit, void *ctx);
	void (*release)(void); /* also where there never was a segment */
};

struct suite {
	const char *name;
	const struct test *tests; /* ends with a row without a name */
	const char *(*device)(
		void);             /* what is measured; valid until the suite is closed */
	void (*close)(void);       /* after its last test; may be NULL */
	const struct watch *watch; /* NULL: the CPU is watched */
	const struct suite_course
		*course; /* its tests have names and no steps; NULL: they have */
};

extern const struct suite suite_cpu, suite_mem, suite_disk, suite_gpu, suite_link,
	suite_compress, suite_train, suite_serve, suite_net, suite_comm;

/* All of them, in order, ends with NULL. */
extern const struct suite *const suites[];

/* Model of the CPU, "" when it is not known. */
const char *suite_cpu_model(void);
int suite_threads(void); /* of the OpenMP team */

#endif
