/* feed_state.h - what a feed said before: the last good offers, and its medians over time.
 *
 * Kept as one JSON file that is replaced whole. feed_judge is pure. Uses feed, json, io. */
#ifndef RNP_PRICE_FEED_STATE_H
#define RNP_PRICE_FEED_STATE_H

#include <jansson.h>
#include <stdbool.h>

#include "cmd/rnp-price/feed.h"

#define FEED_STATE_BYTES_MAX ((size_t)256 << 20)
#define FEED_HISTORY_MAX     16 /* feeds whose medians are kept */
#define FEED_OFFERS_MIN      3  /* of a model, before its median says anything */

struct feed_state {
	json_t *doc; /* NULL: nothing is known */
};

void feed_state_release(struct feed_state *s);

/* Read the file at path. One that is not there is an empty state. market: the state must be
 * of this market. Returns 0, or -1 (65, 74, 77). */
int feed_state_load(struct feed_state *s, const char *path, const char *market);

/* When the last good feed was made, in ms; OFFER_UNKNOWN when there is none. */
int64_t feed_state_at(const struct feed_state *s);

/* Whether that is the feed's own time, and not that of its arrival. */
bool feed_state_own_time(const struct feed_state *s);

/* The ETag that came with it, or NULL. */
const char *feed_state_etag(const struct feed_state *s);

/* Add the last good offers to l. Returns 0, or -1 (65). */
int feed_state_offers(const struct feed_state *s, struct offer_list *l);

/* Put this feed in: its offers replace the last good ones, its medians join the history. */
void feed_state_accept(struct feed_state *s, const char *market, const struct feed *f,
	const char *etag);

/* The server says that the last good feed still holds, at this time. */
void feed_state_confirm(struct feed_state *s, int64_t at_ms);

/* Write the file whole. Returns 0, or -1 (74, 77). */
int feed_state_save(const struct feed_state *s, const char *path);

/* Hold offers against the history: 0 when they are in line or there is no history; -1 with
 * EX_DATAERR when the median price of a model with FEED_OFFERS_MIN offers or more is over
 * factor times its usual one (the median of the history) or under 1/factor of it, or when the
 * feed has fewer than a tenth of the usual number of offers. */
int feed_judge(const struct feed_state *s, const struct offer_list *l, int64_t factor);

#endif
