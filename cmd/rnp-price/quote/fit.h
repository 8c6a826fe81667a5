/* fit.h - what a GPU-hour costs as a function of the hardware, its place and its market.
 * Pure.
 *
 * A hedonic model (Rosen 1974): the logarithm of the price per GPU-hour is linear in logarithms
 * of the hardware's figures, plus an effect for each market, model, country and tier. Fitted by
 * iteratively reweighted least squares with Huber's weights (1.345 standard deviations, from
 * the median absolute residual) and a ridge; effects are shrunk by a ridge of their own, so
 * that a market seen three times has a level and a model never seen has none.
 *
 * What one host asks for one thing counts once, however many offers state it. Uses offer, gpu. */
#ifndef RNP_PRICE_QUOTE_FIT_H
#define RNP_PRICE_QUOTE_FIT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cmd/rnp-price/offers/offer.h"

#define FIT_ROWS_MIN 8 /* fewer rows are not fitted */

/* The numbers of an offer; all but the last four are natural logarithms. */
enum fit_number {
	FIT_ONE,
	FIT_MEMORY,
	FIT_F32,
	FIT_TENSOR,
	FIT_BANDWIDTH,
	FIT_COUNT,
	FIT_SPOT,
	FIT_YEARS,  /* age of the chip when the newest chip was launched */
	FIT_SERVER, /* 1: a data-centre chip, 0: a desktop one */
	FIT_NUMBERS
};

enum fit_effect { FIT_MARKET, FIT_MODEL, FIT_COUNTRY, FIT_TIER, FIT_EFFECTS };

struct fit_row {
	double x[FIT_NUMBERS], y; /* y: log of dollars per GPU-hour */
	int effect[FIT_EFFECTS];  /* column of each level, -1: none */
	uint64_t seller;          /* hash of the seller and the goods */
	double weight, huber;     /* the host's, and the final Huber weight of the fit */
};

/* One column: a number or a level of an effect. */
struct fit_column {
	enum fit_effect effect; /* for columns from FIT_NUMBERS on */
	char *name;             /* "RTX 4090", "vast", "US" */
	/* rows that have it; how many of these are in the cross-validation */
	long rows, left;
	double value; /* its coefficient */
	double error; /* for a market: its own error_market; 0: not computed */
};

struct fit {
	struct fit_column *columns; /* FIT_NUMBERS numbers, then the effects' levels */
	size_t ncolumns, cap;
	/* rows it was fitted to; NULL if it was read from a record */
	struct fit_row *rows;
	size_t nrows, rows_cap;
	double sigma; /* robust standard deviation of the residuals */
	/* log(price / fitted price) at the lowest and at the highest tenth of offers; of models
	 * that the fit knows, and of models that it does not */
	double low, high, low_new, high_new;
	/* median of |price / fitted price - 1|; < 0: not computed */
	double error, error_model, error_market;
};
#define FIT_INIT                                                    \
	{                                                           \
		.error = -1, .error_model = -1, .error_market = -1, \
	}

void fit_release(struct fit *f);

extern const char *const fit_number_names[FIT_NUMBERS];
extern const char *const fit_effect_names[FIT_EFFECTS];

/* Computes the numbers of a model for the fit; figures that its table row lacks are taken from
 * its family. Returns false if memory, f32 or bandwidth is unknown. */
bool fit_numbers(double x[FIT_NUMBERS], const struct gpu_model *m, int64_t memory_bytes,
	int64_t gpu_count, bool spot);

/* Adds an offer: whole GPUs of a known model at a plausible price. Returns whether it was
 * added. */
bool fit_add(struct fit *f, const struct offer *o);

/* Fits the added offers and computes the spread of residuals. Returns 0, or -1 with EX_DATAERR:
 * fewer than FIT_ROWS_MIN offers. */
int fit_solve(struct fit *f);

/* Cross-validates: computes error_model (each model left out in turn), low_new, high_new, and
 * error_market (each market left out, its level then estimated from three of its offers: the
 * mean over markets of the medians over triples). Of more than 5,000 offers it uses every k-th,
 * and f contains only those afterwards. */
void fit_leave_out(struct fit *f);

/* Estimates the customer's price of one GPU, in uusd per hour: the middle, and the ends of the
 * range that contains four fifths of offers. market, country and tier may be NULL: their mean.
 * *market_known says whether the market's level is known. Returns false if too little is known
 * of the model. */
struct fit_question {
	const struct gpu_model *model;
	int64_t memory_bytes; /* of one GPU; 0: use the table's */
	int64_t gpu_count;
	bool spot;
	const char *market, *country, *tier;
};
struct fit_price {
	int64_t low_uusd, mid_uusd, high_uusd;
	bool market_known, model_known;
};
bool fit_price(const struct fit *f, const struct fit_question *q, struct fit_price *out);

/* Returns the column of an effect's level; -1: there is none. */
int fit_find(const struct fit *f, enum fit_effect effect, const char *name);

/* --- fit_record.c: a fit as a record, and back ---------------------------------------------------
 *
 * All numbers are integers in millionths, so that the record can be signed and is the same
 * everywhere. */

#define FIT_RECORD_BYTES_MAX ((size_t)1 << 20)

/* Returns the record of a fit, without inputs and time; the caller owns it. */
json_t *fit_to_json(const struct fit *f);

/* Reads a record that fit_to_json made. The caller releases f. Returns 0, or -1 with EX_DATAERR
 * naming where and the field: not an rnp.fit, or an impossible number. */
int fit_from_json(struct fit *f, const json_t *record, const char *where);

/* Reads the same from the file at path: one record, signed or not. Returns 0, or -1. */
int fit_load(struct fit *f, const char *path);

#endif
