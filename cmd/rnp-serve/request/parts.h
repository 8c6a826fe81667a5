/* parts.h - functions shared by the parts of request.c. Private to request*.c. */
#ifndef RNP_SERVE_REQUEST_PARTS_H
#define RNP_SERVE_REQUEST_PARTS_H

#include "cmd/rnp-serve/request/request.h"

/* Turns input, instructions, tools and text.format of /v1/responses into those of a chat. Returns
 * 0, or -1 with e. */
int request_read_input(struct request *q, struct api_error *e);

/* Refuses fields of an object that stands in a request at `where` which are not among these,
 * "a b c", and say something. Returns 0, or -1 with e. */
int request_only(const json_t *object, const char *where, const char *known,
	struct api_error *e);

/* Whether a value says nothing, as clients write what they do not want: null, [] or {}. */
bool request_is_blank(const json_t *v);

/* Takes `messages`. Returns 0, or -1 with e. */
int request_read_messages(struct request *q, json_t *v, struct api_error *e);

/* Checks each message, turns older forms into those that templates read, and finds out whether the
 * last one is continued. Returns 0, or -1 with e. */
int request_check_messages(struct request *q, struct api_error *e);

/* Takes a response_format, which is borrowed; of type text it asks for nothing. Returns 0, or -1
 * with e: something else is asked for, too. */
int request_hold_format(struct request *q, json_t *format, struct api_error *e);

/* Reads a field, whose name is static, that says what an answer must keep to. Returns 0, or -1 with
 * e. */
int request_read_constraint(struct request *q, const char *name, json_t *v,
	struct api_error *e);

#endif
