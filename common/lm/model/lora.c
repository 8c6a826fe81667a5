/* lora.c - the tensors of an adapter, their order, names and first values. */
#include "common/lm/model/lora.h"

#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/lm/model/init.h"

#define ALL    ((1u << LM_ADAPTED) - 1)
#define PREFIX "base_model.model."
/* sequences of the generator that A takes, beside those of the whole model's tensors */
#define SEQUENCE UINT32_C(0x4c6f5200)

double lm_lora_scale(const struct lm_lora *l)
{
	return l->alpha / (l->rslora ? sqrt((double)l->rank) : (double)l->rank);
}

unsigned lm_lora_targets(const struct lm_lora *l, uint32_t layer)
{
	if (!l->rank)
		return 0;
	return l->targets ? l->targets[layer] & ALL : ALL;
}

enum lm_part lm_lora_part(enum lm_adapted which)
{
	static const enum lm_part parts[LM_ADAPTED] = { LM_Q, LM_K, LM_V, LM_O, LM_GATE,
		LM_UP, LM_DOWN };

	return parts[which];
}

uint64_t lm_lora_outputs(const struct lm_config *c, enum lm_adapted which)
{
	switch (which) {
	case LM_ADAPTED_Q:
		return (uint64_t)c->heads * c->head_dim;
	case LM_ADAPTED_K:
	case LM_ADAPTED_V:
		return (uint64_t)c->kv_heads * c->head_dim;
	case LM_ADAPTED_GATE:
	case LM_ADAPTED_UP:
		return c->hidden;
	default:
		return c->dim;
	}
}

uint64_t lm_lora_inputs(const struct lm_config *c, enum lm_adapted which)
{
	return which == LM_ADAPTED_O     ? (uint64_t)c->heads * c->head_dim :
		which == LM_ADAPTED_DOWN ? c->hidden :
					   c->dim;
}

static void place_of(const struct lm_config *c, enum lm_adapted which, uint32_t layer,
	struct lm_place *out)
{
	int64_t i = lm_layout_index(c, lm_lora_part(which), layer);

	if (i < 0)
		bug("the model has no matrix %d", (int)which);
	lm_layout_at(c, (uint32_t)i, out);
}

/* --- choosing ------------------------------------------------------------------------------ */

void lm_lora_module(char name[LM_NAME_BYTES_MAX], const struct lm_place *place)
{
	char *end;

	lm_layout_hf_name(name, place);
	end = strstr(name, ".weight");
	if (end)
		*end = '\0';
}

void lm_lora_name(char name[LM_NAME_BYTES_MAX], const struct lm_config *c,
	enum lm_adapted which, uint32_t layer)
{
	struct lm_place place;

	place_of(c, which, layer, &place);
	lm_lora_module(name, &place);
}

static int compile(regex_t *out, const char *regex)
{
	struct buf whole = BUF_INIT;
	char why[128];
	int rc;

	buf_addf(&whole, "^(%s)$", regex);
	rc = regcomp(out, buf_text(&whole), REG_EXTENDED | REG_NOSUB);
	buf_release(&whole);
	if (!rc)
		return 0;
	regerror(rc, out, why, sizeof why);
	return err_set(EX_USAGE, "'%s': %s", regex, why);
}

int lm_lora_choose(uint8_t **targets, const struct lm_config *c, const char *regex)
{
	bool words = !strchr(regex, '.'), any = false;
	uint8_t *bits;
	regex_t r;

	*targets = NULL;
	if (compile(&r, regex) < 0)
		return -1;
	bits = xcalloc(c->layers ? c->layers : 1, sizeof *bits);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		for (int which = 0; which < LM_ADAPTED; which++) {
			char name[LM_NAME_BYTES_MAX];

			lm_lora_name(name, c, (enum lm_adapted)which, layer);
			if (regexec(&r, words ? strrchr(name, '.') + 1 : name, 0, NULL,
				    0) != 0)
				continue;
			bits[layer] |= (uint8_t)(1u << which);
			any = true;
		}
	regfree(&r);
	if (!any) {
		free(bits);
		return err_set(EX_USAGE,
			"'%s' matches none of the matrices that can be adapted: q_proj, k_proj, "
			"v_proj, o_proj, gate_proj, up_proj, down_proj",
			regex);
	}
	*targets = bits;
	return 0;
}

/* --- what learns --------------------------------------------------------------------------- */

/* Returns the number of matrices that are adapted in the layers before this one. */
static uint32_t adapted_before(const struct lm_lora *l, uint32_t layer)
{
	uint32_t n = 0;

	if (!l->targets)
		return layer * (uint32_t)__builtin_popcount(lm_lora_targets(l, 0));
	for (uint32_t i = 0; i < layer; i++)
		n += (uint32_t)__builtin_popcount(lm_lora_targets(l, i));
	return n;
}

uint32_t lm_learned_count(const struct lm_config *c, const struct lm_lora *l)
{
	return l->rank ? 2 * adapted_before(l, c->layers) : lm_layout_count(c);
}

/* Finds the k-th matrix that is adapted. */
static enum lm_adapted adapted_at(const struct lm_config *c, const struct lm_lora *l,
	uint32_t k, uint32_t *layer)
{
	for (*layer = 0; *layer < c->layers; ++*layer) {
		unsigned bits = lm_lora_targets(l, *layer);
		uint32_t n = (uint32_t)__builtin_popcount(bits);

		if (k < n) {
			while (k--)
				bits &= bits - 1;
			return (enum lm_adapted)__builtin_ctz(bits);
		}
		k -= n;
	}
	bug("no such matrix of an adapter");
}

void lm_learned_at(const struct lm_config *c, const struct lm_lora *l, uint32_t i,
	struct lm_learned *out)
{
	struct lm_place *p = &out->place;
	uint32_t matrices, layer;
	enum lm_adapted which;

	out->factor = LM_FACTOR_WHOLE;
	if (!l->rank) {
		lm_layout_at(c, i, p);
		return;
	}
	matrices = lm_learned_count(c, l) / 2;
	out->factor = i < matrices ? LM_FACTOR_A : LM_FACTOR_B;
	which = adapted_at(c, l, i % matrices, &layer);
	place_of(c, which, layer, p);
	p->shape[out->factor == LM_FACTOR_A ? 0 : 1] = l->rank;
	p->count = p->shape[0] * p->shape[1];
}

int64_t lm_learned_index(const struct lm_config *c, const struct lm_lora *l,
	enum lm_factor factor, enum lm_adapted which, uint32_t layer)
{
	unsigned bits = lm_lora_targets(l, layer);
	uint32_t i;

	if (!(bits >> which & 1))
		return -1;
	i = adapted_before(l, layer) +
		(uint32_t)__builtin_popcount(bits & ((1u << which) - 1));
	return factor == LM_FACTOR_A ? i : i + lm_learned_count(c, l) / 2;
}

uint64_t lm_learned_params(const struct lm_config *c, const struct lm_lora *l)
{
	uint64_t n = 0;

	if (!l->rank)
		return lm_config_params(c);
	for (uint32_t layer = 0; layer < c->layers; layer++)
		for (unsigned bits = lm_lora_targets(l, layer); bits; bits &= bits - 1) {
			struct lm_place p;

			place_of(c, (enum lm_adapted)__builtin_ctz(bits), layer, &p);
			n += l->rank * (p.shape[0] + p.shape[1]);
		}
	return n;
}

double lm_learned_train_flop(const struct lm_config *c, const struct lm_lora *l,
	uint32_t positions)
{
	double all = lm_config_train_flop(c, positions);

	if (!l->rank)
		return all;
	/* at 0 positions it is that of the matrices: two products forward and back, one of which
	 * makes gradients */
	return all - lm_config_train_flop(c, 0) / 3 + 6 * (double)lm_learned_params(c, l);
}

void lm_learned_name(char name[LM_NAME_BYTES_MAX], const struct lm_learned *t)
{
	char module[LM_NAME_BYTES_MAX];

	if (t->factor == LM_FACTOR_WHOLE) {
		lm_layout_hf_name(name, &t->place);
		return;
	}
	lm_lora_module(module, &t->place);
	snprintf(name, LM_NAME_BYTES_MAX, PREFIX "%.80s.lora_%c.weight", module,
		t->factor == LM_FACTOR_A ? 'A' : 'B');
}

void lm_learned_init(float *to, const struct lm_config *c, const struct lm_lora *l,
	uint64_t seed, uint32_t i, uint64_t from, uint64_t count)
{
	struct lm_learned t;
	struct rng r;
	double bound;

	lm_learned_at(c, l, i, &t);
	if (t.factor == LM_FACTOR_WHOLE) {
		lm_init_read(to, c, seed, i, from, count);
		return;
	}
	bound = 1 / sqrt((double)t.place.shape[1]);
	rng_seed(&r, seed, SEQUENCE + i);
	rng_seek(&r, from / 2);
	if (from % 2)
		(void)rng_u64(&r);
	for (uint64_t k = 0; k < count; k++) {
		/* the middle of one of 2^52 steps of (-1, 1) */
		double u = ((double)(rng_u64(&r) >> 12) + 0.5) * 0x1p-51 - 1;

		to[k] = t.factor == LM_FACTOR_A ? (float)(bound * u) : 0;
	}
}
