/* constraint.h - answers that conform to a schema, and calls of tools that conform to theirs: turns
 * response_format and tools into a mask for the engine. Uses request/request.h, model/slot.h,
 * grammar.h. */
#ifndef RNP_SERVE_CHAT_CONSTRAINT_H
#define RNP_SERVE_CHAT_CONSTRAINT_H

#include "cmd/rnp-serve/request/request.h"
#include "cmd/rnp-serve/model/slot.h"

struct constraint; /* compiled for one request; all its choices share it */

/* Compiles the constraint that a request asks for; *out is NULL if its answers are
 * unconstrained. m is borrowed until free. Returns 0, or -1 with e: 400 with the place in the
 * schema. Any thread may call it. */
int constraint_open(struct constraint **out, struct model_slot *m,
	const struct request *q, struct api_error *e);
void constraint_free(struct constraint *c); /* NULL is fine */

/* Returns what the schemas of tools that are not strict ask for and answers are not held to:
 * "f.schema.not, ...", or "". Borrowed until free; c may be NULL. */
const char *constraint_left_out(const struct constraint *c);

struct constrained; /* one answer's text so far */

/* c is borrowed until free. reasons: the text begins within reasoning, which is unconstrained
 * up to its closing tag. Where a model may call tools or not, its text is unconstrained up to
 * the mark of a call. */
struct constrained *constrained_new(const struct constraint *c, bool reasons);
void constrained_free(struct constrained *t); /* NULL is fine */

/* Returns the mask of t. Only the engine's thread calls it; t is borrowed. */
struct lm_mask constrained_mask(struct constrained *t);

#endif
