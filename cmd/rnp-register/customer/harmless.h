/* harmless.h - makes what a stranger's program printed harmless for a terminal: no sequence of
 * it moves the cursor, sets the title, answers for the keyboard, or hides text. Pure. Uses
 * buf, utf8. */
#ifndef RNP_CMD_REGISTER_CUSTOMER_HARMLESS_H
#define RNP_CMD_REGISTER_CUSTOMER_HARMLESS_H

#include <stddef.h>

#include "common/base/buf.h"

/* What of a text in pieces is not decided yet: a character, or a colour, that has begun. */
struct harmless {
	char held[32];
	size_t nheld;
};

/* Appends the next piece. Lines and tabs stay; a carriage return ends a line, as bars of
 * progress use it; colours (ESC [ ... m) are left out; other control characters are shown as
 * ^[ and the like, and bytes that are not UTF-8, and characters that turn or hide text, as
 * "?". */
void harmless_add(struct harmless *h, struct buf *out, const char *text, size_t len);

/* Appends what was held: nothing more comes. */
void harmless_end(struct harmless *h, struct buf *out);

#endif
