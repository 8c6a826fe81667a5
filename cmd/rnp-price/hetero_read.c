/* hetero_read.c - reads clusters of several GPU models: see hetero_read.h. */
#include "cmd/rnp-price/hetero_read.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-price/throughputs.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/record/gpu.h"

#define GPUS_MAX 100000

/* The one name of a GPU model, however it is written. */
static const char *one_name(const char *name)
{
	const struct gpu_model *m = gpu_find(name, 0);

	return m ? m->name : name;
}

static int find_model(const struct hetero_cluster *c, const char *name)
{
	for (int m = 0; m < c->models; m++)
		if (strcasecmp(c->names[m], one_name(name)) == 0)
			return m;
	return -1;
}

static int parse_model(struct hetero_cluster *c, char *text)
{
	char *number = strchr(text, '=');

	if (!number || number == text)
		return err_set(EX_USAGE, "--cluster: '%.40s' is not MODEL=NUMBER", text);
	*number++ = 0;
	if (find_model(c, text) >= 0)
		return err_set(EX_USAGE, "--cluster: '%.40s' is there twice", text);
	if (c->models == FAIR_MODELS_MAX)
		return err_set(EX_USAGE, "--cluster: more than %d models",
			FAIR_MODELS_MAX);
	if (num_i64(number, "--cluster", 1, GPUS_MAX, &c->gpus[c->models]) < 0)
		return err_set(EX_USAGE,
			"--cluster: %.40s: '%.40s' is not a number of GPUs", text,
			number);
	c->names[c->models++] = xstrdup(one_name(text));
	return 0;
}

int hetero_cluster_parse(struct hetero_cluster *c, const char *text)
{
	char *copy = xstrdup(text), *rest = copy, *one;
	int rc = 0;

	while (rc == 0 && (one = strsep(&rest, ",")))
		rc = parse_model(c, one);
	free(copy);
	return rc;
}

struct speed_reader {
	struct hetero_cluster *c;
	const struct sched_trace *t;
};

static int read_speed(void *ctx, const char *where, const char *type, const char *model,
	double rate)
{
	struct speed_reader *r = ctx;
	int m = find_model(r->c, model);

	(void)where;
	for (size_t i = 0; m >= 0 && i < r->t->ntypes; i++)
		if (strcmp(r->t->types[i], type) == 0)
			r->c->speed[i][m] = rate;
	return 0;
}

int hetero_read_speeds(struct hetero_cluster *c, const struct sched_trace *t,
	const char *path)
{
	struct speed_reader r = { c, t };

	c->speed = xcalloc(t->ntypes, sizeof *c->speed);
	if (throughputs_each(path, read_speed, &r) < 0)
		return -1;
	for (size_t i = 0; i < t->ntypes; i++) {
		double first = c->speed[i][0];

		if (!(first > 0))
			return err_set(EX_DATAERR,
				"%s: '%.60s' has no throughput on %s, of which durations are",
				path, t->types[i], c->names[0]);
		for (int m = 0; m < c->models; m++)
			c->speed[i][m] /= first;
	}
	return 0;
}

void hetero_cluster_release(struct hetero_cluster *c)
{
	for (int m = 0; m < c->models; m++)
		free((char *)(uintptr_t)c->names[m]);
	free(c->speed);
	memset(c, 0, sizeof *c);
}
