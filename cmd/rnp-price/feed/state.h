/* state.h - earlier results of a feed: the last good offers, and its medians over time.
 *
 * Stored as one file that is replaced atomically: a line with everything but the offers, then the
 * offers as JSON Lines, which are read only when they are wanted. feed_check is pure. Uses feed,
 * json, io, lines. */
#ifndef RNP_PRICE_FEED_STATE_H
#define RNP_PRICE_FEED_STATE_H

#include <jansson.h>
#include <stdbool.h>

#include "cmd/rnp-price/feed/feed.h"

#define FEED_STATE_BYTES_MAX ((size_t)256 << 20)
#define FEED_HISTORY_MAX     16 /* feeds whose medians are stored */
#define FEED_OFFERS_MIN      3  /* offers of a model for its median to count */

struct feed_state {
	json_t *doc;      /* the first line; NULL: no history */
	const char *path; /* of the file that was read; borrowed */
};

void feed_state_release(struct feed_state *s);

/* Reads the file at path (borrowed until the release). If it does not exist, the state is empty.
 * market: the state must be of this market. Returns 0, or -1 (65, 74, 77). */
int feed_state_load(struct feed_state *s, const char *path, const char *market);

/* Returns when the last good feed was made, in ms; OFFER_UNKNOWN if there is none. */
int64_t feed_state_at(const struct feed_state *s);

/* Whether the feed stated that time itself; otherwise it is the time of arrival. */
bool feed_state_own_time(const struct feed_state *s);

/* Returns the ETag that came with it, or NULL. */
const char *feed_state_etag(const struct feed_state *s);

/* Adds the last good offers to l. Returns 0, or -1 (65). */
int feed_state_offers(const struct feed_state *s, struct offer_list *l);

/* Takes note of this feed, whose offers are the last good ones now: its medians join the history.
 * feed_state_save writes both. */
void feed_state_accept(struct feed_state *s, const char *market, const struct feed *f,
	const char *etag);

/* Records that the server says, at this time, that the last good feed is still valid. */
void feed_state_confirm(struct feed_state *s, int64_t at_ms);

/* Writes the file atomically, with the last good offers. Returns 0, or -1 (74, 77). */
int feed_state_save(const struct feed_state *s, const char *path,
	const struct offer_list *offers);

/* Compares offers with the history. Returns 0 if they are plausible or there is no history; -1
 * with EX_DATAERR if the median price of a model, or of all together, with FEED_OFFERS_MIN offers
 * or more is over factor times its usual one (the median of the history) or below 1/factor of it,
 * or if the feed has fewer than a tenth of the usual number of offers. */
int feed_check(const struct feed_state *s, const struct offer_list *l, int64_t factor);

#endif
