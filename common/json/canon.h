/* canon.h - the one byte string a JSON value has when hashed or signed (RFC 8785).
 *
 * Uses jansson, buf, libsodium (SHA-256). Pure. */
#ifndef RNP_COMMON_JSON_CANON_H
#define RNP_COMMON_JSON_CANON_H

#include <jansson.h>
#include <stddef.h>

#include "common/base/buf.h"

/* Appends the canonical form of v: keys in UTF-16 order, numbers as ECMAScript prints the
 * double (so integers beyond 2^53 lose digits, as the RFC says), no white space. v is borrowed.
 * On failure out is as before. Returns 0, or -1 with err_set(EX_DATAERR): a number is not
 * finite, or a string is not UTF-8. */
int canon_write(struct buf *out, const json_t *v);

/* The same for an object, ignoring its field of that name. */
int canon_write_without(struct buf *out, const json_t *obj, const char *left_out);

#define CANON_HASH_BYTES 32

/* Computes the hash that identifies a record: SHA-256 of its canonical form without `proof`,
 * which is also what its signatures cover. Returns 0, or -1 as canon_write. */
int canon_hash_record(unsigned char out[CANON_HASH_BYTES], const json_t *record);

/* Appends a finite double as ECMAScript's Number::toString does: the shortest digits that read
 * back as the same double. -0 is "0". */
void canon_number(struct buf *out, double v);

/* Appends len bytes of UTF-8 as a JSON string: only ", \ and control characters are escaped,
 * the latter as \b \t \n \f \r or lower-case \u00xx. */
void canon_string(struct buf *out, const char *text, size_t len);

#endif
