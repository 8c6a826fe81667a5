/* trace.c - reads traces: see trace.h. */
#include "cmd/rnp-price/simulate/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-price/text/csv.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/num.h"

#define JOBS_BYTES_MAX ((size_t)1 << 30)
#define DURATION_MAX_S (100.0 * 366 * 86400)
#define JOB_GPUS_MAX   1000000
#define PODS_BYTES_MAX ((size_t)256 << 20)
#define ROWS_MAX       1000000
#define CPU_MAX        INT64_C(1000000000)
#define MEMORY_MAX     INT64_C(1000000000000)

/* --- files by the names of their columns ------------------------------------------------------ */

#define COLUMNS_MAX 4
#define WHERE_MAX   300

struct table {
	const char *what; /* the file is, for errors */
	const char *columns[COLUMNS_MAX];
	int n, required; /* of n columns the first `required` must be there */
	size_t bytes_max;
	/* Adds a row: its columns, NULL where one is missing. Returns 0, or -1 with err_set(). */
	int (*add)(void *to, const char *const *row, const char *where);
};

static int find_columns(const struct table *t, const struct csv *c, int at[COLUMNS_MAX])
{
	for (int k = 0; k < t->n; k++) {
		at[k] = -1;
		for (int i = 0; i < c->nfields; i++)
			if (strcmp(c->fields[i], t->columns[k]) == 0)
				at[k] = i;
		if (at[k] < 0 && k < t->required)
			return err_set(EX_DATAERR, "%s:%ld: no column '%s'", c->name,
				c->line, t->columns[k]);
	}
	return 0;
}

static int parse_table(const struct table *t, const char *text, size_t len,
	const char *name, void *to)
{
	const char *row[COLUMNS_MAX];
	char where[WHERE_MAX];
	int at[COLUMNS_MAX], rc;
	struct csv c;

	csv_open(&c, text, len, name);
	rc = csv_next(&c);
	if (rc == 0)
		rc = err_set(EX_DATAERR, "%s: the %s is empty", name, t->what);
	if (rc > 0 && find_columns(t, &c, at) < 0)
		rc = -1;
	while (rc > 0 && (rc = csv_next(&c)) > 0) {
		snprintf(where, sizeof where, "%.200s:%ld", name, c.line);
		for (int k = 0; k < t->n; k++)
			row[k] = at[k] < 0 ? NULL : c.fields[at[k]];
		if (t->add(to, row, where) < 0)
			rc = -1;
	}
	csv_close(&c);
	return rc;
}

static int read_table(const struct table *t, const char *path, void *to)
{
	struct buf text = BUF_INIT;
	int rc = io_read(&text, path, t->bytes_max);

	if (rc == 0)
		rc = parse_table(t, buf_text(&text), text.len, path, to);
	buf_release(&text);
	return rc;
}

/* Reads a whole number from 0 to max. Returns 0, or -1 (65). */
static int get_i64(const char *text, const char *where, const char *column, int64_t max,
	int64_t *out)
{
	char what[WHERE_MAX];

	snprintf(what, sizeof what, "%s: %s", where, column);
	return num_i64(text, what, 0, max, out);
}

/* --- jobs ------------------------------------------------------------------------------------- */

/* "2017-10-09 07:01:55" differs from RFC 3339 only in two letters. */
static int read_time(const char *text, const char *where, int64_t *s)
{
	char full[CLOCK_TEXT_MAX], what[WHERE_MAX];
	int64_t ms;

	snprintf(what, sizeof what, "%s: timestamp", where);
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
static int read_type(struct trace *t, const char *type, const char *where,
	struct player_job *j)
{
	for (j->type = 0; (size_t)j->type < t->ntypes; j->type++)
		if (strcmp(t->types[j->type], type) == 0)
			return 0;
	if (t->ntypes == TRACE_TYPES_MAX)
		return err_set(EX_DATAERR, "%s: job_type: more than %d types of jobs",
			where, TRACE_TYPES_MAX);
	t->types = xgrow(t->types, &t->types_cap, t->ntypes + 1, sizeof *t->types);
	t->types[t->ntypes++] = xstrdup(type);
	return 0;
}

static int add_job(void *to, const char *const *row, const char *where)
{
	struct trace *t = to;
	struct player_job j = { .finish_s = -1 };
	char what[WHERE_MAX];

	snprintf(what, sizeof what, "%s: duration", where);
	if (read_time(row[0], where, &j.arrival_s) < 0 ||
		num_f64(row[1], what, &j.duration_s) < 0 ||
		get_i64(row[2], where, "num_gpus", JOB_GPUS_MAX, &j.gpus) < 0)
		return -1;
	if (!(j.duration_s >= 0) || j.duration_s > DURATION_MAX_S)
		return err_set(EX_DATAERR,
			"%s: %g s is not between 0 and a hundred years", what,
			j.duration_s);
	if (row[3] && read_type(t, row[3], where, &j) < 0)
		return -1;
	if (t->n == TRACE_JOBS_MAX)
		return err_set(EX_DATAERR, "%s: timestamp: more than %d jobs", where,
			TRACE_JOBS_MAX);
	t->jobs = xgrow(t->jobs, &t->cap, t->n + 1, sizeof *t->jobs);
	t->jobs[t->n++] = j;
	return 0;
}

static int by_arrival(const void *a, const void *b)
{
	const struct player_job *x = a, *y = b;

	if (x->arrival_s != y->arrival_s)
		return x->arrival_s < y->arrival_s ? -1 : 1;
	if (x->duration_s != y->duration_s)
		return x->duration_s < y->duration_s ? -1 : 1;
	if (x->gpus != y->gpus)
		return x->gpus < y->gpus ? -1 : 1;
	return x->type < y->type ? -1 : x->type > y->type;
}

int trace_parse(struct trace *t, const char *text, size_t len, const char *name)
{
	static const struct table columns = { "trace",
		{ "timestamp", "duration", "num_gpus", "job_type" }, 4, 3, JOBS_BYTES_MAX,
		add_job };

	/* Philly's trace ends with an empty line, which is not a row */
	while (len > 1 && text[len - 1] == '\n' && text[len - 2] == '\n')
		len--;
	if (parse_table(&columns, text, len, name, t) < 0)
		return -1;
	if (!t->n)
		return err_set(EX_DATAERR, "%s: the trace has no jobs", name);
	qsort(t->jobs, t->n, sizeof *t->jobs, by_arrival);
	return 0;
}

int trace_read(struct trace *t, const char *path)
{
	struct buf text = BUF_INIT;
	int rc = io_read(&text, path, JOBS_BYTES_MAX);

	if (rc == 0)
		rc = trace_parse(t, buf_text(&text), text.len, path);
	buf_release(&text);
	return rc;
}

void trace_release(struct trace *t)
{
	for (size_t i = 0; i < t->ntypes; i++)
		free(t->types[i]);
	free(t->types);
	free(t->jobs);
	memset(t, 0, sizeof *t);
}

/* --- nodes and pods ------------------------------------------------------------------------- */

struct nodes {
	struct place_cluster *cluster;
	size_t cap;
};

static int add_node(void *to, const char *const *row, const char *where)
{
	struct nodes *all = to;
	struct place_cluster *c = all->cluster;
	struct place_node n = { 0 };
	int64_t gpus;

	if (get_i64(row[0], where, "cpu_milli", CPU_MAX, &n.cpu_milli) < 0 ||
		get_i64(row[1], where, "memory_mib", MEMORY_MAX, &n.memory_mib) < 0 ||
		get_i64(row[2], where, "gpu", PLACE_GPUS_MAX, &gpus) < 0)
		return -1;
	if (c->n == ROWS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d nodes", where, ROWS_MAX);
	n.ngpus = (int)gpus;
	for (int g = 0; g < n.ngpus; g++)
		n.left[g] = PLACE_MILLI;
	c->nodes = xgrow(c->nodes, &all->cap, c->n + 1, sizeof *c->nodes);
	c->nodes[c->n++] = n;
	return 0;
}

static int add_pod(void *to, const char *const *row, const char *where)
{
	struct pods *p = to;
	struct place_pod one = { 0 };
	int64_t gpus, milli;

	if (get_i64(row[0], where, "cpu_milli", CPU_MAX, &one.cpu_milli) < 0 ||
		get_i64(row[1], where, "memory_mib", MEMORY_MAX, &one.memory_mib) < 0 ||
		get_i64(row[2], where, "num_gpu", PLACE_GPUS_MAX, &gpus) < 0 ||
		get_i64(row[3], where, "gpu_milli", PLACE_MILLI, &milli) < 0)
		return -1;
	one.gpus = (int)gpus;
	one.milli = gpus ? (int)milli : 0;
	if (one.gpus && (!one.milli || (one.gpus > 1 && one.milli != PLACE_MILLI)))
		return err_set(EX_DATAERR,
			"%s: gpu_milli: %d of %d GPUs: a part is of one GPU, and is not 0",
			where, one.milli, one.gpus);
	if (p->n == ROWS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d pods", where, ROWS_MAX);
	p->items = xgrow(p->items, &p->cap, p->n + 1, sizeof *p->items);
	p->items[p->n++] = one;
	return 0;
}

int trace_read_nodes(struct place_cluster *c, const char *path)
{
	static const struct table t = { "file", { "cpu_milli", "memory_mib", "gpu" }, 3,
		3, PODS_BYTES_MAX, add_node };
	struct nodes all = { .cluster = c };

	if (read_table(&t, path, &all) < 0)
		return -1;
	for (size_t i = 0; i < c->n; i++)
		if (c->nodes[i].ngpus)
			return 0;
	return err_set(EX_DATAERR, "%s: no node has a GPU", path);
}

int trace_read_pods(struct pods *p, const char *path)
{
	static const struct table t = { "file",
		{ "cpu_milli", "memory_mib", "num_gpu", "gpu_milli" }, 4, 4,
		PODS_BYTES_MAX, add_pod };

	if (read_table(&t, path, p) < 0)
		return -1;
	for (size_t i = 0; i < p->n; i++)
		if (p->items[i].gpus)
			return 0;
	return err_set(EX_DATAERR, "%s: no pod wants a GPU", path);
}
