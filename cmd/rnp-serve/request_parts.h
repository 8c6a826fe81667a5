/* request_parts.h - functions shared by the parts of request.c. Private to request*.c. */
#ifndef RNP_SERVE_REQUEST_PARTS_H
#define RNP_SERVE_REQUEST_PARTS_H

#include "cmd/rnp-serve/request.h"

/* Turns input, instructions, tools and text.format of /v1/responses into those of a chat. Returns 0,
 * or -1 with e. */
int request_read_input(struct request *q, struct api_error *e);

#endif
