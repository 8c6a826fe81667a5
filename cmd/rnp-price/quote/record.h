/* record.h - a quote as an rnp.quote record, with every step that led to it. Pure; uses core,
 * priced_node, render. */
#ifndef RNP_PRICE_QUOTE_RECORD_H
#define RNP_PRICE_QUOTE_RECORD_H

#include <jansson.h>
#include <stdbool.h>

#include "cmd/rnp-price/cost/priced_node.h"
#include "cmd/rnp-price/quote/core.h"
#include "cmd/rnp-price/quote/fit.h"

/* What the record is made of; borrowed. */
struct quote_record {
	const struct priced_node *node;
	const struct costs *costs;
	const struct cost_floor *floor;
	const struct quote_input *in;
	const struct quote_rules *rules;
	const struct fit_price *fitted; /* written if in->mid_uusd is known */
	const struct quote *quote;
	int64_t now_ms, changed_ms; /* changed: when the price last did */
	int64_t hours;              /* of a job whose price is added; 0: none */
	int64_t render_uusd;        /* price of a RENDER; 0: not known */
	bool split;                 /* add what the GPUs would ask in equal parts */
};

/* Returns the record, given to the caller; or NULL with EX_DATAERR: the job's price is beyond every
 * amount. */
json_t *quote_record(const struct quote_record *x);

#endif
