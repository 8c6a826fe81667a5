/* filter.h - splits a model's output for the client: up to a stop text, with reasoning
 * separate. Uses buf. Pure.
 *
 * Text arrives in pieces of any size. Bytes that could still become a stop text or a tag are
 * held back. */
#ifndef RNP_SERVE_CHAT_FILTER_H
#define RNP_SERVE_CHAT_FILTER_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

#define FILTER_THINK     "<think>"
#define FILTER_THINK_END "</think>"

struct filter {
	const char *const *stop; /* borrowed, none empty */
	uint32_t stop_count;
	struct buf held;
	bool stopped; /* a stop text was found: everything after it is ignored */
	/* the part of the output that the text is in */
	enum { FILTER_START, FILTER_REASONING, FILTER_AFTER, FILTER_CONTENT } state;
	struct buf marked; /* text that may be a tag */
};

/* reasons: whether to look for reasoning tags; inside: the text begins within reasoning. */
void filter_init(struct filter *f, const char *const *stop, uint32_t stop_count,
	bool reasons, bool inside);
void filter_release(struct filter *f);

/* Takes a piece of text and appends all that is decided by now. Returns whether a stop text
 * ended it. */
bool filter_push(struct filter *f, const char *text, size_t len, struct buf *content,
	struct buf *reasoning);

/* Ends the text: appends what was held back. */
void filter_end(struct filter *f, struct buf *content, struct buf *reasoning);

#endif
