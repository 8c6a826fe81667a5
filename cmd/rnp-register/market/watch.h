/* watch.h - requests that wait for news: long polls and streams. One thread answers them, and does
 * what the writer's thread must not wait for. */
#ifndef RNP_CMD_REGISTER_MARKET_WATCH_H
#define RNP_CMD_REGISTER_MARKET_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-register/storage/registry.h"
#include "common/httpd/httpd.h"

struct watch;

#define WATCH_SUBJECT_MAX 64
#define WATCH_WAIT_MAX_S  25

/* One request. Its owner allocates it with malloc and passes it to watch_wait. */
struct waiter {
	struct waiter *next;
	/* what it waits for news of: a cluster's name, or an address */
	char subject[WATCH_SUBJECT_MAX];
	struct httpd_request *q;
	struct httpd_reply *r;
	/* Looks whether there is news. Returns true when r is filled, or for a stream when it is
	 * over. last: its time is over, it has to answer. */
	bool (*look)(struct registry *g, struct waiter *w, bool last);
	int64_t until_ns; /* monotonic */
	bool stream;      /* it writes by httpd_try_write */
	/* the question's own */
	char caller[KEY_ADDRESS_MAX];
	int64_t after;
	uint64_t seen; /* of the watch */
};

struct watch *watch_new(struct registry *g);
int watch_start(struct watch *t); /* 0 or -1 */
/* Ends the thread after what was handed to it is done; whoever waits is answered. */
void watch_stop(struct watch *t);
void watch_free(struct watch *t);

/* Answers now, or waits. Takes w. Returns what the handler returns. */
enum httpd_when watch_wait(struct watch *t, struct waiter *w);

/* There is news of this subject; from any thread. */
void watch_news(struct watch *t, const char *subject);

/* The client has left: the request is finished. */
void watch_gone(struct watch *t, struct httpd_request *q);

/* Runs fn(ctx) on the watch's thread, in the order of the calls; at once where there is none. */
void watch_later(struct watch *t, void (*fn)(void *ctx), void *ctx);

/* Whether there is a thread: streams need it. */
bool watch_runs(const struct watch *t);

/* How many wait. */
int64_t watch_waiting(struct watch *t);

/* Reads ?wait=, at most WATCH_WAIT_MAX_S; 0: do not wait. Returns 0, or -1 with r filled. */
int watch_wait_query(const struct httpd_request *q, struct httpd_reply *r,
	int64_t *wait_s);

#endif
