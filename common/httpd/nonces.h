/* nonces.h - which nonces of signed requests were used already, in memory of fixed size.
 *
 * Safe from any thread. Uses libsodium, mem, key. */
#ifndef RNP_COMMON_HTTPD_NONCES_H
#define RNP_COMMON_HTTPD_NONCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nonces;

/* Remembers up to so many at a time, 16 bytes each. A key that sends more than there is space for
 * takes none of others: a nonce of the key that has the most makes room. strict: where that is the
 * key itself, its next ones count as used, so that nobody can make us forget a nonce by sending
 * others; otherwise its oldest goes. */
struct nonces *nonces_new(size_t most, bool strict);
void nonces_free(struct nonces *n);

/* For httpsig_policy.nonce_seen, with a struct nonces as its ctx: whether that key has used the
 * nonce before; if not, it is remembered until until_s. */
bool nonces_seen(void *nonces, const char *address, const char *nonce, int64_t until_s);

/* The same for a key that anybody can make: all of these have together the space of one key, where
 * their oldest goes. */
bool nonces_seen_of_stranger(void *nonces, const char *address, const char *nonce,
	int64_t until_s);

#endif
