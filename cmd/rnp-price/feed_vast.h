/* feed_vast.h - the reader of Vast's offers that takes them as they arrive: memory for one offer
 * and the results, whatever the list's length. Pure; uses feed. */
#ifndef RNP_PRICE_FEED_VAST_H
#define RNP_PRICE_FEED_VAST_H

#include <stddef.h>

#include "cmd/rnp-price/feed.h"

struct feed_vast;

/* Begins a list; name: the file, for errors and notes. Offers go to f, which is borrowed. */
struct feed_vast *feed_vast_open(struct feed *f, const char *name);

/* Takes the next bytes of the list, in pieces of any size. Returns 0, or -1 with EX_DATAERR. */
int feed_vast_push(struct feed_vast *v, const void *data, size_t len);

/* The list ends here. Returns 0, or -1 with EX_DATAERR: it is not whole, or no list. */
int feed_vast_end(struct feed_vast *v);

void feed_vast_close(struct feed_vast *v); /* v may be NULL */

#endif
