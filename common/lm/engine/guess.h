/* guess.h - proposes the next tokens of a text from what came before, for speculative decoding.
 * Pure.
 *
 * Prompt lookup decoding (Saxena 2023): where the last tokens occurred before, the tokens that
 * followed them may follow again. */
#ifndef RNP_COMMON_LM_ENGINE_GUESS_H
#define RNP_COMMON_LM_ENGINE_GUESS_H

#include <stdint.h>

/* Writes at most `max` tokens that may follow the n of text, whose first `prompt` are the
 * prompt; returns how many. predicted: m tokens that the answer is likely to contain; m may be
 * 0. */
uint32_t lm_guess(uint32_t *out, uint32_t max, const uint32_t *text, uint32_t n,
	uint32_t prompt, const uint32_t *predicted, uint32_t m);

#endif
