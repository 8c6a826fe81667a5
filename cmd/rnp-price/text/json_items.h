/* json_items.h - cuts a JSON document that arrives in pieces into the items of one list, so that
 * only one item at a time is in memory. Pure; uses buf, err, json.
 *
 * The document is an object, or the list itself. Its field `list`, one of "a|b", an array or a
 * single value, holds the items; the list may also stand in the object of the field `inside`. A
 * byte order mark before it is skipped, and UTF-16 named. Every other field of these objects is
 * passed on whole, in the order of the document. What is passed on is not yet parsed: the
 * receiver does that, and so decides whether it is JSON; the document around it is checked
 * here. */
#ifndef RNP_PRICE_TEXT_JSON_ITEMS_H
#define RNP_PRICE_TEXT_JSON_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "common/base/buf.h"

#define JSON_ITEMS_KEY_MAX   64
#define JSON_ITEMS_BYTES_MAX ((size_t)1 << 20) /* of one item or field */

struct json_items_value {
	/* "offers", "inside.offers", "" where the document is the list; or the name of another
	 * field */
	const char *path;
	bool item;        /* of the list */
	long index;       /* in the list; -1: not in an array */
	const char *text; /* len bytes, without space around them */
	size_t len;
};

/* Takes one value. Returns 0, or -1 with err_set. */
typedef int (*json_items_fn)(void *ctx, const struct json_items_value *v);

struct json_items {
	const char *where, *list, *inside; /* borrowed */
	json_items_fn fn;
	void *ctx;
	int lists; /* lists begun so far: 0 or 1 */

	/* private */
	int state, level;
	int marks; /* bytes of a byte order mark so far */
	bool in_array, is_list, in_string, escaped;
	int depth; /* of brackets in the value in progress; -1: a scalar */
	long index;
	char key[JSON_ITEMS_KEY_MAX], path[2 * JSON_ITEMS_KEY_MAX];
	struct buf value;
};

void json_items_init(struct json_items *s, const char *where, const char *list,
	const char *inside, json_items_fn fn, void *ctx);
void json_items_release(struct json_items *s);

/* Takes the next bytes. Returns 0, or -1 with EX_DATAERR: not such a document, or a value of more
 * than JSON_ITEMS_BYTES_MAX bytes; or what fn returned. */
int json_items_push(struct json_items *s, const char *data, size_t len);

/* The document ends here. Returns 0, or -1 with EX_DATAERR: it is not whole. */
int json_items_end(struct json_items *s);

/* Copies an object to out without the fields that are not in names (which ends with NULL).
 * Returns true; or false where it cannot be cut up without a parser (keys that are no plain ASCII,
 * much that is not JSON), and out is then undefined. A field that is left out is JSON, but may be
 * there twice; one that only a parser can check is kept. */
bool json_items_pick(struct buf *out, const char *text, size_t len,
	const char *const *names);

#endif
