/* fit_core.h - what a GPU-hour costs as a function of the hardware, its place and its market. Pure.
 *
 * A hedonic model (Rosen 1974): the logarithm of the price per GPU-hour is linear in logarithms of
 * the hardware's figures, plus an effect for each market, model, country and tier. Fitted by
 * iteratively reweighted least squares with Huber's weights (1.345 standard deviations, from the
 * median absolute residual) and a ridge; effects are shrunk by a ridge of their own, so that a
 * market that was seen three times has a level and a model that was never seen has none.
 *
 * What one host asks for one thing counts once, however many offers say it. Uses offer, gpu. */
#ifndef RNP_PRICE_FIT_CORE_H
#define RNP_PRICE_FIT_CORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/offer.h"

#define FIT_ROWS_MIN 8 /* fewer say nothing */

/* The numbers of an offer; each is a natural logarithm but for the last four. */
enum fit_number {
	FIT_ONE,
	FIT_MEMORY,
	FIT_F32,
	FIT_TENSOR,
	FIT_BANDWIDTH,
	FIT_COUNT,
	FIT_SPOT,
	FIT_YEARS,  /* since the chip came out, at the newest chip's launch */
	FIT_SERVER, /* 1: a chip for data centres, 0: for desks */
	FIT_NUMBERS
};

enum fit_effect { FIT_MARKET, FIT_MODEL, FIT_COUNTRY, FIT_TIER, FIT_EFFECTS };

struct fit_row {
	double x[FIT_NUMBERS], y; /* y: log of dollars per GPU-hour */
	int effect[FIT_EFFECTS];  /* column of each, -1: none */
	uint64_t seller;          /* hash of who asks for what */
	double weight, huber;     /* the host's, and the one that the fit ended with */
};

/* One column: a number or a level of an effect. */
struct fit_column {
	enum fit_effect effect; /* of columns from FIT_NUMBERS on */
	char *name;             /* "RTX 4090", "vast", "US" */
	long rows, left;        /* that have it; of those that leaving out works on */
	double value;           /* its coefficient */
	double error; /* of a market: as error_market, alone; 0: not worked out */
};

struct fit {
	struct fit_column *columns; /* FIT_NUMBERS numbers, then the effects' levels */
	size_t ncolumns, cap;
	struct fit_row
		*rows; /* what it was fitted to; NULL when it was read from a record */
	size_t nrows, rows_cap;
	double sigma; /* of the residuals, robust */
	/* logarithms of price / fitted price below which a tenth, and above which a tenth of the
	 * offers are; of models that the fit knows, and of models that it does not */
	double low, high, low_new, high_new;
	/* median of |price / fitted price - 1|; < 0: not worked out */
	double error, error_model, error_market;
};
#define FIT_INIT                                                    \
	{                                                           \
		.error = -1, .error_model = -1, .error_market = -1, \
	}

void fit_release(struct fit *f);

extern const char *const fit_number_names[FIT_NUMBERS];
extern const char *const fit_effect_names[FIT_EFFECTS];

/* The numbers of a model as the fit sees it, with figures that its table row lacks taken from its
 * family. Returns false when too little is known: memory, f32 or bandwidth. */
bool fit_numbers(double x[FIT_NUMBERS], const struct gpu_model *m, int64_t memory_bytes,
	int64_t gpu_count, bool spot);

/* Take in an offer: whole GPUs of a known model with a price that may be. Returns whether it
 * was. */
bool fit_add(struct fit *f, const struct offer *o);

/* Fit what was taken in, and work out the spread of residuals. Returns 0, or -1 with EX_DATAERR:
 * fewer than FIT_ROWS_MIN offers. */
int fit_solve(struct fit *f);

/* Work out error_model (each model left out in turn), low_new, high_new, and error_market (each
 * market left out, its level then learned from three of its offers: the mean over markets of the
 * medians over triples). Works on every k-th of more than 5,000 offers, which are all that f has
 * afterwards. */
void fit_leave_out(struct fit *f);

/* A price of one GPU for its customer, in uusd per hour: middle, and the ends between which
 * four fifths of offers are. market, country and tier may be NULL: their mean. *market_known
 * says whether the market's level is known. Returns false when too little is known of the
 * model. */
struct fit_question {
	const struct gpu_model *model;
	int64_t memory_bytes; /* of one GPU; 0: the table's */
	int64_t gpu_count;
	bool spot;
	const char *market, *country, *tier;
};
struct fit_price {
	int64_t low_uusd, mid_uusd, high_uusd;
	bool market_known, model_known;
};
bool fit_price(const struct fit *f, const struct fit_question *q, struct fit_price *out);

/* The column of an effect's level; -1: there is none. */
int fit_find(const struct fit *f, enum fit_effect effect, const char *name);

#endif
