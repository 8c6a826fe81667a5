/* config.h - the shape of a language model of the Llama family: what config.json, a GGUF's metadata
 * or a llama2.c header says, checked. Uses jansson through common/json.
 *
 * Everything comes from strangers: lm_config_check holds every number to the bounds below before
 * anybody multiplies them. */
#ifndef RNP_COMMON_LM_MODEL_CONFIG_H
#define RNP_COMMON_LM_MODEL_CONFIG_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define LM_VOCAB_MAX   (1u << 20)
#define LM_DIM_MAX     (1u << 16)
#define LM_HIDDEN_MAX  (1u << 18)
#define LM_LAYERS_MAX  1024u
#define LM_HEADS_MAX   1024u
#define LM_CONTEXT_MAX (1u << 24)
#define LM_EOS_MAX     8

enum lm_rope_kind {
	LM_ROPE_PLAIN,
	LM_ROPE_LINEAR, /* positions divided by factor */
	LM_ROPE_NTK, /* dynamic: the base grows beyond original_context (transformers: "dynamic") */
	LM_ROPE_LLAMA3 /* Llama 3.1: low frequencies divided by factor, a ramp in between */
};

struct lm_rope {
	enum lm_rope_kind kind;
	double base; /* rope_theta */
	double factor;
	double low_freq_factor, high_freq_factor; /* llama3 */
	uint32_t original_context;
	/* How pairs lie in a head: false: (i, i + head_dim/2), as in Hugging Face's files; true:
	 * (2i, 2i + 1), as in llama2.c and GGUF, whose q and k rows are permuted for it. */
	bool interleaved;
};

struct lm_config {
	uint32_t vocab, dim, hidden, layers, heads, kv_heads, head_dim;
	uint32_t context; /* positions that the model was made for */
	uint32_t window;  /* sliding attention window in tokens; 0: all before */
	double rms_eps;
	struct lm_rope rope;
	bool tied;     /* the output projection is the embedding */
	bool qkv_bias; /* q, k and v have a bias (Qwen 2) */
	int64_t bos;   /* -1: none */
	int64_t eos[LM_EOS_MAX];
	uint32_t eos_count;
};

/* Presets of training.md: nano, mini, small, medium, 1b, 7b. vocab: of the tokenizer; 0: the
 * preset's own. Returns 0, or -1 with err_set(EX_USAGE): no such preset. */
int lm_config_preset(struct lm_config *c, const char *preset, uint32_t vocab);
extern const char *const lm_preset_names[]; /* NULL at the end */

/* Hugging Face's config.json (model_type llama, mistral, qwen2); generation may be NULL or
 * generation_config.json, whose eos and bos ids win. where: for errors. Returns 0, or -1 with
 * err_set(EX_DATAERR). */
int lm_config_read(struct lm_config *c, const json_t *config, const json_t *generation,
	const char *where);

/* A new config.json that transformers and other engines read; never NULL. dtype: "float32" ... */
json_t *lm_config_write(const struct lm_config *c, const char *dtype);

/* Every bound, and what must divide what. Returns 0, or -1 with err_set(EX_DATAERR). */
int lm_config_check(const struct lm_config *c, const char *where);

/* Number of parameters; a tied matrix counts once. */
uint64_t lm_config_params(const struct lm_config *c);

/* Floating point operations of one token in training, forward and backward: 6 per parameter of a
 * matrix (the embedding's look-up not counted, the output projection counted), and 12 x layers x
 * heads x head_dim x positions / 2 for causal attention over `positions` (PaLM, arXiv 2204.02311,
 * appendix B, halved for the causal triangle). */
double lm_config_train_flop(const struct lm_config *c, uint32_t positions);

#endif
