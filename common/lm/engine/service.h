/* service.h - an engine with its own thread. Other threads submit answers to one queue and take
 * their events from another; they never block the engine's thread. Uses engine.h, pthreads. */
#ifndef RNP_COMMON_LM_ENGINE_SERVICE_H
#define RNP_COMMON_LM_ENGINE_SERVICE_H

#include "common/lm/engine/engine.h"

/* --- what becomes of answers, of any number of services ------------------------------------ */

struct lm_events;

/* Like struct lm_event; logprobs points into lm_event_batch. */
struct lm_batch_event {
	struct lm_answer *answer;
	int64_t token;
	bool of_prompt;
	const struct lm_logprobs *logprobs;
};

/* Events in order, valid until the next lm_events_take. Initialise with zeros. */
struct lm_event_batch {
	struct lm_batch_event *events;
	size_t count, cap;
	struct lm_logprobs *logprobs;
	size_t logprobs_count, logprobs_cap;
};

struct lm_events *lm_events_new(void);
void lm_events_free(
	struct lm_events *o); /* NULL is fine; no service may use it any more */

/* Waits at most timeout_ms for events, or for lm_events_wake, and takes all there are. Only one
 * thread at a time may call it, always with the same news. */
void lm_events_take(struct lm_events *o, struct lm_event_batch *news, int timeout_ms);
void lm_events_wake(struct lm_events *o);
void lm_event_batch_release(struct lm_event_batch *n);

/* --- a service ------------------------------------------------------------------------------ */

struct lm_service;

struct lm_service_config {
	struct lm_engine_limits limits;
	uint32_t queue; /* answers that may wait */
	/* Steps get as many rows of prompts as fit into this time; 0: limits.rows. Where answers
	 * wait for their next tokens beside the prompts, into somewhat more than half of it; where
	 * none does, into more than twice as much. */
	int64_t step_ns;
	/* Pages of the cache for which memory is found before they are needed, while there is
	 * nothing else to do. */
	uint32_t pages_ahead;
	const uint32_t *ends; /* ids that end a text */
	uint32_t ends_count;
	struct lm_events *outbox;       /* borrowed until close */
	const struct lm_weights *draft; /* as for lm_engine_draft; NULL: none */
};

/* Opens an engine and starts its thread. w is borrowed until close. Returns 0 and *out, or -1
 * with err_set(). */
int lm_service_open(struct lm_service **out, const struct lm_weights *w,
	const struct lm_service_config *config);

/* Stops the thread after the current step. Unfinished answers get no event. NULL is fine. */
void lm_service_close(struct lm_service *s);

/* As lm_engine_accepts, from any thread. */
int lm_service_accepts(const struct lm_service *s, const uint32_t *tokens, uint32_t n,
	bool generates);

/* Submits n answers, from any thread: all of them, or none if the queue is full, which returns
 * -1 with err_set(EX_TEMPFAIL). Their events go to the outbox. */
int lm_service_submit(struct lm_service *s, struct lm_answer *const *answers, uint32_t n);

/* Submits an answer in place of one that has ended, from any thread, however many wait. */
void lm_service_follow(struct lm_service *s, struct lm_answer *a);

/* Cancels an answer, from any thread, until its last event is taken from the outbox. */
void lm_service_cancel(struct lm_service *s, struct lm_answer *a);

/* Counts as of the last step, and the time of all steps; any thread may read them. */
struct lm_service_counts {
	struct lm_engine_counts engine;
	uint64_t step_ns; /* of all steps */
};
void lm_service_count(struct lm_service *s, struct lm_service_counts *out);

#endif
