/* inside.h - the parts of a tokenizer. For common/lm/token*.c only. */
#ifndef RNP_COMMON_LM_TOKEN_INSIDE_H
#define RNP_COMMON_LM_TOKEN_INSIDE_H

#include <pthread.h>
#include <string.h>

#include "common/lm/token/token.h"
#include "common/lm/token/pre.h"

#define TOKEN_COUNT_MAX      (1u << 20)
#define TOKEN_MERGES_MAX     (1u << 21)
#define TOKEN_BYTES_MAX      ((size_t)16 << 10) /* longest token */
#define TOKEN_POOL_BYTES_MAX ((size_t)1 << 30)
/* bytes of a name to look for in texts: bounds the search at each place */
#define TOKEN_SPECIAL_MAX 512
#define TOKEN_NONE        UINT32_MAX
#define TOKEN_BLANK       "\xe2\x96\x81" /* U+2581, a blank in SentencePiece's spelling */
#define TOKEN_BLANK_BYTES 3

enum token_how {
	TOKEN_BYTES, /* merges of bytes, spelled in GPT-2's alphabet of 256 characters */
	TOKEN_CHARS, /* merges of characters; a character without a token becomes bytes */
	TOKEN_SCORES, /* the same, ordered by the score of the merged token: SentencePiece */
};

/* When to prepend a blank to a text, for models that were trained with one. */
enum token_prefix { TOKEN_PREFIX_NEVER, TOKEN_PREFIX_FIRST, TOKEN_PREFIX_EACH };

/* Tokens around a gap that a code model fills. The last three end what it fills in: padding, and
 * the begin of another repository or file. */
enum token_fill {
	TOKEN_FILL_PREFIX,
	TOKEN_FILL_SUFFIX,
	TOKEN_FILL_MIDDLE,
	TOKEN_FILL_PAD,
	TOKEN_FILL_REPO,
	TOKEN_FILL_FILE,
	TOKEN_FILLS
};

struct token_piece {
	uint32_t at, bytes;         /* as spelled, in pool */
	uint32_t raw_at, raw_bytes; /* as text, in pool */
	float score;
	uint8_t type;
	bool lstrip, rstrip; /* the white space beside its name belongs to it */
	bool single_word;    /* not within a longer word */
	/* found in the text as the normaliser leaves it: with the blank that this prepends to a
	 * text */
	bool normalized;
};

struct token_merge {
	uint64_t pair; /* left id << 32 | right id; UINT64_MAX: free */
	uint32_t rank, id;
};

/* ids by one of their texts; open addressing */
struct token_index {
	uint32_t *slots; /* TOKEN_NONE: free */
	uint32_t mask;
	bool raw; /* keyed by the text, not by the spelling */
};

/* the names to look for in a text, as a tree of bytes: first child and next sibling */
struct token_node {
	uint32_t child, brother, id; /* node, node, token; 0 or TOKEN_NONE: none */
	uint8_t byte;
};
struct token_tree {
	struct token_node *nodes; /* 0: the root */
	size_t count, cap;
	bool starts[256];
};

struct encoder;

struct lm_token {
	enum token_how how;
	/* ids below count are the model's; merges of a GGUF file may name texts beyond them,
	 * which come out as their bytes */
	uint32_t count, known;
	uint32_t longest; /* bytes of a spelling, at most */
	struct token_piece *pieces;
	size_t pieces_cap;
	struct buf pool;
	struct token_index names, words; /* words: for TOKEN_BYTES with ignore_merges */
	uint32_t (*merges)[2];           /* by rank: left, right */
	size_t merge_count, merges_cap;
	struct token_merge *table;
	uint32_t table_mask;
	/* TOKEN_BYTES: the initial symbol of a byte; else the byte fall-back; TOKEN_NONE */
	uint32_t byte_id[256];
	struct pre pre;
	bool ignore_merges;
	/* of two equal merges, as for Hugging Face's tokenizers; else the first, as for
	 * llama.cpp */
	bool last_merge_counts;
	enum token_prefix prefix;
	bool prefix_unless_there; /* not before a text that has a blank already */
	bool blanks;              /* blanks are spelled U+2581 */
	bool prepends; /* the blank comes from a normaliser, see token_piece.normalized */
	bool no_byte_fallback; /* what has no token is unknown, whatever bytes are called */
	bool each_unknown;     /* unknown characters in a row are a token each */
	struct pre word;       /* one character of a word; empty where no piece asks */
	bool adds_bos, adds_eos;
	bool line_ends; /* no merge produces a text that continues after a line break */
	/* one bit per byte and its successor: some token contains them; U+2581 counts as a
	 * blank here */
	uint64_t joins[256][4];
	int64_t bos, eos, eot, unknown, pad; /* -1: none */
	int64_t last;                        /* of adds_eos; -1: eos */
	int64_t fill[TOKEN_FILLS];
	struct token_tree always, all; /* user-defined; those and the special ones */
	char *chat_template, *tool_template; /* NULL: none */
	pthread_mutex_t lock;                /* protects idle */
	struct encoder *idle;                /* idle encoders, with their caches */
};

struct lm_token *token_new(enum token_how how);

/* Appends a token. Returns 0, or -1 with err_set(EX_DATAERR): too many, too long. */
int token_add(struct lm_token *t, const char *text, size_t bytes, float score,
	enum lm_token_type type, const char *where);

/* Builds the index, after the last token. Returns -1 when two are equal. */
int token_index(struct lm_token *t, const char *where);

/* Indexes one more token, which was added after token_index and differs from all others. */
void token_index_add(struct lm_token *t, uint32_t id);

/* Returns the id of a spelling, ghosts included, or TOKEN_NONE. */
uint32_t token_find(const struct lm_token *t, const char *text, size_t bytes);
uint32_t token_find_word(const struct lm_token *t, const char *text, size_t bytes);

/* Appends a merge. strict: its texts must be tokens. */
int token_add_merge(struct lm_token *t, const char *left, size_t left_bytes,
	const char *right, size_t right_bytes, bool strict, const char *where);

/* Checks the tokenizer, and builds what encoding needs. Special ids outside the vocabulary
 * become none. */
int token_finish(struct lm_token *t, const char *where);

/* Takes a chat template into *to, a field of a tokenizer, if it is not too long. */
int token_set_template(char **to, const char *text, size_t bytes, const char *where);

/* Returns the merge of two ids, or NULL. */
const struct token_merge *token_pair(const struct lm_token *t, uint32_t left,
	uint32_t right);

/* Whether a token can contain these two bytes in sequence. U+2581 counts as a blank; always
 * true within a character. */
static inline bool token_joins(const struct lm_token *t, unsigned before, unsigned now)
{
	return t->joins[before][now >> 6] >> (now & 63) & 1;
}

/* Converts a byte to GPT-2's spelling: a character, whose UTF-8 is in out. Returns 1 or 2. */
unsigned token_spell_byte(unsigned char byte, char out[2]);

void encoder_free(struct encoder *e);

/* Whether a name looks like a token that ends an answer. */
bool token_ends_by_name(const char *text, size_t bytes);

/* Returns the first token that has a usual name of this fill-in token, or TOKEN_NONE. */
uint32_t token_fill_by_name(const struct lm_token *t, enum token_fill which);

/* Finds the fill-in tokens by their names among those that are special or user-defined. */
void token_guess_fills(struct lm_token *t);

/* Whether a model that fills gaps ends with this token what it fills in. */
bool token_ends_fill(const struct lm_token *t, uint32_t id);

int token_read_gguf(struct lm_token **out, const char *path);

/* As lm_token_read_json, for a model of so many rows (0: not known). */
int token_read_json(struct lm_token **out, const char *text, size_t bytes,
	const char *config, size_t config_bytes, uint32_t rows, const char *where);

/* Returns a hash of n bytes, for tables of words. */
static inline uint64_t token_hash(const char *s, size_t n)
{
	uint64_t h = n * UINT64_C(0x9e3779b97f4a7c15), v;

	for (; n > 8; s += 8, n -= 8) {
		memcpy(&v, s, 8);
		h = (h ^ v) * UINT64_C(0xff51afd7ed558ccd);
		h ^= h >> 32;
	}
	v = 0;
	memcpy(&v, s, n);
	h = (h ^ v) * UINT64_C(0xc4ceb9fe1a85ec53);
	return h ^ h >> 32;
}

#endif
