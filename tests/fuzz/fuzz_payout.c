/* fuzz_payout.c - fuzz target: data that payouts read from strangers.
 *
 * uses: cmd/rnp-reward
 *
 * Input: 'm' and a Solana message; 'a' and a server's answer (JSON-RPC); 'l' and lines of a
 * ledger to import.
 *
 * It checks that an accepted message can be described, one line for each instruction; that an
 * answer is refused with a reason or has its proper form; and that an imported ledger is
 * complete. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-reward/ledger/ledger.h"
#include "common/chain/rpc.h"
#include "common/chain/solana.h"
#include "common/base/err.h"
#include "common/base/io.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void must(bool promise)
{
	if (!promise)
		abort();
}

static void fuzz_message(const uint8_t *data, size_t size)
{
	static struct solana_parsed m;
	struct solana_first first;
	struct buf words = BUF_INIT;
	int lines = 0;

	if (solana_first_signer(data, size, &first))
		must(first.message + first.nmessage == data + size);
	if (!solana_parse(data, size, &m))
		return;
	must(m.nkeys <= SOLANA_ACCOUNTS_MAX && m.n <= SOLANA_INSTRUCTIONS_MAX);
	solana_words(&words, &m);
	for (size_t i = 0; i < words.len; i++)
		lines += words.data[i] == '\n';
	must(lines == m.n + 1);
	buf_release(&words);
}

static void fuzz_answer(const char *text, size_t size)
{
	int failed;
	json_t *result = rpc_answer(text, size, 7, "fuzz", &failed);
	struct rpc_account accounts[2];
	static struct rpc_past past[RPC_PAST_MAX];
	unsigned char bytes[SOLANA_TX_BYTES_MAX];
	enum pay_seen seen[2];
	struct solana_key hash;
	int64_t last_valid;
	size_t len;
	bool good;
	int n;

	must(failed >= -1 && failed < SOLANA_INSTRUCTIONS_MAX);
	if (!result) {
		must(err_get()->text[0]);
		return;
	}
	if (rpc_read_accounts(result, 2, accounts, "fuzz") == 0)
		for (int i = 0; i < 2; i++)
			must(accounts[i].len <= RPC_ACCOUNT_BYTES);
	if (rpc_read_statuses(result, 2, seen, "fuzz") == 0)
		for (int i = 0; i < 2; i++)
			must(seen[i] > PAY_NO_ANSWER && seen[i] <= PAY_SEEN_FINAL_ERROR);
	n = rpc_read_past(result, past, "fuzz");
	for (int i = 0; i < n; i++)
		must(past[i].signature[0] &&
			strlen(past[i].signature) < RPC_SIGNATURE_MAX &&
			strlen(past[i].memo) < RPC_MEMO_BYTES_MAX && past[i].at_s >= 0);
	if (rpc_read_transaction(result, bytes, &len, "fuzz") == 0)
		must(len <= sizeof bytes);
	if (rpc_read_hash_good(result, &good, &last_valid, "fuzz") == 0)
		must(last_valid >= 0 && last_valid <= RPC_HEIGHT_MAX);
	if (rpc_read_blockhash(result, &hash, &last_valid, "fuzz") == 0)
		must(last_valid >= 0 && last_valid <= RPC_HEIGHT_MAX);
	json_decref(result);
}

static void fuzz_ledger(const char *text, size_t size)
{
	char path[64];
	struct ledger l = LEDGER_INIT;
	struct buf reason = BUF_INIT;
	int64_t n;

	snprintf(path, sizeof path, "/tmp/fuzz_payout.%d", (int)getpid());
	must(io_replace(path, text, size, 0600) == 0);
	must(ledger_open(&l, ":memory:", false) == 0);
	n = ledger_import(&l, path);
	if (n < 0)
		must(err_get()->code == EX_DATAERR && err_get()->text[0]);
	must(ledger_verify(&l, &reason) == 0);
	/* the check reports an invalid signature, which does not break the chain */
	must(!reason.len || n > 0);
	ledger_close(&l);
	buf_release(&reason);
	unlink(path);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size && data[0] == 'm')
		fuzz_message(data + 1, size - 1);
	else if (size && data[0] == 'a')
		fuzz_answer((const char *)data + 1, size - 1);
	else if (size && data[0] == 'l')
		fuzz_ledger((const char *)data + 1, size - 1);
	return 0;
}
