/* decode_batch.c - decodes the chunks that lie in a batch's slots: nothing of them is trusted
 * before their checks are right. */
#include <string.h>

#include "common/base/err.h"
#include "common/base/threads.h"
#include "common/grad/batch.h"
#include "common/grad/format.h"

/* --- a chunk ------------------------------------------------------------------------------- */

static uint32_t get_length(const unsigned char *from)
{
	return from[0] | (uint32_t)from[1] << 8 | (uint32_t)from[2] << 16;
}

/* Reads plane p of chunk c from at .. end; returns where it ends, or NULL: malformed. */
static const unsigned char *get_plane(struct grad_batch *b, struct huff_work *w,
	const struct quant_plane *plane, uint64_t c, int p, const unsigned char *at,
	const unsigned char *end)
{
	unsigned char *to = quant_plane_at(&b->layout, b->planes, b->chunks, c, p);
	uint32_t length = plane->bytes;

	if (plane->coded || plane->variable) {
		if (end - at < GRAD_LENGTH_BYTES)
			return NULL;
		length = get_length(at);
		at += GRAD_LENGTH_BYTES;
	}
	if (length > (uint64_t)(end - at))
		return NULL;
	if (b->apart[p]) {
		b->pieces[c * QUANT_PLANES_MAX + (uint64_t)p] = (struct grad_piece){ at,
			length };
		return at + length;
	}
	if (plane->coded)
		return b->huff->decode(w, to, plane->bytes, at, length) < 0 ? NULL :
									      at + length;
	if (length > plane->bytes)
		return NULL;
	if (plane->variable)
		b->used[c] = length;
	memcpy(to, at, length);
	return at + length;
}

enum fault { FAULT_NONE, FAULT_CHECK, FAULT_PLANES, FAULT_STEP };

static enum fault open_chunk(struct grad_batch *b, struct huff_work *w, uint64_t c)
{
	const unsigned char *slot = b->slots + c * b->slot_bytes;
	const unsigned char *at = slot + GRAD_CHUNK_BYTES, *end;
	uint32_t bytes = grad_get32(slot), n = grad_get32(slot + 4);
	struct quant_layout l;

	if (memcmp(b->checks + c * GRAD_CHECK_BYTES, slot + 8, GRAD_CHECK_BYTES) != 0)
		return FAULT_CHECK;
	end = at + bytes;
	b->used[c] = 0;
	if (b->g.each) {
		if (bytes < GRAD_STEP_BYTES || grad_step_read(&b->steps[c], at) < 0)
			return FAULT_STEP;
		at += GRAD_STEP_BYTES;
	}
	quant_layout(&l, &b->g.q, n);
	for (int p = 0; p < l.planes && at; p++)
		at = get_plane(b, w, &l.plane[p], c, p, at, end);
	return at == end ? FAULT_NONE : FAULT_PLANES;
}

static int open_chunks(struct grad_batch *b, uint64_t number)
{
	static const char *const says[] = { "", "its checksum is wrong",
		"its planes are malformed", "its step is no number" };
	uint64_t first = UINT64_MAX;
	enum fault what = FAULT_NONE;

	if (!b->checked)
		grad_batch_check(b, number);
	b->checked = false;
#pragma omp parallel for schedule(static) if (b->chunks > 1)
	for (uint64_t c = 0; c < b->chunks; c++) {
		enum fault f = open_chunk(b, &b->work[thread_number()], c);

		if (f != FAULT_NONE)
#pragma omp critical(grad_fault)
			if (c < first) {
				first = c;
				what = f;
			}
	}
	if (what == FAULT_NONE)
		return 0;
	return err_set(EX_DATAERR, "chunk %llu: %s", (unsigned long long)(number + first),
		says[what]);
}

static int malformed(const struct grad_batch *b, uint64_t number, const char *what)
{
	return err_set(EX_DATAERR, "chunks %llu to %llu: %s are malformed",
		(unsigned long long)number, (unsigned long long)(number + b->chunks - 1),
		what);
}

int grad_batch_decode(struct grad_batch *b, uint64_t number, uint64_t first,
	void *elements, uint64_t n)
{
	struct dev *d = b->d;
	struct quant_job job;
	uint32_t bad;

	if (open_chunks(b, number) < 0 || grad_batch_put(b, n, &bad) < 0)
		return -1;
	if (bad)
		return malformed(b, number, "planes");
	if (grad_batch_job(b, &job, first, n) < 0)
		return -1;
	job.elements = b->floats ? (void *)b->floats : elements;
	if (grad_dev(b, d->ops->fill(d, b->bad, 0, 1)) < 0 ||
		grad_dev(b, d->ops->quant->decode(d, &job)) < 0 ||
		grad_dev(b, d->ops->get(d, &bad, b->bad, sizeof bad)) < 0)
		return -1;
	if (bad)
		return malformed(b, number, "levels");
	if (b->floats)
		return grad_dev(b, d->ops->quant->narrow(d, elements, b->floats, n));
	return 0;
}
