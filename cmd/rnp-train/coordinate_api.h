/* coordinate_api.h - parts that all handlers of a coordinator need: identification of the
 * client, and refusals. For coordinate_*.c alone. */
#ifndef RNP_TRAIN_COORDINATE_API_H
#define RNP_TRAIN_COORDINATE_API_H

#include "cmd/rnp-train/coordinate.h"

/* Counts a refusal and fills r. */
enum httpd_when coordinate_refuse(struct coordinator *g, struct httpd_reply *r,
	int status, const char *text);

/* Whether the request is signed by that member. Else false with r filled. */
bool coordinate_is_signed(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, bool with_body, const char *member);

/* The signed record in the body, of this run and of now; to be json_decref'ed. NULL with r filled. */
json_t *coordinate_take_record(struct coordinator *g, struct httpd_request *q,
	struct httpd_reply *r, const char *kind);

/* A whole number below 2^53 as a piece of a path. */
bool coordinate_parse_number(const char *text, uint64_t *out);

/* --- coordinate_delta.c --------------------------------------------------------------------- */

enum httpd_when coordinate_put_piece(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when coordinate_get_pieces(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when coordinate_post_delta(void *g, struct httpd_request *q,
	struct httpd_reply *r);
/* The client of a record that is held has left. */
void coordinate_delta_gone(void *g, struct httpd_request *q);

#endif
