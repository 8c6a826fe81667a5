/* read.h - parses JSON text into jansson's values, for json.c only: faster than jansson's
 * own reader, which takes every byte through several calls. Uses jansson, buf, utf8. Pure. */
#ifndef RNP_COMMON_JSON_READ_H
#define RNP_COMMON_JSON_READ_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

/* Reads exactly one value from len bytes, nested at most depth_max deep. The rules are those of
 * json_parse. Returns NULL without a reason if anything is wrong: json_parse then calls
 * jansson, which decides what is refused, and why. spelled: as for json_parse_spelled. */
json_t *json_read(const char *text, size_t len, int depth_max, bool spelled);

/* The same within *room bytes of memory, which the values take together (SIZE_MAX: any); 0
 * afterwards: that was too little. *at: how far it came. */
json_t *json_read_within(const char *text, size_t len, int depth_max, bool spelled,
	size_t *room, size_t *at);

#endif
