/* fit_record.h - a fit as a record, and back. Uses fit_core, jansson, err. Pure.
 *
 * All numbers are integers in millionths, so that the record can be signed and is the same
 * everywhere. */
#ifndef RNP_PRICE_FIT_RECORD_H
#define RNP_PRICE_FIT_RECORD_H

#include <jansson.h>

#include "cmd/rnp-price/fit_core.h"

#define FIT_RECORD_BYTES_MAX ((size_t)1 << 20)

/* Returns the record of a fit, without inputs and time; the caller owns it. */
json_t *fit_to_json(const struct fit *f);

/* Reads a record that fit_to_json made. The caller releases f. Returns 0, or -1 with EX_DATAERR
 * naming where and the field: not an rnp.fit, or an impossible number. */
int fit_from_json(struct fit *f, const json_t *record, const char *where);

/* Reads the same from the file at path: one record, signed or not. Returns 0, or -1. */
int fit_load(struct fit *f, const char *path);

#endif
