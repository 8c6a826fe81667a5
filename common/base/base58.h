/* base58.h - bytes as base58 with the Bitcoin alphabet, as Solana and did:key write them. Pure. */
#ifndef RNP_COMMON_BASE_BASE58_H
#define RNP_COMMON_BASE_BASE58_H

#include <stddef.h>

/* longest input or result: the algorithm is quadratic */
#define BASE58_BYTES_MAX 128

/* Writes len <= BASE58_BYTES_MAX bytes as text with a NUL; out holds at least len * 138 / 100 +
 * 2 bytes. Returns the length of the text. */
size_t base58_encode(char *out, const unsigned char *data, size_t len);

/* Decodes text into out, at most max bytes. Returns how many, or -1 (no err_set): a character
 * outside the alphabet, or more bytes than max. */
int base58_decode(unsigned char *out, size_t max, const char *text);

#endif
