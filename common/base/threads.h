/* threads.h - how many threads a parallel loop of OpenMP has, and which of them this is; a build
 * without OpenMP has one. Pure. */
#ifndef RNP_COMMON_BASE_THREADS_H
#define RNP_COMMON_BASE_THREADS_H

#ifdef _OPENMP
#include <omp.h>
#endif

static inline int threads_max(void)
{
#ifdef _OPENMP
	return omp_get_max_threads();
#else
	return 1;
#endif
}

/* Returns this thread's number, below threads_max(); outside of parallel loops 0. */
static inline int thread_number(void)
{
#ifdef _OPENMP
	return omp_get_thread_num();
#else
	return 0;
#endif
}

#endif
