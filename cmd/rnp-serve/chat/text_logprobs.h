/* text_logprobs.h - the logprobs of an answer: of a completion in the older form of the API,
 * parallel arrays of tokens, their log probabilities, the most likely ones in their place, and
 * where in the text each begins; of a chat a list of tokens. Uses sample.h, token.h. Pure. */
#ifndef RNP_SERVE_CHAT_TEXT_LOGPROBS_H
#define RNP_SERVE_CHAT_TEXT_LOGPROBS_H

#include "common/base/buf.h"
#include "common/lm/infer/sample.h"
#include "common/lm/token/token.h"

/* A text that grows token by token. */
struct text_logprobs {
	const struct lm_token *token; /* NULL: logprobs were not requested */
	struct lm_detoken detoken;
	size_t chars;   /* of the text so far */
	struct buf all; /* what was added and is not yet cleared */
};

/* Begins. t is borrowed. started: the text goes on another one, so that a leading blank is its
 * own. */
void text_logprobs_init(struct text_logprobs *l, const struct lm_token *t, bool started);
void text_logprobs_release(struct text_logprobs *l);

/* Adds a token; p: NULL for the first one of a text, which nothing predicts. */
void text_logprobs_add(struct text_logprobs *l, uint32_t id, const struct lm_logprobs *p);

/* Ends a part of the text: an incomplete character does not go on in the next part. */
void text_logprobs_part(struct text_logprobs *l, bool started);

bool text_logprobs_any(const struct text_logprobs *l);

/* Forgets the tokens, but not how much text there was: the next ones go on behind it. */
void text_logprobs_clear(struct text_logprobs *l);

/* Appends the object {"tokens","token_logprobs","top_logprobs","text_offset"} of the tokens of two
 * texts, the second one right behind the first; first may be NULL. Offsets count characters. A
 * token that is not UTF-8, such as a part of a character, is named by its bytes:
 * "bytes:\xe2\x80". */
void text_logprobs_write(struct buf *out, const struct text_logprobs *first,
	const struct text_logprobs *l);

/* Appends the array of [{"token","logprob","bytes","top_logprobs"}] of the tokens, all of which
 * were predicted. A token's text has U+FFFD for what is not UTF-8. */
void text_logprobs_write_list(struct buf *out, const struct text_logprobs *l);

#endif
