/* program.h - a compiled grammar: nodes (what a value may be), objects, arrays, sequences, and the
 * automata of their texts. For common/lm/grammar only. */
#ifndef RNP_COMMON_LM_GRAMMAR_PROGRAM_H
#define RNP_COMMON_LM_GRAMMAR_PROGRAM_H

#include "common/lm/grammar/dfa.h"
#include "common/lm/grammar/grammar.h"

#define NEVER      UINT32_MAX /* a height: no value is possible */
#define NO_MAX     UINT32_MAX
#define SEEN_WORDS (LM_GRAMMAR_PROPERTIES_MAX / 64)

enum way_kind { WAY_BYTES, WAY_STRING, WAY_ARRAY, WAY_OBJECT };

/* One way in which a value can be written. */
struct way {
	uint8_t kind;
	uint32_t id;     /* BYTES: automaton; STRING: of strings; ARRAY, OBJECT: theirs */
	uint32_t height; /* containers that it needs, itself included */
};

struct gnode {
	struct way *ways;
	uint32_t count, height;
};

/* A string: its automaton over characters, and how many of them. min is counted only where the
 * automaton takes everything; max wherever it is set, with the characters that are still needed. */
struct gstring {
	uint32_t dfa;
	uint32_t min, max;
	/* with max: [states], the fewest characters to an accepting state; NULL: 0 for all */
	const uint32_t *distance;
	uint32_t farthest; /* the largest of them */
};

struct garray {
	uint32_t *prefix, prefix_count, rest; /* nodes */
	uint32_t min, max;
	/* where items differ: the values that they can be, a node each, of which frames count what
	 * they have as seen; 0: any item may come again */
	uint32_t *values, value_count;
};

struct glabel {
	int32_t property; /* number of the name, or -1: any other */
	uint32_t node;
};

struct gobject {
	uint32_t dfa;       /* over keys */
	uint32_t *label_of; /* [states]: UINT32_MAX: none */
	struct glabel *labels;
	uint32_t label_count;
	uint64_t required[SEEN_WORDS];
	uint32_t min, max;         /* properties; min is at most 1 where names are free */
	uint32_t *property_height; /* [properties] */
	uint32_t property_count;
	/* from each state of the automaton: names that can still be reached, and the least height
	 * of another key's value */
	uint64_t (*reach)[SEEN_WORDS];
	uint32_t *free_height;
	/* [states]: label + 1 where every character leads to the same state, with this label */
	uint32_t *plain;
};

struct gitem {
	enum lm_grammar_part_kind kind;
	const char *text;
	uint32_t len, node, token;
	uint32_t *choices, choice_count; /* sequences */
};

struct gsequence {
	struct gitem *items;
	uint32_t count;
};

struct lm_grammar {
	struct lm_dfa *dfas;
	size_t dfa_count, dfas_cap;
	struct gnode *nodes; /* 0: nothing is possible; 1: any JSON value */
	size_t node_count, nodes_cap;
	struct gstring *strings; /* 0: any string */
	size_t string_count, strings_cap;
	struct garray *arrays;
	size_t array_count, arrays_cap;
	struct gobject *objects;
	size_t object_count, objects_cap;
	struct gsequence *sequences; /* 0: the whole text */
	size_t sequence_count, sequences_cap;
	uint32_t height_max; /* of all ways */
	struct arena *arena;
};

#endif
