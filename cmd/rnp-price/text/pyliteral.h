/* pyliteral.h - parses a Python literal ("{'Gpus': [{'Count': 1}]}") into a JSON value.
 *
 * SkyPilot's catalogues hold str() of a Python dict in one column, and JSON in some files of
 * the same name; JSON is accepted too. Pure; uses jansson, num, err. */
#ifndef RNP_PRICE_TEXT_PYLITERAL_H
#define RNP_PRICE_TEXT_PYLITERAL_H

#include <jansson.h>

#define PYLITERAL_DEPTH_MAX 16

/* Parses one dict, list, tuple, string, number, True, False or None (also true, false, null)
 * that is the whole text. Strings in ' or " know the escapes \\ \' \" \n \r \t \/ and \uXXXX
 * below the surrogates; keys must be strings and unique. The caller owns the result. NULL with
 * EX_DATAERR: anything else. */
json_t *pyliteral_parse(const char *text, const char *where);

#endif
