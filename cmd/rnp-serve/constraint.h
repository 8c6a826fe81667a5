/* constraint.h - answers that keep to a schema: what response_format asks for, as a mask for the
 * engine. Uses request.h, served.h, grammar.h. */
#ifndef RNP_SERVE_CONSTRAINT_H
#define RNP_SERVE_CONSTRAINT_H

#include "cmd/rnp-serve/request.h"
#include "cmd/rnp-serve/served.h"

struct constraint; /* compiled for one request; its choices share it */

/* Compiles what a request wants: *out NULL when its answers are free. Returns 0, or -1 with e: 400
 * with the place in the schema. Any thread. */
int constraint_open(struct constraint **out, struct served *m, const struct request *q,
	struct api_error *e);
void constraint_free(struct constraint *c); /* NULL is fine */

struct constrained; /* one answer's text so far */

/* c is borrowed until free. reasons: the text begins within the marks of reasoning, and is free up to
 * their end. */
struct constrained *constrained_new(const struct constraint *c, bool reasons);
void constrained_free(struct constrained *t); /* NULL is fine */

/* For the engine's thread; t is borrowed. */
struct lm_mask constrained_mask(struct constrained *t);

#endif
