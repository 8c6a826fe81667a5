/* human.h - formats values of records for people: units by the name of the field, short
 * numbers, relative times.
 *
 * Pure. Uses json, buf. */
#ifndef RNP_COMMON_CLI_HUMAN_H
#define RNP_COMMON_CLI_HUMAN_H

#include <jansson.h>
#include <stdint.h>

#include "common/base/buf.h"

/* Appends v as one line of text. key, the name of its field, decides the unit: _uusd is
 * dollars, _bytes GiB, _ppm percent, _base_units tokens (see human_set_token), _ns to _days a
 * duration, at, from, to and _at a time (relative to now_ms if it is within a week, else the
 * date). unit, which may be NULL, is the unit of its numbers according to a record's field
 * "unit". Lists become "a, b", shapes "768 x 12", objects "key value, key value", whose numbers
 * may have the unit of their object's name. Control characters become spaces. */
void human_value(struct buf *out, const char *key, const json_t *v, const char *unit,
	int64_t now_ms);

/* Sets the name of the tokens whose base units are shown from now on; NULL: nobody knows it, and
 * they are "tokens". A record's own field "token" names its token: human_use_token_of. */
void human_set_token(const char *name);
void human_use_token_of(const json_t *record);

/* Returns which name gives the unit of the field key of an object that is itself the field outer:
 * key, or outer where only that names a unit ("day_uusd": {"mid": 1}). Borrowed. */
const char *human_key(const char *outer, const char *key);

/* Appends the heading of a field: its last name without the unit, "_" as a space;
 * "gpus.0.model" is "gpu model". */
void human_heading(struct buf *out, const char *path);

/* Appends 12345678 bytes as "11.8 MiB". */
void human_bytes(struct buf *out, double bytes);

/* Appends a duration: "1.23 ms", "2.5 s", "2 h 5 min", "3 d 4 h". */
void human_duration(struct buf *out, double seconds);

/* Appends v with three significant digits and a decimal prefix: "12.3 M", "12.3 MB/s", "12.3 M
 * tokens/s"; no blank follows a bare number. */
void human_number(struct buf *out, double v, const char *unit);

/* Appends an amount in micro-dollars: "$0.3762", "$1599.00". */
void human_usd(struct buf *out, int64_t uusd);

#endif
