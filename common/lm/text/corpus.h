/* corpus.h - the texts of a corpus, as a stream of documents cut into pieces that threads may take
 * one each. Uses unpack, token, jansson, buf, err, OpenMP.
 *
 * A file is one document, or JSON Lines (https://jsonlines.org) with one in a field of each line;
 * it may be packed (unpack.h). A byte order mark in front of it is no part of it. Memory is a few
 * MiB a thread, however long the file is, unless the tokenizer allows no cuts or a line is
 * longer. */
#ifndef RNP_COMMON_LM_TEXT_CORPUS_H
#define RNP_COMMON_LM_TEXT_CORPUS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/lm/token/token.h"

struct corpus_form {
	const char *jsonl;  /* the field with a line's document; NULL: a file is one */
	bool any_bytes;     /* take a file that is no UTF-8 text as it is */
	size_t batch_bytes; /* of text at once; 0: 16 MiB, or 4 MiB a thread; for tests */
};

struct corpus_piece {
	size_t at, bytes;  /* in the text of the batch */
	bool begins, ends; /* of a document */
};

struct corpus_batch {
	struct buf text;
	struct corpus_piece *pieces;
	size_t n, cap;
};

struct corpus;

/* Returns the first place at or behind `want` where text may be cut, or bytes. */
typedef size_t (
	*corpus_cut_fn)(const void *ctx, const char *text, size_t bytes, size_t want);

/* Opens the file at path ("-": standard input); path and form are borrowed. Returns 0 and *out, or
 * -1 with err_set() as unpack_open, and 65: it is no text, but something that is named. */
int corpus_open(struct corpus **out, const char *path, const struct corpus_form *form);
void corpus_close(struct corpus *c); /* NULL is allowed */

/* Reads the next pieces, which are borrowed until the next call. cut NULL: they may not be cut, and
 * a file is one piece. Returns 1, 0 at the end, or -1 with err_set(): 65 no UTF-8 (with its place),
 * a word of 16 MiB, a damaged file, a line that is no JSON object or lacks the field
 * (with its number); 74. */
int corpus_next(struct corpus *c, const struct corpus_batch **out, corpus_cut_fn cut,
	const void *ctx);

/* Receives the ids of the next piece, in order. Returns 0, or -1 with err_set(). */
typedef int (*corpus_ids_fn)(void *ctx, const uint32_t *ids, size_t n, bool ends);

/* Encodes a whole corpus on all threads of the team; the ids are those of lm_token_encode for each
 * document. special as there; *bytes grows by what was encoded, now and then, and may be NULL.
 * Returns 0, or -1 with err_set(). */
int corpus_encode(const char *path, const struct corpus_form *form,
	const struct lm_token *t, bool special, corpus_ids_fn to, void *ctx,
	uint64_t *bytes);

#endif
