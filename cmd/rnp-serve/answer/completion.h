/* completion.h - an API request while it is being answered: its choices, and the writer thread that
 * turns the engine's events into output. Uses request/request.h, chat/prompt.h, chat/filter.h,
 * common/httpd/httpd.h, service.h.
 *
 * A handler makes a completion and starts it; from then on the writer's thread owns it. It has
 * two references: the writer's until the engine has finished its answers, and httpd's until the
 * request is over. */
#ifndef RNP_SERVE_ANSWER_COMPLETION_H
#define RNP_SERVE_ANSWER_COMPLETION_H

#include <pthread.h>

#include "cmd/rnp-serve/chat/call_text.h"
#include "cmd/rnp-serve/chat/constraint.h"
#include "cmd/rnp-serve/chat/filter.h"
#include "cmd/rnp-serve/request/keys.h"
#include "cmd/rnp-serve/chat/prompt.h"
#include "cmd/rnp-serve/chat/text_logprobs.h"
#include "common/httpd/httpd.h"

struct completion;
struct writer;

/* One of the answers to a request. */
struct choice {
	struct lm_answer answer;
	struct completion *x;
	uint32_t index;
	struct lm_detoken detoken;
	struct constrained *constrained; /* NULL: unconstrained */
	struct filter filter;
	struct calls calls; /* of tools; only where the request allows them */
	struct buf echo;    /* completions: text to send before the answer */
	struct buf content,
		reasoning; /* text not written yet if streaming, else the whole text */
	/* logprobs of the prompt, where it is echoed, and of the answer; if streaming those not
	 * written yet */
	struct text_logprobs prompt_told, told;
	uint32_t prompt_tokens_told;
	uint32_t tokens; /* sent to the client */
	bool role_sent;
	bool ended;          /* its finish reason is known */
	bool engine_done;    /* the engine has finished it */
	const char *finish;  /* "stop", "length", "tool_calls"; NULL after it was sent */
	const char *outcome; /* the same, but never reset */
	/* responses: the whole text of a stream so far, and the state of its output */
	struct buf whole_text, whole_reasoning;
	uint32_t item; /* of its text: after reasoning */
	bool reasoning_done;
	bool text_begun;
	bool text_done;   /* calls follow */
	float *embedding; /* [dim], until its text is in content; only of embeddings */
};

/* How one of the APIs formats its answers. */
struct reply_format {
	const char *id_prefix; /* "chatcmpl-" */
	/* Called when the engine has finished a choice; NULL: not needed. */
	void (*ended)(struct completion *x, struct choice *c);
	/* Appends the events with a choice's new text; c->finish is set in its last call. */
	void (*chunk)(struct completion *x, struct choice *c, struct buf *out);
	/* Appends the end of a stream. */
	void (*end)(struct completion *x, struct buf *out);
	/* Appends the whole answer. */
	void (*whole)(struct completion *x, struct buf *out);
	/* Appends the data of a stream's event of an error, whose body a reply would have; NULL: it
	 * is that body. */
	void (*error)(struct completion *x, const struct api_error *e,
		const struct buf *body, struct buf *out);
};

extern const struct reply_format reply_chat, reply_completion, reply_response,
	reply_embedding;

struct completion {
	_Atomic int holders;
	struct writer *writer;
	/* valid until httpd_finish; NULL: no client, on_finish is called */
	struct httpd_request *q;
	struct httpd_reply *r;
	void (*on_finish)(struct completion *x); /* r is filled; on the writer's thread */
	void *user;                              /* for on_finish */
	const struct reply_format *format;
	struct request request;
	struct model_slot *model;
	uint32_t adapter; /* of the model, 0: none */
	/* gives the model back when the completion ends; NULL: nobody counts its users */
	void (*give_model)(void *pool, struct model_slot *m);
	void *pool;
	struct constraint *constraint; /* NULL: answers are unconstrained */
	struct keys *keys; /* if key is not NULL: the keys that it belongs to */
	struct api_key *key;
	struct key_share share; /* of the key's limits, until it is given back */
	struct choice *choices;
	uint32_t count, prompts;
	/* How many choices may be in the engine at a time: of many prompts the others follow as
	 * these end, so that other clients find room. */
	uint32_t window;
	/* open: choices without a finish reason; submitted: choices given to the engine; busy:
	 * those of them still in it */
	uint32_t open, submitted, busy;
	char id[48];
	int64_t created, started_ns, first_ns, last_write_ns;
	uint32_t prompt_tokens, cached_tokens;
	uint64_t sequence; /* responses: number of the next event */
	/* uint32_t: tokens that the client expects in the answer */
	struct buf prediction;
	struct buf out; /* bytes of the stream that are not yet written */
	bool streaming; /* something was sent */
	bool end_written;
	bool finished; /* httpd_finish was called */
	_Atomic bool disconnected;
	_Atomic bool half_closed; /* a comment is to be sent now */
	struct completion *next;  /* in the writer's list */
	bool touched; /* the engine had news; streaming: that are not in out yet */
};

/* Takes a parsed request (and empties it), its prompts and a constraint (or NULL), and makes
 * the choices. Returns the completion with one reference, the caller's. */
struct completion *completion_new(struct writer *w, struct model_slot *m,
	struct request *q, const struct reply_format *format, struct prompt *prompts,
	uint32_t count, struct constraint *constraint);

/* Sets who sent the request: groups take turns, and only requests of one name space share
 * cached prompts. */
void completion_belongs(struct completion *x, uint64_t group, uint64_t space);

/* Lets at most this many choices be in the engine at a time; 0: no limit. Before
 * completion_start. */
void completion_limit(struct completion *x, uint32_t choices);

/* Says what a request may need of a key's limits; keys_take may lower the tokens, which
 * completion_allow then holds its answers to. */
struct key_share completion_share(const struct completion *x);
void completion_allow(struct completion *x, const struct key_share *share);

/* Sets the adapter of the model that answers; 0, as before: none. */
void completion_adapts(struct completion *x, uint32_t adapter);

/* Returns the name by which the client knows what answers: the adapter's, or the model's. */
const char *completion_model_name(const struct completion *x);

/* Submits the answers to the engine. From now on the writer replies to q, or if q is NULL fills
 * r and calls on_finish. Returns 0, or -1 with err_set(EX_TEMPFAIL) if the queue is full; x
 * then still belongs to the caller alone. */
int completion_start(struct completion *x, struct httpd_request *q,
	struct httpd_reply *r);

/* Notes that the client left; httpd calls it. */
void completion_gone(struct completion *x);
/* Notes that the client closed its sending half within a stream: a comment shows whether it
 * reads. */
void completion_half_closed(struct completion *x);
void completion_drop(struct completion *x); /* drops one reference; NULL is fine */

/* --- the writer --------------------------------------------------------------------------- */

/* Starts the thread; outbox is borrowed until writer_close. Returns NULL with err_set() on
 * failure. */
struct writer *writer_open(struct lm_events *outbox);

/* From now on the engines get nothing more of requests in progress, so that they can be closed.
 * NULL is fine. */
void writer_hold(struct writer *w);

/* Ends the thread; requests still in progress get 503 or the end of their stream. NULL
 * is fine. */
void writer_close(struct writer *w);

/* Returns how many requests are in progress. */
uint32_t writer_live(struct writer *w);

/* Counts the requests for a model. */
void writer_count(struct writer *w, const struct model_slot *m,
	struct model_slot_requests *out);

#endif
