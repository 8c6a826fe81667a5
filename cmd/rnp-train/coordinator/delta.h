/* delta.h - handlers of deltas: pieces are taken and listed, and a signed record ends them. */
#ifndef RNP_TRAIN_COORDINATOR_DELTA_H
#define RNP_TRAIN_COORDINATOR_DELTA_H

#include "cmd/rnp-train/coordinator/coordinator.h"

enum httpd_when coordinate_put_piece(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when coordinate_get_pieces(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when coordinate_post_delta(void *g, struct httpd_request *q,
	struct httpd_reply *r);

#endif
