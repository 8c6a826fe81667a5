/* paystate.h - decides the state of a transaction from the answers of several servers. Pure: no
 * I/O, no clock; tests/unit/rnp-reward/paystate.c checks every order of faults.
 *
 * planned -> signed -> sent -> confirmed -> finalised | failed | expired
 *
 * The one thing that must never happen is that a transaction is given up while it can still land:
 * its payments would be made twice. So it expires only if
 *   - two servers other than those that it was sent to say so: a finalised height above its last
 *     valid one, requested first, and then, requested with its history, a status that is null;
 *   - no server at all contradicts this, neither with a trace of the transaction nor with a
 *     finalised height that is not above.
 * It has failed, which gives it up as well, only if two say so, finalised, and nobody tells of it without an error, or
 * knows nothing of it at a height at which it can still land.
 * And it is final only if two servers say "finalized" (one, if there is only one). */
#ifndef RNP_CMD_REWARD_PAYSTATE_H
#define RNP_CMD_REWARD_PAYSTATE_H

#include <stdbool.h>
#include <stdint.h>

#define PAY_SERVERS_MAX  16
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

/* One server's answer about a signature. */
enum pay_seen {
	PAY_NO_ANSWER,
	PAY_NULL, /* unknown to the server */
	PAY_SEEN, /* processed */
	PAY_SEEN_CONFIRMED,
	PAY_SEEN_FINAL,
	PAY_SEEN_ERROR, /* executed with an error, not yet final */
	PAY_SEEN_FINAL_ERROR
};

struct pay_view {
	int servers;
	int64_t last_valid; /* last block height at which the transaction can land */
	uint32_t sent_to;   /* bit per server that it was ever sent to */
	int64_t final_height[PAY_SERVERS_MAX]; /* requested before seen; -1: no answer */
	enum pay_seen seen[PAY_SERVERS_MAX];
};

/* Returns the next state of a transaction: the same state, or a later one. *contradiction (may
 * be NULL) is set to the server that alone prevents the expiry, or -1. */
enum pay_status pay_decide(enum pay_status now, const struct pay_view *v,
	int *contradiction);

/* Returns the last height at which a transaction with a blockhash can land, from what one
 * server says of the blockhash and what all say of the present height (-1: no answer). It is
 * never less than the blockhash can live, whoever lies. Returns -1 if fewer than two answer
 * (one, if there is only one), if they are further apart than a blockhash lives, or if the
 * claim is further ahead than any blockhash lives. */
int64_t pay_last_valid(int64_t claimed, const int64_t *heights, int servers);

#endif
