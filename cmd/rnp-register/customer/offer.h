/* offer.h - what a registry offers for the wishes of a job: which is taken, whether it is what was
 * asked for, and how it is told. Pure but for the clock of proofs. Uses signature, json, money,
 * err. */
#ifndef RNP_REGISTER_CUSTOMER_OFFER_H
#define RNP_REGISTER_CUSTOMER_OFFER_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

/* Whether a proposal is signed by the registry that it names, and its first offer, if it has any,
 * has the nodes, the GPUs and the price that the wish (rnp.job) asks for. Returns 0, or -1 with
 * err_set(EX_DATAERR) that names what is not so. */
int offer_check(const json_t *proposal, const json_t *wish);

/* The first offer of a proposal, or NULL. */
const json_t *offer_first(const json_t *proposal);
int64_t offer_uusd_per_hour(const json_t *proposal);

/* Sets what a node in place of one that failed may cost (replace_uusd_per_hour): as much as the
 * dearest spare of the proposal that is not above the job's limit, nor above one and a half of the
 * dearest node that is booked. Nothing where there is none, or where a failure is to end it. */
void offer_set_replacement(json_t *booking, const json_t *proposal);

/* Which of n proposals is taken: the first that has an offer, or the one whose offer is cheapest;
 * of equals the first. Returns n where none has one. */
size_t offer_choose(const json_t *const *proposals, size_t n, bool in_order);

/* Whether a cluster (rnp.cluster) is what was booked: signed by the proposal's registry, with the
 * offer's nodes at the offer's prices. Returns 0, or -1 with err_set(EX_DATAERR). */
int offer_check_cluster(const json_t *proposal, const json_t *cluster);

/* Appends an amount, "0.82": cents, and what is below them where there is something. */
void offer_add_dollars(struct buf *out, int64_t uusd);

/* Appends "2 nodes with 16 GPUs, 0.82 $/h, at most 3.28 $; next 0.91 $/h; 41 nodes left out: 22
 * memory, 12 place, 7 price". */
void offer_words(struct buf *out, const json_t *proposal);

/* Appends why nothing fits: the nodes that are left out, and which wish, relaxed, would help. */
void offer_none_words(struct buf *out, const json_t *proposal);

#endif
