/* seen.h - what a Solana server says of a transaction; paystate.h of rnp-reward draws
 * conclusions. */
#ifndef RNP_COMMON_CHAIN_SEEN_H
#define RNP_COMMON_CHAIN_SEEN_H

#define PAY_SERVERS_MAX 16

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

#endif
