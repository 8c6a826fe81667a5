/* lm.h - shared by the suites train and serve: a device, its roofs, and models that are
 * measured beside them.
 *
 * The course consists of segments (suite.h). Each segment opens every model anew, measures a
 * batch of each roof and of each of the model's tests, and closes it: the samples of one test
 * are spread over the whole run. */
#ifndef RNP_BENCH_SUITES_LM_H
#define RNP_BENCH_SUITES_LM_H

#include "cmd/rnp-bench/suites/matrices.h"
#include "cmd/rnp-bench/suites/measure.h"
#include "cmd/rnp-bench/suites/suite.h"
#include "common/lm/model/config.h"

/* Rows of a suite's table before those of the models: the roofs. */
enum { SUITE_LM_MATRIX, SUITE_LM_MEMORY, SUITE_LM_ROOFS };

/* The presets in the order of lm_preset_names. */
enum { SUITE_LM_PRESETS = 6, SUITE_LM_QUICK_PRESETS = 2 };

enum { SUITE_LM_TESTS_MAX = 4, SUITE_LM_MODELS_MAX = 28 };

/* One test of a model; the work of one of its tokens. */
struct suite_lm_test {
	const struct test *test;
	struct measurement m;
	json_t *params;     /* owned */
	double flop, bytes; /* bytes that must come from memory */
};

/* A model, of which one is open at a time. */
struct suite_lm_model {
	struct suite_lm_test tests[SUITE_LM_TESTS_MAX];
	size_t ntests, n; /* n: segments that it was measured in */
	double roofs[SUITE_LM_ROOFS][SUITE_SEGMENTS]; /* measured in the same segments */
	int64_t spent_ns;
	bool left_out;
};

struct suite_lm;

/* About how much work a model is, for the time that the suite takes: operations of one step of each
 * test together, bytes to make when it is opened. 0 tests: it is left out. */
struct suite_lm_work {
	double flop, bytes;
	int tests;
};

/* What differs between train and serve. */
struct suite_lm_kind {
	const struct suite *suite;
	enum product_type type; /* of the matrices that are the roof */
	/* Returns how many models there are; the same in each segment. */
	int (*count)(const struct settings *s);
	/* Opens model i. The first time it also describes the model's tests, with their params
	 * and the work of a token. Returns 0, 1 with err_set() when it does not fit, or -1 with
	 * err_set(); close is called in any case. */
	int (*open)(struct suite_lm *l, struct suite_lm_model *m, int i);
	void (*close)(void);
	void (*weigh)(const struct settings *s, int i, struct suite_lm_work *out);
};

/* All zero except kind before the first segment. */
struct suite_lm {
	const struct suite_lm_kind *kind;
	bool prepared;
	struct settings settings; /* with our time */
	int64_t time_ms;          /* what one test may take in all segments */
	struct dev
		/* open during a segment, as everything up to `at`; with --quick during all of
		 * them */
		d;
	struct matrices matrices;
	void *memory; /* of the device: read by the memory's test */
	uint64_t memory_bytes, at;
	char device[256], isa[64];
	struct measurement stretch[SUITE_LM_ROOFS], roofs[SUITE_LM_ROOFS];
	json_t *roof_params[SUITE_LM_ROOFS];
	struct suite_lm_model models[SUITE_LM_MODELS_MAX];
};

/* The course of a suite; its state is a struct suite_lm. */
int suite_lm_segment(void *state, const struct settings *s);
int64_t suite_lm_expect_ms(void *state, const struct settings *s);
int suite_lm_tell(void *state, suite_emit emit, void *ctx);
void suite_lm_release(void *state);
#define SUITE_LM_WORKLOAD(l)                                                             \
	{                                                                                \
		suite_lm_segment, suite_lm_expect_ms, suite_lm_tell, suite_lm_release, l \
	}

/* The tests of the roofs. */
const struct dev *suite_lm_dev(void); /* of the one that is open */
int suite_lm_step_matrix(double *work);
int suite_lm_check_matrix(void);
int suite_lm_step_memory(double *work);
int suite_lm_check_memory(void);

/* Whether the device has need bytes; otherwise false with err_set(EX_UNAVAILABLE). */
bool suite_lm_fits(struct suite_lm *l, uint64_t need_bytes);

#endif
