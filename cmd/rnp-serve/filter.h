/* filter.h - what a model says, as a client gets it: up to a stop text, and with reasoning apart.
 * Uses buf. Pure.
 *
 * Text comes in pieces of any size. What could still become a stop text or a mark is held back. */
#ifndef RNP_SERVE_FILTER_H
#define RNP_SERVE_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

#define FILTER_THINK     "<think>"
#define FILTER_THINK_END "</think>"

struct filter {
	const char *const *stop; /* borrowed, none empty */
	uint32_t stop_count;
	struct buf held;
	bool stopped; /* a stop text came: nothing after it counts */
	/* where the text is */
	enum { FILTER_START, FILTER_REASONING, FILTER_AFTER, FILTER_CONTENT } state;
	struct buf marked; /* text that may be a mark */
};

/* reasons: whether marks of reasoning are looked for; inside: the text begins within them. */
void filter_init(struct filter *f, const char *const *stop, uint32_t stop_count,
	bool reasons, bool inside);
void filter_release(struct filter *f);

/* Takes a piece and appends what is certain now. Returns whether a stop text ended it. */
bool filter_push(struct filter *f, const char *text, size_t len, struct buf *content,
	struct buf *reasoning);

/* The text ended: appends what was held. */
void filter_end(struct filter *f, struct buf *content, struct buf *reasoning);

#endif
