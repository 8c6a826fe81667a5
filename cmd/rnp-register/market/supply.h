/* supply.h - what is for sale at present, in memory: nodes, prices, listings, heartbeats, leases;
 * and proposals made of it. Safe from any thread. */
#ifndef RNP_CMD_REGISTER_MARKET_SUPPLY_H
#define RNP_CMD_REGISTER_MARKET_SUPPLY_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/record/key.h"
#include "common/store/store.h"

struct supply;

#define SUPPLY_WHY_MAX 200

struct supply *supply_new(void);
void supply_free(struct supply *s);

/* Reads all that is stored. Returns 0 or -1. */
int supply_load(struct supply *s, struct store *store, int64_t now_ms);

/* What came in. Records are borrowed, and correct by their schemas; sha256 is a record's. A node
 * that is not known yet is remembered. */
void supply_node(struct supply *s, const json_t *record);
void supply_quote(struct supply *s, const json_t *record, const char *sha256);
void supply_listing(struct supply *s, const json_t *record);
void supply_proven(struct supply *s, const char *node, int64_t at_ms);
/* busy: the state of its heartbeat keeps customers away (render, maintenance). */
void supply_beat(struct supply *s, const char *node, int64_t received_ms,
	int64_t interval_ms, bool away);

/* Devices of a node are leased, or free again. gpus: their uuids, a JSON array; empty: the node's
 * processor. */
void supply_lease(struct supply *s, const char *node, const json_t *gpus, bool leased);

/* A node is to prove its leased devices before its customer gets them; until then it is not spared
 * (supply_proven ends it). */
void supply_to_prove(struct supply *s, const char *node);

/* Until then another has proven a device that this node claims: it is not for sale. 0: none has. */
void supply_dispute(struct supply *s, const char *node, int64_t until_ms);

/* A start on that node has failed; whoever fails those of three customers in a day is left out for
 * a day. More of one customer count once: else he could take nodes off the market. */
void supply_failed(struct supply *s, const char *node, const char *customer,
	int64_t now_ms);

/* Whether something of the node is leased, and has not to be proven first; when it was proven
 * last (0: never). */
bool supply_is_spared(struct supply *s, const char *node);
int64_t supply_proven_ms(struct supply *s, const char *node);

/* The node's agent asks what is assigned to it. */
void supply_asked(struct supply *s, const char *node, int64_t now_ms);

/* Returns why a node that has a lease is taken for lost, or NULL: two heartbeats that it promised
 * did not come since the last, or since_ms; or its agent, which is a program of its own, has not
 * asked for five minutes. */
const char *supply_silence(struct supply *s, const char *node, int64_t since_ms,
	int64_t now_ms);

/* Whether a part of an offer can be booked now: the node is for sale for so long, online, its
 * devices are free, and its price is not above the part's. Returns 0; or 1, gone or busy, or 2,
 * dearer, with why. */
int supply_check(struct supply *s, const json_t *part, int64_t hours, int64_t now_ms,
	char why[SUPPLY_WHY_MAX]);

/* Fills a proposal with offers, spares, left_out and nearest for a job (rnp.job). Returns 0, or -1
 * with err_set(): 65 the job is not one of the market's. */
int supply_propose(struct supply *s, const json_t *job, int64_t now_ms, json_t *proposal);

/* Takes off the market whoever is not for sale any more: silent, or with a listing that is over. */
void supply_sweep(struct supply *s, int64_t now_ms);

/* How it stands with a node that has ever listed: "for_sale", or "why" not, for its operator, and
 * "price_uusd", which it gets for an hour. Returns a new object, or NULL: it never has. */
json_t *supply_sale(struct supply *s, const char *node, int64_t now_ms);

/* How many nodes are for sale. */
int64_t supply_count(struct supply *s);

#endif
