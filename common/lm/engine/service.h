/* service.h - an engine with a thread of its own. Other threads put answers into one queue and take
 * what becomes of them from another; nothing they do makes the engine's thread wait. Uses engine.h,
 * pthreads. */
#ifndef RNP_COMMON_LM_ENGINE_SERVICE_H
#define RNP_COMMON_LM_ENGINE_SERVICE_H

#include "common/lm/engine/engine.h"

/* --- what becomes of answers, of any number of services ------------------------------------ */

struct lm_outbox;

/* As struct lm_event; logprobs lies in lm_news. */
struct lm_news_event {
	struct lm_answer *answer;
	int64_t token;
	const struct lm_logprobs *logprobs;
};

/* Events in their order, valid until the next lm_outbox_take. Begin with zeros. */
struct lm_news {
	struct lm_news_event *events;
	size_t count, room;
	struct lm_logprobs *logprobs;
	size_t logprobs_count, logprobs_room;
};

struct lm_outbox *lm_outbox_new(void);
void lm_outbox_free(struct lm_outbox *o); /* NULL is fine; no service uses it any more */

/* Waits at most timeout_ms for events, or for lm_outbox_wake, and takes all there are. One thread at
 * a time. news: the same one each time. */
void lm_outbox_take(struct lm_outbox *o, struct lm_news *news, int timeout_ms);
void lm_outbox_wake(struct lm_outbox *o);
void lm_news_release(struct lm_news *n);

/* --- a service ------------------------------------------------------------------------------ */

struct lm_service;

struct lm_service_config {
	struct lm_engine_limits limits;
	uint32_t queue; /* answers that may wait */
	int64_t step_ns; /* pieces of prompts shrink where a step takes longer; 0: they do not */
	const uint32_t *ends; /* ids that end a text */
	uint32_t ends_count;
	struct lm_outbox *outbox; /* borrowed until close */
};

/* Starts the thread. w is borrowed until close. Returns 0 and *out, or -1 with err_set(). */
int lm_service_open(struct lm_service **out, const struct lm_weights *w,
	const struct lm_service_config *config);

/* Ends the thread after the step in progress. Answers that are not finished get no event. NULL is
 * fine. */
void lm_service_close(struct lm_service *s);

/* Any thread: as lm_engine_accepts. */
int lm_service_accepts(const struct lm_service *s, const uint32_t *tokens, uint32_t n);

/* Any thread: takes all n answers, or none and returns -1 with err_set(EX_TEMPFAIL): so many wait
 * already. Their events come to the outbox. */
int lm_service_submit(struct lm_service *s, struct lm_answer *const *answers, uint32_t n);

/* Any thread, until the last event of the answer was taken from the outbox. */
void lm_service_cancel(struct lm_service *s, struct lm_answer *a);

/* Any thread: counts as of the last step, and how long steps took. */
struct lm_service_counts {
	struct lm_engine_counts engine;
	uint64_t step_ns; /* of all steps */
};
void lm_service_count(struct lm_service *s, struct lm_service_counts *out);

#endif
