/* llama2c.c - reads the arrays of a llama2.c file as tensors. */
#include "common/lm/model/llama2c.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/map.h"
#include "common/base/mem.h"

#define HEADER_BYTES 28

struct llama2c {
	struct lm_map map; /* unused when the memory is borrowed */
	struct lm_config config;
	struct lm_tensor *tensors;
};

static int read_header(struct lm_config *c, const unsigned char *data, uint64_t bytes,
	const char *where)
{
	int32_t v[7];

	if (bytes < HEADER_BYTES)
		return err_set(EX_DATAERR, "%s: %" PRIu64 " bytes are no llama2.c model",
			where, bytes);
	memcpy(v, data, sizeof v);
	for (int i = 0; i < 7; i++)
		if (v[i] < 1 && (i != 5 || v[i] == 0 || v[i] == INT32_MIN))
			return err_set(EX_DATAERR,
				"%s: no llama2.c model: number %d of its header is %" PRId32,
				where, i + 1, v[i]);
	*c = (struct lm_config){
		.dim = (uint32_t)v[0],
		.hidden = (uint32_t)v[1],
		.layers = (uint32_t)v[2],
		.heads = (uint32_t)v[3],
		.kv_heads = (uint32_t)v[4],
		.vocab = (uint32_t)abs(v[5]),
		.context = (uint32_t)v[6],
		.rms_eps = 1e-5,
		.rope = { .kind = LM_ROPE_PLAIN,
			.base = 10000,
			.factor = 1,
			.interleaved = true },
		.tied = v[5] > 0,
		.bos = -1,
	};
	if (c->dim % c->heads)
		return err_set(EX_DATAERR,
			"%s: no llama2.c model: a width of %" PRIu32 " for %" PRIu32
			" heads",
			where, c->dim, c->heads);
	c->head_dim = c->dim / c->heads;
	if (c->vocab > 2) {
		c->bos = 1;
		c->eos[c->eos_count++] = 2;
	}
	return lm_config_check(c, where);
}

/* The parts in file order. */
static const enum lm_part order[] = { LM_EMBED, LM_ATTN_NORM, LM_Q, LM_K, LM_V, LM_O,
	LM_FFN_NORM, LM_GATE, LM_DOWN, LM_UP, LM_OUT_NORM, LM_OUTPUT };

/* Computes where every tensor lies; returns the size of the whole file in bytes. Sums stay
 * below 2^63: see the bounds of config.h. */
static uint64_t place_all(struct llama2c *l, const unsigned char *data)
{
	const struct lm_config *c = &l->config;
	uint64_t at = HEADER_BYTES;

	for (size_t k = 0; k < sizeof order / sizeof *order; k++) {
		if (order[k] == LM_OUTPUT && !c->tied)
			at += 4 * (uint64_t)c->context * (c->head_dim / 2) * 2;
		for (uint32_t layer = 0; layer < c->layers; layer++) {
			int64_t i = lm_layout_index(c, order[k], layer);
			struct lm_place p;
			struct lm_tensor *t;

			if (i < 0)
				break;
			lm_layout_at(c, (uint32_t)i, &p);
			t = &l->tensors[i];
			lm_layout_hf_name(t->name, &p);
			memcpy(t->type_name, "F32", 4);
			t->type = LM_F32;
			t->dims = p.dims;
			memcpy(t->shape, p.shape, sizeof p.shape);
			t->count = p.count;
			t->bytes = 4 * p.count;
			t->data = data ? data + at : NULL;
			at += t->bytes;
			if (p.part == LM_EMBED || p.part >= LM_OUT_NORM)
				break; /* only one, outside the layers */
		}
	}
	if (c->tied) /* the file then ends with the rotary tables */
		at += 4 * (uint64_t)c->context * (c->head_dim / 2) * 2;
	return at;
}

static int read_all(struct llama2c *l, const unsigned char *data, uint64_t bytes,
	const char *where)
{
	uint64_t want;

	if (read_header(&l->config, data, bytes, where) < 0)
		return -1;
	l->tensors = xcalloc(lm_layout_count(&l->config), sizeof *l->tensors);
	want = place_all(l, NULL);
	if (want != bytes)
		return err_set(EX_DATAERR,
			"%s: no llama2.c model: %" PRIu64
			" bytes, but its header makes %" PRIu64,
			where, bytes, want);
	place_all(l, data);
	return 0;
}

static int finish(struct llama2c **out, struct llama2c *l, int rc)
{
	if (rc < 0) {
		llama2c_close(l);
		l = NULL;
	}
	*out = l;
	return rc;
}

int llama2c_read(struct llama2c **out, const void *data, uint64_t bytes,
	const char *where)
{
	struct llama2c *l = xcalloc(1, sizeof *l);

	return finish(out, l, read_all(l, data, bytes, where));
}

int llama2c_open(struct llama2c **out, const char *path)
{
	struct llama2c *l = xcalloc(1, sizeof *l);
	int rc = lm_map_open(&l->map, path);

	if (rc == 0)
		rc = read_all(l, l->map.data, l->map.bytes, path);
	return finish(out, l, rc);
}

void llama2c_close(struct llama2c *l)
{
	if (!l)
		return;
	lm_map_close(&l->map);
	free(l->tensors);
	free(l);
}

const struct lm_config *llama2c_config(const struct llama2c *l)
{
	return &l->config;
}

const struct lm_tensor *llama2c_tensor(const struct llama2c *l, uint32_t i)
{
	return &l->tensors[i];
}
