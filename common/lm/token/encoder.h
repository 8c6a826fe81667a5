/* encoder.h - the state that one thread needs to encode, and the merging of symbols. For
 * common/lm/token/encode.c and merge.c. */
#ifndef RNP_COMMON_LM_TOKEN_ENCODER_H
#define RNP_COMMON_LM_TOKEN_ENCODER_H

#include "common/lm/token/inside.h"

struct cache_slot {
	uint64_t hash;
	uint32_t at; /* in pool: the ids, then the word */
	uint8_t bytes, ids, used;
};

struct symbol {
	uint32_t at, bytes, id; /* bytes 0: merged into the symbol before it */
	uint32_t before, after; /* TOKEN_NONE: none */
};

/* A possible merge, with the symbols as they were when it was queued, which tell whether it is
 * stale. */
struct bigram {
	union {
		uint32_t rank;
		float score;
	};
	uint32_t left, right, bytes, id;
};

struct encoder {
	struct encoder *next; /* in the list of idle encoders */
	const struct lm_token *t;
	struct pre_run run;
	struct buf *ids; /* current output */
	size_t most;     /* of them; SIZE_MAX: any number */
	/* why the text is not read further: there are more, or a word is too long */
	enum { ENCODER_ON, ENCODER_MORE, ENCODER_WORD } stop;
	struct cache_slot *slots;
	uint32_t used;
	char *pool;
	size_t pool_len;
	struct symbol *symbols;
	size_t symbols_cap;
	struct bigram *heap;
	size_t heap_len, heap_cap;
	struct buf text,
		spelled; /* of a section, with the blank before it; as the vocabulary spells it */
	struct buf word;   /* the same for a word */
	bool last_unknown; /* unknown characters in a row are one token */
};

/* Appends the ids of a word, in the vocabulary's spelling, to e->ids. */
void encoder_merge(struct encoder *e, const char *word, size_t bytes);

/* Appends one id. */
void encoder_put(struct encoder *e, uint32_t id);

#endif
