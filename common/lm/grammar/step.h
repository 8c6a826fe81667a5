/* step.h - what a byte does to the places in a grammar where a text may be. For common/lm/grammar
 * only.
 *
 * A place is a frame on top of a stack; a text may be at several places at once (anyOf). Frames
 * below lie in a pool, each once, so that equal stacks are the same number. */
#ifndef RNP_COMMON_LM_GRAMMAR_STEP_H
#define RNP_COMMON_LM_GRAMMAR_STEP_H

#include "common/lm/grammar/program.h"

#define PLACES_MAX 32

enum frame_kind {
	FRAME_END,
	FRAME_BASE,
	FRAME_BYTES,
	FRAME_STRING,
	FRAME_KEY,
	FRAME_OBJECT,
	FRAME_ARRAY,
	FRAME_SEQUENCE
};

/* Where an object or an array is. */
enum frame_phase {
	OPENED,    /* after its bracket */
	WANTS_KEY, /* after a comma */
	KEYED,     /* after a key */
	WANTS_VALUE,
	VALUED, /* after a value */
	/* of texts */
	PLAIN,
	UTF8,       /* within a character: left bytes more */
	ESCAPE,     /* after a backslash */
	HEX,        /* left digits more */
	LOW_ESCAPE, /* a low surrogate has to follow */
	LOW_U,
	LOW_HEX
};

struct frame {
	uint8_t kind, phase;
	/* that have come here: 0, 1 a blank, 2 and more a line break and so many - 2 */
	uint8_t blanks;
	uint8_t left;
	uint32_t id; /* automaton, string, object, array or sequence */
	/* of the automaton; KEYED and later: the value's node; SEQUENCE: item */
	uint32_t state;
	uint32_t count;            /* characters, items, or bytes of a literal */
	uint32_t code;             /* of a character that is being read */
	uint32_t high;             /* surrogate */
	uint64_t seen[SEEN_WORDS]; /* names that an object has */
};

struct place {
	struct frame top;
	uint32_t below; /* in the pool */
	uint32_t depth; /* containers */
};

struct below {
	struct frame frame;
	uint32_t below, depth, next; /* next: of its slot in the index */
};

struct pool {
	/* 0: the end of everything; 1: what a walk does not look below */
	struct below *at;
	size_t count, cap;
	uint32_t *index, mask;
};

void pool_init(struct pool *p);
void pool_release(struct pool *p);

struct places {
	struct place at[PLACES_MAX];
	uint32_t count;
	bool overflow; /* there were more; those are lost */
	/* what left the lowest frame of a walk: with which labels (LABEL_NONE: without) */
	uint32_t based[PLACES_MAX];
	uint32_t based_count;
};
#define LABEL_NONE UINT32_MAX

/* Adds to `to` the places that a byte leads to from `from`. */
void step(const struct lm_grammar *g, struct pool *p, const struct place *from,
	uint8_t byte, struct places *to);

/* The places after the frame below, which a walk had not looked at; label: of the key that
 * ended. */
void step_out(const struct lm_grammar *g, struct pool *p, uint32_t below, uint32_t label,
	struct places *to);

/* Whether everything above a frame of this kind (END: the whole text) may end at a place. */
bool step_done(const struct lm_grammar *g, const struct pool *p, const struct place *from,
	enum frame_kind lowest);

/* Tells the tokens that a place wants as such; what comes after the one that is `want` is added to
 * `to`. */
typedef void (*token_fn)(void *ctx, uint32_t token);
void step_tokens(const struct lm_grammar *g, struct pool *p, const struct place *from,
	int64_t want, struct places *to, token_fn tell, void *ctx);

void places_add(struct places *to, const struct frame *top, uint32_t below,
	uint32_t depth);

#endif
