/* export.c - writes tensors, metadata and config of a model in the formats of llama.cpp and
 * Hugging Face. */
#include "common/lm/export/export.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"
#include "common/lm/export/token.h"
#include "common/lm/model/gguf_llama.h"
#include "common/lm/model/safetensors.h"
#include "common/base/mem.h"

#define PIECE_ELEMENTS ((uint64_t)1 << 18) /* elements at a time, at least a row */

/* The export in progress: the tensors, and the order in which rows of q and k are written. */
struct job {
	const struct lm_export *e;
	bool interleaved;
	/* tensors of the layout, and perhaps one more: rope_freqs.weight */
	uint32_t count;
	struct lm_tensor *tensors;
	float *floats; /* buffer of a piece */
	unsigned char *bytes;
	uint64_t cap; /* its capacity in elements */
};

/* --- data --------------------------------------------------------------------------------- */

/* Returns the source row of row r of the result. With half-split pairs, pair i of a head is
 * rows i and i + D/2; with adjacent pairs 2i and 2i + 1. */
static uint64_t source_row(const struct job *j, enum lm_part part, uint64_t r)
{
	uint64_t d = j->e->config.head_dim, k = r % d;
	bool rotary = part == LM_Q || part == LM_K || part == LM_Q_BIAS ||
		part == LM_K_BIAS;

	if (!rotary || j->interleaved == j->e->config.rope.interleaved)
		return r;
	if (j->interleaved)
		return r - k + (k & 1) * (d / 2) + k / 2;
	return lm_layout_from_hf(&j->e->config, part, r);
}

static int read_floats(const struct job *j, uint32_t i, uint64_t from, uint64_t count,
	float *to)
{
	const struct lm_tensor *t;
	uint64_t at;

	if (!j->e->model_file)
		return j->e->read(j->e->ctx, i, from, count, to);
	t = model_file_tensor(j->e->model_file, i);
	/* rows are whole blocks, so `from` begins one */
	at = from / lm_type_block(t->type) * lm_type_block_bytes(t->type);
	lm_to_f32(to, (const unsigned char *)t->data + at, t->type, count);
	return 0;
}

/* Reads rows first..first + n of a tensor in output order: `rows` of them at once where their
 * order is unchanged. */
static int read_rows(const struct job *j, const struct lm_place *p, uint32_t i,
	uint64_t first, uint64_t n)
{
	uint64_t columns = p->shape[1];

	if (source_row(j, p->part, 1) == 1)
		return read_floats(j, i, first * columns, n * columns, j->floats);
	for (uint64_t r = 0; r < n; r++)
		if (read_floats(j, i, source_row(j, p->part, first + r) * columns,
			    columns, j->floats + r * columns) < 0)
			return -1;
	return 0;
}

/* Copies the same bytes in the output order, without any rounding. */
static int copy_rows(const struct job *j, const struct lm_place *p,
	const struct lm_tensor *t, struct io_part *out)
{
	uint64_t row = t->bytes / p->shape[0];

	if (source_row(j, p->part, 1) == 1)
		return io_part_write(out, t->data, (size_t)t->bytes);
	for (uint64_t r = 0; r < p->shape[0]; r++)
		if (io_part_write(out,
			    (const unsigned char *)t->data +
				    source_row(j, p->part, r) * row,
			    (size_t)row) < 0)
			return -1;
	return 0;
}

static int fill(void *ctx, uint64_t at, struct io_part *out)
{
	const struct job *j = ctx;
	uint32_t i = (uint32_t)at;
	enum lm_type type = j->tensors[at].type;
	struct lm_place p;
	uint64_t rows;

	if (at == j->count)
		return io_part_write(out, j->tensors[at].data,
			(size_t)j->tensors[at].bytes);
	lm_layout_at(&j->e->config, i, &p);
	if (j->e->model_file && model_file_tensor(j->e->model_file, i)->type == type)
		return copy_rows(j, &p, model_file_tensor(j->e->model_file, i), out);
	rows = j->cap / p.shape[1];
	for (uint64_t first = 0; first < p.shape[0]; first += rows) {
		uint64_t n = p.shape[0] - first < rows ? p.shape[0] - first : rows, bytes;

		if (lm_type_bytes(type, n * p.shape[1], &bytes) < 0)
			bug("rows of %" PRIu64 " as %s", p.shape[1], lm_type_name(type));
		if (read_rows(j, &p, i, first, n) < 0)
			return -1;
		lm_from_f32(j->bytes, j->floats, type, n * p.shape[1]);
		if (io_part_write(out, j->bytes, (size_t)bytes) < 0)
			return -1;
	}
	return 0;
}

/* --- tensors ------------------------------------------------------------------------------ */

static enum lm_type kept_type(const struct lm_export *e, uint32_t i)
{
	return e->model_file ? model_file_tensor(e->model_file, i)->type : LM_F32;
}

static enum lm_type gguf_type(const struct lm_export *e, enum lm_type type, uint32_t i,
	const struct lm_place *p)
{
	if (p->dims == 1)
		return LM_F32;
	if (type == LM_TYPE_UNCHANGED)
		type = kept_type(e, i);
	return p->shape[1] % lm_type_block(type) ? LM_F16 : type;
}

static enum lm_type safetensors_type(const struct lm_export *e, enum lm_type type,
	uint32_t i)
{
	if (type == LM_TYPE_UNCHANGED)
		type = kept_type(e, i);
	return lm_type_block(type) == 1 ? type : LM_F32;
}

static void job_init(struct job *j, const struct lm_export *e, enum lm_type type,
	bool gguf)
{
	uint32_t n = lm_layout_count(&e->config);

	*j = (struct job){ .e = e, .count = n, .cap = PIECE_ELEMENTS };
	/* llama.cpp permutes only llama files; its qwen2 files are like Hugging Face's */
	j->interleaved = gguf && !e->config.qkv_bias;
	j->tensors = xcalloc(n + 1, sizeof *j->tensors);
	for (uint32_t i = 0; i < n; i++) {
		struct lm_tensor *t = &j->tensors[i];
		struct lm_place p;

		lm_layout_at(&e->config, i, &p);
		(gguf ? lm_layout_gguf_name : lm_layout_hf_name)(t->name, &p);
		t->type = gguf ? gguf_type(e, type, i, &p) : safetensors_type(e, type, i);
		t->dims = p.dims;
		memcpy(t->shape, p.shape, sizeof p.shape);
		t->count = p.count;
		if (p.shape[1] > j->cap)
			j->cap = p.shape[1];
	}
	j->floats = xmalloc(j->cap * sizeof *j->floats);
	j->bytes = xmalloc(j->cap * sizeof *j->floats);
}

static void job_release(struct job *j)
{
	free((void *)j->tensors[j->count].data);
	free(j->tensors);
	free(j->floats);
	free(j->bytes);
}

/* Adds rope_freqs.weight: in GGUF, Llama 3.1's scaling is a tensor. */
static uint32_t add_factors(struct job *j)
{
	const struct lm_config *c = &j->e->config;
	struct lm_tensor *t = &j->tensors[j->count];
	uint32_t n = c->head_dim / 2;
	float *factors;

	if (c->rope.kind != LM_ROPE_LLAMA3 || c->qkv_bias)
		return j->count;
	factors = xcalloc(n, sizeof *factors);
	gguf_llama_factors(factors, &c->rope, c->head_dim);
	*t = (struct lm_tensor){ .name = "rope_freqs.weight",
		.type = LM_F32,
		.dims = 1,
		.shape = { n },
		.count = n,
		.bytes = n * sizeof *factors,
		.data = factors };
	return j->count + 1;
}

/* --- GGUF metadata ------------------------------------------------------------------------ */

/* Returns llama.cpp's number for the type of most matrices. */
static uint32_t file_type(enum lm_type type)
{
	switch (type) {
	case LM_F16:
		return 1;
	case LM_Q4_0:
		return 2;
	case LM_Q4_1:
		return 3;
	case LM_Q8_0:
		return 7;
	case LM_Q5_0:
		return 8;
	case LM_Q5_1:
		return 9;
	case LM_Q4_K: /* as Q4_K_M: some matrices are of another type */
		return 15;
	case LM_Q5_K:
		return 17;
	case LM_Q6_K:
		return 18;
	case LM_BF16:
		return 32;
	default:
		return 0;
	}
}

static void put_u32(struct gguf_meta *m, const char *architecture, const char *key,
	uint32_t v)
{
	char name[80];

	snprintf(name, sizeof name, "%s.%s", architecture, key);
	gguf_put_u32(m, name, v);
}

static void put_f32(struct gguf_meta *m, const char *architecture, const char *key,
	double v)
{
	char name[80];

	snprintf(name, sizeof name, "%s.%s", architecture, key);
	gguf_put_f32(m, name, (float)v);
}

static void put_rope(struct gguf_meta *m, const char *architecture,
	const struct lm_rope *r)
{
	char key[80];

	put_f32(m, architecture, "rope.freq_base", r->base);
	if (r->kind == LM_ROPE_LINEAR) {
		snprintf(key, sizeof key, "%s.rope.scaling.type", architecture);
		gguf_put_text(m, key, "linear", 6);
		put_f32(m, architecture, "rope.scaling.factor", r->factor);
	}
	if (r->kind == LM_ROPE_LLAMA3)
		put_u32(m, architecture, "rope.scaling.original_context_length",
			r->original_context);
}

static void put_config(struct gguf_meta *m, const struct lm_config *c)
{
	const char *a = c->qkv_bias ? "qwen2" : "llama";
	/* GGUF has no dynamic scaling; up to the original context the model works without it */
	uint32_t context = c->rope.kind == LM_ROPE_NTK ? c->rope.original_context :
							 c->context;

	put_u32(m, a, "vocab_size", c->vocab);
	put_u32(m, a, "context_length", context);
	put_u32(m, a, "embedding_length", c->dim);
	put_u32(m, a, "block_count", c->layers);
	put_u32(m, a, "feed_forward_length", c->hidden);
	put_u32(m, a, "attention.head_count", c->heads);
	put_u32(m, a, "attention.head_count_kv", c->kv_heads);
	put_u32(m, a, "attention.key_length", c->head_dim);
	put_u32(m, a, "attention.value_length", c->head_dim);
	put_f32(m, a, "attention.layer_norm_rms_epsilon", c->rms_eps);
	if (c->window)
		put_u32(m, a, "attention.sliding_window", c->window);
	put_u32(m, a, "rope.dimension_count", c->head_dim);
	put_rope(m, a, &c->rope);
}

/* Copies the tokenizer's keys from another GGUF file. */
static void copy_tokenizer(struct gguf_meta *m, const struct gguf *g)
{
	static const char begin[] = "tokenizer.";

	for (uint64_t i = 0; i < gguf_values(g); i++) {
		const struct gguf_value *v = gguf_value_at(g, i);

		if (v->key_bytes >= sizeof begin - 1 &&
			memcmp(v->key, begin, sizeof begin - 1) == 0)
			gguf_put_value(m, v);
	}
}

static int put_meta(struct gguf_meta *m, const struct job *j)
{
	const struct lm_export *e = j->e;
	const char *a = e->config.qkv_bias ? "qwen2" : "llama";
	/* the type of the first layer's gate stands for all */
	int64_t gate = lm_layout_index(&e->config, LM_GATE, 0);
	enum lm_type max = j->tensors[gate].type;

	gguf_put_text(m, "general.architecture", a, strlen(a));
	gguf_put_text(m, "general.type", "model", 5);
	if (e->name)
		gguf_put_text(m, "general.name", e->name, strlen(e->name));
	gguf_put_u32(m, "general.file_type", file_type(max));
	if (lm_type_block(max) > 1)
		gguf_put_u32(m, "general.quantization_version", 2);
	put_config(m, &e->config);
	if (e->token || !e->model_file || !model_file_gguf(e->model_file))
		return export_token_gguf(m, e->token, e->config.vocab);
	copy_tokenizer(m, model_file_gguf(e->model_file));
	return 0;
}

/* --- the two ------------------------------------------------------------------------------ */

void lm_export_model_file(struct lm_export *e, const struct model_file *s)
{
	*e = (struct lm_export){ .config = *model_file_config(s), .model_file = s };
}

int lm_export_gguf(const char *path, const struct lm_export *e, enum lm_type type)
{
	struct gguf_meta m = GGUF_META_INIT;
	struct job j;
	uint32_t n;
	int rc;

	if (lm_config_need_llama(&e->config, "exported") < 0)
		return -1;
	/* its factors are a tensor that llama.cpp reads only in llama files */
	if (e->config.rope.kind == LM_ROPE_LLAMA3 && e->config.qkv_bias)
		return err_set(EX_DATAERR,
			"GGUF has no Llama 3 rope scaling for a model of the architecture qwen2");
	job_init(&j, e, type, true);
	n = add_factors(&j);
	rc = put_meta(&m, &j);
	if (rc == 0)
		rc = gguf_write(path, &m, j.tensors, n, fill, &j);
	job_release(&j);
	gguf_meta_release(&m);
	return rc;
}

static int write_config(const char *dir, const struct job *j)
{
	static const char *const dtypes[] = { [LM_F32] = "float32",
		[LM_F16] = "float16",
		[LM_BF16] = "bfloat16" };
	int64_t gate = lm_layout_index(&j->e->config, LM_GATE, 0);
	json_t *config = lm_config_write(&j->e->config, dtypes[j->tensors[gate].type]);
	struct buf path = BUF_INIT, text = BUF_INIT;
	int rc;

	json_write(&text, config);
	buf_addc(&text, '\n');
	buf_addf(&path, "%s/config.json", dir);
	rc = io_replace(path.data, text.data, text.len, 0644);
	json_decref(config);
	buf_release(&path);
	buf_release(&text);
	return rc;
}

int lm_export_place(const char *dir, const struct lm_token *token)
{
	struct buf path = BUF_INIT;
	int rc = 0;

	buf_addf(&path, "%s/tokenizer.json", dir);
	if (!token && access(path.data, F_OK) == 0)
		rc = err_set(EX_CANTCREAT,
			"'%s' is there, and would be taken for the tokenizer of a model that has none",
			path.data);
	buf_release(&path);
	return rc;
}

int lm_export_directory(const char *dir, const struct lm_export *e, enum lm_type type)
{
	json_t *metadata;
	struct job j;
	int rc;

	if (lm_config_need_llama(&e->config, "exported") < 0 ||
		lm_export_place(dir, e->token) < 0 || io_make_dirs(dir, 0777) < 0)
		return -1;
	metadata = json_object();
	json_set_text(metadata, "format", "pt"); /* transformers requires it */
	job_init(&j, e, type, false);
	rc = safetensors_write_model(dir, j.tensors, j.count, metadata,
		SAFETENSORS_SHARD_BYTES, fill, &j);
	if (rc == 0 && e->token)
		rc = export_token_directory(dir, e->token);
	if (rc == 0)
		rc = write_config(dir, &j);
	json_decref(metadata);
	job_release(&j);
	return rc;
}
