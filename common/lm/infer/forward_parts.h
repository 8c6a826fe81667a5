/* forward_parts.h - what the passes of forward.c and the layers of forward_layer.c share. Only for
 * these. */
#ifndef RNP_COMMON_LM_INFER_FORWARD_PARTS_H
#define RNP_COMMON_LM_INFER_FORWARD_PARTS_H

#include "common/lm/infer/forward.h"
#include "common/lm/infer/parts.h"
#include "common/lm/infer/replay.h"

#define FORWARD_LAST_ROWS LM_LOGITS_MAX /* that the last layer can be restricted to */

/* Columns of `indices` and `host`: one number for each row. CHOSEN: the rows whose logits are
 * wanted; then their positions and tables. */
enum column { POSITION, SLOT, TABLE, CHOSEN, CHOSEN_POSITION, CHOSEN_TABLE, COLUMNS };

struct lm_forward {
	const struct lm_weights *w;
	struct lm_cache *cache;
	struct lm_forward_limits limits;

	/* in device memory */
	float *table;         /* rotary positions of the context */
	float *local_table;   /* those of layers with a window, where they differ */
	float *x, *h;         /* [rows][dim] */
	float *q, *a;         /* [rows][heads head_dim] */
	float *k, *v;         /* [rows][kv_heads head_dim]; k lies after the rows of q */
	float *gu, *y;        /* [rows][2 hidden], [rows][hidden] */
	struct lm_block8 *x8; /* activations of the next quantised products */
	struct lm_block8 *y8; /* y, where the operation that makes it quantises it, too */
	float *low;           /* [rows][rank] of adapters; NULL: there are none */
	float *gathered;      /* [FORWARD_LAST_ROWS][dim]: rows of x that lie apart */
	float *logits;        /* [logits_rows()][vocab] */
	uint32_t *indices;    /* the device's copy of `host` */

	/* in host memory */
	float *embedded, *scores; /* copies of x and logits */
	uint32_t *host;           /* the columns, then lists of pages */
	bool sent;                /* the device may still read embedded and host */
	uint32_t rows;   /* of the current pass, or of them those in its last layer */
	uint32_t wanted; /* rows of the pass whose logits are wanted */
	bool narrowed;   /* only those are left, in `gathered` */
	const struct lm_row *pass;
	bool adapts;     /* some row has an adapter */
	uint32_t scored; /* wanted rows that came before those that are scored */
	uint32_t keys_max;
	bool apart;                /* no two rows are of one sequence */
	struct lm_replays replays; /* by rows, less one */
};

static inline const struct lm_ops *forward_ops(const struct lm_forward *f)
{
	return f->w->d->ops->lm;
}

static inline uint32_t *forward_column(const struct lm_forward *f, enum column which)
{
	return f->indices + which * f->limits.rows;
}

static inline uint32_t *forward_host_column(const struct lm_forward *f, enum column which)
{
	return f->host + which * f->limits.rows;
}

/* Computes layer i for the rows of the pass; behind the last only those may be left whose logits
 * are wanted. Returns 0, or -1 with err_set(). */
int forward_layer(struct lm_forward *f, uint32_t i);

/* Computes the logits of n rows of x. Returns 0, or -1 with err_set(). */
int forward_logits(struct lm_forward *f, const float *x, uint32_t n);

#endif
