/* state.h - what quote remembers in SQLite: prices over time, and hosts that were seen.
 *
 * One write transaction lasts from quote_state_open to quote_state_save or _close, so that two
 * runs on one file wait for each other and neither loses a price. Uses store, rivals. */
#ifndef RNP_PRICE_QUOTE_STATE_H
#define RNP_PRICE_QUOTE_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-price/quote/demand.h"
#include "cmd/rnp-price/quote/core.h"
#include "cmd/rnp-price/quote/leases.h"
#include "common/store/store.h"

#define QUOTE_STATE_DAY_MS  INT64_C(86400000)
#define QUOTE_STATE_KEEP_MS (90 * QUOTE_STATE_DAY_MS)
#define QUOTE_STATE_SKEW_MS INT64_C(300000) /* a clock may go back by this much */

struct quote_state {
	struct store store;
	const char *node; /* borrowed: an address, or "unsigned" */
	bool open;
	int64_t last_ask_uusd; /* QUOTE_NONE: there is no price yet */
	int64_t last_at_ms;    /* when it was made */
	int64_t changed_ms;    /* when it last changed; QUOTE_NONE: never */
	int64_t changes_today; /* changes in the 24 hours before now */
	int64_t snapshots;     /* number of market snapshots so far */
	int64_t learned_ms; /* time up to which customers were counted; QUOTE_NONE: not yet */
	struct demand demand; /* the belief about them */
	int64_t now_ms;
};
#define QUOTE_STATE_INIT            \
	{                           \
		.store = STORE_INIT \
	}

/* Opens the file at path (created if it does not exist), takes its write lock and reads the
 * state of node. Returns 0, or -1: store_open's errors, and 65 if the last price is later than
 * now_ms (the clock went back), or if a number is read that quote never stores: the file is
 * damaged, or somebody else wrote it. */
int quote_state_open(struct quote_state *s, const char *path, const char *node,
	int64_t now_ms);

/* Stores s->demand, which has counted customers until now. Within the transaction. Returns 0,
 * or -1. */
int quote_state_learned(struct quote_state *s);

/* Learns from the customers since the last run, at the price that they saw, against the present
 * rivals of `market`; a first run only learns how long leases are. units: how many leases may run
 * at a time. Sets what `in` knows of demand. Within the transaction. Returns 0, or -1. */
int quote_learn(struct quote_state *s, struct quote_input *in, const struct leases *l,
	int64_t units, const struct rivals_question *market, int64_t fee_ppm);

/* Determines for each comparable offer of q whether its host was in an earlier snapshot: an
 * array of q->offers->n to be freed, or NULL in *seen if there was no snapshot yet. Returns 0,
 * or -1. */
int quote_state_seen(struct quote_state *s, const struct rivals_question *q, bool **seen);

/* Determines for each comparable offer of q, whose seen is set, whether its host copies our price
 * (sellers.h), and remembers the prices that show it. fee_ppm is the network's, as in quote_rules.
 * *follows becomes an array of q->offers->n to be freed, or NULL if nobody does; *n how many
 * hosts. If all believed rivals do, they are the market, and nobody is said to. Within the
 * transaction. Returns 0, or -1: 65 if what is remembered is damaged. */
int quote_state_follows(struct quote_state *s, const struct rivals_question *q,
	int64_t fee_ppm, bool **follows, int64_t *n);

/* Stores the price and the hosts of this snapshot, and ends the transaction. An empty snapshot
 * (no offers) changes no host. Returns 0, or -1 with everything as it was. */
int quote_state_save(struct quote_state *s, const struct rivals_question *q,
	const struct quote *quote);

/* Discards what was not saved. */
void quote_state_close(struct quote_state *s);

#endif
