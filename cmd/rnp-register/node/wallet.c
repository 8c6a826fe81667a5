/* wallet.c - tells an operator whether payers can pay the wallet: see wallet.h. */
#include "cmd/rnp-register/node/wallet.h"

#include "common/base/err.h"
#include "common/chain/wallet.h"
#include "common/cli/prog.h"

const char *node_wallet_why_not(const char *wallet, const char *rpc)
{
	struct wallet_facts facts;

	if (wallet_look_up(rpc, wallet, &facts) < 0) {
		prog_warn("the wallet could not be looked up: %s", err_get()->text);
		err_clear();
		return NULL;
	}
	if (!facts.funded)
		prog_info(
			"wallet %s is not on the chain yet: until it has some SOL, a payer "
			"may hold what it is owed",
			wallet);
	return facts.why_not;
}
