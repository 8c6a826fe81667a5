/* model_file.c - lm/source and lm/llama2c: one model from three formats; what is missing,
 * misshapen or too much is said in one line. */
#include "common/lm/model/model_file.h"

#include <math.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/io.h"
#include "common/json/json.h"
#include "common/lm/model/gguf_llama.h"
#include "common/lm/model/llama2c.h"
#include "common/lm/model/safetensors.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

static char dir[] = "/tmp/rnp-source-XXXXXX";

static const char *in_dir(const char *name)
{
	static struct buf path;

	buf_reset(&path);
	buf_addf(&path, "%s/%s", dir, name);
	return path.data;
}

static struct lm_config shape(bool tied, bool bias)
{
	struct lm_config c = { .vocab = 20,
		.dim = 32,
		.hidden = 40,
		.layers = 2,
		.heads = 4,
		.kv_heads = 2,
		.head_dim = 8,
		.context = 16,
		.rms_eps = 1e-5,
		.rope = { .base = 10000, .factor = 1 },
		.tied = tied,
		.qkv_bias = bias,
		.bos = -1 };

	return c;
}

/* --- llama2.c ----------------------------------------------------------------------------- */

/* Number i of the file after the header is i. */
static void put_llama2c(struct buf *b, const struct lm_config *c)
{
	int32_t head[7] = { (int32_t)c->dim, (int32_t)c->hidden, (int32_t)c->layers,
		(int32_t)c->heads, (int32_t)c->kv_heads,
		c->tied ? (int32_t)c->vocab : -(int32_t)c->vocab, (int32_t)c->context };
	uint64_t n = lm_config_params(c) + (uint64_t)c->context * c->head_dim;

	buf_reset(b);
	buf_add(b, head, sizeof head);
	for (uint64_t i = 0; i < n; i++) {
		float x = (float)i;

		buf_add(b, &x, sizeof x);
	}
}

static float first(const struct llama2c *l, enum lm_part part, uint32_t layer)
{
	int64_t i = lm_layout_index(llama2c_config(l), part, layer);
	float x = -1;

	CHECK(i >= 0);
	if (i >= 0)
		memcpy(&x, llama2c_tensor(l, (uint32_t)i)->data, sizeof x);
	return x;
}

/* Places worked out by hand: 20 x 32; 2 x 32; q 2 x 1024; k and v 2 x 512; o 2 x 1024; 2 x 32;
 * gate, down and up 2 x 1280; 32; tables 16 x 8. */
static void check_llama2c(void)
{
	struct lm_config c = shape(false, false);
	struct buf b = BUF_INIT;
	struct llama2c *l = NULL;

	put_llama2c(&b, &c);
	CHECK_I64(0, llama2c_read(&l, b.data, b.len, "test"));
	if (l) {
		CHECK(llama2c_config(l)->rope.interleaved && !llama2c_config(l)->tied);
		CHECK(first(l, LM_EMBED, 0) == 0);
		CHECK(first(l, LM_ATTN_NORM, 1) == 640 + 32);
		CHECK(first(l, LM_Q, 1) == 704 + 1024);
		CHECK(first(l, LM_K, 1) == 2752 + 512);
		CHECK(first(l, LM_V, 0) == 3776);
		CHECK(first(l, LM_O, 0) == 4800);
		CHECK(first(l, LM_FFN_NORM, 0) == 6848);
		CHECK(first(l, LM_GATE, 0) == 6912);
		CHECK(first(l, LM_DOWN, 1) == 9472 + 1280);
		CHECK(first(l, LM_UP, 0) == 12032);
		CHECK(first(l, LM_OUT_NORM, 0) == 14592);
		CHECK(first(l, LM_OUTPUT, 0) == 14624 + 128);
	}
	llama2c_close(l);
	for (size_t n = 0; n < b.len; n += n < 32 ? 1 : 9973)
		CHECK_FAILS(EX_DATAERR, llama2c_read(&l, b.data, n, "test"));
	buf_adds(&b, "x");
	CHECK_FAILS(EX_DATAERR, llama2c_read(&l, b.data, b.len, "test"));
	c.tied = true;
	put_llama2c(&b, &c);
	CHECK_I64(0, llama2c_read(&l, b.data, b.len, "test"));
	CHECK(l && llama2c_config(l)->tied && first(l, LM_OUT_NORM, 0) == 14592);
	llama2c_close(l);
	for (size_t at = 0; at < 28; at += 4) { /* numbers that are none, or huge */
		static const int32_t bad[] = { 0, -1, INT32_MIN, INT32_MAX, 7 };

		for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
			put_llama2c(&b, &c);
			memcpy(b.data + at, &bad[i], sizeof *bad);
			CHECK_FAILS(EX_DATAERR, llama2c_read(&l, b.data, b.len, "test"));
		}
	}
	buf_release(&b);
}

/* --- models on disk ----------------------------------------------------------------------- */

static int fill(void *ctx, uint64_t i, struct io_part *out)
{
	const struct lm_tensor *t = (const struct lm_tensor *)ctx + i;
	uint64_t bytes = 0;
	char *zeros;
	int rc;

	CHECK_I64(0, lm_type_bytes(t->type, t->count, &bytes));
	zeros = xcalloc((size_t)bytes, 1);
	if (strcmp(t->name, "rope_freqs.weight") == 0)
		memcpy(zeros, t->data, bytes);
	rc = io_part_write(out, zeros, (size_t)bytes);
	free(zeros);
	return rc;
}

/* All tensors of c under their names; more is room for others. */
static struct lm_tensor *list(const struct lm_config *c, bool gguf, uint32_t more)
{
	uint32_t n = lm_layout_count(c);
	struct lm_tensor *t = xcalloc(n + more, sizeof *t);

	for (uint32_t i = 0; i < n; i++) {
		struct lm_place p;

		lm_layout_at(c, i, &p);
		(gguf ? lm_layout_gguf_name : lm_layout_hf_name)(t[i].name, &p);
		t[i].type = LM_F32;
		t[i].dims = p.dims;
		memcpy(t[i].shape, p.shape, sizeof p.shape);
		t[i].count = p.count;
	}
	return t;
}

static void put_config(const struct lm_config *c)
{
	json_t *v = lm_config_write(c, "float32");
	struct buf text = BUF_INIT;

	json_write(&text, v);
	CHECK_I64(0, io_replace(in_dir("config.json"), text.data, text.len, 0600));
	json_decref(v);
	buf_release(&text);
}

static int open_of(const char *path, const char *says)
{
	struct model_file *s = NULL;
	int rc = model_file_open(&s, path);

	rc = rc < 0 ? err_get()->code : 0;
	if (says && !strstr(err_get()->text, says)) {
		test_failures++;
		fprintf(stderr, "'%s' lacks '%s'\n", err_get()->text, says);
	}
	err_clear();
	model_file_close(s);
	return rc;
}

static void put_model(const struct lm_tensor *t, uint32_t n)
{
	CHECK_I64(0,
		safetensors_write_model(dir, t, n, NULL, UINT64_MAX, fill, (void *)t));
}

static void check_directory(void)
{
	struct lm_config c = shape(false, true);
	struct lm_tensor *t = list(&c, false, 1);
	uint32_t n = lm_layout_count(&c);

	CHECK_I64(EX_NOINPUT, open_of(in_dir("none"), "cannot open"));
	CHECK_I64(EX_NOINPUT, open_of(dir, "config.json"));
	put_config(&c);
	CHECK_I64(EX_NOINPUT, open_of(dir, "model.safetensors"));
	put_model(t, n);
	CHECK_I64(0, open_of(dir, NULL));
	CHECK_I64(EX_DATAERR, open_of(in_dir("model.safetensors"), "give the directory"));
	put_model(t, n - 1);
	CHECK_I64(EX_DATAERR, open_of(dir, "'lm_head.weight' is missing"));
	t[n] = (struct lm_tensor){ .name = "model.layers.0.self_attn.q_norm.weight",
		.type = LM_F32,
		.dims = 1,
		.shape = { 8 },
		.count = 8 };
	put_model(t, n + 1);
	CHECK_I64(EX_DATAERR, open_of(dir, "q_norm.weight' has no place"));
	strcpy(t[n].name, "model.layers.0.self_attn.rotary_emb.inv_freq");
	put_model(t, n + 1);
	CHECK_I64(0, open_of(dir, NULL));
	t[3].shape[0] = 32, t[3].shape[1] = 16; /* k turned round */
	put_model(t, n);
	CHECK_I64(EX_DATAERR, open_of(dir, "k_proj.weight' is not [16, 32]"));
	t[3].shape[0] = 16, t[3].shape[1] = 32, t[3].type = LM_I32;
	put_model(t, n);
	CHECK_I64(EX_DATAERR, open_of(dir, "is of type I32"));
	t[3].type = LM_F16;
	put_model(t, n);
	CHECK_I64(0, open_of(dir, NULL));
	c.tied = true; /* an output that is the embedding again is passed over */
	put_config(&c);
	CHECK_I64(0, open_of(dir, NULL));
	CHECK_I64(0,
		io_replace(in_dir("generation_config.json"), "{\"eos_token_id\":20}", 19,
			0600));
	CHECK_I64(EX_DATAERR, open_of(dir, "not in the vocabulary of 20"));
	CHECK_I64(0, io_replace(in_dir("generation_config.json"), "[]", 2, 0600));
	CHECK_I64(EX_DATAERR, open_of(dir, "generation_config.json: not a JSON object"));
	free(t);
}

/* Metadata of c as a file of llama.cpp has it. */
static void put_meta(struct gguf_meta *m, const struct lm_config *c)
{
	gguf_meta_release(m);
	gguf_put_text(m, "general.architecture", "llama", 5);
	gguf_put_u32(m, "llama.context_length", c->context);
	gguf_put_u32(m, "llama.embedding_length", c->dim);
	gguf_put_u32(m, "llama.block_count", c->layers);
	gguf_put_u32(m, "llama.feed_forward_length", c->hidden);
	gguf_put_u32(m, "llama.attention.head_count", c->heads);
	gguf_put_u32(m, "llama.attention.head_count_kv", c->kv_heads);
	gguf_put_f32(m, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static int gguf_code(const struct gguf_meta *m, struct lm_tensor *t, uint32_t n,
	const char *says)
{
	char *path = xstrdup(in_dir("m.gguf"));
	int code;

	CHECK_I64(0, gguf_write(path, m, t, n, fill, t));
	code = open_of(path, says);
	free(path);
	return code;
}

/* A factor is that of linear scaling, with its type or without one, and of none where the type says
 * so. */
static void check_linear(struct gguf_meta *m, struct lm_tensor *t, uint32_t n,
	const struct lm_config *c)
{
	static const char *const types[] = { NULL, "linear", "none" };
	struct model_file *s;

	for (size_t i = 0; i < 3; i++) {
		put_meta(m, c);
		gguf_put_f32(m, "llama.rope.scaling.factor", 4);
		if (types[i])
			gguf_put_text(m, "llama.rope.scaling.type", types[i],
				strlen(types[i]));
		CHECK_I64(0, gguf_code(m, t, n, NULL));
		CHECK_I64(0, model_file_open(&s, in_dir("m.gguf")));
		CHECK(s &&
			model_file_config(s)->rope.kind ==
				(i < 2 ? LM_ROPE_LINEAR : LM_ROPE_PLAIN) &&
			model_file_config(s)->rope.factor == (i < 2 ? 4 : 1));
		model_file_close(s);
	}
}

static void check_gguf(void)
{
	struct lm_config c = shape(true, false);
	struct gguf_meta m = GGUF_META_INIT;
	struct lm_tensor *t = list(&c, true, 1);
	uint32_t n = lm_layout_count(&c);
	struct model_file *s = NULL;

	put_meta(&m, &c);
	CHECK_I64(0, gguf_code(&m, t, n, NULL));
	CHECK_I64(0, model_file_open(&s, in_dir("m.gguf")));
	if (s) {
		const struct lm_config *got = model_file_config(s);

		CHECK(got->rope.interleaved && got->tied && got->kv_heads == 2 &&
			got->vocab == 20 && got->head_dim == 8 && got->bos == -1);
		CHECK_TEXT("blk.1.attn_k.weight",
			model_file_tensor(s, (uint32_t)lm_layout_index(got, LM_K, 1))
				->name);
		CHECK(model_file_format(s) == LM_FORMAT_GGUF && model_file_gguf(s));
		CHECK(!model_file_tokenizer(s));
	}
	model_file_close(s);
	gguf_put_texts(&m, "tokenizer.ggml.tokens");
	for (int i = 0; i < 20; i++)
		gguf_add_text(&m, "abcdefghijklmnopqrst" + i, 1);
	CHECK_I64(0, gguf_code(&m, t, n, NULL));
	CHECK_I64(0, model_file_open(&s, in_dir("m.gguf")));
	if (s)
		CHECK_TEXT(in_dir("m.gguf"), model_file_tokenizer(s));
	model_file_close(s);
	put_meta(&m, &c);
	gguf_put_u32(&m, "tokenizer.ggml.bos_token_id", GGUF_NO_TOKEN);
	CHECK_I64(0, gguf_code(&m, t, n, NULL));
	gguf_put_u32(&m, "tokenizer.ggml.eos_token_id", 20);
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n, "last token 20"));
	put_meta(&m, &c);
	gguf_put_u32(&m, "llama.vocab_size", 21);
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n, "20 rows for 21 tokens"));
	put_meta(&m, &c);
	gguf_put_u32(&m, "llama.expert_count", 8);
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n, "8 experts"));
	put_meta(&m, &c);
	gguf_put_text(&m, "llama.rope.scaling.type", "yarn", 4);
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n, "rope scaling 'yarn'"));
	check_linear(&m, t, n, &c);
	put_meta(&m, &c);
	gguf_put_u32(&m, "llama.rope.dimension_count", 3);
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n, "3 rotary dimensions"));
	put_meta(&m, &c);
	gguf_put_f32(&m, "llama.rope.freq_base", NAN);
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n, "rope base"));
	put_meta(&m, &c);
	strcpy(t[n].name, "blk.0.attn_q_norm.weight");
	t[n].type = LM_F32, t[n].dims = 1, t[n].shape[0] = t[n].count = 8;
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n + 1, "has no place"));
	gguf_meta_release(&m);
	gguf_put_text(&m, "general.architecture", "gpt2", 4);
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n, "not llama, qwen2,"));
	gguf_meta_release(&m);
	free(t);
}

/* Factors of Llama 3.1 at the ends: high frequencies stay, low ones are divided. */
static void check_rope_freqs(void)
{
	struct lm_config c = shape(true, false);
	struct gguf_meta m = GGUF_META_INIT;
	struct lm_tensor *t = list(&c, true, 1);
	uint32_t n = lm_layout_count(&c);
	struct model_file *s = NULL;
	float factors[4];

	c.rope = (struct lm_rope){ .kind = LM_ROPE_LLAMA3,
		.base = 500000,
		.factor = 8,
		.low_freq_factor = 1,
		.high_freq_factor = 4,
		.original_context = 8192 };
	gguf_llama_factors(factors, &c.rope, 8);
	CHECK(factors[0] == 1 && factors[1] == 1 && factors[3] == 8);
	/* 500000^(2/4) x 2 pi is 4443: 1.844 periods; (1.844 - 1) / 3 of the way */
	CHECK(fabsf(factors[2] - 1 / ((1 - 0.2813f) / 8 + 0.2813f)) < 2e-3f);
	put_meta(&m, &c);
	gguf_put_f32(&m, "llama.rope.freq_base", 500000);
	strcpy(t[n].name, "rope_freqs.weight");
	t[n].type = LM_F32, t[n].dims = 1, t[n].shape[0] = t[n].count = 4;
	t[n].data = factors;
	CHECK_I64(0, gguf_code(&m, t, n + 1, NULL));
	CHECK_I64(0, model_file_open(&s, in_dir("m.gguf")));
	CHECK(s && model_file_config(s)->rope.kind == LM_ROPE_LLAMA3 &&
		model_file_config(s)->rope.factor == 8 &&
		model_file_config(s)->rope.original_context == 8192);
	model_file_close(s);
	factors[2] += 0.5f;
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n + 1, "is not Llama 3.1's scaling"));
	factors[3] = NAN;
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n + 1, "rope"));
	t[n].shape[0] = t[n].count = 3;
	CHECK_I64(EX_DATAERR, gguf_code(&m, t, n + 1, "not 4 numbers"));
	gguf_meta_release(&m);
	free(t);
}

/* --- without a file ------------------------------------------------------------------------ */

static void check_numbers(const struct lm_tensor *t, bool norm)
{
	float *x = xmalloc(t->count * sizeof *x);
	double sum = 0, squares = 0, n = (double)t->count;
	bool first_again = true;

	lm_to_f32(x, t->data, t->type, t->count);
	for (uint64_t i = 0; i < t->count; i++) {
		CHECK(isfinite(x[i]));
		sum += x[i], squares += (double)x[i] * x[i];
	}
	if (t->dims == 1) {
		CHECK(sum == (norm ? n : 0) && squares == sum);
	} else {
		CHECK(fabs(sum / n) < 0.005);
		CHECK(fabs(sqrt(squares / n) - 0.02) < 0.002);
		for (uint64_t i = 0; i < t->shape[1]; i++)
			first_again = first_again && x[i] == x[t->shape[1] + i];
		CHECK(!first_again);
	}
	free(x);
}

/* Every type: all tensors in their shapes, numbers as promised, the same again from the same seed
 * and others from another. */
static void check_made(void)
{
	static const enum lm_type types[] = { LM_F32, LM_F16, LM_BF16, LM_Q8_0, LM_Q4_0 };
	struct lm_config c = shape(false, true);
	struct model_file *s[3] = { 0 };
	uint64_t bytes;

	c.hidden = 64; /* whole blocks */
	for (size_t k = 0; k < sizeof types / sizeof *types; k++) {
		uint64_t sum = 0, want;

		for (int i = 0; i < 3; i++)
			CHECK_I64(0,
				model_file_make(&s[i], &bytes, &c, types[k], i == 2));
		CHECK(model_file_format(s[0]) == LM_FORMAT_MADE);
		CHECK(!model_file_tokenizer(s[0]) && !model_file_gguf(s[0]));
		for (uint32_t i = 0; i < lm_layout_count(&c); i++) {
			const struct lm_tensor *t = model_file_tensor(s[0], i);
			struct lm_place p;

			lm_layout_at(&c, i, &p);
			CHECK(t->count == p.count && t->dims == p.dims);
			CHECK(t->type == (p.dims == 1 ? LM_F32 : types[k]));
			CHECK_I64(0, lm_type_bytes(t->type, t->count, &want));
			CHECK(t->bytes == want);
			sum += want;
			check_numbers(t,
				p.part == LM_ATTN_NORM || p.part == LM_FFN_NORM ||
					p.part == LM_OUT_NORM);
			CHECK(memcmp(t->data, model_file_tensor(s[1], i)->data, want) ==
				0);
			CHECK((memcmp(t->data, model_file_tensor(s[2], i)->data, want) ==
				      0) == (p.dims == 1));
		}
		CHECK(bytes >= sum && bytes < sum + 64 * (uint64_t)lm_layout_count(&c));
		for (int i = 0; i < 3; i++)
			model_file_close(s[i]);
	}
	CHECK_I64(0, model_file_make(NULL, &bytes, &c, LM_F32, 0));
	c.hidden = 40;
	CHECK_I64(-1, model_file_make(&s[0], NULL, &c, LM_Q4_0, 0));
	CHECK(!s[0] && err_get()->code == EX_USAGE);
	CHECK_I64(-1, model_file_make(&s[0], NULL, &c, LM_I8, 0));
	CHECK(err_get()->code == EX_USAGE);
	c.heads = 3;
	CHECK_I64(-1, model_file_make(&s[0], NULL, &c, LM_F32, 0));
	CHECK(err_get()->code == EX_DATAERR);
	err_clear();
}

int main(void)
{
	struct buf command = BUF_INIT;

	CHECK(mkdtemp(dir) != NULL);
	check_llama2c();
	check_directory();
	check_gguf();
	check_rope_freqs();
	check_made();
	buf_addf(&command, "rm -r '%s'", dir);
	CHECK_I64(0, system(command.data));
	buf_release(&command);
	TEST_END();
}
