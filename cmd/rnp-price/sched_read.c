/* sched_read.c - reads traces of jobs: see sched_read.h. */
#include "cmd/rnp-price/sched_read.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/csv.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/num.h"

#define DURATION_MAX_S (100.0 * 366 * 86400)
#define GPUS_MAX       1000000

enum column { TIMESTAMP, DURATION, NUM_GPUS, JOB_TYPE, COLUMNS };
static const char *const column_names[COLUMNS] = { "timestamp", "duration", "num_gpus",
	"job_type" };

static int find_columns(const struct csv *c, int at[COLUMNS])
{
	for (int k = 0; k < COLUMNS; k++) {
		at[k] = -1;
		for (int i = 0; i < c->nfields; i++)
			if (strcmp(c->fields[i], column_names[k]) == 0)
				at[k] = i;
		if (at[k] < 0 && k != JOB_TYPE)
			return err_set(EX_DATAERR, "%s:%ld: no column '%s'", c->name,
				c->line, column_names[k]);
	}
	return 0;
}

/* "2017-10-09 07:01:55" differs from RFC 3339 only in two letters. */
static int read_time(const char *text, const char *what, int64_t *s)
{
	char full[CLOCK_TEXT_MAX];
	int64_t ms;

	if (strlen(text) != 19 || (text[10] != ' ' && text[10] != 'T'))
		return err_set(EX_DATAERR, "%s: '%.30s' is not like 2017-10-09 07:01:55",
			what, text);
	snprintf(full, sizeof full, "%.10sT%.8sZ", text, text + 11);
	if (clock_parse(full, what, &ms) < 0)
		return -1;
	*s = ms / 1000;
	return 0;
}

/* Sets a job's type, a new one if nobody had it before. */
static int read_type(struct sched_trace *t, const char *type, const char *what,
	struct sched_job *j)
{
	for (j->type = 0; (size_t)j->type < t->ntypes; j->type++)
		if (strcmp(t->types[j->type], type) == 0)
			return 0;
	if (t->ntypes == SCHED_TYPES_MAX)
		return err_set(EX_DATAERR, "%s: more than %d types of jobs", what,
			SCHED_TYPES_MAX);
	t->types = xgrow(t->types, &t->types_cap, t->ntypes + 1, sizeof *t->types);
	t->types[t->ntypes++] = xstrdup(type);
	return 0;
}

static int read_row(struct sched_trace *t, const struct csv *c, const int at[COLUMNS])
{
	struct sched_job j = { .share = 1, .finish_s = -1 };
	char what[COLUMNS][300];

	for (int k = 0; k < COLUMNS; k++)
		snprintf(what[k], sizeof what[k], "%.200s:%ld: %s", c->name, c->line,
			column_names[k]);
	if (read_time(c->fields[at[TIMESTAMP]], what[TIMESTAMP], &j.arrival_s) < 0 ||
		num_f64(c->fields[at[DURATION]], what[DURATION], &j.duration_s) < 0 ||
		num_i64(c->fields[at[NUM_GPUS]], what[NUM_GPUS], 0, GPUS_MAX, &j.gpus) <
			0)
		return -1;
	if (!(j.duration_s >= 0) || j.duration_s > DURATION_MAX_S)
		return err_set(EX_DATAERR,
			"%s: %g s is not between 0 and a hundred years", what[DURATION],
			j.duration_s);
	if (at[JOB_TYPE] >= 0 &&
		read_type(t, c->fields[at[JOB_TYPE]], what[JOB_TYPE], &j) < 0)
		return -1;
	if (t->n == SCHED_JOBS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d jobs", what[TIMESTAMP],
			SCHED_JOBS_MAX);
	t->jobs = xgrow(t->jobs, &t->cap, t->n + 1, sizeof *t->jobs);
	t->jobs[t->n++] = j;
	return 0;
}

static int by_arrival(const void *a, const void *b)
{
	const struct sched_job *x = a, *y = b;

	if (x->arrival_s != y->arrival_s)
		return x->arrival_s < y->arrival_s ? -1 : 1;
	if (x->duration_s != y->duration_s)
		return x->duration_s < y->duration_s ? -1 : 1;
	if (x->gpus != y->gpus)
		return x->gpus < y->gpus ? -1 : 1;
	return x->type < y->type ? -1 : x->type > y->type;
}

int sched_trace_parse(struct sched_trace *t, const char *text, size_t len,
	const char *name)
{
	struct csv c;
	int at[COLUMNS], rc;

	/* Philly's trace ends with an empty line, which is not a row */
	while (len > 1 && text[len - 1] == '\n' && text[len - 2] == '\n')
		len--;
	csv_open(&c, text, len, name);
	rc = csv_next(&c);
	if (rc == 0)
		rc = err_set(EX_DATAERR, "%s: the trace is empty", name);
	if (rc > 0 && find_columns(&c, at) < 0)
		rc = -1;
	while (rc > 0 && (rc = csv_next(&c)) > 0)
		if (read_row(t, &c, at) < 0)
			rc = -1;
	csv_close(&c);
	if (rc == 0 && !t->n)
		rc = err_set(EX_DATAERR, "%s: the trace has no jobs", name);
	if (rc == 0)
		qsort(t->jobs, t->n, sizeof *t->jobs, by_arrival);
	return rc;
}

int sched_trace_read(struct sched_trace *t, const char *path)
{
	struct buf text = BUF_INIT;
	int rc = io_read(&text, path, SCHED_TRACE_BYTES_MAX);

	if (rc == 0)
		rc = sched_trace_parse(t, buf_text(&text), text.len, path);
	buf_release(&text);
	return rc;
}

void sched_trace_release(struct sched_trace *t)
{
	for (size_t i = 0; i < t->ntypes; i++)
		free(t->types[i]);
	free(t->types);
	free(t->jobs);
	memset(t, 0, sizeof *t);
}
