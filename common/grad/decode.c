/* decode.c - the decoder: it trusts nothing in a container before it is checked, and needs
 * memory for one batch only. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/grad/batch.h"
#include "common/grad/format.h"
#include "common/base/mem.h"

struct grad_decoder {
	struct grad_batch b;
	grad_read_fn read;
	void *ctx;
	crypto_generichash_state root, sizes;
	uint64_t elements, chunks; /* returned so far */
	uint64_t max;              /* upper bound of elements */
	uint64_t taken;            /* bytes read since the end marker */
	void *staging;             /* device: elements for the host */
	bool last, done; /* last: the last chunk was read; done: the index too */
};

static int truncated(const struct grad_decoder *r)
{
	return err_add("chunk %llu", (unsigned long long)(r->chunks + r->b.chunks));
}

/* --- the index -------------------------------------------------------------------------------- */

static int take(struct grad_decoder *r, void *to, size_t len)
{
	r->taken += len;
	return r->read(r->ctx, to, len);
}

/* Reads the rest after the end marker, which was read already. */
static int read_index(struct grad_decoder *r)
{
	unsigned char piece[4096], want[GRAD_ROOT_BYTES], sizes[2][GRAD_ROOT_BYTES];
	crypto_generichash_state found;

	if (take(r, piece, 16) < 0)
		return err_add("the index");
	if (grad_get64(piece) != r->elements || grad_get64(piece + 8) != r->chunks)
		return err_set(EX_DATAERR, "the index tells of other chunks");
	crypto_generichash_update(&r->root, piece, 16);
	crypto_generichash_final(&r->root, want, sizeof want);
	crypto_generichash_init(&found, NULL, 0, GRAD_ROOT_BYTES);
	for (uint64_t left = r->chunks * 4; left;) {
		size_t now = left < sizeof piece ? (size_t)left : sizeof piece;

		if (take(r, piece, now) < 0)
			return err_add("the index");
		crypto_generichash_update(&found, piece, now);
		left -= now;
	}
	crypto_generichash_final(&found, sizes[0], GRAD_ROOT_BYTES);
	crypto_generichash_final(&r->sizes, sizes[1], GRAD_ROOT_BYTES);
	if (take(r, piece, GRAD_ROOT_BYTES + GRAD_END_BYTES) < 0)
		return err_add("the index");
	if (memcmp(sizes[0], sizes[1], GRAD_ROOT_BYTES) != 0 ||
		memcmp(piece, want, GRAD_ROOT_BYTES) != 0 ||
		grad_get64(piece + GRAD_ROOT_BYTES) != r->taken ||
		memcmp(piece + GRAD_ROOT_BYTES + 8, "GPNR", 4) != 0)
		return err_set(EX_DATAERR, "the index is wrong");
	r->done = true;
	return 0;
}

/* --- a batch ------------------------------------------------------------------------------ */

/* Reads the next chunk into its slot. Returns 1, 0 at the end, or -1. */
static int read_chunk(struct grad_decoder *r, uint64_t before)
{
	struct grad_batch *b = &r->b;
	unsigned char *slot = b->slots + b->chunks * b->slot_bytes;
	uint32_t bytes, n;

	if (r->read(r->ctx, slot, 8) < 0)
		return truncated(r);
	bytes = grad_get32(slot);
	n = grad_get32(slot + 4);
	if (!bytes && !n) {
		r->last = true;
		r->taken = 8;
		return 0;
	}
	if (r->last)
		return err_set(EX_DATAERR, "a chunk stands behind one that is not whole");
	if (!n || n > b->chunk || bytes > grad_payload_max(&b->g, n))
		return err_set(EX_DATAERR, "chunk %llu claims %u elements in %u bytes",
			(unsigned long long)(r->chunks + b->chunks), n, bytes);
	if (n > r->max - before)
		return err_set(EX_DATAERR,
			"it holds more than the %llu elements that it should",
			(unsigned long long)r->max);
	if (r->read(r->ctx, slot + 8, GRAD_CHECK_BYTES + bytes) < 0)
		return truncated(r);
	r->last = n < b->chunk;
	return 1;
}

/* Reads up to a batch; *n elements. */
static int read_batch(struct grad_decoder *r, uint64_t *n)
{
	struct grad_batch *b = &r->b;
	bool end = r->last;
	int rc = 1;

	b->chunks = 0;
	*n = 0;
	while (!end && b->chunks < b->chunks_max) {
		rc = read_chunk(r, r->elements + *n);
		if (rc < 0)
			return -1;
		if (!rc)
			return 0;
		*n += grad_get32(b->slots + b->chunks * b->slot_bytes + 4);
		b->chunks++;
	}
	return 0;
}

int grad_decoder_next(struct grad_decoder *r, void *elements, uint64_t *n)
{
	struct grad_batch *b = &r->b;

	*n = 0;
	if (r->done)
		return 0;
	if (!r->taken && read_batch(r, n) < 0)
		return -1;
	if (!*n) {
		if (!r->taken && read_chunk(r, r->elements) < 0)
			return -1;
		if (b->g.elements != GRAD_UNKNOWN && b->g.elements != r->elements)
			return err_set(EX_DATAERR,
				"it announces %llu elements and holds %llu",
				(unsigned long long)b->g.elements,
				(unsigned long long)r->elements);
		return read_index(r);
	}
	if (grad_batch_decode(b, r->chunks, r->elements, elements, *n) < 0) {
		*n = 0;
		return -1;
	}
	for (uint64_t c = 0; c < b->chunks; c++) {
		const unsigned char *slot = b->slots + c * b->slot_bytes;

		crypto_generichash_update(&r->root, slot + 8, GRAD_CHECK_BYTES);
		crypto_generichash_update(&r->root, slot, 8);
		crypto_generichash_update(&r->sizes, slot, 4);
	}
	r->chunks += b->chunks;
	r->elements += *n;
	b->chunks = 0;
	return 0;
}

int grad_decoder_next_host(struct grad_decoder *r, void *elements, uint64_t *n)
{
	struct grad_batch *b = &r->b;
	uint64_t size = b->g.bf16 ? 2 : 4;

	if (b->host)
		return grad_decoder_next(r, elements, n);
	if (!r->staging && grad_alloc(b, &r->staging, b->elements * size) < 0)
		return -1;
	if (grad_decoder_next(r, r->staging, n) < 0)
		return -1;
	return grad_dev(b, b->d->ops->get(b->d, elements, r->staging, *n * size));
}

/* --- beginning and end -------------------------------------------------------------------- */

static int read_header(struct grad_decoder *r, struct grad *g,
	unsigned char check[GRAD_CHECK_BYTES])
{
	unsigned char header[GRAD_HEADER_MAX];
	size_t have = 8, len;

	if (r->read(r->ctx, header, have) < 0)
		return err_add("the header");
	/* checks these 8 bytes before it waits for more */
	if (memcmp(header, "RNPG", 4) == 0 && header[4] == GRAD_VERSION &&
		header[5] < QUANT_METHODS && header[7] <= GRAD_RANK_MAX) {
		len = GRAD_HEADER_MIN + 8 * (size_t)header[7];
		if (r->read(r->ctx, header + have, len - have) < 0)
			return err_add("the header");
		have = len;
	}
	return grad_header_read(g, check, header, have, &len);
}

struct grad_decoder *grad_decoder_new(struct dev *d, grad_read_fn read, void *ctx)
{
	struct grad_decoder *r = xcalloc(1, sizeof *r);
	unsigned char check[GRAD_CHECK_BYTES];
	struct grad g;

	r->b.d = d;
	r->b.host = true; /* until the device is known */
	r->read = read;
	r->ctx = ctx;
	if (read_header(r, &g, check) < 0 || grad_batch_init(&r->b, d, &g) < 0) {
		grad_decoder_free(r);
		return NULL;
	}
	memcpy(r->b.check, check, sizeof check);
	for (uint64_t c = 0; c < r->b.chunks_max; c++)
		r->b.steps[c] = g.step;
	r->max = g.elements;
	crypto_generichash_init(&r->root, check, GRAD_CHECK_BYTES, GRAD_ROOT_BYTES);
	crypto_generichash_init(&r->sizes, NULL, 0, GRAD_ROOT_BYTES);
	return r;
}

const struct grad *grad_decoder_info(const struct grad_decoder *r)
{
	return &r->b.g;
}

void grad_decoder_free(struct grad_decoder *r)
{
	if (!r)
		return;
	r->b.d->ops->free(r->b.d, r->staging);
	grad_batch_release(&r->b);
	free(r);
}

/* --- all at once -------------------------------------------------------------------------- */

struct memory {
	const unsigned char *at;
	size_t left;
};

static int from_memory(void *ctx, void *data, size_t len)
{
	struct memory *m = ctx;

	if (len > m->left)
		return err_set(EX_DATAERR, "the container is cut off");
	memcpy(data, m->at, len);
	m->at += len;
	m->left -= len;
	return 0;
}

int grad_decode(struct dev *d, struct grad *g, const void *container, size_t len,
	void *elements, uint64_t n, bool bf16)
{
	struct memory m = { container, len };
	struct grad_decoder *r = grad_decoder_new(d, from_memory, &m);
	uint64_t at = 0, part;
	int rc = -1;

	if (!r)
		return -1;
	if (g)
		*g = r->b.g;
	if (r->b.g.bf16 != bf16 ||
		(r->b.g.elements != GRAD_UNKNOWN && r->b.g.elements != n)) {
		err_set(EX_DATAERR, "it holds %llu elements of %s, not %llu of %s",
			(unsigned long long)r->b.g.elements, r->b.g.bf16 ? "bf16" : "f32",
			(unsigned long long)n, bf16 ? "bf16" : "f32");
		goto out;
	}
	r->max = n;
	do {
		if (grad_decoder_next_host(r, (char *)elements + at * (bf16 ? 2 : 4),
			    &part) < 0)
			goto out;
		at += part;
	} while (part);
	if (at != n)
		err_set(EX_DATAERR, "it holds %llu elements, not %llu",
			(unsigned long long)at, (unsigned long long)n);
	else if (m.left)
		err_set(EX_DATAERR, "%zu bytes stand behind the container", m.left);
	else
		rc = 0;
out:
	grad_decoder_free(r);
	return rc;
}
