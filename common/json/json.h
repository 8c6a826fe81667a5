/* json.h - reads untrusted JSON values with limits, and fields with their path in every error.
 * Uses jansson, buf, err.
 *
 * where names the value in errors: "nodes.jsonl:3" or "nodes.jsonl:3: gpus[0]". */
#ifndef RNP_COMMON_JSON_JSON_H
#define RNP_COMMON_JSON_JSON_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define JSON_DEPTH_MAX       32
#define JSON_DEPTH_MAX_CANON 512
/* A record that others list within their replies may be less deep, and such a reply deeper: one
 * record must not make a list unreadable. */
#define JSON_DEPTH_MAX_LISTED 24
#define JSON_DEPTH_MAX_LIST   40
#define JSON_RECORD_BYTES_MAX ((size_t)1 << 20)         /* of one record */
#define JSON_SAFE_INTEGER_MAX INT64_C(9007199254740991) /* 2^53 - 1 */

/* Reads exactly one JSON value (any type) from len bytes. Refused, with EX_DATAERR: duplicate keys,
 * depth beyond depth_max, NUL (raw or \u0000), bad UTF-8, NaN, numbers that overflow, anything
 * after the value. Integers beyond 64 bits become reals, and whole numbers up to 2^53 integers,
 * however they are spelled: a signature covers the value, so that whoever passes a record on may
 * spell 3600 as 3.6e3, and must not change what is read by that. The caller owns the result
 * (json_decref); NULL on error. */
json_t *json_parse(const char *text, size_t len, int depth_max, const char *where);

/* The same, but 1.0 stays a real: for what is shown to a model, or written as it came. */
json_t *json_parse_spelled(const char *text, size_t len, int depth_max,
	const char *where);

/* The same for a text whose values may take so many bytes of memory together, or it is refused,
 * too: "[[],[],..." takes fifty times its own. */
json_t *json_parse_bounded(const char *text, size_t len, int depth_max, size_t most,
	const char *where);

/* As json_parse, but the value must be an object, of JSON_DEPTH_MAX or of the depth given. */
json_t *json_parse_object(const char *text, size_t len, const char *where);
json_t *json_parse_object_to(const char *text, size_t len, int depth_max,
	const char *where);

/* Appends v as one line of JSON: keys in insertion order, shortest round-trip numbers, no
 * spaces, no newline. Never fails for values made by json_parse. */
void json_write(struct buf *out, const json_t *v);

/* Read fields of an object. Each returns 0, or -1 with EX_DATAERR: absent, null, wrong type or
 * out of range. Texts are borrowed from obj. A whole number may also be a decimal string, and
 * beyond +-(2^53 - 1) it must be one, as rnp-json(5) says, because signatures cover doubles. */
int json_get_text(const json_t *obj, const char *where, const char *key,
	const char **out);
int json_get_i64(const json_t *obj, const char *where, const char *key, int64_t min,
	int64_t max, int64_t *out);
int json_get_f64(const json_t *obj, const char *where, const char *key, double *out);
int json_get_bool(const json_t *obj, const char *where, const char *key, bool *out);
int json_get_time(const json_t *obj, const char *where, const char *key, int64_t *ms);
int json_get_object(const json_t *obj, const char *where, const char *key, json_t **out);
int json_get_array(const json_t *obj, const char *where, const char *key, json_t **out);

/* The same, but an absent field leaves *out as it is and returns 0. */
int json_opt_text(const json_t *obj, const char *where, const char *key,
	const char **out);
int json_opt_i64(const json_t *obj, const char *where, const char *key, int64_t min,
	int64_t max, int64_t *out);
int json_opt_f64(const json_t *obj, const char *where, const char *key, double *out);
int json_opt_bool(const json_t *obj, const char *where, const char *key, bool *out);
int json_opt_time(const json_t *obj, const char *where, const char *key, int64_t *ms);

/* Checks "kind" and "v":1 of a record; kind NULL accepts every kind of ours ("rnp.*"). */
int json_check_kind(const json_t *record, const char *where, const char *kind);

/* Returns a new record {"kind":kind,"v":1}; the caller owns it. */
json_t *json_record(const char *kind);

/* Set a field; they take nothing and cannot fail except for memory. A whole number beyond
 * +-(2^53 - 1) is written as a decimal string; bytes of a text that are not UTF-8 become
 * U+FFFD. */
void json_set_text(json_t *obj, const char *key, const char *text); /* NULL: not set */
void json_set_i64(json_t *obj, const char *key, int64_t v);
void json_set_f64(json_t *obj, const char *key, double v); /* finite */
void json_set_bool(json_t *obj, const char *key, bool v);
void json_set_time(json_t *obj, const char *key, int64_t ms);
void json_set(json_t *obj, const char *key, json_t *takes_v);
void json_push_text(json_t *array, const char *text);
void json_push(json_t *array, json_t *takes_v);

/* Append a value as it would stand in a record after json_set_text and json_set_i64, without the
 * record: for what is written a million times. */
void json_write_text(struct buf *out, const char *text);
void json_write_i64(struct buf *out, int64_t v);

#endif
