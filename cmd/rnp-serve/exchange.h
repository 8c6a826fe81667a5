/* exchange.h - one request of the API that is being answered: its choices, and who writes what the
 * engine says. Uses request.h, prompt.h, filter.h, httpd.h, service.h.
 *
 * A handler makes an exchange and starts it; from then on the writer's thread owns it. Two hold it:
 * the writer until the engine is done with its answers, httpd until the request is over. */
#ifndef RNP_SERVE_EXCHANGE_H
#define RNP_SERVE_EXCHANGE_H

#include <pthread.h>

#include "cmd/rnp-serve/constraint.h"
#include "cmd/rnp-serve/filter.h"
#include "cmd/rnp-serve/keys.h"
#include "cmd/rnp-serve/prompt.h"
#include "common/net/httpd.h"

struct exchange;
struct writer;

/* One of the answers to a request. */
struct choice {
	struct lm_answer answer;
	struct exchange *x;
	uint32_t index;
	struct lm_detoken detoken;
	struct constrained *constrained; /* NULL: free text */
	struct filter filter;
	struct buf echo;               /* completions: what comes before the answer */
	struct buf content, reasoning; /* not written yet when streaming, else all */
	json_t *logprobs; /* an array of tokens, not written yet when streaming; NULL: not wanted */
	size_t text_bytes;   /* so far, for offsets */
	uint32_t tokens;     /* told to the client */
	bool begun;          /* its role was told */
	bool ended;          /* the client knows how it finished */
	bool over;           /* the engine is done with it */
	const char *finish;  /* "stop", "length"; NULL once it was told */
	const char *outcome; /* the same, for good */
	/* responses: all that was written of a stream, and where it is */
	struct buf said, thought;
	uint32_t item;
	bool speaks;
	float *embedding; /* [dim]; embeddings only */
};

/* How an API writes its answers. */
struct reply_format {
	const char *id_prefix; /* "chatcmpl-" */
	/* Appends the events of what a choice has to tell; c->finish is set in its last. */
	void (*chunk)(struct exchange *x, struct choice *c, struct buf *out);
	/* Appends what ends a stream. */
	void (*end)(struct exchange *x, struct buf *out);
	/* Appends the whole answer. */
	void (*whole)(struct exchange *x, struct buf *out);
};

extern const struct reply_format reply_chat, reply_completion, reply_response,
	reply_embedding;

struct exchange {
	_Atomic int holders;
	struct writer *writer;
	struct httpd_request
		*q; /* valid until httpd_finish; NULL: no client, on_finish is called */
	struct httpd_reply *r;
	void (*on_finish)(struct exchange *x); /* r is filled; on the writer's thread */
	void *user;                            /* of on_finish */
	const struct reply_format *format;
	struct request request;
	struct served *model;
	struct constraint *constraint; /* NULL: answers are free */
	struct keys *keys;             /* with key: whose limits it counts against */
	struct api_key *key;
	struct choice *choices;
	uint32_t count, prompts;
	uint32_t open, busy; /* choices that have not ended; that the engine still has */
	char id[48];
	int64_t created, started_ns, first_ns, last_write_ns;
	uint32_t prompt_tokens, cached_tokens;
	uint64_t sequence;     /* responses: of the next event */
	struct buf prediction; /* uint32_t: what the answer may well be */
	struct buf out;        /* of the stream, not yet written */
	bool streaming;        /* something was sent */
	bool end_written;
	bool finished; /* httpd_finish was called */
	_Atomic bool gone;
	struct exchange *next; /* in the writer's list */
	bool touched;
};

/* Parses nothing: takes a parsed request (which it empties), the prompts and a constraint (or NULL),
 * makes the choices.
 * Returns it, held once for the caller. */
struct exchange *exchange_new(struct writer *w, struct served *m, struct request *q,
	const struct reply_format *format, struct prompt *prompts, uint32_t count,
	struct constraint *constraint);

/* Who asks: groups take turns, and only a name space shares what is in the cache. */
void exchange_belongs(struct exchange *x, uint64_t group, uint64_t space);

/* Hands the answers to the engine; from now on the writer answers q, or where that is NULL fills r
 * and calls on_finish. Returns 0, or -1 with
 * err_set(EX_TEMPFAIL): the queue is full, and x is still the caller's alone. */
int exchange_start(struct exchange *x, struct httpd_request *q, struct httpd_reply *r);

/* The client left: for httpd's gone. */
void exchange_gone(struct exchange *x);
void exchange_drop(struct exchange *x); /* of one holder; NULL is fine */

/* --- the writer ----------------------------------------------------------------------------------- */

/* Times in seconds, by powers of 2 from 1 ms on. */
#define HISTOGRAM_BUCKETS 18

struct histogram {
	uint64_t counts[HISTOGRAM_BUCKETS]; /* [i]: at most 2^i ms; the last: more */
	uint64_t n;
	double sum;
};

/* Counted since the start; read under writer_count. */
struct writer_counts {
	uint64_t requests, cancelled, failed;
	uint32_t live;
	struct histogram first, token, queue; /* what clients wait for */
};

/* Starts the thread; outbox is borrowed until writer_close. NULL with err_set(). */
struct writer *writer_open(struct lm_outbox *outbox);

/* Ends it; exchanges that are left get 503 or the end of their stream. NULL is fine. */
void writer_close(struct writer *w);
void writer_count(struct writer *w, struct writer_counts *out);

#endif
