/* ending.h - the end of a server whose main thread cannot end it: it is loading models, or waits
 * for a device that does not answer. Uses common/httpd/httpd.h. One server a process. */
#ifndef RNP_SERVE_SERVER_ENDING_H
#define RNP_SERVE_SERVER_ENDING_H

#include "common/httpd/httpd.h"

/* From now on, until ending_loaded, SIGTERM and SIGINT end the process with EX_OK, whatever its
 * main thread does; h is stopped first. Returns 0, or -1 with err_set(). */
int ending_watch(struct httpd *h);

/* Models are loaded, or cannot be: signals wait for httpd_wait again. */
void ending_loaded(void);

/* The process has ended within ENDING_S from now, or it ends with EX_OSERR and one line. */
#define ENDING_S 12
void ending_limit(void);

#endif
