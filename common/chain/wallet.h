/* wallet.h - whether tokens that are sent to an address can be moved again, as a Solana server
 * says. Uses rpc. */
#ifndef RNP_COMMON_CHAIN_WALLET_H
#define RNP_COMMON_CHAIN_WALLET_H

#include <stdbool.h>

/* What is known of an address. */
struct wallet_facts {
	const char *why_not; /* why a payer holds what it is owed, or NULL */
	bool funded;         /* the chain has an account for it */
};

/* Asks the server at a URL; without one (NULL) only the address itself is looked at, and counts as
 * funded. Returns 0, or -1: 64 no address or no URL, 65, 69 or 75 as in rpc.h. */
int wallet_look_up(const char *rpc, const char *address, struct wallet_facts *out);

#endif
