/* feed.h - a market's list of prices, read into offers. Pure; uses offer, gpu, money, json.
 *
 * A reader either takes the whole feed or refuses it: a value that is malformed means that the
 * market or the way here is broken, and an operator must not be repriced by that. What is
 * well-formed but no offer of a GPU (no price, no GPU) is left out and noted.
 *
 * Prices are decimals in the feed. They are taken as text (JSON reals: their shortest digits),
 * to 12 decimals, half to even beyond; divided by the number of GPUs; rounded half up to
 * 10^-6 dollars. No binary fraction is ever an amount of money. */
#ifndef RNP_PRICE_FEED_H
#define RNP_PRICE_FEED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/offer.h"
#include "common/record/gpu.h"

/* What people should know about a feed: once per text, with how often and where first. */
struct feed_note {
	char *text, *where;
	long times;
};

struct feed {
	struct offer_list offers;
	int64_t at_ms; /* when it was made; readers set it only from the feed's words */
	bool own_time; /* at_ms is the feed's own */
	long rows;     /* how many the feed has: each is one offer or two, or in a note */
	struct feed_note *notes;
	size_t nnotes, notes_cap;
	size_t *ids, ids_cap; /* hash table of the offers' ids */
};
#define FEED_INIT                      \
	{                              \
		.at_ms = OFFER_UNKNOWN \
	}

void feed_release(struct feed *f);

/* Readers. text of len bytes with a NUL behind; name: the file, for errors and notes. Each
 * returns 0, or -1 with EX_DATAERR naming file, place and reason. */
int feed_skypilot(struct feed *f, const char *text, size_t len, const char *name);
int feed_prime(struct feed *f, const char *text, size_t len, const char *name);
int feed_runpod(struct feed *f, const char *text, size_t len, const char *name);
int feed_salad(struct feed *f, const char *text, size_t len, const char *name);
int feed_nosana(struct feed *f, const char *text, size_t len, const char *name);
int feed_vast(struct feed *f, const char *text, size_t len, const char *name);

/* --- for the readers ---------------------------------------------------------------------- */

void feed_note(struct feed *f, const char *where, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* Price of one GPU from that of count_micro / 10^6 of them, both as texts of the feed say.
 * what names the price in errors. Returns 0, or -1: not a decimal, negative, or too large. A
 * price of 0 gives 0, one below 10^-6 too. */
int feed_price(const char *price, int64_t count_micro, const char *what, int64_t *uusd);

/* Name the model of an offer: m, or name with a note when m is NULL. */
void feed_name_model(struct feed *f, struct offer *o, const struct gpu_model *m,
	const char *name, const char *where);

/* Add an offer, unless its id was there: the first one stands, with a note. */
void feed_add(struct feed *f, struct offer *o, const char *where);

/* Two capital letters of "Texas, US", "Hungary, HU, EU" or "FR" into out; false: none. */
bool feed_country(const char *place, char out[3]);

#endif
