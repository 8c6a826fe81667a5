/* amount.h - amounts as people write them: a number and its unit, and whether such an amount is to
 * be expected.
 *
 * The whole text is the amount, or it is an error: nothing may stand behind it, and a decimal comma
 * is refused with what was probably meant. Uses num, money, err, buf. */
#ifndef RNP_COMMON_BASE_AMOUNT_H
#define RNP_COMMON_BASE_AMOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"

/* One of a unit is times / over of the kind's smallest. */
struct amount_unit {
	const char *name; /* NULL ends a list */
	int64_t times, over;
};

struct amount_kind {
	const char *example; /* "0.15 USD/kWh" */
	/* of the amount; of money, what may stand behind its "/" */
	const struct amount_unit *units;
	bool money;       /* dollars, smallest unit uusd */
	bool rounds;      /* any number of decimals is taken */
	const char *unit; /* in which messages name amounts: "W" */
	int decimals;     /* of the smallest unit in that one */
	/* Amounts further from 0 than most, or nearer to it than least, are doubted; 0 never. Both
	 * 0: none is. */
	int64_t least, most;
	/* What a doubted amount may have been meant in: it is times / over of what was read. */
	const struct amount_unit *slips;
};

extern const struct amount_kind amount_usd;      /* any; never doubted */
extern const struct amount_kind amount_render;   /* base units; never doubted */
extern const struct amount_kind amount_per_kwh;  /* uusd */
extern const struct amount_kind amount_spot_kwh; /* of an hour: may be near 0, or below */
extern const struct amount_kind amount_hardware; /* uusd */
extern const struct amount_kind amount_per_hour; /* uusd, for a line to the network */
extern const struct amount_kind
	amount_per_month;                      /* uusd, for what a provider rents out */
extern const struct amount_kind amount_watts;  /* W, of a node */
extern const struct amount_kind amount_days;   /* of use of hardware */
extern const struct amount_kind amount_ppm;    /* a part of something, also "5%" */
extern const struct amount_kind amount_bits;   /* bit/s, of a line */
extern const struct amount_kind amount_memory; /* bytes, of a GPU or a machine */

/* What other currencies are worth: a list that ends with a name of "". */
struct amount_rate {
	char name[4]; /* "EUR" */
	int64_t uusd;
};

/* Reads "0.15 USD/kWh", "$0.15", "15 ct/kWh", "85.30 EUR/MWh", "0.45 kW", "5%".
 * bare: the unit of a number without one, as a text that may stand behind it ("": the kind's own,
 * dollars or W); NULL: a unit has to be there. rates: of other currencies; NULL: none is known.
 * The result is in the kind's smallest unit. It is rounded, half to even, where the unit is not the
 * kind's own; with that, more decimals than the smallest unit has are refused. Does not doubt.
 * Returns 0, or -1 with EX_DATAERR naming what. */
int amount_read(const char *text, const char *what, const struct amount_kind *k,
	const char *bare, const struct amount_rate *rates, int64_t *out);

/* Whether a text may stand behind a number of this kind; currencies without a rate, too. */
bool amount_is_unit(const char *unit, const struct amount_kind *k);

/* Doubts an amount that is far from all that is usual: a warning (err_warn) that names it and the
 * nearest readings ("did you mean 0.0853 USD/kWh?"); after amount_refuse_doubtful an error instead.
 * Returns 0, or -1 with EX_DATAERR. */
int amount_doubt(int64_t v, const char *what, const struct amount_kind *k);
void amount_refuse_doubtful(void);

/* Appends an amount for people: "0.15 USD/kWh", "450 W", "5%". */
void amount_text(struct buf *out, int64_t v, const struct amount_kind *k);

#endif
