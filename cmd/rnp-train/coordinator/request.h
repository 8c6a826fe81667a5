/* request.h - parts that all handlers of a coordinator need: identification of the client, and
 * refusals. For the coordinator's own files. */
#ifndef RNP_TRAIN_COORDINATOR_REQUEST_H
#define RNP_TRAIN_COORDINATOR_REQUEST_H

#include "cmd/rnp-train/coordinator/coordinator.h"

/* Counts a refusal and fills r. */
enum httpd_when coordinate_refuse(struct coordinator *g, struct httpd_reply *r,
	int status, const char *text);

/* Whether the request is signed by that member. Else false with r filled. */
bool coordinate_is_signed(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, bool with_body, const char *member);

/* The signed record in the body, of this run and of now; to be json_decref'ed. NULL with r
 * filled. */
json_t *coordinate_read_record(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind);

/* A whole number below 2^53 as a piece of a path. */
bool coordinate_parse_number(const char *text, uint64_t *out);

#endif
