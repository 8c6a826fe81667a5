/* page.h - a run for people: the page at / and the summary at /status. */
#ifndef RNP_TRAIN_COORDINATOR_PAGE_H
#define RNP_TRAIN_COORDINATOR_PAGE_H

#include "cmd/rnp-train/coordinator/coordinator.h"

/* The page as a file in the run's directory, for when nobody serves it. Returns 0, or -1 with
 * err_set(). */
#define COORDINATE_PAGE "page.html"
int coordinate_keep_page(struct coordinator *g);

enum httpd_when coordinate_get_page(void *g, struct httpd_request *q,
	struct httpd_reply *r);
enum httpd_when coordinate_get_status(void *g, struct httpd_request *q,
	struct httpd_reply *r);

#endif
