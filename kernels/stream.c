#include "kernels/stream.h"

#include <string.h>

static void copy(double *a, const double *b, size_t n)
{
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < n; i++)
		a[i] = b[i];
}

static void triad(double *a, const double *b, const double *c, double s, size_t n)
{
#pragma omp parallel for schedule(static)
	for (size_t i = 0; i < n; i++)
		a[i] = b[i] + s * c[i];
}

const struct stream stream_reference = { "reference", copy, triad };
