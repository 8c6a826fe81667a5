/* wallet.h - tells an operator whether payers can pay the wallet. Uses chain. */
#ifndef RNP_CMD_REGISTER_NODE_WALLET_H
#define RNP_CMD_REGISTER_NODE_WALLET_H

#include "common/cli/opt.h"

#define OPT_RPC(url)                                                     \
	OPT(TEXT, "rpc", url, "URL",                                     \
		"ask this Solana server whether the wallet can be paid", \
		.setting = true)

/* Looks the wallet up, at a Solana server if one is known (rpc, or NULL). Returns why payers hold
 * what it is owed, or NULL: nothing speaks against it, or the server did not answer, which is
 * warned of. A wallet that the chain does not know yet is told, too. */
const char *node_wallet_why_not(const char *wallet, const char *rpc);

#endif
