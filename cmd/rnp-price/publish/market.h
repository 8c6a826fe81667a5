/* publish_market.h - the markets that a price can be listed on: what is listed, and listing it.
 * Uses http, key. */
#ifndef RNP_PRICE_PUBLISH_MARKET_H
#define RNP_PRICE_PUBLISH_MARKET_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-price/publish_core.h"
#include "common/base/buf.h"
#include "common/net/http.h"

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
