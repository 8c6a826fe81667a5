/* work.h - what requests share before they are answered: memory, the model, what they cost a key.
 * Uses server.h. */
#ifndef RNP_SERVE_SERVER_WORK_H
#define RNP_SERVE_SERVER_WORK_H

#include "cmd/rnp-serve/chat/constraint.h"
#include "cmd/rnp-serve/server/server.h"

/* Whether there is no memory to begin a request with; then with e. */
bool work_lacks_memory(const struct httpd_request *q, struct api_error *e);

/* Whether memory ran out while a request was read; then with e. */
bool work_lacked_memory(struct api_error *e);

/* Finds the model that a request names, and loads it if it is not; the caller gives it back to the
 * pool. NULL with e. */
struct model_slot *work_take_model(struct server *s, const char *name, uint32_t *adapter,
	struct api_error *e);

/* Gives the memory of a request with a large body back to the system when it is over: the C library
 * keeps what many small values took, each thread its own. */
void work_give_memory(const struct httpd_request *q);

/* Charges the key of a request (NULL: none) that was only read, or refused: who sends what is
 * refused pays for the reading. made: tokens that were made of it. */
void work_charge(struct server *s, struct api_key *key, const struct httpd_request *q,
	size_t made);

/* Compiles what holds a request's answers (constraint.h), and adds to *ns the processor's time that
 * this took. Returns 0, or -1 with e, and r for a key that has nothing left. */
int work_constrain(struct constraint **out, struct server *s, struct model_slot *m,
	const struct request *ask, struct api_key *key, struct httpd_reply *r,
	int64_t *ns, struct api_error *e);

/* Charges a key (NULL: none) the processor's time that its request took before it was answered or
 * refused, as far as it has tokens. */
void work_charge_time(struct server *s, struct api_key *key, int64_t ns);

#endif
