/* hashes.c - blockhashes of transactions whose last valid height is so far ahead that it says
 * nothing: whether servers have seen them go. */
#include <string.h>

#include "cmd/rnp-reward/payout/run.h"
#include "common/base/err.h"
#include "common/cli/prog.h"

struct pay_hash {
	struct solana_key hash;
	struct pay_hash_seen seen[PAY_SERVERS_MAX];
};

static struct pay_hash *find(const struct pay_run *run, const struct solana_key *hash)
{
	struct pay_hash *list = (void *)run->hashes.data;

	for (size_t i = 0; i < run->hashes.len / sizeof *list; i++)
		if (memcmp(&list[i].hash, hash, sizeof *hash) == 0)
			return &list[i];
	return NULL;
}

void pay_watch_hash(struct pay_run *run, const struct ledger_tx *tx,
	const struct pay_view *v)
{
	struct pay_hash one = { .hash = tx->blockhash };
	bool far = false;

	for (int i = 0; i < v->servers; i++)
		far = far || pay_is_far(v->final_height[i], tx->last_valid);
	/* the value of a nonce is no blockhash */
	if (far && !tx->nonce[0] && !find(run, &tx->blockhash))
		buf_add(&run->hashes, &one, sizeof one);
}

void pay_ask_hashes(struct pay_run *run, int server)
{
	struct pay_hash *list = (void *)run->hashes.data;

	for (size_t i = 0; i < run->hashes.len / sizeof *list; i++) {
		int64_t slot;
		bool good;

		list[i].seen[server].gone = false;
		if (rpc_hash_good(&run->servers[server], &list[i].hash, &good, &slot) <
			0) {
			prog_detail("%s", err_get()->text);
			err_clear();
			continue;
		}
		pay_hash_note(&list[i].seen[server], slot, good);
	}
}

bool pay_hash_gone(const struct pay_run *run, int server, const struct ledger_tx *tx)
{
	const struct pay_hash *h = tx->nonce[0] ? NULL : find(run, &tx->blockhash);

	return h && h->seen[server].gone;
}
