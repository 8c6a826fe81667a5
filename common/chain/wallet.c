/* wallet.c - looks a wallet up: see wallet.h. */
#include "common/chain/wallet.h"

#include "common/base/address.h"
#include "common/base/err.h"
#include "common/chain/rpc.h"

int wallet_look_up(const char *rpc, const char *address, struct wallet_facts *out)
{
	char *const urls[] = { (char *)rpc };
	const struct opt_list list = { .items = (void *)urls, .n = 1 };
	struct rpc_account account;
	struct solana_key key;
	struct rpc server;
	int rc;

	*out = (struct wallet_facts){ .funded = true };
	if (address_parse(address, "wallet", key.bytes) < 0)
		return err_set(EX_USAGE, "wallet: '%.60s' is not a base58 address",
			address);
	if (!solana_on_curve(&key))
		out->why_not = "it is not on the curve: no keypair can use it";
	if (!rpc || out->why_not)
		return 0;
	if (rpc_open(&server, &list, NULL) < 0)
		return -1;
	rc = rpc_accounts(&server, "confirmed", &key, 1, &account);
	if (rc == 0) {
		out->why_not = rpc_why_no_wallet(&account);
		out->funded = account.exists;
	}
	rpc_release(&server);
	return rc;
}
