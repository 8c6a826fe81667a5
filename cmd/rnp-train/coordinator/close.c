/* close.c - writes a round's files: copies the arrays, opens the deltas' containers, makes the step
 * of common/lm/rounds/update.h on the copies, and flushes everything before any member learns of
 * it. */
#include <fcntl.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/coordinator/db.h"
#include "cmd/rnp-train/coordinator/parent.h"
#include "cmd/rnp-train/coordinator/files.h"
#include "cmd/rnp-train/wire/container.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/lm/export/export.h"

struct closing {
	struct coordinator *g;
	struct closed *x;
	struct flatfile to[COORDINATE_ARRAYS]; /* of the round */
	int *fds;                              /* [k] containers */
	struct update_delta *deltas;
	struct io_part update;
};

/* A copy of an array as the last round left it. */
static int copy_array(struct closing *c, const char *name, struct flatfile *to)
{
	struct coordinator *g = c->g;
	struct flatfile from = FLATFILE_INIT;
	char file[64];
	int rc;

	snprintf(file, sizeof file, "%s-%llu.f32", name,
		(unsigned long long)g->rounds.round - 1);
	rc = flatfile_open(&from, g->dir, file, g->run.parameters);
	snprintf(file, sizeof file, "%s-%llu.f32", name,
		(unsigned long long)g->rounds.round);
	if (rc == 0)
		rc = flatfile_make(to, g->dir, file, g->run.parameters);
	if (rc == 0)
		memcpy(to->x, from.x, from.n * sizeof *from.x);
	flatfile_close(&from);
	return rc;
}

static int read_at(void *ctx, uint64_t at, void *data, size_t len)
{
	const int *fd = ctx;

	while (len) {
		ssize_t n = pread(*fd, data, len, (off_t)at);

		if (n < 0)
			return err_sys(EX_IOERR, "cannot read a container");
		if (n == 0)
			return err_set(EX_DATAERR, "a container is cut short");
		data = (char *)data + n;
		len -= (size_t)n;
		at += (uint64_t)n;
	}
	return 0;
}

static int open_delta(struct closing *c, size_t i)
{
	const struct counted *d = &c->x->c[i];
	char *path = coordinate_path(c->g, "delta-%llu.rnpg",
		(unsigned long long)d->turn);
	int rc = 0;

	c->fds[i] = open(path, O_RDONLY | O_CLOEXEC);
	if (c->fds[i] < 0)
		rc = err_sys(EX_IOERR, "cannot open '%s'", path);
	c->deltas[i] = (struct update_delta){ .read = read_at,
		.ctx = &c->fds[i],
		.bytes = d->bytes,
		.weight_tokens = d->weight_tokens };
	free(path);
	return rc;
}

static int open_all(struct closing *c)
{
	const char *names[COORDINATE_ARRAYS];

	coordinate_array_names(c->g, names);
	for (int i = 0; i < COORDINATE_ARRAYS; i++)
		if (names[i] && copy_array(c, names[i], &c->to[i]) < 0)
			return -1;
	for (size_t i = 0; i < c->x->k; i++)
		c->fds[i] = -1;
	for (size_t i = 0; i < c->x->k; i++)
		if (open_delta(c, i) < 0)
			return -1;
	return 0;
}

static int write_update(void *ctx, const void *data, size_t len)
{
	return io_part_write(ctx, data, len);
}

/* Copies are looked for in blocks that nobody knows before all deltas are there, and anybody can
 * name afterwards. */
static uint64_t copies_seed(const struct closed *x)
{
	crypto_generichash_state h;
	uint64_t seed;

	crypto_generichash_init(&h, NULL, 0, sizeof seed * 2);
	for (size_t i = 0; i < x->k; i++)
		crypto_generichash_update(&h, (const unsigned char *)x->c[i].sha256,
			strlen(x->c[i].sha256));
	{
		unsigned char out[sizeof seed * 2];

		crypto_generichash_final(&h, out, sizeof out);
		memcpy(&seed, out, sizeof seed);
	}
	return seed;
}

/* Of the first k deltas. */
static int make_step(struct closing *c, size_t k, uint32_t live,
	struct update_result *result)
{
	const struct training *t = &c->g->run;
	struct update_range *ranges;
	uint64_t elements;
	size_t n = training_ranges(t, c->g->rounds.round - 1, &ranges, &elements);
	struct update_options o = { .rule = t->outer,
		.nesterov = { .rate = (double)t->outer_rate_ppm / 1e6,
			.momentum = (double)t->outer_momentum_ppm / 1e6 },
		.aggregate = t->aggregate,
		.copies = true,
		.copies_seed = copies_seed(c->x),
		.live = live ? live : 1 };
	struct update_arrays a = { .theta = c->to[THETA].x,
		.published = c->to[PUBLISHED].x,
		.v = c->to[V].x,
		.buffer = c->to[BUFFER].x,
		.last = c->to[LAST].x,
		.ranges = ranges,
		.nranges = n };
	int rc = grad_parse(&o.down, t->method_down, 0);

	c->x->dn = c->g->rounds.dn;
	c->x->dn.rate = (double)t->outer_rate_ppm / 1e6;
	c->x->dn.beta = (double)t->outer_momentum_ppm / 1e6;
	if (rc == 0)
		rc = update_make(&c->g->cpu, &o, t->outer == UPDATE_DN ? &c->x->dn : NULL,
			&a, c->deltas, k, write_update, &c->update, result);
	free(ranges);
	return rc;
}

static void read_result(struct closing *c, const struct update_result *result)
{
	struct closed *x = c->x;

	for (size_t i = 0; i < x->k; i++) {
		x->c[i].norm = result->norm[i];
		x->c[i].weight = result->weight[i];
		x->c[i].cosine_ppm = result->cosine_ppm[i];
		x->c[i].copied = result->copied && result->copied[i];
	}
	x->d_norm = result->d_norm;
	x->theta_norm = result->theta_norm;
	x->update_bytes = result->bytes;
}

/* The name of the parameters. */
static void name_model(struct closing *c)
{
	unsigned char hash[32];

	flatfile_hash(c->to[PUBLISHED].x, c->to[PUBLISHED].n, hash);
	protocol_hex(c->x->model, hash);
}

static int keep_all(struct closing *c)
{
	return flatfile_keep_all(c->to, COORDINATE_ARRAYS) < 0 ?
		-1 :
		io_part_close(&c->update);
}

/* A round that ends a turn of the parent: what all groups have learnt takes the place of theta, and
 * is what this round publishes. */
static int sync_parent(struct closing *c)
{
	struct coordinator *g = c->g;
	struct update_result result = { 0 };
	char *path = coordinate_path(g, "update-%s", g->rounds.params_hash);
	int rc;

	io_part_drop(&c->update);
	flatfile_close(&c->to[PUBLISHED]);
	rc = coordinate_parent_turn(g, c->x, c->to[THETA].x, c->to[PARENT].x,
		c->to[REST].x);
	if (rc == 0)
		rc = copy_array(c, "pub", &c->to[PUBLISHED]);
	if (rc == 0)
		rc = io_part_open(&c->update, path, 0644);
	if (rc == 0)
		rc = make_step(c, 0, 1, &result);
	if (rc == 0)
		c->x->update_bytes = result.bytes;
	update_result_release(&result);
	free(path);
	return rc;
}

/* By which deltas are found that are what was published: anybody can fetch it. */
static int sketch_update(struct coordinator *g, struct closed *x, const char *path)
{
	struct update_range *ranges;
	struct sketch s;
	uint64_t elements;
	double norm;
	int rc;

	training_ranges(&g->run, g->rounds.round - 1, &ranges, &elements);
	free(ranges);
	sketch_begin(&s, g->intake.sketch_seed);
	rc = container_check(&g->cpu, path, g->run.method_down, elements, &norm, &s);
	sketch_end(&s, x->sketch);
	return rc;
}

int coordinate_compute(struct coordinator *g, struct closed *x, uint32_t live)
{
	struct closing c = { .g = g,
		.x = x,
		.fds = xcalloc(x->k + 1, sizeof *c.fds),
		.deltas = xcalloc(x->k + 1, sizeof *c.deltas) };
	struct update_result result = { 0 };
	char *path = coordinate_path(g, "update-%s", g->rounds.params_hash);
	int rc = -1;

	if (open_all(&c) == 0 && io_part_open(&c.update, path, 0644) == 0 &&
		make_step(&c, x->k, live, &result) == 0) {
		read_result(&c, &result);
		rc = x->up.ends ? sync_parent(&c) : 0;
	}
	if (rc == 0)
		name_model(&c);
	if (rc == 0)
		rc = keep_all(&c);
	if (rc == 0)
		rc = sketch_update(g, x, path);
	io_part_drop(&c.update);
	update_result_release(&result);
	for (int i = 0; i < COORDINATE_ARRAYS; i++)
		flatfile_close(&c.to[i]);
	for (size_t i = 0; i < x->k; i++)
		if (c.fds[i] > 0)
			close(c.fds[i]);
	free(c.fds);
	free(c.deltas);
	free(path);
	return rc;
}

/* --- the model that others read ------------------------------------------------------------- */

struct reading {
	const struct lm_config *config;
	const float *x;
};

static int read_parameter(void *ctx, uint32_t i, uint64_t from, uint64_t count, float *to)
{
	const struct reading *r = ctx;
	uint64_t first = 0;
	struct lm_place p;

	for (uint32_t t = 0; t < i; t++) {
		lm_layout_at(r->config, t, &p);
		first += p.count;
	}
	memcpy(to, r->x + first + from, count * sizeof *to);
	return 0;
}

int coordinate_export(struct coordinator *g)
{
	struct flatfile published = FLATFILE_INIT;
	struct reading r = { .config = &g->run.config };
	struct lm_export e = { .config = g->run.config,
		.read = read_parameter,
		.ctx = &r,
		.token = g->token };
	char name[64];
	int rc;

	snprintf(name, sizeof name, "pub-%llu.f32",
		(unsigned long long)g->rounds.round - 1);
	rc = flatfile_open(&published, g->dir, name, g->run.parameters);
	r.x = published.x;
	if (rc == 0)
		rc = lm_export_directory(g->o.model, &e, LM_F32);
	flatfile_close(&published);
	return rc;
}
