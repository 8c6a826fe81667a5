/* pieces.h - deltas on their way: pieces that have arrived, each at its place in one file, and
 * beside it which are there. Uses coordinator.h.
 *
 * Pieces survive a kill of the coordinator, but not a fall of the machine, after which they are
 * asked for again: only a whole delta is flushed to the disk. From any thread. */
#ifndef RNP_TRAIN_COORDINATOR_PIECES_H
#define RNP_TRAIN_COORDINATOR_PIECES_H

#include "cmd/rnp-train/coordinator/coordinator.h"

/* The upload of one turn: its files stay open and its owner known from piece to piece, until the
 * turn is over or the round closes. */
struct upload;

/* The upload of a turn, there already or begun; never NULL. Each needs upload_close. */
struct upload *upload_open(struct coordinator *g, uint64_t turn);
void upload_close(struct coordinator *g, struct upload *u);

/* Whether upload_want was called for this member, and nothing was forgotten since. *forgotten is
 * for upload_want. */
bool upload_is_of(struct coordinator *g, const struct upload *u, const char *node,
	uint64_t *forgotten);
/* This member's delta of the turn may still count: so the database said after upload_is_of. */
void upload_want(struct coordinator *g, struct upload *u, const char *node,
	uint64_t forgotten);
/* How many deltas are on their way, as far as is remembered. */
uint64_t uploads_count(struct coordinator *g);
/* A round was committed: the database is asked again whose deltas are wanted. Nobody may use an
 * upload when the coordinator is closed. */
void uploads_forget(struct coordinator *g);

/* Takes len bytes: a piece, or several in a row from that one on. Returns 0; 1: the same bytes are
 * there already; 2: others are (those before them are taken); 3: the record of the delta is being
 * checked; -1 with err_set(EX_IOERR). */
int pieces_put(struct coordinator *g, struct upload *u, uint64_t piece, const void *data,
	size_t len);

/* Appends the numbers of the pieces that are there, below `pieces`: "0,1,5". */
void pieces_list(struct coordinator *g, uint64_t turn, uint64_t pieces, struct buf *out);

/* Holds the pieces against what the record says, has the container checked, flushes it and gives it
 * the name path, too. From then on no piece of the turn is taken, until pieces_end. One at a time:
 * with intake.check_lock. Returns 0, the norm, and the values in sketch, which was begun; 1: pieces
 * are missing; -1 with err_set(): 65 they are not what the record says, 74. */
int pieces_join(struct coordinator *g, const struct delta *d, uint64_t elements,
	const char *path, double *norm, struct sketch *sketch);

/* Call it after pieces_join, whatever that returned. drop: removes the pieces. */
void pieces_end(struct coordinator *g, uint64_t turn, bool drop);

#endif
