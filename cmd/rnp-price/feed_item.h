/* feed_item.h - fields of one offer in a market's JSON, for the readers of feeds. Pure; uses
 * feed, json.
 *
 * A field that is absent or null is not known and leaves *out as it is. Each function returns
 * 0, or -1 with EX_DATAERR naming place, field and reason, unless it says otherwise. */
#ifndef RNP_PRICE_FEED_ITEM_H
#define RNP_PRICE_FEED_ITEM_H

#include <jansson.h>
#include <stdint.h>

#include "cmd/rnp-price/feed.h"
#include "common/base/buf.h"

/* One offer and its place, for messages. */
struct item {
	const json_t *obj;
	char where[300];
};

/* The value; NULL when it is absent or null. */
const json_t *item_field(const struct item *it, const char *key);

/* "where.key: not wanted". Returns -1. */
int item_wrong(const struct item *it, const char *key, const char *wanted);

/* The decimal of a number: its own digits for a whole one, the shortest that mean the same double
 * otherwise. Returns 1, 0 when the field is not known, -1 on error. */
int item_decimal(const struct item *it, const char *key, struct buf *out);

/* The number times 10^decimals times unit, at least 0, as a whole number. */
int item_scaled(const struct item *it, const char *key, int decimals, int64_t unit,
	int64_t *out);

/* A price for so many GPUs as one for each; *uusd is 0 when there is none. */
int item_price(const struct item *it, const char *key, int64_t gpus, int64_t *uusd);

/* The same for one GPU from a text, "0.047". */
int item_price_text(const struct item *it, const char *key, int64_t *uusd);

/* A text of at most 200 bytes, borrowed. */
int item_text(const struct item *it, const char *key, const char **out);

/* true or false, as 1 or 0. */
int item_flag(const struct item *it, const char *key, int *out);

/* An id: a whole number or a text of less than 64 bytes; "" when it is not known. */
int item_id(const struct item *it, const char *key, char out[64]);

#endif
