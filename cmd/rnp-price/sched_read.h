/* sched_read.h - reads traces of jobs, as CSV. Uses csv, sched, err. */
#ifndef RNP_PRICE_SCHED_READ_H
#define RNP_PRICE_SCHED_READ_H

#include "cmd/rnp-price/sched.h"

#define SCHED_JOBS_MAX        10000000
#define SCHED_TRACE_BYTES_MAX ((size_t)1 << 30)
#define SCHED_TYPES_MAX       1024

struct sched_trace {
	struct sched_job *jobs; /* sorted by arrival */
	size_t n, cap;
	char **types; /* of the column job_type, in the order in which they come; owned */
	size_t ntypes, types_cap;
};

/* Reads a trace: a header with the columns timestamp ("2017-10-09 07:01:55", UTC), duration
 * (seconds) and num_gpus; job_type, a name for jobs that run equally fast on equal GPUs, may be
 * missing; others are ignored. Returns 0, or -1 (65 naming line and column, 66, 74). */
int sched_trace_read(struct sched_trace *t, const char *path);
int sched_trace_parse(struct sched_trace *t, const char *text, size_t len,
	const char *name);
void sched_trace_release(struct sched_trace *t);

#endif
