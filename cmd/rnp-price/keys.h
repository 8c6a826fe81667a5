/* keys.h - files that a person writes: unknown keys are refused, amounts may be dollars. Pure;
 * uses jansson, err, num. */
#ifndef RNP_PRICE_KEYS_H
#define RNP_PRICE_KEYS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

/* Refuses an object with a key that is not in names (which ends with NULL), naming the nearest
 * one. Returns 0, or -1 with EX_DATAERR. */
int keys_check(const json_t *obj, const char *where, const char *const *names);

/* Reads an amount of dollars: `NAME_uusd` as a whole number of micro-dollars, or `NAME` as a
 * text such as "1599.00 USD" or "$0.15". If absent, *uusd stays as it is. suffix follows
 * "_uusd" in the first form and NAME in the second ("_per_hour"). doubtful (may be NULL)
 * becomes the key of an amount that is so small that dollars were probably meant: above 0 and
 * under a cent if cents_at_least. Returns 0, or -1 with EX_DATAERR: both forms are there, or
 * malformed. */
struct keys_amount {
	const char *micro, *dollars; /* "hardware_uusd", "hardware" */
	bool required, cents_at_least;
	int64_t max_uusd;
};
int keys_amount(const json_t *obj, const char *where, const struct keys_amount *a,
	int64_t *uusd, const char **doubtful);

/* Reads the same from one value: a whole number of micro-dollars or a text of dollars. */
int keys_amount_of(const json_t *v, const char *what, int64_t max_uusd, int64_t *uusd);

#endif
