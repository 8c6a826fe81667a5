/* feed.h - reads a market's list of prices into offers. Pure; uses offer, gpu, money, json.
 *
 * A reader either accepts the whole feed or refuses it: a malformed value means that the market
 * or the transfer is broken, and an operator must not be repriced by that. Well-formed entries
 * that are no offer of a GPU (no price, no GPU) are skipped with a note.
 *
 * Prices are decimals in the feed. They are taken as text (JSON reals: their shortest digits),
 * to 12 decimals, half to even beyond; divided by the number of GPUs; rounded half up to 10^-6
 * dollars. An amount of money is never a binary fraction. */
#ifndef RNP_PRICE_FEED_FEED_H
#define RNP_PRICE_FEED_FEED_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/offers/offer.h"
#include "common/base/buf.h"
#include "common/base/index.h"
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
	struct hash_index ids; /* of the offers, by id */
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

/* --- list.c: takes the items of a list of JSON as they arrive, with memory for one and the
 * results, whatever the list's length -------------------------------------------------------- */

struct item;
struct feed_list;

/* How a market's list looks. */
struct feed_form {
	const char *list, *inside; /* as json_items; inside may be NULL */
	const char *no_list;       /* "no 'items': not a list of Prime's offers" */
	const char *const *fields; /* of an item, those that count; ends with NULL */
	int (*item)(struct feed *f, const struct item *it);
	/* takes a field of the document; or NULL */
	int (*field)(struct feed_list *l, const char *key, const json_t *v);
	bool single; /* a document that is a single item is read, too */
};

struct feed_list {
	struct feed *feed;
	const struct feed_form *form;
	struct buf part; /* an item without the fields that do not count */
	char name[200];
	int64_t stated; /* how many items the document says that it has; -1: it does not */
	struct json_items *items;
};

/* Begins a list; name: the file, for errors and notes. Offers go to f, which is borrowed. */
struct feed_list *feed_list_open(struct feed *f, const struct feed_form *form,
	const char *name);

/* Takes the next bytes of the list, in pieces of any size. Returns 0, or -1 with EX_DATAERR. */
int feed_list_push(struct feed_list *l, const void *data, size_t len);

/* The list ends here. Returns 0, or -1 with EX_DATAERR: it is not whole, or no list. */
int feed_list_end(struct feed_list *l);

void feed_list_close(struct feed_list *l); /* l may be NULL */

/* Reads a whole list of len bytes. Returns 0, or -1 with EX_DATAERR. */
int feed_list_read(struct feed *f, const struct feed_form *form, const char *text,
	size_t len, const char *name);

extern const struct feed_form feed_vast_form;

#endif
