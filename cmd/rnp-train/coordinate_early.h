/* coordinate_early.h - the update of a round goes to those who wait for it while the disk still takes the
 * round's files: all of it but its last byte, which follows when the round is committed. */
#ifndef RNP_TRAIN_COORDINATE_EARLY_H
#define RNP_TRAIN_COORDINATE_EARLY_H

#include <pthread.h>
#include <stdint.h>

#include "cmd/rnp-train/coordinate.h"

/* Fills r with an update that lies at path, under an entity tag that is its root's: whatever a kill makes of
 * a round, a part of one update is never continued with another. 404 where there is none. From any thread. */
void coordinate_early_reply(struct httpd_reply *r, const char *path);

/* Answers some of the requests that wait for the update of the open round, which is whole at path and will be
 * the round's, or nothing. Called without g->lock by the round's thread. */
void coordinate_early_begin(struct coordinator *g, const char *path);
/* The round is committed: what was withheld follows; or (false) never will be, and the connections break. */
void coordinate_early_end(struct coordinator *g, bool committed);

/* httpd_route.done of requests that may be answered early. */
void coordinate_early_done(void *g, struct httpd_request *q);

#endif
