/* item.h - reads fields of one offer in a market's JSON, for the readers of feeds. Pure;
 * uses feed, json.
 *
 * A field that is absent or null is unknown and leaves *out as it is. Each function returns 0,
 * or -1 with EX_DATAERR naming place, field and reason, unless it says otherwise. */
#ifndef RNP_PRICE_FEED_ITEM_H
#define RNP_PRICE_FEED_ITEM_H

#include <jansson.h>
#include <stdint.h>

#include "cmd/rnp-price/feed/feed.h"
#include "common/base/buf.h"

/* One offer and its place, for messages. */
struct item {
	const json_t *obj;
	char where[300];
};

/* Returns the value; NULL if it is absent or null. */
const json_t *item_field(const struct item *it, const char *key);

/* Sets the error "where.key: not wanted". Returns -1. */
int item_wrong(const struct item *it, const char *key, const char *wanted);

/* Reads a number, times 10^decimals times unit, at least 0, as an integer. */
int item_scaled(const struct item *it, const char *key, int decimals, int64_t unit,
	int64_t *out);

/* Reads a price of several GPUs as one per GPU; *uusd is 0 if there is none. */
int item_price(const struct item *it, const char *key, int64_t gpus, int64_t *uusd);

/* Reads the same for one GPU from a text, "0.047". */
int item_price_text(const struct item *it, const char *key, int64_t *uusd);

/* Reads a text of at most 200 bytes, borrowed. */
int item_text(const struct item *it, const char *key, const char **out);

/* Reads true or false, as 1 or 0. */
int item_flag(const struct item *it, const char *key, int *out);

/* Reads an id: an integer or a text of less than 64 bytes; "" if it is unknown. */
int item_id(const struct item *it, const char *key, char out[64]);

#endif
