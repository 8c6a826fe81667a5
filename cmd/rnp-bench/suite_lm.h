/* suite_lm.h - what the suites train and serve share: a device, what it reaches at most, and models that are measured
 * beside that.
 *
 * The course comes in segments (suite.h). In each of them every model is opened anew, a batch of each roof and of each of
 * its tests is measured, and it is closed: the samples of one test are as far apart as the run is long. */
#ifndef RNP_BENCH_SUITE_LM_H
#define RNP_BENCH_SUITE_LM_H

#include "cmd/rnp-bench/matrices.h"
#include "cmd/rnp-bench/measure.h"
#include "cmd/rnp-bench/suite.h"
#include "common/lm/model/config.h"

/* Rows of a suite's table before those of the models: the roofs. */
enum { SUITE_LM_MATRIX, SUITE_LM_MEMORY, SUITE_LM_ROOFS };

/* The presets in the order of lm_preset_names. */
enum { SUITE_LM_PRESETS = 6, SUITE_LM_QUICK_PRESETS = 2 };

enum { SUITE_LM_TESTS_MAX = 2, SUITE_LM_MODELS_MAX = 24 };

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
	double roofs[SUITE_LM_ROOFS][SUITE_SEGMENTS]; /* meanwhile */
	int64_t spent_ns;
	bool left_out;
};

struct suite_lm;

/* What train and serve differ in. */
struct suite_lm_kind {
	const struct suite *suite;
	enum product_type type; /* of the matrices that are the roof */
	/* How many models there are; in each segment the same. */
	int (*count)(const struct settings *s);
	/* Open model i. The first time it says what its tests are, with their params and the work of a token. Returns 0, 1 with err_set()
	 * when it does not fit, or -1 with err_set(); closed in any case. */
	int (*open)(struct suite_lm *l, struct suite_lm_model *m, int i);
	void (*close)(void);
};

/* All zero before the first segment. */
struct suite_lm {
	const struct suite_lm_kind *kind;
	struct settings settings; /* with our time */
	int64_t time_ms;          /* what one test may take in all segments */
	struct dev
		d; /* open during a segment, as all up to at; with --quick for all of them */
	struct matrices matrices;
	void *memory; /* of the device: what the memory's test reads */
	uint64_t memory_bytes, at;
	char device[256], isa[64];
	struct measurement stretch[SUITE_LM_ROOFS], roofs[SUITE_LM_ROOFS];
	json_t *roof_params[SUITE_LM_ROOFS];
	struct suite_lm_model models[SUITE_LM_MODELS_MAX];
};

/* The three functions of a course. */
int suite_lm_segment(struct suite_lm *l, const struct suite_lm_kind *kind,
	const struct settings *s);
int suite_lm_tell(struct suite_lm *l, suite_emit emit, void *ctx);
void suite_lm_release(struct suite_lm *l);

/* The tests of the roofs. */
const struct dev *suite_lm_dev(void); /* of the one that is open */
int suite_lm_step_matrix(double *work);
int suite_lm_check_matrix(void);
int suite_lm_step_memory(double *work);
int suite_lm_check_memory(void);

/* Whether need bytes are to be had on the device; else false and err_set(EX_UNAVAILABLE). */
bool suite_lm_fits(struct suite_lm *l, uint64_t need_bytes);

#endif
