/* json_read.h - JSON text into jansson's values, for json.c only: quicker than jansson's own
 * reader, which takes every byte through several calls. Uses jansson, buf, utf8. Pure. */
#ifndef RNP_COMMON_JSON_JSON_READ_H
#define RNP_COMMON_JSON_JSON_READ_H

#include <jansson.h>
#include <stddef.h>

/* Read exactly one value from len bytes, nested at most depth_max deep. The rules are those of
 * json_parse. NULL without a reason when anything is wrong: json_parse then asks jansson, so
 * that what is refused, and why, is jansson's word. */
json_t *json_read(const char *text, size_t len, int depth_max);

#endif
