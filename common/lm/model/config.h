/* config.h - the shape of a language model of the Llama family, as read from config.json, the
 * metadata of a GGUF file or a llama2.c header, and checked. Uses jansson through common/json.
 *
 * All input is untrusted: lm_config_check holds every number to the bounds below before
 * anything multiplies them. */
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

#define LM_ROPE_FACTORS_MAX 128 /* pairs of a head with LM_ROPE_LONG */

enum lm_rope_kind {
	LM_ROPE_PLAIN,
	LM_ROPE_LINEAR, /* positions divided by factor */
	/* dynamic: the base grows beyond original_context ("dynamic" in transformers) */
	LM_ROPE_NTK,
	LM_ROPE_LONG, /* Phi 3: each frequency is divided by a factor of its own */
	LM_ROPE_LLAMA3 /* Llama 3.1: divides low frequencies by factor, with a ramp in between */
};

struct lm_rope {
	enum lm_rope_kind kind;
	double base; /* rope_theta */
	double factor;
	double low_freq_factor, high_freq_factor; /* llama3 */
	uint32_t original_context;
	uint32_t rotary; /* first dimensions of a head that are rotated; 0: all */
	double local_base; /* base of layers with a window, without scaling; 0: as the others */
	double magnitude; /* what cosines and sines are multiplied by; 0: 1 */
	/* LM_ROPE_LONG: of contexts up to original_context, and of longer ones */
	float short_factors[LM_ROPE_FACTORS_MAX], long_factors[LM_ROPE_FACTORS_MAX];
	/* How the pairs of a head are laid out. false: (i, i + head_dim/2), as in Hugging
	 * Face's files; true: (2i, 2i + 1), as in llama2.c and GGUF files, whose q and k rows
	 * are permuted accordingly. */
	bool interleaved;
};

struct lm_config {
	uint32_t vocab, dim, hidden, layers, heads, kv_heads, head_dim;
	uint32_t context; /* positions that the model was trained for */
	uint32_t window;  /* sliding attention window in tokens; 0: full attention */
	double rms_eps;
	struct lm_rope rope;
	bool tied;     /* the output projection is the embedding */
	bool qkv_bias; /* q, k and v have a bias (Qwen 2) */

	/* Properties of models beyond Llama's; zero is Llama's. These models are served, but
	 * neither trained nor exported. */
	/* every window_period-th layer sees everything, the others their window; 0: all have it */
	uint32_t window_period;
	bool qk_norm;                /* RMSNorm of each head of q and k */
	bool post_norms;             /* RMSNorm of what attention and feed-forward add */
	bool fused;                  /* q, k and v are one matrix, gate and up another */
	bool gelu;                   /* instead of SiLU */
	bool scaled_embed;           /* embeddings are multiplied by the root of dim */
	bool norms_from_1;           /* the file has the weights of norms less 1 */
	double query_scale;          /* of attention scores; 0: 1 / sqrt(head_dim) */
	double score_cap, logit_cap; /* soft caps; 0: none */

	int64_t bos; /* -1: none */
	int64_t eos[LM_EOS_MAX];
	uint32_t eos_count;
};

/* Fills in one of the presets: nano, mini, small, medium, 1b, 7b. vocab is the
 * tokenizer's size; 0: the preset's own. Returns 0, or -1 with err_set(EX_USAGE): no such
 * preset. */
int lm_config_preset(struct lm_config *c, const char *preset, uint32_t vocab);
extern const char *const lm_preset_names[]; /* ends with NULL */

/* Reads Hugging Face's config.json (model_type llama, mistral, qwen2, qwen3, gemma, gemma2,
 * gemma3_text, phi3); generation is NULL or
 * generation_config.json, whose eos and bos ids take precedence. where names the file in
 * errors. Returns 0, or -1 with err_set(EX_DATAERR). */
int lm_config_read(struct lm_config *c, const json_t *config, const json_t *generation,
	const char *where);

/* Returns a new config.json that transformers and other engines read; never NULL. dtype:
 * "float32" ... */
json_t *lm_config_write(const struct lm_config *c, const char *dtype);

/* The window of a layer; 0: full attention. */
uint32_t lm_config_window(const struct lm_config *c, uint32_t layer);

/* Dimensions of a head that are rotated. */
uint32_t lm_config_rotary(const struct lm_config *c);

/* Refuses what the code that trains and exports does not know. Returns 0, or -1 with
 * err_set(EX_DATAERR). */
int lm_config_need_llama(const struct lm_config *c, const char *what);

/* Checks every bound and every divisibility rule. Returns 0, or -1 with err_set(EX_DATAERR). */
int lm_config_check(const struct lm_config *c, const char *where);

/* Returns the number of parameters; a tied matrix counts once. */
uint64_t lm_config_params(const struct lm_config *c);

/* Returns the floating point operations that one token takes in training, forward and backward:
 * 6 per matrix parameter (the embedding's look-up is not counted, the output projection is),
 * and 12 x layers x heads x head_dim x positions / 2 for causal attention over `positions`
 * (PaLM, arXiv 2204.02311, appendix B, halved for the causal triangle). */
double lm_config_train_flop(const struct lm_config *c, uint32_t positions);

#endif
