/* coordinate_page.h - a run for people: the page at / and the summary at /status. */
#ifndef RNP_TRAIN_COORDINATE_PAGE_H
#define RNP_TRAIN_COORDINATE_PAGE_H

#include "cmd/rnp-train/coordinate.h"

enum httpd_when coordinate_get_page(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when coordinate_get_status(void *g, struct httpd_request *q,
	struct httpd_reply *r);

#endif
