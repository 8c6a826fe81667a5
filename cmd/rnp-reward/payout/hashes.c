/* hashes.c - blockhashes of transactions whose last valid height is so far ahead that it says
 * nothing: whether servers have seen them go. When they were good the ledger keeps, so that a later
 * run sees it, too. */
#include <string.h>

#include "cmd/rnp-reward/ledger/hashes.h"
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

int pay_watch_hash(struct pay_run *run, const struct ledger_tx *tx,
	const struct pay_view *v)
{
	struct pay_hash one = { .hash = tx->blockhash };
	bool far = false;

	for (int i = 0; i < v->servers; i++)
		far = far || pay_is_far(v->final_height[i], tx->last_valid);
	/* the value of a nonce is no blockhash */
	if (!far || tx->nonce[0] || find(run, &tx->blockhash))
		return 0;
	for (int i = 0; i < run->n; i++)
		if (ledger_hash_slot(run->ledger, &one.hash, run->servers[i].peer.name,
			    &one.seen[i].good_slot) < 0)
			return -1;
	buf_add(&run->hashes, &one, sizeof one);
	return 0;
}

int pay_ask_hashes(struct pay_run *run, int server)
{
	struct pay_hash *list = (void *)run->hashes.data;

	for (size_t i = 0; i < run->hashes.len / sizeof *list; i++) {
		int64_t slot, before = list[i].seen[server].good_slot;
		bool good;

		list[i].seen[server].gone = false;
		if (rpc_hash_good(&run->servers[server], &list[i].hash, &good, &slot) <
			0) {
			prog_detail("%s", err_get()->text);
			err_clear();
			continue;
		}
		pay_hash_note(&list[i].seen[server], slot, good);
		/* once: that it was good at one slot is all that a later run needs */
		if (!before && list[i].seen[server].good_slot &&
			ledger_note_hash(run->ledger, &list[i].hash,
				run->servers[server].peer.name,
				list[i].seen[server].good_slot) < 0)
			return -1;
	}
	return 0;
}

bool pay_hash_gone(const struct pay_run *run, int server, const struct ledger_tx *tx)
{
	const struct pay_hash *h = tx->nonce[0] ? NULL : find(run, &tx->blockhash);

	return h && h->seen[server].gone;
}
