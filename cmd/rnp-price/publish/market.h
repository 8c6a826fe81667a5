/* market.h - the markets that a price can be listed on: what is listed, and listing it.
 * Uses http, key. */
#ifndef RNP_PRICE_PUBLISH_MARKET_H
#define RNP_PRICE_PUBLISH_MARKET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/http/http.h"

#define PUBLISH_NONE (-1)

/* --- price.c: bounds a price by what was listed a day before and by the floor. Pure ----------- */

/* All prices are those of an hour of the whole node, in uusd. */
struct publish_input {
	int64_t ask_uusd, customer_uusd, floor_uusd; /* of the quote */
	int64_t day_before_uusd; /* what customers were asked a day ago; PUBLISH_NONE */
	int64_t max_change_ppm;  /* in a day, up or down */
};

struct publish_price {
	int64_t customer_uusd,
		ask_uusd; /* what is to be listed, and the node's part of it */
	bool limited;     /* the quote is further away than a day allows */
};

/* Computes what is to be listed. Returns 0, or -1 with EX_DATAERR: the quote is under its floor
 * or beyond every price; or EXIT_NO: a day's change does not lead up to the floor. */
int publish_price(const struct publish_input *in, struct publish_price *out);

/* The price of one of so many GPUs, rounded up, so that all together never cost less. */
int64_t publish_per_gpu(int64_t uusd, int64_t gpus);

/* Appends an amount as a JSON number of dollars: 379500 is 0.3795. */
void publish_dollars(struct buf *out, int64_t uusd);

/* --- the markets ------------------------------------------------------------------------------ */

struct publish_target {
	struct http http;
	const char *url;      /* of the market */
	const char *key_file; /* the market's API key, or the node's own key */
	const char *machine;  /* Vast's number of the machine */
	const char *ca;
	const json_t *quote; /* borrowed */
	int64_t gpus;

	/* set by look */
	char unit[64];           /* the market's name of what is listed */
	int64_t listed_uusd;     /* what customers are asked an hour of the whole node, or
				    PUBLISH_NONE */
	bool same;               /* what is listed is this very price, in every part */
	json_t *before, *wanted; /* what is listed, and the request's body; owned */
	struct buf body;         /* the same as text */
};
#define PUBLISH_TARGET_INIT                                    \
	{                                                      \
		.http = HTTP_INIT, .listed_uusd = PUBLISH_NONE \
	}

struct publish_market {
	const char *name, *url; /* url NULL: it must be given */
	/* Reads what is listed. Returns 0 or -1. */
	int (*look)(struct publish_target *t);
	/* Makes the request for a price, and decides `same`. Returns 0 or -1. */
	int (*plan)(struct publish_target *t, const struct publish_price *p,
		int64_t now_ms);
	/* Sends it. Returns 0 or -1; it may be sent twice. */
	int (*send)(struct publish_target *t);

	/* What look and send do with the bytes of the market's answer; without I/O. read_sent NULL:
	 * an answer that is no error is consent. Return 0 or -1. */
	int (*read_listed)(struct publish_target *t, const char *text, size_t len);
	int (*read_sent)(const struct publish_target *t, const char *text, size_t len);
};

extern const struct publish_market publish_vast, publish_rnp;

void publish_target_release(struct publish_target *t);

#endif
