/* coordinate_pieces.h - deltas on their way: pieces that have arrived, each at its place in one file,
 * and beside it which are there. Uses coordinate.h.
 *
 * Pieces survive a kill of the coordinator, but not a fall of the machine, after which they are asked
 * for again: only a whole delta is flushed to the disk. From any thread. */
#ifndef RNP_TRAIN_COORDINATE_PIECES_H
#define RNP_TRAIN_COORDINATE_PIECES_H

#include "cmd/rnp-train/coordinate.h"

/* Takes len bytes: a piece, or several in a row from that one on. Returns 0; 1: the same bytes are there
 * already; 2: others are (those before them are taken); 3: the record of the delta is being checked; -1
 * with err_set(EX_IOERR). */
int pieces_put(struct coordinator *g, uint64_t turn, uint64_t piece, const void *data,
	size_t len);

/* Whether the first `pieces` are there. The caller has g->pieces_lock. */
bool pieces_are_there(struct coordinator *g, uint64_t turn, uint64_t pieces);

/* Appends the numbers of the pieces that are there, below `pieces`: "0,1,5". */
void pieces_list(struct coordinator *g, uint64_t turn, uint64_t pieces, struct buf *out);

/* Holds the pieces against what the record says, has the container checked, flushes it and gives it the
 * name path, too. From then on no piece of the turn is taken, until pieces_end. One at a time: with
 * g->check_lock. Returns 0 and the norm; 1: pieces are missing; -1 with err_set(): 65 they are not what
 * the record says, 74. */
int pieces_join(struct coordinator *g, const struct delta *d, uint64_t elements,
	const char *path, double *norm);

/* Behind pieces_join, whatever came of it. drop: the pieces are not wanted any more. */
void pieces_end(struct coordinator *g, uint64_t turn, bool drop);

#endif
