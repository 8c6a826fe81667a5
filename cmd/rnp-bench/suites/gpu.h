/* gpu.h - the GPU that the suites gpu and link measure: opened once, its conditions recorded,
 * and the reason when there is none. */
#ifndef RNP_BENCH_SUITES_GPU_H
#define RNP_BENCH_SUITES_GPU_H

#include "cmd/rnp-bench/suites/suite.h"
#include "common/base/err.h"
#include "kernels/bulk/ops.h"

/* Returns the GPU of --device (the first for auto). NULL with err_set: 69 there is none, 77
 * this user may not use it; the sentence says what is missing: card, driver, plug-in,
 * permission. It stays open until gpu_close. */
struct dev *gpu_open(const struct settings *s);

/* Returns another GPU beside it, or NULL with err_set: 69 and *none when there is no other,
 * otherwise the error of opening it. */
struct dev *gpu_open_other(const struct settings *s, bool *none);

void gpu_close(void);

/* Reports that d computed or copied something wrong. A GPU may be broken: its error is pending
 * (74), so that the other suites run. For the CPU's own kernels it is a bug. Returns -1. */
#define dev_wrong(d, ...) \
	(gpu_is(d) ? gpu_wrong((d), __VA_ARGS__) : (bug(__VA_ARGS__), -1))
bool gpu_is(const struct dev *d);
int gpu_wrong(const struct dev *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

const char *gpu_model(void); /* "" while none is open */

extern const struct watch gpu_watch;

#endif
