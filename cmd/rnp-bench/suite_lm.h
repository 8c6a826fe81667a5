/* suite_lm.h - what the suites train and serve share: a device, what it reaches at most, and tests whose batches alternate with that. */
#ifndef RNP_BENCH_SUITE_LM_H
#define RNP_BENCH_SUITE_LM_H

#include "cmd/rnp-bench/matrices.h"
#include "cmd/rnp-bench/measure.h"
#include "cmd/rnp-bench/suite.h"
#include "common/lm/config.h"

/* Rows of a suite's table before those of the models: the roofs. */
enum { SUITE_LM_MATRIX, SUITE_LM_MEMORY, SUITE_LM_ROOFS };

/* The presets in the order of lm_preset_names. */
enum { SUITE_LM_PRESETS = 6, SUITE_LM_QUICK_PRESETS = 2 };

struct suite_lm {
	struct settings settings; /* with our time */
	const struct suite *suite;
	suite_emit emit;
	void *ctx;
	struct dev d;
	char device[256];
	struct matrices matrices;
	struct measurement roofs[SUITE_LM_ROOFS];
	void *memory; /* of the device: what the memory's test reads */
	uint64_t memory_bytes, at;
};

/* What was measured in one series of alternating batches. */
struct suite_lm_model {
	const struct test *test;
	struct measurement m;
};

/* What the work of one token needs, and the rates of the roofs meanwhile. */
struct suite_lm_token {
	double flop, bytes;              /* bytes that must come from memory */
	double matrix_rate, memory_rate; /* FLOP/s, B/s: filled by suite_lm_alternate */
};

/* type: of the matrices that are the roof. One is open at a time. Returns 0 or -1 with err_set(); closed in any case by close, which
 * is safe on zeros. */
int suite_lm_open(struct suite_lm *l, const struct suite *suite, const struct settings *s,
	suite_emit emit, void *ctx, enum product_type type);
void suite_lm_close(struct suite_lm *l);

/* The tests of the roofs: of suite_lm that is open. */
/* The device of the one that is open. */
const struct dev *suite_lm_dev(void);

int suite_lm_step_matrix(double *work);
int suite_lm_check_matrix(void);
int suite_lm_step_memory(double *work);
int suite_lm_check_memory(void);

/* Batches of the roofs and of n models in turn, until all are known well enough. Returns 0 or -1 with err_set(). */
int suite_lm_alternate(struct suite_lm *l, struct suite_lm_model *models, size_t n,
	struct suite_lm_token *token);

/* One model's record: its params (taken) and how near the roofs it is. Returns 0 or -1 with err_set(). */
int suite_lm_emit(struct suite_lm *l, const struct suite_lm_model *model,
	const struct suite_lm_token *token, json_t *takes_params);

/* The records of the roofs, over all series. */
int suite_lm_emit_roofs(struct suite_lm *l);

/* Whether need bytes are to be had on the device; else false and err_set(EX_UNAVAILABLE). */
bool suite_lm_fits(struct suite_lm *l, uint64_t need_bytes);

/* Tell that a test is left out, with the reason that err_set() left. */
void suite_lm_leave_out(const struct suite_lm *l, const char *what);

#endif
