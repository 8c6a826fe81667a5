/* encode.c - the encoder: a batch of chunks at a time is quantised on the device, then coded
 * and hashed by the thread team. */
#include <math.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/threads.h"
#include "common/grad/batch.h"
#include "common/grad/format.h"
#include "common/base/mem.h"
#include "kernels/dev/half.h"

struct grad_encoder {
	struct grad_batch b;
	grad_write_fn write;
	void *ctx;
	struct grad_stats *stats;
	crypto_generichash_state root;
	struct buf sizes; /* of the chunks, for the index */
	uint64_t elements, chunks;
	bool finished; /* a partial batch was the last */
	/* on the host, where nothing else needs the levels, a thread quantises a chunk and
	 * codes it at once: the levels stay in its cache */
	bool fused;
	const void *from; /* with fused: the elements of the batch */
	/* per chunk of a batch, for stats */
	struct grad_stats *parts;
	float *sent;    /* device: the values that the decoder will produce */
	float *staging; /* device: elements from the host */
	float *carried; /* device: error feedback from the host */
};

/* --- a chunk ------------------------------------------------------------------------------- */

static double entropy_bits(const uint32_t counts[256], uint32_t n)
{
	double bits = 0;

	for (int i = 0; i < 256; i++)
		if (counts[i])
			bits += counts[i] * log2((double)n / counts[i]);
	return bits;
}

static void put_length(unsigned char *to, uint32_t v)
{
	to[0] = (unsigned char)v;
	to[1] = (unsigned char)(v >> 8);
	to[2] = (unsigned char)(v >> 16);
}

/* Returns where the thread keeps the planes of a chunk that it quantises and codes at once. */
static unsigned char *my_planes(const struct grad_encoder *e)
{
	return e->b.planes + (uint64_t)thread_number() * e->b.layout.chunk_bytes;
}

/* Codes plane p of chunk c from `from` to `to`; returns the bytes that it took. */
static uint32_t put_plane(const struct grad_encoder *e, struct huff_work *w,
	const struct quant_plane *plane, uint64_t c, int p, const unsigned char *from,
	unsigned char *to, struct grad_stats *part)
{
	uint32_t bytes = plane->variable ? e->b.used[c] : plane->bytes, coded;
	uint32_t counts[256] = { 0 };

	if (plane->coded) {
		if (e->b.apart[p]) {
			coded = (uint32_t)(e->b.at[p][c + 1] - e->b.at[p][c]);
			memcpy(to + GRAD_LENGTH_BYTES, e->b.coded[p] + e->b.at[p][c],
				coded);
		} else {
			coded = e->b.huff->encode(w, to + GRAD_LENGTH_BYTES, from, bytes);
		}
		put_length(to, coded);
		if (part) {
			e->b.huff->count(counts, from, bytes);
			part->entropy_bits += entropy_bits(counts, bytes);
			part->coded_bits += 8 * (uint64_t)coded;
			part->symbols += bytes;
		}
		return GRAD_LENGTH_BYTES + coded;
	}
	if (plane->variable) {
		put_length(to, bytes);
		to += GRAD_LENGTH_BYTES;
	}
	memcpy(to, from, bytes);
	return bytes + (plane->variable ? GRAD_LENGTH_BYTES : 0);
}

/* Writes chunk c of the batch, n elements, into its slot, complete except for its check. */
static void build_chunk(struct grad_encoder *e, struct huff_work *w, uint64_t c,
	uint32_t n)
{
	unsigned char *slot = e->b.slots + c * e->b.slot_bytes;
	unsigned char *payload = slot + GRAD_CHUNK_BYTES, *to = payload;
	struct quant_layout l;
	uint32_t bytes;

	quant_layout(&l, &e->b.g.q, n);
	if (e->b.g.each) {
		grad_step_write(to, &e->b.steps[c]);
		to += GRAD_STEP_BYTES;
	}
	for (int p = 0; p < l.planes; p++)
		to += put_plane(e, w, &l.plane[p], c, p,
			e->fused ? quant_plane_at(&e->b.layout, my_planes(e), 1, 0, p) :
				   quant_plane_at(&e->b.layout, e->b.planes, e->b.chunks,
					   c, p),
			to, e->stats && p == 0 ? &e->parts[c] : NULL);
	bytes = (uint32_t)(to - payload);
	grad_put32(slot, bytes);
	grad_put32(slot + 4, n);
}

/* --- statistics ------------------------------------------------------------------------------ */

static float element_of(const struct grad *g, const void *elements, uint64_t i)
{
	return g->q.bf16 ? bf16_to_f32(((const uint16_t *)elements)[i]) :
			   ((const float *)elements)[i];
}

/* Decodes as the decoder does: lossy methods work on f32, which is then converted to bf16. */
static float decoded_of(const struct grad *g, const void *sent, uint64_t i)
{
	float y = element_of(g, sent, i);

	return g->bf16 ? bf16_to_f32(bf16_from_f32(y)) : y;
}

static void compare(struct grad_stats *part, const struct grad *g, const void *want,
	const void *got, uint64_t from, uint32_t n)
{
	for (uint64_t i = from; i < from + n; i++) {
		double x = (double)element_of(g, want, i);
		double y = (double)decoded_of(g, got, i);

		if (!isfinite(x) || !isfinite(y)) {
			part->not_finite++;
			continue;
		}
		part->energy += x * x;
		part->error += (x - y) * (x - y);
		part->dot += x * y;
		part->sent += y * y;
	}
}

static void add_part(struct grad_stats *all, const struct grad_stats *part)
{
	all->symbols += part->symbols;
	all->entropy_bits += part->entropy_bits;
	all->coded_bits += part->coded_bits;
	all->energy += part->energy;
	all->error += part->error;
	all->dot += part->dot;
	all->sent += part->sent;
	all->not_finite += part->not_finite;
}

/* want, got: n elements on the device */
static int measure(struct grad_encoder *e, const void *want, const void *got, uint64_t n)
{
	uint64_t bytes = n * (e->b.g.q.bf16 ? 2 : 4);
	void *host[2] = { NULL, NULL };
	const void *at[2] = { want, got };
	int rc = 0;

	for (int i = 0; i < 2 && !e->b.host && rc == 0; i++) {
		host[i] = xmalloc(bytes);
		rc = grad_dev(&e->b, e->b.d->ops->get(e->b.d, host[i], at[i], bytes));
		at[i] = host[i];
	}
	if (rc == 0) {
#pragma omp parallel for schedule(static) if (e->b.chunks > 1)
		for (uint64_t c = 0; c < e->b.chunks; c++)
			compare(&e->parts[c], &e->b.g, at[0], at[1], c * e->b.chunk,
				grad_batch_length(&e->b, c, n));
	}
	free(host[0]);
	free(host[1]);
	return rc;
}

/* --- a batch --------------------------------------------------------------------------------- */

static int find_steps(struct grad_encoder *e, const float *x, uint64_t n)
{
	struct dev *d = e->b.d;
	struct grad_batch *b = &e->b;
	uint64_t bytes = b->chunks * QUANT_BINS * sizeof *b->bins;
	uint32_t *counts = b->host ? b->bins : xmalloc(bytes);
	int rc = -1;

	if (grad_dev(b, d->ops->fill(d, b->bins, 0, bytes / 4)) < 0 ||
		grad_dev(b, d->ops->quant->spread(d, b->bins, x, NULL, 0, n, b->chunk)) <
			0)
		goto out;
	if (!b->host && grad_dev(b, d->ops->get(d, counts, b->bins, bytes)) < 0)
		goto out;
#pragma omp parallel for schedule(static) if (b->chunks > 1)
	for (uint64_t c = 0; c < b->chunks; c++) {
		uint64_t wide[QUANT_BINS];

		for (int i = 0; i < QUANT_BINS; i++)
			wide[i] = counts[c * QUANT_BINS + (uint64_t)i];
		grad_step(&b->steps[c], wide, b->g.error, false);
	}
	rc = 0;
out:
	if (!b->host)
		free(counts);
	return rc;
}

static int quantise(struct grad_encoder *e, const void *elements, uint64_t n,
	float *feedback)
{
	struct grad_batch *b = &e->b;
	struct dev *d = b->d;
	const void *from = elements;
	struct quant_job job;

	if (b->floats) {
		if (grad_dev(b, d->ops->quant->widen(d, b->floats, elements, n)) < 0)
			return -1;
		from = b->floats;
	}
	/* in one pass, unless what is to be quantised is looked at in between */
	if (feedback && !b->g.each && !e->stats) {
		if (grad_batch_job(b, &job, e->elements, n) < 0)
			return -1;
		job.elements = feedback;
		if (grad_dev(b, d->ops->quant->feed(d, &job, e->sent, from, b->g.carry)) <
			0)
			return -1;
		return grad_batch_get(b, n, false);
	}
	if (feedback) {
		if (grad_dev(b, d->ops->quant->carry(d, feedback, from, b->g.carry, n)) <
			0)
			return -1;
		from = feedback;
	}
	if (b->g.each && find_steps(e, from, n) < 0)
		return -1;
	if (grad_batch_job(b, &job, e->elements, n) < 0)
		return -1;
	job.elements = (void *)(uintptr_t)from; /* encoding only reads them */
	e->from = from;
	if (e->fused)
		return 0;
	if (grad_dev(b, d->ops->quant->encode(d, &job)) < 0)
		return -1;
	if (feedback || e->stats) {
		job.elements = e->sent;
		if (grad_dev(b, d->ops->quant->decode(d, &job)) < 0)
			return -1;
		if (e->stats && measure(e, from, e->sent, n) < 0)
			return -1;
	}
	if (feedback && grad_dev(b, d->ops->quant->remain(d, feedback, e->sent, n)) < 0)
		return -1;
	return grad_batch_get(b, n, e->stats != NULL);
}

static int write_batch(struct grad_encoder *e, uint64_t n)
{
	struct grad_batch *b = &e->b;

	for (uint64_t c = 0; c < b->chunks; c++) {
		unsigned char *slot = b->slots + c * b->slot_bytes;
		uint32_t bytes = grad_get32(slot);

		memcpy(slot + 8, b->checks + c * GRAD_CHECK_BYTES, GRAD_CHECK_BYTES);
		crypto_generichash_update(&e->root, slot + 8, GRAD_CHECK_BYTES);
		crypto_generichash_update(&e->root, slot, 8);
		buf_add(&e->sizes, slot, 4);
		if (e->write(e->ctx, slot, GRAD_CHUNK_BYTES + bytes) < 0)
			return -1;
		if (e->stats) {
			add_part(e->stats, &e->parts[c]);
			e->stats->output_bytes += GRAD_CHUNK_BYTES + bytes;
		}
	}
	if (e->stats) {
		e->stats->elements += n;
		e->stats->input_bytes += n * (b->g.bf16 ? 2 : 4);
	}
	e->chunks += b->chunks;
	e->elements += n;
	return 0;
}

/* Quantises one chunk, which quantise() leaves to the threads when e->fused is set. */
static int quantise_chunk(struct grad_encoder *e, uint64_t c, uint32_t n)
{
	struct grad_batch *b = &e->b;
	struct quant_job job;

	if (grad_batch_job(b, &job, e->elements + c * b->chunk, n) < 0)
		return -1;
	job.elements = (char *)(uintptr_t)e->from +
		c * b->chunk * (b->g.q.bf16 ? UINT64_C(2) : 4);
	job.planes = my_planes(e);
	job.used = b->used + c;
	job.steps = b->steps + c;
	return grad_dev(b, b->d->ops->quant->encode(b->d, &job));
}

static int add_batch(struct grad_encoder *e, const void *elements, uint64_t n,
	float *feedback)
{
	struct grad_batch *b = &e->b;
	int failed = 0;

	b->chunks = quant_chunks(b->g.q.method, n);
	if (e->stats)
		memset(e->parts, 0, b->chunks * sizeof *e->parts);
	if (quantise(e, elements, n, feedback) < 0)
		return -1;
#pragma omp parallel for schedule(static) if (b->chunks > 1) reduction(+ : failed)
	for (uint64_t c = 0; c < b->chunks; c++) {
		uint32_t length = grad_batch_length(b, c, n);

		if (e->fused && quantise_chunk(e, c, length) < 0)
			failed++;
		else
			build_chunk(e, &b->work[thread_number()], c, length);
	}
	if (failed)
		return -1;
	grad_batch_check(b, e->chunks);
	return write_batch(e, n);
}

int grad_encoder_add(struct grad_encoder *e, const void *elements, uint64_t n,
	float *feedback)
{
	size_t size = e->b.g.bf16 ? 2 : 4;

	for (uint64_t at = 0; at < n; at += e->b.elements) {
		uint64_t part = n - at < e->b.elements ? n - at : e->b.elements;

		if (e->finished)
			bug("elements behind a batch that was not whole");
		e->finished = part % e->b.chunk != 0;
		if (add_batch(e, (const char *)elements + at * size, part,
			    feedback ? feedback + at : NULL) < 0)
			return -1;
	}
	return 0;
}

int grad_encoder_add_host(struct grad_encoder *e, const void *elements, uint64_t n,
	float *feedback)
{
	struct dev *d = e->b.d;
	size_t size = e->b.g.bf16 ? 2 : 4;

	if (e->b.host)
		return grad_encoder_add(e, elements, n, feedback);
	for (uint64_t at = 0; at < n; at += e->b.elements) {
		uint64_t part = n - at < e->b.elements ? n - at : e->b.elements;
		float *f = feedback ? feedback + at : NULL;

		if (grad_dev(&e->b,
			    d->ops->put(d, e->staging, (const char *)elements + at * size,
				    part * size)) < 0 ||
			(f &&
				grad_dev(&e->b, d->ops->put(d, e->carried, f, part * 4)) <
					0))
			return -1;
		if (grad_encoder_add(e, e->staging, part, f ? e->carried : NULL) < 0)
			return -1;
		if (f && grad_dev(&e->b, d->ops->get(d, f, e->carried, part * 4)) < 0)
			return -1;
	}
	return 0;
}

/* --- beginning and end -------------------------------------------------------------------- */

static int begin(struct grad_encoder *e)
{
	unsigned char header[GRAD_HEADER_MAX];
	size_t len = grad_header_write(header, &e->b.g, e->b.check);
	uint64_t bytes = e->b.elements * 4;

	crypto_generichash_init(&e->root, e->b.check, GRAD_CHECK_BYTES, GRAD_ROOT_BYTES);
	e->fused = e->b.host && !e->stats && !e->b.g.feedback;
	if (e->stats) {
		*e->stats = (struct grad_stats){ .output_bytes = len };
		e->parts = xcalloc(e->b.chunks_max, sizeof *e->parts);
	}
	if ((e->stats || e->b.g.feedback) &&
		grad_alloc(&e->b, (void **)&e->sent, bytes) < 0)
		return -1;
	if (!e->b.host && grad_alloc(&e->b, (void **)&e->staging, bytes) < 0)
		return -1;
	if (!e->b.host && e->b.g.feedback &&
		grad_alloc(&e->b, (void **)&e->carried, bytes) < 0)
		return -1;
	return e->write(e->ctx, header, len);
}

struct grad_encoder *grad_encoder_new(struct dev *d, const struct grad *g,
	grad_write_fn write, void *ctx, struct grad_stats *stats)
{
	struct grad_encoder *e = xcalloc(1, sizeof *e);

	e->write = write;
	e->ctx = ctx;
	e->stats = stats;
	if (grad_batch_init(&e->b, d, g) < 0 || begin(e) < 0) {
		grad_encoder_free(e);
		return NULL;
	}
	for (uint64_t c = 0; c < e->b.chunks_max; c++)
		e->b.steps[c] = g->step;
	return e;
}

int grad_encoder_end(struct grad_encoder *e)
{
	struct buf tail = BUF_INIT;
	unsigned char word[8] = { 0 }, root[GRAD_ROOT_BYTES];
	int rc;

	if (e->b.g.elements != GRAD_UNKNOWN && e->b.g.elements != e->elements)
		bug("%llu elements were announced and %llu came",
			(unsigned long long)e->b.g.elements,
			(unsigned long long)e->elements);
	buf_add(&tail, word, 8);
	grad_put64(word, e->elements);
	buf_add(&tail, word, 8);
	crypto_generichash_update(&e->root, word, 8);
	grad_put64(word, e->chunks);
	buf_add(&tail, word, 8);
	crypto_generichash_update(&e->root, word, 8);
	if (e->sizes.len)
		buf_add(&tail, e->sizes.data, e->sizes.len);
	crypto_generichash_final(&e->root, root, sizeof root);
	buf_add(&tail, root, sizeof root);
	grad_put64(word, tail.len + GRAD_END_BYTES);
	buf_add(&tail, word, 8);
	buf_add(&tail, "GPNR", 4);
	if (e->stats)
		e->stats->output_bytes += tail.len;
	rc = e->write(e->ctx, tail.data, tail.len);
	buf_release(&tail);
	return rc;
}

void grad_encoder_free(struct grad_encoder *e)
{
	if (!e)
		return;
	if (e->sent)
		e->b.d->ops->free(e->b.d, e->sent);
	if (e->staging)
		e->b.d->ops->free(e->b.d, e->staging);
	if (e->carried)
		e->b.d->ops->free(e->b.d, e->carried);
	grad_batch_release(&e->b);
	free(e->parts);
	buf_release(&e->sizes);
	free(e);
}

/* --- all at once -------------------------------------------------------------------------- */

int grad_spread_on(struct dev *d, const struct grad *g, const float *x,
	const float *feedback, uint64_t n, uint64_t bins[QUANT_BINS])
{
	uint32_t *counts = NULL, *mine = xmalloc(QUANT_BINS * sizeof *mine);
	float *carried = NULL;
	struct grad_batch b = { .d = d };
	int rc = -1;

	if (grad_alloc(&b, (void **)&counts, QUANT_BINS * 4) < 0 ||
		(feedback && grad_alloc(&b, (void **)&carried, n * 4) < 0))
		goto out;
	if ((carried && grad_dev(&b, d->ops->put(d, carried, feedback, n * 4)) < 0) ||
		grad_dev(&b, d->ops->fill(d, counts, 0, QUANT_BINS)) < 0 ||
		grad_dev(&b,
			d->ops->quant->spread(d, counts, x, carried, g->carry, n, n)) <
			0 ||
		grad_dev(&b, d->ops->get(d, mine, counts, QUANT_BINS * 4)) < 0)
		goto out;
	for (int i = 0; i < QUANT_BINS; i++)
		bins[i] += mine[i];
	rc = 0;
out:
	d->ops->free(d, counts);
	d->ops->free(d, carried);
	free(mine);
	return rc;
}

int grad_spread(struct dev *d, const struct grad *g, const void *elements,
	const float *feedback, uint64_t n, uint64_t bins[QUANT_BINS])
{
	const uint64_t max = UINT64_C(1) << 24;
	bool host = grad_on_host(d);
	uint64_t part = n < max ? n : max, size = g->bf16 ? 2 : 4;
	void *raw = NULL;
	float *floats = NULL;
	struct grad_batch b = { .d = d };
	int rc = -1;

	if ((!host && grad_alloc(&b, &raw, part * size) < 0) ||
		(g->bf16 && grad_alloc(&b, (void **)&floats, part * 4) < 0))
		goto out;
	for (uint64_t at = 0; at < n; at += part) {
		uint64_t now = n - at < part ? n - at : part;
		const void *x = (const char *)elements + at * size;

		if (!host && grad_dev(&b, d->ops->put(d, raw, x, now * size)) < 0)
			goto out;
		if (!host)
			x = raw;
		if (floats && grad_dev(&b, d->ops->quant->widen(d, floats, x, now)) < 0)
			goto out;
		if (grad_spread_on(d, g, floats ? floats : x,
			    feedback ? feedback + at : NULL, now, bins) < 0)
			goto out;
	}
	rc = 0;
out:
	d->ops->free(d, raw);
	d->ops->free(d, floats);
	return rc;
}

static int to_buf(void *ctx, const void *data, size_t len)
{
	buf_add(ctx, data, len);
	return 0;
}

int grad_encode(struct dev *d, const struct grad *g, const void *elements,
	float *feedback, struct buf *out, struct grad_stats *stats)
{
	struct grad with = *g;
	struct grad_encoder *e = NULL;
	uint64_t *bins = NULL;
	size_t start = out->len;
	int rc = -1;

	if (g->q.method == QUANT_ECQ && !g->each) {
		bins = xcalloc(QUANT_BINS, sizeof *bins);
		if (grad_spread(d, g, elements, feedback, g->elements, bins) < 0)
			goto out;
		grad_step(&with.step, bins, g->error, true);
	}
	with.feedback = feedback != NULL;
	e = grad_encoder_new(d, &with, to_buf, out, stats);
	if (e && grad_encoder_add_host(e, elements, g->elements, feedback) == 0)
		rc = grad_encoder_end(e);
out:
	grad_encoder_free(e);
	free(bins);
	if (rc < 0)
		out->len = start;
	return rc;
}
