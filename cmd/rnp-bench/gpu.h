/* gpu.h - the GPU that the suites gpu and link measure: opened once, watched, and why there is none. */
#ifndef RNP_BENCH_GPU_H
#define RNP_BENCH_GPU_H

#include "cmd/rnp-bench/suite.h"
#include "common/base/err.h"
#include "kernels/bulk/ops.h"

/* The GPU of --device (the first for auto). NULL with err_set: 69 there is none, 77 this user may not;
 * the sentence says what is missing: card, driver, plug-in, permission. It stays open until gpu_close. */
struct dev *gpu_open(const struct settings *s);

/* Another GPU beside it, or NULL with err_set: 69 and *none there is no other, else it does not open. */
struct dev *gpu_open_other(const struct settings *s, bool *none);

void gpu_close(void);

/* What d computed or copied is wrong: of a GPU, which may be broken, the pending error (74), so that the other suites
 * run; of the CPU's own kernels a bug. -1. */
#define dev_wrong(d, ...) \
	(gpu_is(d) ? gpu_wrong((d), __VA_ARGS__) : (bug(__VA_ARGS__), -1))
bool gpu_is(const struct dev *d);
int gpu_wrong(const struct dev *d, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

const char *gpu_model(void); /* "" while none is open */

extern const struct watch gpu_watch;

#endif
