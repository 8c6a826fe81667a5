/* parts.h - what weights, cache and forward pass share with each other. Only for
 * common/lm/infer. */
#ifndef RNP_COMMON_LM_INFER_PARTS_H
#define RNP_COMMON_LM_INFER_PARTS_H

#include <stdatomic.h>

#include "common/lm/infer/adapter.h"
#include "common/lm/infer/cache.h"
#include "common/lm/infer/upload.h"
#include "kernels/lm/ops.h"

struct lm_matrix {
	enum lm_weight type;
	const void *w;
	_Atomic(const void *) packed; /* the copy that lm_pack made, once it is there */
	const float *bias;            /* or NULL */
	uint64_t n, k;
	/* which matrix of which layer adapters call it */
	uint32_t layer;
	enum lm_adapted adapted; /* LM_ADAPTED: they do not change it */
};

struct lm_layer {
	const float *attn_norm, *ffn_norm;
	const float *q_norm, *k_norm;                /* NULL: none */
	const float *attn_post_norm, *ffn_post_norm; /* NULL: none */
	struct lm_matrix q, k, v, o, gate, up, down;
};

struct lm_weights {
	const struct model_file *model_file;
	struct lm_config config;
	struct dev *d;
	struct lm_layer *layers;
	const float *out_norm;
	struct lm_matrix output;
	const struct lm_tensor *embed; /* in host memory, within the file */
	/* device memory of weights, norms and biases, freed by close */
	void **owned;
	uint32_t owned_count;
	struct lm_adapter **adapters;
	uint32_t adapter_count;
	struct lm_upload upload;    /* while they are loaded */
	struct lm_packing *packing; /* weights_pack.c; NULL: nothing is packed */
};

/* Stops the thread of lm_weights_pack, and frees what it made. */
void lm_weights_unpack(struct lm_weights *w);

/* Columns of a row that holds all heads of q, or of k or v. */
static inline uint64_t lm_q_dim(const struct lm_config *c)
{
	return (uint64_t)c->heads * c->head_dim;
}

static inline uint64_t lm_kv_dim(const struct lm_config *c)
{
	return (uint64_t)c->kv_heads * c->head_dim;
}

/* Allocates `count` floats on the device. Returns 0 and *out, or -1 with err_set(). */
int lm_infer_alloc(struct dev *d, float **out, uint64_t count);

/* Return the keys, or the values, of a layer in page 0: [LM_PAGE][kv_dim]. Those in page i lie i
 * times the stride further on, in bytes. */
void *lm_cache_keys(struct lm_cache *c, uint32_t layer);
void *lm_cache_values(struct lm_cache *c, uint32_t layer);
uint64_t lm_cache_stride(const struct lm_cache *c);
enum lm_cache_type lm_cache_type(const struct lm_cache *c);

#endif
