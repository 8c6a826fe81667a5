/* container.c - encoding to a file, decoding from one. */
#include "cmd/rnp-train/wire/container.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"

struct writing {
	struct io_part file;
	struct sha256_state sha256;
	unsigned char tail[CONTAINER_TAIL_BYTES]; /* the last bytes that were written */
	uint64_t bytes;
};

static int write_some(void *ctx, const void *data, size_t len)
{
	struct writing *w = ctx;
	size_t keep = len < CONTAINER_TAIL_BYTES ? CONTAINER_TAIL_BYTES - len : 0;

	memmove(w->tail, w->tail + CONTAINER_TAIL_BYTES - keep, keep);
	memcpy(w->tail + keep, (const char *)data + len - (CONTAINER_TAIL_BYTES - keep),
		CONTAINER_TAIL_BYTES - keep);
	sha256_update(&w->sha256, data, len);
	w->bytes += len;
	return io_part_write(&w->file, data, len);
}

/* Where the values come from: an array in host memory, or a function. */
struct source {
	const float *x; /* NULL: fill */
	container_fill_fn fill;
	void *arg;
	float *feedback; /* host; or NULL */
	uint64_t n;
	/* with fill, device memory of a batch: values, and the residual where device memory is
	 * not host memory */
	float *values, *carried;
	uint64_t batch;
	bool later; /* the file is flushed by the caller */
};

static int failed(const struct dev *d)
{
	return err_set(d->code, "%s", d->error);
}

static int open_source(struct dev *d, struct source *s, const struct grad *g)
{
	s->batch = grad_batch(g) < s->n ? grad_batch(g) : s->n;
	if (s->x || !s->n)
		return 0;
	if (d->ops->alloc(d, (void **)&s->values, s->batch * sizeof *s->values) < 0)
		return failed(d);
	if (s->feedback && !d->is_host &&
		d->ops->alloc(d, (void **)&s->carried, s->batch * sizeof *s->carried) < 0)
		return failed(d);
	return 0;
}

static void close_source(struct dev *d, struct source *s)
{
	d->ops->free(d, s->values);
	d->ops->free(d, s->carried);
}

static uint64_t batch_at(const struct source *s, uint64_t at)
{
	return s->n - at < s->batch ? s->n - at : s->batch;
}

static int spread(struct dev *d, const struct source *s, const struct grad *g,
	uint64_t *bins)
{
	int rc = 0;

	if (s->x)
		return grad_spread(d, g, s->x, s->feedback, s->n, bins);
	for (uint64_t at = 0; rc == 0 && at < s->n; at += s->batch) {
		uint64_t n = batch_at(s, at);

		rc = s->fill(s->arg, at, n, s->values);
		if (rc == 0)
			rc = grad_spread_on(d, g, s->values,
				s->feedback ? s->feedback + at : NULL, n, bins);
	}
	return rc;
}

static int choose_step(struct dev *d, const struct source *s, struct grad *g)
{
	uint64_t *bins;
	int rc;

	if (g->q.method != QUANT_ECQ || g->each)
		return 0;
	bins = xcalloc(QUANT_BINS, sizeof *bins);
	rc = spread(d, s, g, bins);
	if (rc == 0)
		grad_step(&g->step, bins, g->error, true);
	free(bins);
	return rc;
}

/* Adds the batch from `at` on. */
static int add_filled(struct dev *d, struct grad_encoder *e, const struct source *s,
	uint64_t at)
{
	uint64_t n = batch_at(s, at), bytes = n * sizeof *s->values;
	float *host = s->feedback ? s->feedback + at : NULL;

	if (s->fill(s->arg, at, n, s->values) < 0)
		return -1;
	if (s->carried && d->ops->put(d, s->carried, host, bytes) < 0)
		return failed(d);
	if (grad_encoder_add(e, s->values, n, s->carried ? s->carried : host) < 0)
		return -1;
	if (s->carried && d->ops->get(d, host, s->carried, bytes) < 0)
		return failed(d);
	return 0;
}

static int encode(struct dev *d, const struct grad *g, const struct source *s,
	struct writing *w)
{
	struct grad_encoder *e = grad_encoder_new(d, g, write_some, w, NULL);
	int rc = e ? 0 : -1;

	if (rc == 0 && s->x)
		rc = grad_encoder_add_host(e, s->x, s->n, s->feedback);
	for (uint64_t at = 0; rc == 0 && !s->x && at < s->n; at += s->batch)
		rc = add_filled(d, e, s, at);
	if (rc == 0)
		rc = grad_encoder_end(e);
	grad_encoder_free(e);
	return rc;
}

static int write_source(struct dev *d, const char *method, struct source *s,
	const char *path, struct container_facts *facts)
{
	struct writing w = { 0 };
	struct grad g;
	int rc;

	if (grad_parse(&g, method, 0) < 0)
		return -1;
	g.elements = s->n;
	g.feedback = s->feedback != NULL;
	sha256_init(&w.sha256);
	rc = open_source(d, s, &g);
	if (rc == 0)
		rc = choose_step(d, s, &g);
	if (rc == 0)
		rc = io_part_open(&w.file, path, 0644);
	if (rc == 0) {
		rc = encode(d, &g, s, &w);
		if (rc == 0)
			rc = s->later ? io_part_name(&w.file) : io_part_close(&w.file);
		io_part_drop(&w.file);
	}
	close_source(d, s);
	if (rc == 0 && facts) {
		facts->bytes = w.bytes;
		sha256_final(&w.sha256, facts->sha256);
		memcpy(facts->root, w.tail, GRAD_ROOT_BYTES);
	}
	return rc;
}

int container_write(struct dev *d, const char *method, const float *x, float *feedback,
	uint64_t n, const char *path, struct container_facts *facts)
{
	struct source s = { .x = x, .feedback = feedback, .n = n };

	return write_source(d, method, &s, path, facts);
}

int container_write_filled(struct dev *d, const char *method, container_fill_fn fill,
	void *arg, float *feedback, uint64_t n, const char *path, bool later,
	struct container_facts *facts)
{
	struct source s = { .fill = fill,
		.arg = arg,
		.feedback = feedback,
		.n = n,
		.later = later };

	return write_source(d, method, &s, path, facts);
}

uint64_t container_bytes_max(const char *method, uint64_t n)
{
	struct grad g;
	uint64_t chunk, chunks;

	if (grad_parse(&g, method, 0) < 0) {
		err_clear();
		return 0;
	}
	chunk = quant_chunk(g.q.method);
	chunks = (n + chunk - 1) / chunk;
	return GRAD_HEADER_MAX +
		chunks * (GRAD_CHUNK_BYTES + grad_payload_max(&g, (uint32_t)chunk) + 4) +
		8 + 16 + CONTAINER_TAIL_BYTES;
}

/* --- reading ------------------------------------------------------------------------------ */

static int read_some(void *ctx, void *data, size_t len)
{
	struct container *c = ctx;

	if (fread(data, 1, len, c->file) == len)
		return 0;
	return ferror(c->file) ? err_sys(EX_IOERR, "cannot read '%s'", c->path) :
				 err_set(EX_DATAERR, "the container is cut short");
}

static int open_file(struct container *c, const char *path)
{
	*c = (struct container){ .path = xstrdup(path) };
	c->file = fopen(path, "rbe");
	return c->file ? 0 : err_sys(0, "cannot open '%s'", path);
}

int container_open(struct container *c, struct dev *d, const char *path,
	const char *method, uint64_t n)
{
	if (open_file(c, path) < 0)
		return -1;
	c->n = n;
	c->decoder = grad_decoder_new(d, read_some, c);
	if (!c->decoder || update_header(grad_decoder_info(c->decoder), method, n) < 0)
		return -1;
	c->values = xmalloc(
		grad_batch(grad_decoder_info(c->decoder)) * sizeof *c->values);
	return 0;
}

static int decode_next(struct container *c)
{
	c->used = 0;
	if (grad_decoder_next_host(c->decoder, c->values, &c->have) < 0)
		return -1;
	if (!c->have)
		return err_set(EX_DATAERR, "the container ends early");
	return 0;
}

/* Whether the file ends behind its container. */
static int check_rest(const struct container *c)
{
	return fgetc(c->file) == EOF ?
		0 :
		err_set(EX_DATAERR, "something follows the container");
}

/* Behind the last value the decoder checks the index, and nothing may follow it. */
static int check_end(struct container *c)
{
	uint64_t more;

	if (grad_decoder_next_host(c->decoder, c->values, &more) < 0)
		return -1;
	return more ? err_set(EX_DATAERR, "something follows the container") :
		      check_rest(c);
}

int container_read(struct container *c, float *to, uint64_t count)
{
	while (count) {
		uint64_t part;

		if (c->used == c->have && decode_next(c) < 0)
			return -1;
		part = c->have - c->used < count ? c->have - c->used : count;
		memcpy(to, c->values + c->used, part * sizeof *to);
		c->used += part;
		c->done += part;
		to += part;
		count -= part;
	}
	return c->done == c->n ? check_end(c) : 0;
}

void container_close(struct container *c)
{
	grad_decoder_free(c->decoder);
	if (c->file)
		fclose(c->file);
	free(c->values);
	free(c->path);
	*c = (struct container)CONTAINER_INIT;
}

int container_check(struct dev *d, const char *path, const char *method, uint64_t n,
	double *norm, struct sketch *sketch)
{
	struct container c;
	int rc = open_file(&c, path);

	*norm = 0;
	if (rc == 0)
		rc = update_check(d, method, n, read_some, &c, norm, sketch);
	if (rc == 0)
		rc = check_rest(&c);
	container_close(&c);
	return rc;
}

int container_take(struct dev *d, const char *path, const char *method, float *published,
	const struct update_range *ranges, size_t nranges)
{
	struct container c;
	int rc = open_file(&c, path);

	if (rc == 0)
		rc = update_take(d, method, published, ranges, nranges, read_some, &c);
	if (rc == 0)
		rc = check_rest(&c);
	container_close(&c);
	return rc;
}
