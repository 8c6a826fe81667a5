/* line_fit.h - fits latency and bandwidth to the times of messages of many sizes, and finds which
 * backend is the fastest where. Pure. */
#ifndef RNP_BENCH_SUITES_LINE_FIT_H
#define RNP_BENCH_SUITES_LINE_FIT_H

#include <stdbool.h>
#include <stddef.h>

#include "cmd/rnp-bench/suites/difference.h"

/* The line t(n) = latency + n * per_byte. */
struct fit {
	double latency_ns, per_byte_ns;
	double worst; /* the largest |t(n) - t| / t of the points */
};

/* Minimises the relative error, the sum of ((latency + n per_byte - t) / t)^2, so that a
 * microsecond counts at 1 KiB as much as a millisecond at 64 MiB; neither is negative. Times
 * are above 0. Returns false for fewer than two sizes, or times that do not grow. */
bool fit_line(const double *bytes, const double *ns, size_t n, struct fit *out);

/* A crossover: from some size on another backend is the fastest. */
struct crossing {
	int winner, loser; /* curve numbers; loser -1: from the first size on */
	double bytes;      /* where the lines between the medians cross, in logarithms */
	/* the last size at which the loser was at least as fast, and the first at which the
	 * intervals do not overlap */
	double low, high;
};

/* curves[k * sizes + i] is backend k at size bytes[i], ascending; median 0: not measured. A
 * winner stays until another's whole interval lies below its own. Returns how many crossovers
 * were written to out, which holds sizes of them. */
size_t fit_crossings(const struct figure *curves, int backends, const double *bytes,
	size_t sizes, struct crossing *out);

#endif
