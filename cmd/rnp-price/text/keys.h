/* keys.h - files that a person writes: unknown keys are refused, amounts may be dollars. Pure;
 * uses jansson, err, amount. */
#ifndef RNP_PRICE_TEXT_KEYS_H
#define RNP_PRICE_TEXT_KEYS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/amount.h"

/* Refuses an object with a key that is not in names (which ends with NULL), naming the nearest
 * one. Returns 0, or -1 with EX_DATAERR. */
int keys_check(const json_t *obj, const char *where, const char *const *names);

/* An amount of dollars: `NAME_uusd` is a whole number of micro-dollars, `NAME` a text with a unit
 * such as "1599.00 USD" or "15 ct/kWh". */
struct keys_amount {
	const char *micro, *dollars; /* "hardware_uusd", "hardware" */
	const struct amount_kind *of;
	bool required;
	int64_t max_uusd;
};

/* Reads it; if absent, *uusd stays as it is. rates: what other currencies are worth, or NULL. An
 * unusual amount is doubted (amount_doubt). Returns 0, or -1 with EX_DATAERR: both forms are there,
 * or malformed. */
int keys_amount(const json_t *obj, const char *where, const struct keys_amount *a,
	const struct amount_rate *rates, int64_t *uusd);

/* Reads the same from one value: a whole number of micro-dollars or a text with a unit. */
int keys_amount_of(const json_t *v, const char *what, const struct amount_kind *of,
	const struct amount_rate *rates, int64_t max_uusd, int64_t *uusd);

/* Reads the field key, a whole number of the kind's smallest unit from min to max or a text with a
 * unit ("0.45 kW", "10%"). If it is absent and not required, *out stays as it is. */
int keys_whole(const json_t *obj, const char *where, const char *key, bool required,
	const struct amount_kind *of, int64_t min, int64_t max, int64_t *out);

/* Reads "usd_per": {"EUR": "1.16"} of a file of costs, if it is there; to ends with a name of "".
 * Returns 0, or -1 with EX_DATAERR. */
#define KEYS_RATES_MAX 16
int keys_rates(const json_t *obj, const char *where,
	struct amount_rate to[KEYS_RATES_MAX + 1]);

#endif
