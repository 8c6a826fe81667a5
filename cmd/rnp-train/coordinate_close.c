/* coordinate_close.c - what the deltas of a round make of the parameters: summed chunk by chunk in
 * the order of members, stepped, published. A function of the set of deltas alone. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/container.h"
#include "cmd/rnp-train/coordinate.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/export/export.h"
#include "common/lm/train/outer.h"

struct closing {
	struct coordinator *g;
	struct counted *c;
	size_t k;
	struct container *in;                   /* [k] */
	struct flatfile theta, v, pub;          /* before */
	struct flatfile theta_to, v_to, pub_to; /* after */
	struct flatfile u;                      /* what is left between theta and pub */
	float *deltas;                          /* [k][CONTAINER_FLOATS] */
	double *d;                              /* [CONTAINER_FLOATS] */
	double *dots, d2, moved2, theta2;       /* dots [k]: of delta and d */
};

static int open_arrays(struct closing *x)
{
	struct coordinator *g = x->g;
	uint64_t n = g->run.parameters;
	struct {
		struct flatfile *from, *to;
		const char *name;
	} all[] = { { &x->theta, &x->theta_to, "theta" }, { &x->v, &x->v_to, "v" },
		{ &x->pub, &x->pub_to, "pub" } };
	char name[64];

	for (int i = 0; i < 3; i++) {
		snprintf(name, sizeof name, "%s-%llu.f32", all[i].name,
			(unsigned long long)g->round - 1);
		if (flatfile_open(all[i].from, g->dir, name, n) < 0)
			return -1;
		snprintf(name, sizeof name, "%s-%llu.f32", all[i].name,
			(unsigned long long)g->round);
		if (flatfile_make(all[i].to, g->dir, name, n) < 0)
			return -1;
	}
	return flatfile_make(&x->u, g->dir, "u", n);
}

static int open_deltas(struct closing *x)
{
	struct coordinator *g = x->g;
	uint64_t *tokens = xcalloc(x->k + 1, sizeof *tokens);
	double *w = xcalloc(x->k + 1, sizeof *w);
	int rc;

	for (size_t i = 0; i < x->k; i++)
		tokens[i] = x->c[i].tokens;
	rc = outer_weights(w, tokens, x->k);
	for (size_t i = 0; rc == 0 && i < x->k; i++) {
		char *path = coordinate_path(g, "delta-%llu.rnpg",
			(unsigned long long)x->c[i].turn);

		x->c[i].weight = w[i];
		rc = container_open(&x->in[i], &g->d, path, g->run.method,
			g->run.parameters);
		free(path);
	}
	free(tokens);
	free(w);
	return rc;
}

static void step(struct closing *x, uint64_t at, uint64_t n)
{
	const struct training *t = &x->g->run;
	struct outer_nesterov o = { .rate = (double)t->outer_rate_ppm / 1e6,
		.momentum = (double)t->outer_momentum_ppm / 1e6 };
	float *theta = x->theta_to.x + at, *v = x->v_to.x + at;

	memcpy(theta, x->theta.x + at, n * sizeof *theta);
	memcpy(v, x->v.x + at, n * sizeof *v);
	if (t->outer == PROTOCOL_NESTEROV)
		outer_nesterov(theta, v, x->d, n, &o);
	else
		outer_mean(theta, x->d, n);
}

/* Figures that the record has; sums in the order of elements. */
static void measure(struct closing *x, uint64_t at, uint64_t n)
{
	for (uint64_t i = 0; i < n; i++) {
		double was = (double)x->theta.x[at + i];
		double moved = (double)x->theta_to.x[at + i] - was;

		x->d2 += x->d[i] * x->d[i];
		x->moved2 += moved * moved;
		x->theta2 += was * was;
	}
	for (size_t m = 0; m < x->k; m++) {
		const float *delta = x->deltas + m * CONTAINER_FLOATS;

		for (uint64_t i = 0; i < n; i++)
			x->dots[m] += (double)delta[i] * x->d[i];
	}
}

static int sum_and_step(struct closing *x)
{
	uint64_t all = x->g->run.parameters;

	for (uint64_t at = 0; at < all; at += CONTAINER_FLOATS) {
		uint64_t n = all - at < CONTAINER_FLOATS ? all - at : CONTAINER_FLOATS;

		outer_mean_begin(x->d, n);
		for (size_t m = 0; m < x->k; m++) {
			float *delta = x->deltas + m * CONTAINER_FLOATS;

			if (container_read(&x->in[m], delta, n) < 0)
				return err_add("the delta of %s", x->c[m].node);
			outer_mean_add(x->d, delta, x->c[m].weight, n);
		}
		step(x, at, n);
		measure(x, at, n);
		for (uint64_t i = 0; i < n; i++)
			x->u.x[at + i] = x->theta_to.x[at + i] - x->pub.x[at + i];
	}
	return 0;
}

/* Writes the update and does with it what everybody does. */
static int publish(struct closing *x, struct closed *out)
{
	struct coordinator *g = x->g;
	uint64_t all = g->run.parameters;
	char *path = coordinate_path(g, "update-%s", g->base);
	struct container u = CONTAINER_INIT;
	struct container_facts facts;
	unsigned char hash[32];
	float *part = x->deltas; /* its first chunk is free now */
	int rc = container_write(&g->d, g->run.method_down, x->u.x, NULL, all, path,
		&facts);

	if (rc == 0)
		rc = container_open(&u, &g->d, path, g->run.method_down, all);
	for (uint64_t at = 0; rc == 0 && at < all; at += CONTAINER_FLOATS) {
		uint64_t n = all - at < CONTAINER_FLOATS ? all - at : CONTAINER_FLOATS;

		rc = container_read(&u, part, n);
		if (rc == 0) {
			memcpy(x->pub_to.x + at, x->pub.x + at, n * sizeof *part);
			outer_publish(x->pub_to.x + at, part, n);
		}
	}
	container_close(&u);
	free(path);
	if (rc < 0)
		return -1;
	flatfile_hash(x->pub_to.x, all, hash);
	protocol_hex(out->model, hash);
	out->update_bytes = facts.bytes;
	return 0;
}

static int keep(struct closing *x)
{
	return flatfile_keep(&x->theta_to) < 0 || flatfile_keep(&x->v_to) < 0 ||
			flatfile_keep(&x->pub_to) < 0 ?
		-1 :
		0;
}

static void release(struct closing *x)
{
	for (size_t m = 0; m < x->k; m++)
		container_close(&x->in[m]);
	flatfile_close(&x->theta);
	flatfile_close(&x->v);
	flatfile_close(&x->pub);
	flatfile_close(&x->theta_to);
	flatfile_close(&x->v_to);
	flatfile_close(&x->pub_to);
	flatfile_close(&x->u);
	free(x->in);
	free(x->deltas);
	free(x->d);
	free(x->dots);
}

int coordinate_compute(struct coordinator *g, struct counted *c, size_t k,
	struct closed *out)
{
	struct closing x = { .g = g,
		.c = c,
		.k = k,
		.in = xcalloc(k + 1, sizeof *x.in),
		.deltas = xmalloc((k + 1) * CONTAINER_FLOATS * sizeof *x.deltas),
		.d = xmalloc(CONTAINER_FLOATS * sizeof *x.d),
		.dots = xcalloc(k + 1, sizeof *x.dots) };
	int rc = -1;

	*out = (struct closed){ 0 };
	if (open_arrays(&x) < 0 || open_deltas(&x) < 0 || sum_and_step(&x) < 0 ||
		publish(&x, out) < 0)
		goto end;
	for (size_t m = 0; m < k; m++)
		c[m].cosine = c[m].norm > 0 && x.d2 > 0 ?
			x.dots[m] / (c[m].norm * sqrt(x.d2)) :
			0;
	out->outer_norm = sqrt(x.moved2);
	out->theta_norm = sqrt(x.theta2);
	rc = keep(&x);
end:
	release(&x);
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
	struct flatfile pub = FLATFILE_INIT;
	struct reading r = { .config = &g->run.config };
	struct lm_export e = { .config = g->run.config,
		.read = read_parameter,
		.ctx = &r,
		.token = g->token };
	char name[64];
	int rc;

	snprintf(name, sizeof name, "pub-%llu.f32", (unsigned long long)g->round - 1);
	rc = flatfile_open(&pub, g->dir, name, g->run.parameters);
	r.x = pub.x;
	if (rc == 0)
		rc = lm_export_directory(g->o.model, &e, LM_F32);
	flatfile_close(&pub);
	return rc;
}
