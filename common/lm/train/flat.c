/* flat.c - maps ranges of the flat view to tensors and copies them in pieces of a fixed size. */
#include "common/lm/train/flat.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/lm/train/parts.h"
#include "kernels/grad/ops.h"

/* elements that are copied through the host at a time */
#define PIECE ((uint64_t)1 << 20)

/* A part of a range that is contiguous on the device. */
struct piece {
	enum lm_state what;
	float *device;    /* address of its first element */
	uint64_t at;      /* index of that element in the device's array */
	uint64_t in_call; /* index of that element in the caller's range */
	uint64_t count;
};

typedef int (*piece_fn)(struct lm_train *t, const struct piece *p, void *arg);

/* Calls fn for each piece of [from, from + count), in order. */
static int walk(struct lm_train *t, enum lm_state what, uint64_t from, uint64_t count,
	piece_fn fn, void *arg)
{
	float *base = lm_train_flat(t, what);
	uint64_t first = 0, end = from + count;

	if (count > lm_flat_count(t) || from > lm_flat_count(t) - count)
		bug("elements beyond the flat view");
	for (uint32_t i = 0; i < t->tensors && first < end; i++) {
		struct lm_learned learned;
		const struct lm_place *place = &learned.place;

		lm_learned_at(&t->o.config, &t->o.lora, i, &learned);
		for (uint64_t k = from > first ? from - first : 0;
			k < place->count && first + k < end;) {
			struct piece p = { .what = what,
				.at = t->offset[i] + k,
				.in_call = first + k - from,
				.count = place->count - k };

			p.device = base + p.at;
			if (p.count > end - first - k)
				p.count = end - first - k;
			if (p.count > PIECE)
				p.count = PIECE;
			if (fn(t, &p, arg) < 0)
				return -1;
			k += p.count;
		}
		first += place->count;
	}
	return 0;
}

uint64_t lm_flat_count(const struct lm_train *t)
{
	return lm_learned_params(&t->o.config, &t->o.lora);
}

static int get_piece(struct lm_train *t, const struct piece *p, void *arg)
{
	float *host = (float *)arg + p->in_call;

	if (t->d->ops->get(t->d, host, p->device, p->count * sizeof *host) < 0)
		return lm_train_failed(t);
	return 0;
}

int lm_flat_get(struct lm_train *t, enum lm_state what, uint64_t from, uint64_t count,
	float *host)
{
	return walk(t, what, from, count, get_piece, host);
}

static int put_piece(struct lm_train *t, const struct piece *p, const float *host)
{
	if (t->d->ops->put(t->d, p->device, host, p->count * sizeof *host) < 0)
		return lm_train_failed(t);
	return p->what == LM_STATE_PARAMETER ? lm_train_narrow(t, p->at, p->count) : 0;
}

struct set {
	const float *host;
};

static int set_piece(struct lm_train *t, const struct piece *p, void *arg)
{
	return put_piece(t, p, ((const struct set *)arg)->host + p->in_call);
}

int lm_flat_set(struct lm_train *t, enum lm_state what, uint64_t from, uint64_t count,
	const float *host)
{
	struct set s = { host };

	return walk(t, what, from, count, set_piece, &s);
}

/* An operation between a state and an array in host memory. */
struct with {
	const float *host;
	float *there; /* [PIECE] on the device; NULL: device memory is host memory */
	float *out;   /* of delta, on the device */
	double a;
	float scale;
};

/* Returns where the device reads the part of the host's array that belongs to p, or NULL. */
static const float *operand(struct lm_train *t, const struct piece *p,
	const struct with *w)
{
	const float *host = w->host + p->in_call;

	if (!w->there)
		return host;
	if (t->d->ops->put(t->d, w->there, host, p->count * sizeof *host) < 0)
		return NULL;
	return w->there;
}

static int add_piece(struct lm_train *t, const struct piece *p, void *arg)
{
	const struct with *w = arg;
	const float *y = operand(t, p, w);

	if (!y || t->d->ops->outer->add(t->d, p->device, y, w->scale, p->count) < 0)
		return lm_train_failed(t);
	return p->what == LM_STATE_PARAMETER ? lm_train_narrow(t, p->at, p->count) : 0;
}

static int merge_piece(struct lm_train *t, const struct piece *p, void *arg)
{
	const struct with *w = arg;
	const float *published = operand(t, p, w);

	if (!published ||
		t->d->ops->outer->merge(t->d, p->device, published, w->a, p->count) < 0)
		return lm_train_failed(t);
	return lm_train_narrow(t, p->at, p->count);
}

static int delta_piece(struct lm_train *t, const struct piece *p, void *arg)
{
	const struct with *w = arg;
	const float *began = operand(t, p, w);

	if (!began ||
		t->d->ops->outer->delta(t->d, w->out + p->in_call, began, p->device,
			p->count) < 0)
		return lm_train_failed(t);
	return 0;
}

/* Walks with memory on the device for the host's pieces. */
static int walk_with(struct lm_train *t, enum lm_state what, uint64_t from,
	uint64_t count, piece_fn fn, struct with *w)
{
	uint64_t piece = count < PIECE ? count : PIECE;
	int rc;

	if (!t->d->is_host && count &&
		t->d->ops->alloc(t->d, (void **)&w->there, piece * sizeof *w->there) < 0)
		return lm_train_failed(t);
	rc = walk(t, what, from, count, fn, w);
	t->d->ops->free(t->d, w->there);
	return rc;
}

int lm_flat_add(struct lm_train *t, enum lm_state what, uint64_t from, uint64_t count,
	const float *host, float scale)
{
	struct with w = { .host = host, .scale = scale };

	return walk_with(t, what, from, count, add_piece, &w);
}

int lm_flat_merge(struct lm_train *t, uint64_t from, uint64_t count,
	const float *published, double a)
{
	struct with w = { .host = published, .a = a };

	return walk_with(t, LM_STATE_PARAMETER, from, count, merge_piece, &w);
}

int lm_flat_delta(struct lm_train *t, uint64_t from, uint64_t count, const float *began,
	float *out)
{
	struct with w = { .host = began, .out = out };

	return walk_with(t, LM_STATE_PARAMETER, from, count, delta_piece, &w);
}

struct hash {
	crypto_generichash_state state;
	float *host; /* [PIECE] */
};

static int hash_piece(struct lm_train *t, const struct piece *p, void *arg)
{
	struct hash *h = arg;
	uint64_t bytes = p->count * sizeof *h->host;

	if (t->d->ops->get(t->d, h->host, p->device, bytes) < 0)
		return lm_train_failed(t);
	crypto_generichash_update(&h->state, (const unsigned char *)h->host, bytes);
	return 0;
}

int lm_flat_hash(struct lm_train *t, enum lm_state what, unsigned char out[32])
{
	struct hash h = { .host = xmalloc(PIECE * sizeof *h.host) };
	int rc;

	crypto_generichash_init(&h.state, NULL, 0, 32);
	rc = walk(t, what, 0, lm_flat_count(t), hash_piece, &h);
	crypto_generichash_final(&h.state, out, 32);
	free(h.host);
	return rc;
}
