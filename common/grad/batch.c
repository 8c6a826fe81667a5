/* batch.c - the memory of a batch of chunks, and its transfer to and from the device. */
#include "common/grad/batch.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/threads.h"
#include "common/grad/format.h"
#include "common/base/mem.h"
#include "common/hw/device.h"
#include "kernels/crypto/blake2b.h"
#include "kernels/dev/cpu.h"

#define CHUNKS_MIN 32
#define CHUNKS_MAX 1024

uint64_t grad_batch(const struct grad *g)
{
	uint64_t chunks = 8 * (uint64_t)threads_max();

	chunks = chunks < CHUNKS_MIN ? CHUNKS_MIN :
		chunks > CHUNKS_MAX  ? CHUNKS_MAX :
				       chunks;
	/* a chunk of topk is as large as 16 others */
	if (quant_chunk(g->q.method) > QUANT_CHUNK)
		chunks /= 8;
	return chunks * quant_chunk(g->q.method);
}

bool grad_on_host(const struct dev *d)
{
	return d->is_host;
}

int grad_dev(const struct grad_batch *b, int rc)
{
	return rc < 0 ? device_failed(b->d) : 0;
}

int grad_alloc(struct grad_batch *b, void **out, uint64_t bytes)
{
	return grad_dev(b, b->d->ops->alloc(b->d, out, bytes));
}

/* Allocates memory that host and device share where they can. */
static int alloc_both(struct grad_batch *b, void **host, void **device, uint64_t bytes)
{
	if (grad_alloc(b, device, bytes) < 0)
		return -1;
	*host = b->host ? *device : xmalloc(bytes);
	return 0;
}

static void free_both(struct grad_batch *b, void *host, void *device)
{
	b->d->ops->free(b->d, device);
	if (!b->host)
		free(host);
}

/* Allocates the planes without gaps, whose chunks are the coder's. */
static int alloc_apart(struct grad_batch *b)
{
	uint64_t max = 0, chunks = b->chunks_max;

	for (int p = 0; p < b->layout.planes; p++) {
		const struct quant_plane *plane = &b->layout.plane[p];
		uint64_t cap = huff_bound(chunks * plane->stride, plane->stride);

		b->apart[p] = plane->coded && plane->bytes == plane->stride &&
			plane->stride <= HUFF_CHUNK_MAX;
		if (!b->apart[p])
			continue;
		b->coded[p] = xmalloc(cap);
		b->at[p] = xcalloc(chunks + 1, sizeof *b->at[p]);
		max = cap > max ? cap : max;
	}
	b->pieces = xcalloc(chunks * QUANT_PLANES_MAX, sizeof *b->pieces);
	if (grad_alloc(b, (void **)&b->d_coded, max) < 0)
		return -1;
	return grad_alloc(b, (void **)&b->d_at, (chunks + 1) * sizeof *b->d_at);
}

/* Chooses the ISA: that of a CPU opened as a device; beside another device, what RNP_ISA lets
 * the CPU use. */
static enum cpu_level level_of(const struct grad_batch *b)
{
	enum cpu_level level;

	for (int i = 0; b->host && i < CPU_LEVELS; i++)
		if (strcmp(b->d->isa, cpu_level_names[i]) == 0)
			return (enum cpu_level)i;
	cpu_level_chosen(&level);
	return level;
}

static int init(struct grad_batch *b, struct dev *d, const struct grad *g, uint64_t max,
	unsigned threads)
{
	memset(b, 0, sizeof *b);
	b->d = d;
	b->g = *g;
	b->g.q.bf16 = g->bf16 &&
		(g->q.method == QUANT_NONE || g->q.method == QUANT_LOSSLESS);
	b->host = grad_on_host(d);
	b->chunk = quant_chunk(g->q.method);
	b->elements = max;
	if (g->elements < b->elements)
		b->elements = (g->elements + b->chunk - 1) / b->chunk * b->chunk;
	if (!b->elements)
		b->elements = b->chunk;
	b->chunks_max = b->elements / b->chunk;
	if (sodium_init() < 0)
		return err_set(EX_SOFTWARE, "libsodium does not start");
	b->level = level_of(b);
	b->huff = huff_kernels(b->level);
	b->work = xmalloc((size_t)threads * sizeof *b->work);
	quant_layout(&b->layout, &b->g.q, b->chunk);
	b->slot_bytes = (GRAD_CHUNK_BYTES + grad_payload_max(&b->g, b->chunk) +
				QUANT_PLANES_MAX * HUFF_SLACK + 63) &
		~UINT64_C(63);
	b->slots = xmalloc(b->slot_bytes * b->chunks_max);
	b->checks = xmalloc(b->chunks_max * GRAD_CHECK_BYTES);
	if (alloc_both(b, (void **)&b->planes, (void **)&b->d_planes,
		    b->layout.chunk_bytes *
			    (b->chunks_max > threads ? b->chunks_max : threads)) < 0 ||
		alloc_both(b, (void **)&b->used, (void **)&b->d_used,
			b->chunks_max * sizeof *b->used) < 0 ||
		alloc_both(b, (void **)&b->steps, (void **)&b->d_steps,
			b->chunks_max * sizeof *b->steps) < 0 ||
		grad_alloc(b, (void **)&b->bad, sizeof *b->bad) < 0)
		return -1;
	if (g->each &&
		grad_alloc(b, (void **)&b->bins, b->chunks_max * QUANT_BINS * 4) < 0)
		return -1;
	if (g->bf16 && !b->g.q.bf16 &&
		grad_alloc(b, (void **)&b->floats, b->elements * 4) < 0)
		return -1;
	return b->host ? 0 : alloc_apart(b);
}

int grad_batch_init(struct grad_batch *b, struct dev *d, const struct grad *g)
{
	return init(b, d, g, grad_batch(g), threads_max());
}

int grad_batch_init_one(struct grad_batch *b, struct dev *d, const struct grad *g)
{
	return init(b, d, g, quant_chunk(g->q.method), 1);
}

void grad_batch_release(struct grad_batch *b)
{
	for (int p = 0; p < QUANT_PLANES_MAX; p++) {
		free(b->coded[p]);
		free(b->at[p]);
	}
	free(b->pieces);
	b->d->ops->free(b->d, b->d_coded);
	b->d->ops->free(b->d, b->d_at);
	free_both(b, b->planes, b->d_planes);
	free_both(b, b->used, b->d_used);
	free_both(b, b->steps, b->d_steps);
	b->d->ops->free(b->d, b->bad);
	b->d->ops->free(b->d, b->bins);
	b->d->ops->free(b->d, b->floats);
	free(b->slots);
	free(b->checks);
	free(b->work);
}

uint32_t grad_batch_length(const struct grad_batch *b, uint64_t c, uint64_t n)
{
	uint64_t left = n - c * b->chunk;

	return (uint32_t)(left < b->chunk ? left : b->chunk);
}

int grad_batch_job(struct grad_batch *b, struct quant_job *j, uint64_t first, uint64_t n)
{
	*j = (struct quant_job){ .q = b->g.q,
		.first = first,
		.n = n,
		.planes = b->d_planes,
		.used = b->d_used,
		.steps = b->d_steps,
		.bad = b->bad };
	if (b->host || b->g.q.method != QUANT_ECQ)
		return 0;
	return grad_dev(b,
		b->d->ops->put(b->d, b->d_steps, b->steps, b->chunks * sizeof *b->steps));
}

/* A chunk's check covers its number, elements, bytes and payload: while it is hashed, the first
 * three are stored where the check belongs, so that the message is contiguous. kept: what was
 * there. */
static void begin_message(struct blake2b_message *m, unsigned char *slot, uint64_t number,
	unsigned char kept[GRAD_CHECK_BYTES])
{
	uint32_t bytes = grad_get32(slot);

	memcpy(kept, slot + 8, GRAD_CHECK_BYTES);
	grad_put64(slot + 8, number);
	grad_put32(slot + 16, grad_get32(slot + 4));
	grad_put32(slot + 20, bytes);
	*m = (struct blake2b_message){ .in = slot + 8,
		.bytes = GRAD_CHECK_BYTES + (uint64_t)bytes };
}

void grad_batch_check_side_by_side(struct grad_batch *const *b, size_t n, uint64_t number)
{
	struct blake2b_message m[BLAKE2B_LANES];
	unsigned char kept[BLAKE2B_LANES][GRAD_CHECK_BYTES];

	for (size_t i = 0; i < n; i++) {
		begin_message(&m[i], b[i]->slots, number, kept[i]);
		m[i].key = b[i]->check;
	}
	blake2b(b[0]->level, m, n, NULL, GRAD_CHECK_BYTES, GRAD_CHECK_BYTES);
	for (size_t i = 0; i < n; i++) {
		memcpy(b[i]->checks, m[i].out, GRAD_CHECK_BYTES);
		memcpy(b[i]->slots + 8, kept[i], GRAD_CHECK_BYTES);
		b[i]->checked = true;
	}
}

static void check_some(struct grad_batch *b, uint64_t number, uint64_t from, uint64_t to)
{
	struct blake2b_message m[BLAKE2B_LANES];
	unsigned char kept[BLAKE2B_LANES][GRAD_CHECK_BYTES];

	for (uint64_t c = from; c < to; c++) {
		begin_message(&m[c - from], b->slots + c * b->slot_bytes, number + c,
			kept[c - from]);
	}
	blake2b(b->level, m, to - from, b->check, GRAD_CHECK_BYTES, GRAD_CHECK_BYTES);
	for (uint64_t c = from; c < to; c++) {
		memcpy(b->checks + c * GRAD_CHECK_BYTES, m[c - from].out,
			GRAD_CHECK_BYTES);
		memcpy(b->slots + c * b->slot_bytes + 8, kept[c - from],
			GRAD_CHECK_BYTES);
	}
}

void grad_batch_check(struct grad_batch *b, uint64_t number)
{
#pragma omp parallel for schedule(static) if (b->chunks > BLAKE2B_LANES)
	for (uint64_t c = 0; c < b->chunks; c += BLAKE2B_LANES)
		check_some(b, number, c,
			b->chunks - c < BLAKE2B_LANES ? b->chunks : c + BLAKE2B_LANES);
}

/* Returns the bytes of plane p in n elements: all chunks but the last are whole. */
static uint64_t plane_bytes(const struct grad_batch *b, int p, uint64_t n)
{
	struct quant_layout last;

	quant_layout(&last, &b->g.q, grad_batch_length(b, b->chunks - 1, n));
	return (b->chunks - 1) * b->layout.plane[p].stride + last.plane[p].bytes;
}

/* Reports impossible sizes: a broken GPU may return any, and they decide how much is copied. */
static int wrong_sizes(const struct grad_batch *b)
{
	return err_set(EX_IOERR, "%s gives sizes that cannot be",
		b->d->model[0] ? b->d->model : "the device");
}

/* Checks the offsets of coded chunks of `chunk` symbols each. */
static int check_at(const struct grad_batch *b, const uint64_t *at, uint32_t chunk)
{
	if (at[0] || at[b->chunks] > huff_bound(b->chunks_max * chunk, chunk))
		return wrong_sizes(b);
	for (uint64_t c = 0; c < b->chunks; c++)
		if (at[c + 1] < at[c] || at[c + 1] - at[c] > huff_bound(chunk, chunk))
			return wrong_sizes(b);
	return 0;
}

/* Copies plane p from the device, which coded it. */
static int get_coded(struct grad_batch *b, int p, uint64_t n)
{
	struct dev *d = b->d;
	const struct quant_plane *plane = &b->layout.plane[p];
	const unsigned char *from = quant_plane_at(&b->layout, b->d_planes, b->chunks, 0,
		p);

	if (grad_dev(b,
		    d->ops->huff->encode(d, b->d_coded, b->d_at, from,
			    plane_bytes(b, p, n), plane->stride)) < 0 ||
		grad_dev(b,
			d->ops->get(d, b->at[p], b->d_at,
				(b->chunks + 1) * sizeof *b->d_at)) < 0 ||
		check_at(b, b->at[p], plane->stride) < 0)
		return -1;
	return grad_dev(b, d->ops->get(d, b->coded[p], b->d_coded, b->at[p][b->chunks]));
}

/* Copies the used part of the variable plane. */
static int get_variable(struct grad_batch *b, int p)
{
	for (uint64_t c = 0; c < b->chunks; c++) {
		if (b->used[c] > b->layout.plane[p].stride)
			return wrong_sizes(b);
		if (b->used[c] &&
			grad_dev(b,
				b->d->ops->get(b->d,
					quant_plane_at(&b->layout, b->planes, b->chunks,
						c, p),
					quant_plane_at(&b->layout, b->d_planes, b->chunks,
						c, p),
					b->used[c])) < 0)
			return -1;
	}
	return 0;
}

/* Returns where plane p begins in host or device memory. */
static unsigned char *plane_start(const struct grad_batch *b, unsigned char *base, int p)
{
	return quant_plane_at(&b->layout, base, b->chunks, 0, p);
}

int grad_batch_get(struct grad_batch *b, uint64_t n, bool symbols)
{
	struct dev *d = b->d;
	int rc = 0;

	if (b->host)
		return 0;
	if (grad_dev(b, d->ops->get(d, b->used, b->d_used, b->chunks * 4)) < 0)
		return -1;
	for (int p = 0; p < b->layout.planes && rc == 0; p++) {
		if (b->apart[p])
			rc = get_coded(b, p, n);
		else if (b->layout.plane[p].variable)
			rc = get_variable(b, p);
		if (rc == 0 && !b->layout.plane[p].variable &&
			(!b->apart[p] || (symbols && p == 0)))
			rc = grad_dev(b,
				d->ops->get(d, plane_start(b, b->planes, p),
					plane_start(b, b->d_planes, p),
					b->chunks * b->layout.plane[p].stride));
	}
	return rc;
}

/* Copies plane p to the device in coded form, to be decoded there. */
static int put_coded(struct grad_batch *b, int p, uint64_t n, uint32_t *bad)
{
	struct dev *d = b->d;
	const struct quant_plane *plane = &b->layout.plane[p];
	uint64_t *at = b->at[p];
	uint32_t failed;

	for (uint64_t c = 0; c < b->chunks; c++) {
		const struct grad_piece *piece =
			&b->pieces[c * QUANT_PLANES_MAX + (uint64_t)p];

		/* no chunk of the coder is longer, so it fits */
		if (piece->bytes > plane->stride + 1) {
			*bad += 1;
			return 0;
		}
		memcpy(b->coded[p] + at[c], piece->from, piece->bytes);
		at[c + 1] = at[c] + piece->bytes;
	}
	if (grad_dev(b, d->ops->put(d, b->d_coded, b->coded[p], at[b->chunks])) < 0 ||
		grad_dev(b, d->ops->put(d, b->d_at, at, (b->chunks + 1) * sizeof *at)) <
			0 ||
		grad_dev(b,
			d->ops->huff->decode(d, plane_start(b, b->d_planes, p), b->bad,
				b->d_coded, at[b->chunks], b->d_at, plane_bytes(b, p, n),
				plane->stride)) < 0 ||
		grad_dev(b, d->ops->get(d, &failed, b->bad, sizeof failed)) < 0)
		return -1;
	*bad += failed;
	return 0;
}

int grad_batch_put(struct grad_batch *b, uint64_t n, uint32_t *bad)
{
	struct dev *d = b->d;
	int rc = 0;

	*bad = 0;
	if (b->host)
		return 0;
	for (int p = 0; p < b->layout.planes && rc == 0; p++)
		rc = b->apart[p] ?
			put_coded(b, p, n, bad) :
			grad_dev(b,
				d->ops->put(d, plane_start(b, b->d_planes, p),
					plane_start(b, b->planes, p),
					b->chunks * b->layout.plane[p].stride));
	return rc < 0 ? -1 :
			grad_dev(b, d->ops->put(d, b->d_used, b->used, b->chunks * 4));
}
