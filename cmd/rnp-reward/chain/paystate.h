/* paystate.h - decides the state of a transaction from the answers of several servers. Pure: no
 * I/O, no clock; tests/unit/rnp-reward/chain/paystate.c checks every order of faults.
 *
 * planned -> signed -> sent -> confirmed -> finalised | failed | expired
 *
 * The one thing that must never happen is that a transaction is given up while it can still
 * land, or after it has landed: its payments would be made twice. So it expires only if
 *   - more than half of the servers, and at least two, say so, those that it was sent to not
 *     counted: a finalised height above its last valid one, or a blockhash that has gone (see
 *     hash_gone), requested first, and then, requested with its history, a status that is null;
 *   - no server at all contradicts this, neither with a trace of the transaction nor with a
 *     finalised height that is not above, unless the blockhash has gone there.
 * That it has landed and failed is what servers say, and nothing proves it: two that collude
 * could have everything paid twice. So it has failed only if a person has looked and says so
 * (given_up), and no server has seen it without an error, or does not know it at a height at
 * which it can land.
 * It is final if more than half of the servers, and at least two, say "finalized" (one, if there
 * is only one), whatever the others say: that can make a payment count that was not made, and
 * never make one twice; and a server that lies alone cannot stop all payments. */
#ifndef RNP_CMD_REWARD_CHAIN_PAYSTATE_H
#define RNP_CMD_REWARD_CHAIN_PAYSTATE_H

#include <stdbool.h>
#include <stdint.h>

#include "common/chain/seen.h"

#define PAY_QUORUM       2
#define PAY_VALID_BLOCKS 150 /* lifetime of a blockhash */

enum pay_status {
	PAY_PLANNED,
	PAY_SIGNED,
	PAY_SENT,
	PAY_CONFIRMED,
	PAY_FINALISED,
	PAY_FAILED,
	PAY_EXPIRED,
	PAY_STATUSES
};
extern const char *const pay_status_names[PAY_STATUSES];

/* Returns the state with this name; -1: there is none. */
int pay_status_find(const char *name);

/* Whether the state is final. */
static inline bool pay_is_over(enum pay_status s)
{
	return s >= PAY_FINALISED;
}

struct pay_view {
	int servers;   /* that are asked */
	int given;     /* by the user, those that were left out included */
	bool given_up; /* a person has said that it paid nothing, and cannot any more */
	int64_t last_valid; /* last block height at which the transaction can land */
	uint32_t sent_to;   /* bit per server that it was ever sent to */
	int64_t final_height[PAY_SERVERS_MAX]; /* requested before seen; -1: no answer */
	/* The blockhash was good at a finalised slot of this server and no longer is at a later
	 * one: see pay_hash_note. Requested before seen. */
	bool hash_gone[PAY_SERVERS_MAX];
	enum pay_seen seen[PAY_SERVERS_MAX];
};

/* What one server has said of one blockhash, in the order in which it was asked. */
struct pay_hash_seen {
	int64_t good_slot; /* the greatest finalised slot at which it was good, plus 1; 0: none */
	bool gone;         /* as the last answer says */
};

/* Notes an answer to isBlockhashValid, at finalised commitment: the slot, and whether the hash is
 * good there. That it is not good means nothing by itself: a server that is behind does not know
 * the hash yet, and none ever knows that of a fork. But what was good at a finalised slot, and is
 * not at a later one, was in the chain that stays, and is too old for every block after it. */
void pay_hash_note(struct pay_hash_seen *s, int64_t slot, bool good);

/* Returns the next state of a transaction: the same state, or a later one. *contradiction (may
 * be NULL) is set to the server that alone prevents the expiry, or -1. */
enum pay_status pay_decide(enum pay_status now, const struct pay_view *v,
	int *contradiction);

/* Whether two servers (one, if there is only one) say that the transaction has failed, finalised,
 * and none contradicts: then nothing but a person's word ends it. */
bool pay_is_doubtful(const struct pay_view *v);

/* Whether a height is less than a blockhash's life behind the greatest; -1, no answer, is not. */
bool pay_is_near(int64_t height, const int64_t *heights, int servers);

/* Whether a server's finalised height is so far below the last valid one that somebody has lied
 * about heights: the transaction would be in flight for as long as the chain needs to get there. */
bool pay_is_far(int64_t final_height, int64_t last_valid);

/* Returns the last height at which a transaction with a blockhash can land, from what one
 * server says of the blockhash and what all say of the present height (-1: no answer). It is
 * never less than the blockhash can live, whoever lies. Returns -1 if not more than half of them
 * are near the greatest height, or if the claim is further ahead than any blockhash lives. */
int64_t pay_last_valid(int64_t claimed, const int64_t *heights, int servers);

#endif
