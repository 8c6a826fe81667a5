/* suite.h - what a benchmark is: a step of work that is repeated and timed. */
#ifndef RNP_BENCH_SUITE_H
#define RNP_BENCH_SUITE_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

struct settings {
	bool quick;
	int64_t time_ms;    /* at most, for one test */
	const char *dir;    /* of the disk suite */
	int64_t size_bytes; /* of its file */
};

/* A test keeps its state in its own file: one runs at a time. */
struct test {
	const char *name, *unit, *summary;
	bool per_work; /* the figure is ns per unit of work; else work per second */
	/* Prepare; 0, or -1 with err_set: 69 when this machine cannot do it. */
	int (*open)(const struct settings *s);
	/* Do a small piece of work and say how much it was (FLOP, bytes, hops). */
	int (*step)(double *work);
	/* Check what came out, so that nothing that is wrong is ever fast; NULL: nothing to check. */
	int (*check)(void);
	void (*describe)(json_t *params);
	void (*close)(void);
};

struct suite {
	const char *name;
	const struct test *tests; /* ends with a row without a name */
	const char *(*device)(
		void);       /* what is measured; valid until the suite is closed */
	void (*close)(void); /* after its last test; may be NULL */
};

extern const struct suite suite_cpu, suite_mem, suite_disk;

/* All of them, in order, ends with NULL. */
extern const struct suite *const suites[];

/* Model of the CPU, "" when it is not known. */
const char *suite_cpu_model(void);
int suite_threads(void); /* of the OpenMP team */

#endif
