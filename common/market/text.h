/* text.h - the hash of texts that are compared without case: models, countries, regions. Pure. */
#ifndef RNP_COMMON_MARKET_TEXT_H
#define RNP_COMMON_MARKET_TEXT_H

#include <stdint.h>

/* Texts that differ in the case of ASCII letters alone have the same hash; it differs from process
 * to process. */
uint32_t match_text_hash(const char *text);

#endif
