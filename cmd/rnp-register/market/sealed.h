/* sealed.h - secrets of a booking: variables that one node alone can read, and no registry.
 *
 * The box is libsodium's sealed box (X25519, XSalsa20-Poly1305) to the curve point of the node's
 * own Ed25519 key, in base64. In it stand "NAME=VALUE", each with a NUL behind it. That it is the
 * customer's word is what the booking's signature says. Uses libsodium, key, address, buf, err. */
#ifndef RNP_CMD_REGISTER_MARKET_SEALED_H
#define RNP_CMD_REGISTER_MARKET_SEALED_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"
#include "common/record/key.h"

#define SEALED_BYTES_MAX ((size_t)64 << 10) /* of all variables */

/* Appends the box with len bytes for a node. Returns 0, or -1 (65): that is no node's address, or
 * they are too many. */
int sealed_close(struct buf *out, const char *node, const char *plain, size_t len);

/* Opens a box that a stranger says is for k, into plain, which is emptied; the caller ends it
 * with sealed_wipe. Returns 0, or -1 (65): it is not for this key, was changed, or holds no
 * variables. */
int sealed_open(struct buf *plain, const struct key *k, const char *box);

/* Walks over the variables of what was opened: *at begins at 0. Both texts are borrowed. */
bool sealed_next(const struct buf *plain, size_t *at, const char **name, size_t *name_len,
	const char **value);

/* Releases a buffer, and leaves nothing of it in memory. */
void sealed_wipe(struct buf *plain);

#endif
