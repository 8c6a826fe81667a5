/* place_read.c - reads clusters and pods: see place_read.h. */
#include "cmd/rnp-price/place_read.h"

#include <stdio.h>
#include <string.h>

#include "cmd/rnp-price/csv.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/num.h"

#define COLUMNS_MAX 4
#define CPU_MAX     INT64_C(1000000000)
#define MEMORY_MAX  INT64_C(1000000000000)

/* The columns of one kind of file, and the function that adds a row of it. */
struct table {
	const char *names[COLUMNS_MAX];
	int64_t max[COLUMNS_MAX];
	int n;
	int (*add)(void *to, const int64_t v[COLUMNS_MAX], const char *where);
	void *to;
};

static int read_row(const struct table *t, const struct csv *c, const int at[COLUMNS_MAX])
{
	int64_t v[COLUMNS_MAX] = { 0 };
	char what[300];

	for (int k = 0; k < t->n; k++) {
		snprintf(what, sizeof what, "%.200s:%ld: %s", c->name, c->line,
			t->names[k]);
		if (num_i64(c->fields[at[k]], what, 0, t->max[k], &v[k]) < 0)
			return -1;
	}
	snprintf(what, sizeof what, "%.200s:%ld", c->name, c->line);
	return t->add(t->to, v, what);
}

static int find_columns(const struct table *t, const struct csv *c, int at[COLUMNS_MAX])
{
	for (int k = 0; k < t->n; k++) {
		at[k] = -1;
		for (int i = 0; i < c->nfields; i++)
			if (strcmp(c->fields[i], t->names[k]) == 0)
				at[k] = i;
		if (at[k] < 0)
			return err_set(EX_DATAERR, "%s:%ld: no column '%s'", c->name,
				c->line, t->names[k]);
	}
	return 0;
}

static int read_table(const struct table *t, const char *path)
{
	struct buf text = BUF_INIT;
	struct csv c;
	int at[COLUMNS_MAX], rc;

	if (io_read(&text, path, PLACE_TRACE_BYTES_MAX) < 0)
		return -1;
	csv_open(&c, buf_text(&text), text.len, path);
	rc = csv_next(&c);
	if (rc == 0)
		rc = err_set(EX_DATAERR, "%s: the file is empty", path);
	if (rc > 0 && find_columns(t, &c, at) < 0)
		rc = -1;
	while (rc > 0 && (rc = csv_next(&c)) > 0)
		if (read_row(t, &c, at) < 0)
			rc = -1;
	csv_close(&c);
	buf_release(&text);
	return rc;
}

struct nodes {
	struct place_cluster *cluster;
	size_t cap;
};

static int add_node(void *to, const int64_t v[COLUMNS_MAX], const char *where)
{
	struct nodes *all = to;
	struct place_cluster *c = all->cluster;
	struct place_node n = { .cpu_milli = v[0],
		.memory_mib = v[1],
		.ngpus = (int)v[2] };

	if (c->n == PLACE_ROWS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d nodes", where,
			PLACE_ROWS_MAX);
	for (int g = 0; g < n.ngpus; g++)
		n.left[g] = PLACE_MILLI;
	c->nodes = xgrow(c->nodes, &all->cap, c->n + 1, sizeof *c->nodes);
	c->nodes[c->n++] = n;
	return 0;
}

static int add_pod(void *to, const int64_t v[COLUMNS_MAX], const char *where)
{
	struct place_pods *p = to;
	struct place_pod one = { .cpu_milli = v[0],
		.memory_mib = v[1],
		.gpus = (int)v[2],
		.milli = v[2] ? (int)v[3] : 0 };

	if (one.gpus && (!one.milli || (one.gpus > 1 && one.milli != PLACE_MILLI)))
		return err_set(EX_DATAERR,
			"%s: gpu_milli: %d of %d GPUs: a part is of one GPU, and is not 0",
			where, one.milli, one.gpus);
	if (p->n == PLACE_ROWS_MAX)
		return err_set(EX_DATAERR, "%s: more than %d pods", where,
			PLACE_ROWS_MAX);
	p->items = xgrow(p->items, &p->cap, p->n + 1, sizeof *p->items);
	p->items[p->n++] = one;
	return 0;
}

int place_read_nodes(struct place_cluster *c, const char *path)
{
	struct nodes all = { .cluster = c };
	struct table t = { { "cpu_milli", "memory_mib", "gpu", NULL },
		{ CPU_MAX, MEMORY_MAX, PLACE_GPUS_MAX, 0 }, 3, add_node, &all };

	if (read_table(&t, path) < 0)
		return -1;
	for (size_t i = 0; i < c->n; i++)
		if (c->nodes[i].ngpus)
			return 0;
	return err_set(EX_DATAERR, "%s: no node has a GPU", path);
}

int place_read_pods(struct place_pods *p, const char *path)
{
	struct table t = { { "cpu_milli", "memory_mib", "num_gpu", "gpu_milli" },
		{ CPU_MAX, MEMORY_MAX, PLACE_GPUS_MAX, PLACE_MILLI }, 4, add_pod, p };

	if (read_table(&t, path) < 0)
		return -1;
	for (size_t i = 0; i < p->n; i++)
		if (p->items[i].gpus)
			return 0;
	return err_set(EX_DATAERR, "%s: no pod wants a GPU", path);
}
