/* render.h - amounts of RENDER beside amounts of dollars, where a price of RENDER is given. Uses
 * io, json, schema. */
#ifndef RNP_PRICE_COST_RENDER_H
#define RNP_PRICE_COST_RENDER_H

#include <jansson.h>
#include <stdint.h>

/* a million dollars for a token */
#define RENDER_PRICE_MAX INT64_C(1000000000000)

/* Reads the price of one RENDER: dollars, such as "1.90", or the path of a file with an rnp.price
 * record. Returns 0, or -1: 64 an impossible price, or as the file's reader. */
int render_price(const char *text, int64_t *price_uusd);

/* 10^-8 RENDER that are worth so much, rounded down. */
int64_t render_base_units(int64_t uusd, int64_t price_uusd);

#endif
