/* vocabulary.h - the texts of all tokens as a trie, and what they do in any string. For
 * common/lm/grammar only. */
#ifndef RNP_COMMON_LM_GRAMMAR_VOCABULARY_H
#define RNP_COMMON_LM_GRAMMAR_VOCABULARY_H

#include "common/lm/grammar/step.h"

struct node {
	uint32_t skip;  /* the next node that is not below this one */
	uint32_t first; /* of its own tokens, in the order of texts */
	uint16_t tokens;
	uint16_t depth;
	uint8_t byte;
};

struct pop {
	uint32_t node, label;
};

/* The effects of tokens on the text above one frame. */
struct local {
	struct frame frame;
	uint32_t slack; /* containers that may still be opened, as far as it matters */
	uint64_t *bits;
	struct pop *pops; /* where they leave it with more to come; by node */
	size_t pop_count, pops_cap;
};

/* A node in any string. */
struct within {
	/* characters that end by this node, and with a part of one more that one, too */
	uint16_t chars;
	bool plain; /* the node is in the string, at the end of a character */
	bool closes;
};

struct lm_vocabulary {
	uint32_t count, words;
	struct lm_vocabulary_token *tokens;
	char *pool;
	uint32_t *order; /* tokens with a text, by text */
	uint32_t order_count;
	struct node *nodes; /* 0: the root */
	size_t node_count, nodes_cap;
	uint32_t depth_max, opens_max; /* bytes of a token; of them brackets that open */
	struct lm_grammar *any;
	struct local plain; /* of any string */
	/* [node_count]: from a plain node on, the plain walk is the walk from any such place */
	struct within *within;
	uint32_t *closes, close_count; /* nodes that close a string */
	/* the tokens of plain.bits, by the characters that they need; where those that need so many
	 * end: [depth_max + 1] */
	uint32_t *fits, *fits_end;
};

/* Whether bits, of all tokens, have one; adds or removes it. */
static inline bool allows(const uint64_t *bits, uint32_t token)
{
	return bits[token / 64] >> token % 64 & 1;
}

static inline void allow(uint64_t *bits, uint32_t token)
{
	bits[token / 64] |= UINT64_C(1) << token % 64;
}

static inline void forbid(uint64_t *bits, uint32_t token)
{
	bits[token / 64] &= ~(UINT64_C(1) << token % 64);
}

/* Finds what tokens do above v->plain.frame, in a string of v->any (mask.c). */
void mask_find_plain(struct lm_vocabulary *v);
void local_release(struct local *l);

#endif
