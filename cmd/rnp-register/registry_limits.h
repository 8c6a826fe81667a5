/* registry_limits.h - what a stranger may make the registry do: allowances by address and by
 * node, and the work that joining costs.
 *
 * Allowances are token buckets in memory of fixed size; the time is given. Safe from any
 * thread. Uses libsodium, work. */
#ifndef RNP_CMD_REGISTER_REGISTRY_LIMITS_H
#define RNP_CMD_REGISTER_REGISTRY_LIMITS_H

#include <stdbool.h>
#include <stdint.h>

#include "common/record/work.h"

enum limit {
	LIMIT_BYTES,   /* stored for one address (IPv6: its /64) */
	LIMIT_TOKENS,  /* offers to join, one address */
	LIMIT_BEATS,   /* heartbeats of one node */
	LIMIT_NODES,   /* node records of one node */
	LIMIT_RECORDS, /* other records of one node */
	LIMITS,
};

struct limits_config {
	int64_t bytes_per_day; /* LIMIT_BYTES; 0: 64 MiB */
	int join_bits;         /* of the work at rest; 0: 20 */
	bool loopback; /* this machine's own addresses are limited, too, and work */
};

struct limits;

struct limits *limits_new(const struct limits_config *config);
void limits_free(struct limits *l);

/* Whether `who` has so much left, without taking it. */
bool limits_has(struct limits *l, enum limit what, const char *who, double amount,
	int64_t now_ms);

/* Takes it where it is there; false: it is not, and nothing was taken. */
bool limits_take(struct limits *l, enum limit what, const char *who, double amount,
	int64_t now_ms);

/* Takes it in any case: what was stored is stored. */
void limits_charge(struct limits *l, enum limit what, const char *who, double amount,
	int64_t now_ms);

/* Whether limits by address, and work, hold for this one. */
bool limits_hold_for(const struct limits *l, const char *client);

/* The address as limits know it: IPv4 as it is, IPv6 by its first 64 bits. */
#define LIMITS_WHO_MAX 64
void limits_who(char out[LIMITS_WHO_MAX], const char *client);

/* The block of addresses that one operator is likely to have: IPv4 by its first 24 bits, IPv6
 * by 48. */
void limits_block(char out[LIMITS_WHO_MAX], const char *client);

/* --- joining ------------------------------------------------------------------------------ */

/* How many bits a node has to work now: two more with each doubling of those who joined within
 * the hour. */
int limits_join_bits(struct limits *l, int64_t now_ms);

/* The token that this node may work for. It is valid for 10 to 20 minutes. */
void limits_join_token(struct limits *l, const char *node, int bits, int64_t now_ms,
	char out[WORK_TOKEN_MAX]);

/* Whether work ("TOKEN.NUMBER") is enough for this node to join: for a token of ours, and of no
 * more than 4 bits less than would be asked for now. */
bool limits_join_check(struct limits *l, const char *node, const char *work,
	int64_t now_ms);

/* A node joined. */
void limits_joined(struct limits *l, int64_t now_ms);

#endif
