/* page.h - the chat page that the server shows in browsers. Uses httpd.h. */
#ifndef RNP_SERVE_PAGE_H
#define RNP_SERVE_PAGE_H

#include "common/net/httpd.h"

/* A handler of httpd for `/`; ctx is the struct server. */
enum httpd_when page_get(void *ctx, struct httpd_request *q, struct httpd_reply *r);

#endif
