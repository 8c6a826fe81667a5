/* shard.h - token shards: files of token ids to train on, written once and mapped. Uses err,
 * buf, libsodium.
 *
 * A shard is 128 bytes of header and then the ids, little-endian:
 *    0  "RNPTOKS1"
 *    8  u32 bytes per id (2 or 4), u32 vocabulary
 *   16  u64 number of ids
 *   24  u64 number of ids before it in the shards of its set
 *   32  32 bytes: lm_token_fingerprint of the tokenizer; zeros: unknown
 *   64  32 bytes: BLAKE2b-256 of the ids as they lie in the file
 *   96  u32 number of the shard, u32 shards of its set
 *  104  zeros
 * A directory of them, named 00000.tokens and on, is one long text: a set.
 *
 * Read, too, are the shards of llm.c (https://github.com/karpathy/llm.c, dev/data): 256 u32 of
 * header, of which the first are 20240520, 1 and the number of ids in two bytes each, or 20240801,
 * 7 and those in four; and files of nothing but ids, as nanoGPT's. A directory of them has names
 * that end with .bin, in order. They name no tokenizer. */
#ifndef RNP_COMMON_LM_TOKEN_SHARD_H
#define RNP_COMMON_LM_TOKEN_SHARD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LM_SHARD_MAGIC        "RNPTOKS1"
#define LM_SHARD_VOCAB_MAX    (1u << 20)
#define LM_SHARD_HEADER_BYTES 128
#define LM_SHARD_SUFFIX       ".tokens"
#define LM_SHARDS_MAX         100000u
#define LM_SHARD_IDS          (UINT64_C(32) << 20) /* ids in each shard but the last */

struct lm_shard {
	const unsigned char *data; /* of the whole file */
	bool mapped;
	uint64_t bytes;
	uint64_t count, before;
	uint32_t header; /* bytes in front of the ids */
	bool is_ours;    /* not llm.c's or nanoGPT's */
	uint32_t id_bytes, vocab, number, of;
	unsigned char tokenizer[32], digest[32];
};

/* A set, or a single shard. */
struct lm_shards {
	struct lm_shard *shards;
	uint32_t n;
	uint64_t count; /* ids in all shards */
	uint32_t vocab;
	unsigned char tokenizer[32];
};

/* Reads a shard from memory (borrowed) and checks its header and length. Returns 0, or -1 with
 * err_set(EX_DATAERR). */
int lm_shard_read(struct lm_shard *s, const void *data, uint64_t bytes,
	const char *where);

/* Maps a shard, or all shards of a directory, which must be a complete set. Returns 0, or -1
 * with err_set(): 66, 65. */
int lm_shards_open(struct lm_shards *set, const char *path);

/* Does the same; ids: files are nothing but ids, "u16" or "u32", or NULL: of the kinds above. Of
 * what is not ours every id is read: the vocabulary is the largest id and one. */
int lm_shards_open_as(struct lm_shards *set, const char *path, const char *ids);
/* Whether the file at path begins as a shard, ours or llm.c's. */
bool lm_shard_is_one(const char *path);
void lm_shards_close(struct lm_shards *set); /* a zeroed set is allowed */

/* Copies n ids from position `at` on; at + n is at most count. Returns 0, or -1 with
 * err_set(EX_DATAERR): an id outside the vocabulary. */
int lm_shards_get(const struct lm_shards *set, uint64_t at, uint64_t n, uint32_t *to);

/* Checks by the fingerprint that the ids of a set were made with a tokenizer. name: the
 * tokenizer's, for messages. Returns 0, also when one of the two is unknown (zeros), or -1 with
 * err_set(EX_DATAERR). */
int lm_shards_suit(const struct lm_shards *set, const char *path,
	const unsigned char tokenizer[32], const char *name);

uint64_t lm_shards_bytes(const struct lm_shards *set); /* size of all ids */

/* Reads every id on all threads of the team and checks digests and range. tick (may be NULL)
 * receives the bytes done so far, from one thread at a time. Mapped pages do not stay in
 * memory. Returns 0, or -1 with err_set(EX_DATAERR). */
typedef void (*lm_shards_tick_fn)(void *ctx, uint64_t bytes);
int lm_shards_check(const struct lm_shards *set, lm_shards_tick_fn tick, void *ctx);

/* --- writing ------------------------------------------------------------------------------ */

struct lm_shard_writer;

/* Begins a set in directory dir, which it creates. Nothing appears under its final name before
 * lm_shard_end. Returns 0 and *out, or -1 with err_set(): 73 there are shards already, 77, 74. */
int lm_shard_begin(struct lm_shard_writer **out, const char *dir);

/* Sets the vocabulary of the ids, before the first of them. tokenizer may be NULL. */
void lm_shard_vocab(struct lm_shard_writer *w, uint32_t vocab,
	const unsigned char tokenizer[32]);

/* Appends ids. Returns 0, or -1 with err_set(): 65 outside the vocabulary, 74. */
int lm_shard_add(struct lm_shard_writer *w, const uint32_t *ids, uint64_t n);

/* Adds another file to the directory as part of the set: it is renamed together with the shards
 * and replaces an existing one. Returns 0, or -1 with err_set(): 73, 74, 77. */
int lm_shard_beside(struct lm_shard_writer *w, const char *name, const void *data,
	size_t len);

/* Renames the shards to their final names, when everything is on disk. *count and *shards (may
 * be NULL) receive what was written. Frees w, as lm_shard_abandon does, which removes what was
 * written, and the directory if begin created it. Returns 0, or -1 with err_set(): 74. */
int lm_shard_end(struct lm_shard_writer *w, uint64_t *count, uint32_t *shards);
void lm_shard_abandon(struct lm_shard_writer *w); /* NULL is allowed */

#endif
