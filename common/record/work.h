/* work.h - the proof of work (hashcash) that the first record of a node costs at a registry.
 *
 * The registry names a token, which is for one node and some minutes, and a difficulty in bits.
 * The work is a number N such that SHA-256("rnp-join-1:" token ":" address ":" N in decimal)
 * begins with that many zero bits: 2^bits hashes to find on average, one to check. Uses
 * libsodium. Pure. */
#ifndef RNP_COMMON_RECORD_WORK_H
#define RNP_COMMON_RECORD_WORK_H

#include <stdbool.h>
#include <stdint.h>

#define WORK_TOKEN_MAX 128
#define WORK_BITS_MAX  48

/* Whether that number is work of that many bits. token and address may have any length. */
bool work_check(const char *token, const char *address, uint64_t number, int bits);

/* Tries numbers from `from` on, at most `tries`. Returns true with the number if one is work. */
bool work_solve(const char *token, const char *address, int bits, uint64_t from,
	uint64_t tries, uint64_t *number);

#endif
