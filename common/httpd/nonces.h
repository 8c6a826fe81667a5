/* nonces.h - which nonces of signed requests were used already, in memory of fixed size.
 *
 * Safe from any thread. Uses libsodium, mem, key. */
#ifndef RNP_COMMON_HTTPD_NONCES_H
#define RNP_COMMON_HTTPD_NONCES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct nonces;

/* Remembers up to so many at a time, 16 bytes each. strict: where there is no space for one more
 * whose time is not over, it counts as used, so that nobody can make us forget a nonce by sending
 * others; otherwise the oldest goes. */
struct nonces *nonces_new(size_t most, bool strict);
void nonces_free(struct nonces *n);

/* For httpsig_policy.nonce_seen, with a struct nonces as its ctx: whether that key has used the
 * nonce before; if not, it is remembered until until_s. */
bool nonces_seen(void *nonces, const char *address, const char *nonce, int64_t until_s);

#endif
