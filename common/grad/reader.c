/* reader.c - the index of a container from its end, and one chunk of it at a time. */
#include "common/grad/reader.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/grad/batch.h"
#include "common/grad/format.h"
#include "kernels/crypto/blake2b.h"

_Static_assert(GRAD_READERS <= BLAKE2B_LANES, "checks side by side");

/* bytes of an index of no chunks: end marker, elements, chunks, root, length, "GPNR" */
#define INDEX_BYTES (8 + 8 + 8 + GRAD_ROOT_BYTES + GRAD_END_BYTES)

struct grad_chunk_decoder {
	struct dev *d;
	struct grad_batch b;
	bool made;
};

/* --- opening -------------------------------------------------------------------------------- */

static int damaged(void)
{
	return err_set(EX_DATAERR, "the container's index does not go with its chunks");
}

/* Reads the header; *len: its bytes. */
static int read_header(struct grad_reader *r, uint64_t bytes, size_t *len)
{
	unsigned char header[GRAD_HEADER_MAX];
	size_t have = bytes < sizeof header ? (size_t)bytes : sizeof header;

	if (r->read(r->ctx, 0, header, have) < 0)
		return -1;
	return grad_header_read(&r->g, r->check, header, have, len);
}

/* Turns the sizes of the chunks, from `sizes` on in the file, into their places. */
static int read_sizes(struct grad_reader *r, uint64_t sizes, uint64_t header)
{
	unsigned char piece[4096];

	r->at[0] = header;
	for (uint64_t c = 0; c < r->chunks;) {
		uint64_t n = r->chunks - c < sizeof piece / 4 ? r->chunks - c :
								sizeof piece / 4;

		if (r->read(r->ctx, sizes + 4 * c, piece, (size_t)(4 * n)) < 0)
			return -1;
		for (uint64_t i = 0; i < n; i++, c++) {
			uint32_t size = grad_get32(piece + 4 * i);

			if (size > grad_payload_max(&r->g,
					   (uint32_t)grad_reader_length(r, c)))
				return damaged();
			r->at[c + 1] = r->at[c] + GRAD_CHUNK_BYTES + size;
		}
	}
	return 0;
}

static int open_index(struct grad_reader *r, uint64_t bytes, size_t header)
{
	uint64_t index = INDEX_BYTES + 4 * r->chunks;
	unsigned char begin[24], end[GRAD_END_BYTES];

	if (bytes < header || bytes - header < index)
		return damaged();
	if (r->read(r->ctx, bytes - index, begin, sizeof begin) < 0 ||
		r->read(r->ctx, bytes - sizeof end, end, sizeof end) < 0)
		return -1;
	if (grad_get64(begin) || grad_get64(begin + 8) != r->elements ||
		grad_get64(begin + 16) != r->chunks || grad_get64(end) != index ||
		memcmp(end + 8, "GPNR", 4) != 0)
		return damaged();
	r->at = xcalloc(r->chunks + 1, sizeof *r->at);
	if (read_sizes(r, bytes - index + sizeof begin, header) < 0)
		return -1;
	return r->at[r->chunks] == bytes - index ? 0 : damaged();
}

int grad_reader_open(struct grad_reader *r, grad_read_at_fn read, void *ctx,
	uint64_t bytes, uint64_t elements)
{
	size_t header;

	*r = (struct grad_reader){ .read = read, .ctx = ctx, .elements = elements };
	if (read_header(r, bytes, &header) < 0)
		return -1;
	if (r->g.bf16 || (r->g.elements != GRAD_UNKNOWN && r->g.elements != elements))
		return err_set(EX_DATAERR,
			"it holds %llu elements of %s, not %llu of f32",
			(unsigned long long)r->g.elements, r->g.bf16 ? "bf16" : "f32",
			(unsigned long long)elements);
	r->g.elements = elements;
	r->chunk = quant_chunk(r->g.q.method);
	r->chunks = quant_chunks(r->g.q.method, elements);
	return open_index(r, bytes, header);
}

void grad_reader_close(struct grad_reader *r)
{
	free(r->at);
	r->at = NULL;
}

/* --- chunks --------------------------------------------------------------------------------- */

struct grad_chunk_decoder *grad_chunk_decoder_new(struct dev *d)
{
	struct grad_chunk_decoder *c = xcalloc(1, sizeof *c);

	c->d = d;
	return c;
}

static void release(struct grad_chunk_decoder *c)
{
	if (c->made)
		grad_batch_release(&c->b);
	c->made = false;
}

void grad_chunk_decoder_free(struct grad_chunk_decoder *c)
{
	if (!c)
		return;
	release(c);
	free(c);
}

/* Whether containers are coded alike but for their steps and seeds. */
static bool alike(const struct grad *a, const struct grad *b)
{
	return a->q.method == b->q.method && a->q.sigma == b->q.sigma &&
		a->q.stochastic == b->q.stochastic && a->q.block == b->q.block &&
		a->q.levels == b->q.levels && a->each == b->each;
}

static int prepare(struct grad_chunk_decoder *c, const struct grad_reader *r)
{
	struct grad whole = r->g;

	whole.elements = r->chunk; /* room for one, whatever the container has */
	if (c->made && !alike(&c->b.g, &r->g))
		release(c);
	if (!c->made) {
		c->made = true;
		if (grad_batch_init_one(&c->b, c->d, &whole) < 0) {
			release(c);
			return -1;
		}
	}
	c->b.g = whole;
	c->b.steps[0] = r->g.step;
	memcpy(c->b.check, r->check, sizeof c->b.check);
	return 0;
}

uint64_t grad_reader_length(const struct grad_reader *r, uint64_t chunk)
{
	uint64_t left = r->elements - chunk * r->chunk;

	return left < r->chunk ? left : r->chunk;
}

/* Reads a chunk into the decoder's slot. */
static int load(const struct grad_reader *r, struct grad_chunk_decoder *c, uint64_t chunk)
{
	uint64_t bytes = r->at[chunk + 1] - r->at[chunk];
	unsigned char *slot;

	if (prepare(c, r) < 0)
		return -1;
	slot = c->b.slots;
	if (r->read(r->ctx, r->at[chunk], slot, (size_t)bytes) < 0)
		return err_add("chunk %llu", (unsigned long long)chunk);
	if (grad_get32(slot) != bytes - GRAD_CHUNK_BYTES ||
		grad_get32(slot + 4) != grad_reader_length(r, chunk))
		return damaged();
	c->b.chunks = 1;
	return 0;
}

int grad_reader_get(const struct grad_reader *r, struct grad_chunk_decoder *const *c,
	size_t n, uint64_t chunk, float *const *out, size_t *failed)
{
	struct grad_batch *b[GRAD_READERS] = { NULL };

	for (size_t i = 0; i < n; i++) {
		*failed = i;
		if (load(&r[i], c[i], chunk) < 0)
			return -1;
		b[i] = &c[i]->b;
	}
	grad_batch_check_side_by_side(b, n, chunk);
	for (size_t i = 0; i < n; i++) {
		*failed = i;
		if (grad_batch_decode(b[i], chunk, chunk * r[i].chunk, out[i],
			    grad_reader_length(&r[i], chunk)) < 0) {
			for (; i < n; i++)
				b[i]->checked = false;
			return -1;
		}
	}
	return 0;
}

int grad_read_buf(void *ctx, uint64_t at, void *data, size_t len)
{
	const struct buf *b = ctx;

	if (at > b->len || len > b->len - at)
		return err_set(EX_DATAERR, "the container is cut off");
	memcpy(data, b->data + at, len);
	return 0;
}
