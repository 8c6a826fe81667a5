/* page.h - the chat page that the server shows in browsers. Uses common/httpd/httpd.h. */
#ifndef RNP_SERVE_SERVER_PAGE_H
#define RNP_SERVE_SERVER_PAGE_H

#include "common/httpd/httpd.h"

/* A handler of httpd for `/`; ctx is the struct server. */
enum httpd_when page_get(void *ctx, struct httpd_request *q, struct httpd_reply *r);

#endif
