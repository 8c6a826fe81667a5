/* kcheck.h - compares kernels with their references. It uses kernels/ and libc only.
 *
 * A check file has one function, listed in kcheck.c, that goes through its cases: it copies
 * inputs to the device, states the expected output, and calls kcheck_case. That runs the
 * operation twice (repeatability), between guard bytes (edges), compares, and with --bench
 * measures the time. In the self-test it damages the output, and then every case must fail. */
#ifndef RNP_TESTS_KERNELS_KCHECK_H
#define RNP_TESTS_KERNELS_KCHECK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kernels/bulk/ops.h"
#include "kernels/dev/dev.h"
#include "kernels/grad/ops.h"
#include "kernels/lm/ops.h"
#include "kernels/poc/ops.h"

struct kcheck {
	struct dev dev;
	const char *column; /* "avx512" */
	const char *kernel;
	const char *label; /* of the case that runs, or NULL */
	bool bench, slow;  /* slow: the emulation, for which cases are kept small */
	enum { SPOIL_NOTHING, SPOIL_RESULT, SPOIL_GUARD } spoil;
	int cases, failures;
	struct area {
		void *base;
		uint64_t bytes;
	} areas[16];
	int areas_used;
};

/* Runs a case: starts the operation, which writes its output to out. */
typedef int (*kcheck_run_fn)(struct dev *d, void *out, const void *arguments);

struct kcase {
	char label[96];
	kcheck_run_fn run;
	const void *arguments;
	const void *want;   /* on the host; NULL: no comparison, for timing large cases */
	uint64_t out_bytes; /* bytes 0 .. out_bytes - 1 at out are compared */
	/* NULL: exact; else want is f32 and each number may differ by its bound */
	const float *bound;
	unsigned offset;  /* distance of out from a multiple of 256 */
	double work;      /* work of one run in `unit`, for --bench */
	const char *unit; /* "B" or "op" */
};

/* Copies host bytes to the device, at `offset` from a multiple of 256; they are freed after the
 * next case. */
void *kcheck_put(struct kcheck *k, const void *host, uint64_t bytes, unsigned offset);

void kcheck_case(struct kcheck *k, const struct kcase *c);

/* Random bytes for inputs: the same in every run. */
void kcheck_random(void *out, uint64_t bytes, uint64_t seed);

bool emu_works(void); /* the emulation's own test */

/* The check files: check_NAME.c has check_NAME. */
#define KCHECKS(K)     \
	K(bulk)        \
	K(graph)       \
	K(huff)        \
	K(int8)        \
	K(lm)          \
	K(lm_project)  \
	K(lm_paged)    \
	K(memfill)     \
	K(outer)       \
	K(philox)      \
	K(product)     \
	K(quant)       \
	K(sha256_rows) \
	K(wgmma)

#define KCHECK_DECLARE(name) void check_##name(struct kcheck *k);
KCHECKS(KCHECK_DECLARE)
#undef KCHECK_DECLARE

#endif
