/* limits.h - limits what a stranger may make the registry do: allowances by address
 * and by node, and the work that joining costs.
 *
 * Allowances are token buckets in memory of fixed size; the caller passes the time. Safe from
 * any thread. Uses libsodium, work. */
#ifndef RNP_CMD_REGISTER_STORAGE_LIMITS_H
#define RNP_CMD_REGISTER_STORAGE_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/record/work.h"

enum limit {
	LIMIT_BYTES,   /* bytes stored for one address (IPv6: its /64) */
	LIMIT_TOKENS,  /* join tokens of one address */
	LIMIT_BEATS,   /* heartbeats of one node */
	LIMIT_NODES,   /* node records of one node */
	LIMIT_RECORDS, /* other records of one node */
	LIMIT_PLANS,   /* unsigned questions for a plan, of one address */
	LIMIT_EVENTS,  /* events of one node, actions of one customer */
	LIMITS,
};

struct limits_config {
	int64_t bytes_per_day; /* LIMIT_BYTES; 0: 64 MiB */
	int join_bits;         /* bits of work when few nodes join; 0: 20 */
	bool loopback; /* apply limits and work to this machine's own addresses, too */
};

struct limits;

struct limits *limits_new(const struct limits_config *config);
void limits_free(struct limits *l);

/* Whether the allowance of `name` covers the amount, without taking it. */
bool limits_has(struct limits *l, enum limit what, const char *name, double amount,
	int64_t now_ms);

/* Takes the amount if the allowance covers it; else returns false and takes nothing. */
bool limits_take(struct limits *l, enum limit what, const char *name, double amount,
	int64_t now_ms);

/* Takes the amount in any case: what is stored is stored. */
void limits_charge(struct limits *l, enum limit what, const char *name, double amount,
	int64_t now_ms);

/* Whether limits by address, and work, apply to this address. */
bool limits_hold_for(const struct limits *l, const char *client);

/* Writes the address as the limits identify it: IPv4 unchanged, IPv6 by its first 64 bits. */
#define LIMITS_CLIENT_MAX 64
void limits_client(char out[LIMITS_CLIENT_MAX], const char *client);

/* Writes the block of addresses that one operator is likely to have: IPv4 by its first 24 bits,
 * IPv6 by 48. */
void limits_block(char out[LIMITS_CLIENT_MAX], const char *client);

/* --- joining ------------------------------------------------------------------------------ */

/* Returns how many bits of work joining takes now: two more with each doubling of the nodes
 * that joined within the hour. */
int limits_join_bits(struct limits *l, int64_t now_ms);

/* Makes the token that this node may work on. It is valid for 10 to 20 minutes. */
void limits_join_token(struct limits *l, const char *node, int bits, int64_t now_ms,
	char out[WORK_TOKEN_MAX]);

/* Whether work ("TOKEN.NUMBER") is enough for this node to join: for a token of ours, and with
 * at most 4 bits less than the present requirement. */
bool limits_join_check(struct limits *l, const char *node, const char *work,
	int64_t now_ms);

/* Counts a node that joined. */
void limits_joined(struct limits *l, int64_t now_ms);

#endif
