/* feed.h - reads a market's list of prices into offers. Pure; uses offer, gpu, money, json.
 *
 * A reader either accepts the whole feed or refuses it: a malformed value means that the market
 * or the transfer is broken, and an operator must not be repriced by that. Well-formed entries
 * that are no offer of a GPU (no price, no GPU) are skipped with a note.
 *
 * Prices are decimals in the feed. They are taken as text (JSON reals: their shortest digits),
 * to 12 decimals, half to even beyond; divided by the number of GPUs; rounded half up to 10^-6
 * dollars. An amount of money is never a binary fraction. */
#ifndef RNP_PRICE_FEED_H
#define RNP_PRICE_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/offer.h"
#include "common/record/gpu.h"

/* Notes about a feed for people: once per text, with how often and where first. */
struct feed_note {
	char *text, *where;
	long times;
};

#define FEED_CURSOR_MAX 128

struct feed {
	struct offer_list offers;
	int64_t at_ms; /* when it was made; readers set it only if the feed states it */
	bool own_time; /* the feed states at_ms itself */
	long rows;     /* rows in the feed: each gives one or two offers, or a note */
	int64_t stated; /* rows that the market says there are, over all pages; -1: it does not */
	char next
		[FEED_CURSOR_MAX]; /* where the next page begins; "": this was the last */
	struct feed_note *notes;
	size_t nnotes, notes_cap;
	size_t *ids, ids_cap; /* hash table of the offer ids */
};
#define FEED_INIT                                    \
	{                                            \
		.at_ms = OFFER_UNKNOWN, .stated = -1 \
	}

void feed_release(struct feed *f);

/* Readers. text has len bytes, followed by a NUL; name: the file, for errors and notes. Each
 * returns 0, or -1 with EX_DATAERR naming file, place and reason. The pages of a list are read
 * one after the other into the same feed. */
int feed_akash(struct feed *f, const char *text, size_t len, const char *name);
int feed_skypilot(struct feed *f, const char *text, size_t len, const char *name);
int feed_prime(struct feed *f, const char *text, size_t len, const char *name);
int feed_runpod(struct feed *f, const char *text, size_t len, const char *name);
int feed_salad(struct feed *f, const char *text, size_t len, const char *name);
int feed_nosana(struct feed *f, const char *text, size_t len, const char *name);
int feed_rnp(struct feed *f, const char *text, size_t len, const char *name);
int feed_vast(struct feed *f, const char *text, size_t len, const char *name);

/* After the last page: returns 0, or -1 with EX_DATAERR when rows are missing: a page is not the
 * market. */
int feed_complete(const struct feed *f, const char *name);

/* --- for the readers ---------------------------------------------------------------------- */

void feed_note(struct feed *f, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Computes the price of one GPU from that of count_micro / 10^6 of them, both as texts from the
 * feed. what names the price in errors. Returns 0, or -1: not a decimal, negative, or too
 * large. A price of 0, or below 10^-6, gives 0. */
int feed_price(const char *price, int64_t count_micro, const char *what, int64_t *uusd);

/* Sets the model of an offer: m, or name with a note if m is NULL. */
void feed_name_model(struct feed *f, struct offer *o, const struct gpu_model *m,
	const char *name, const char *where);

/* Adds an offer. If its id exists already, the first one is kept, with a note. */
void feed_add(struct feed *f, struct offer *o, const char *where);

/* Copies the two capital letters of "Texas, US", "Hungary, HU, EU" or "FR" to out. Returns
 * false if there are none. */
bool feed_country(const char *place, char out[3]);

#endif
