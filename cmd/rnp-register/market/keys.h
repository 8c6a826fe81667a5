/* keys.h - the SSH keys of a booking, as they are stored. Uses sshkey, json, err. Pure. */
#ifndef RNP_CMD_REGISTER_MARKET_KEYS_H
#define RNP_CMD_REGISTER_MARKET_KEYS_H

#include <jansson.h>

#include "common/base/buf.h"

/* Appends the keys of a list as a JSON array, each without its comment. Returns 0, or -1 (65): one
 * of them is none that a gateway lets in. */
int keys_write(const json_t *keys, struct buf *out);

#endif
