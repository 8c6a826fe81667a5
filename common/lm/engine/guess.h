/* guess.h - what may come next in a text, from what was said before: proposals of speculation. Pure.
 *
 * Look-up in the text itself (Saxena, prompt lookup decoding, 2023): where the last tokens stood
 * before, what followed them may follow again. */
#ifndef RNP_COMMON_LM_ENGINE_GUESS_H
#define RNP_COMMON_LM_ENGINE_GUESS_H

#include <stdint.h>

/* Writes at most `most` tokens that may follow the n of text, whose first `prompt` are the prompt;
 * returns how many. predicted: what the answer may well be; m 0: nothing is. */
uint32_t lm_guess(uint32_t *out, uint32_t most, const uint32_t *text, uint32_t n,
	uint32_t prompt, const uint32_t *predicted, uint32_t m);

#endif
