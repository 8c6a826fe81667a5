/* payplan.c - packs payouts into transactions of at most 1,232 bytes. */
#include "cmd/rnp-reward/payplan.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

/* Compute units, above what programs were measured to use: creating an account searches for its
 * address, which may take several tries of 1,500 units. */
#define UNITS_BASE     30000
#define UNITS_CREATE   45000
#define UNITS_TRANSFER 15000
#define UNITS_MAX      1400000

static uint32_t units(const struct owed *list, int n)
{
	uint32_t sum = UNITS_BASE;

	for (int i = 0; i < n; i++)
		sum += UNITS_TRANSFER + (list[i].create ? UNITS_CREATE : 0);
	return sum < UNITS_MAX ? sum : UNITS_MAX;
}

int payplan_message(struct buf *out, const struct payer *p,
	const struct solana_key *blockhash, const struct owed *list, int n)
{
	struct solana_instruction *all = xcalloc((size_t)(2 * n + 3), sizeof *all);
	struct solana_message m = { .payer = p->wallet,
		.blockhash = *blockhash,
		.legacy = p->legacy,
		.list = all };
	int rc = 0;

	solana_unit_limit(&all[m.n++], units(list, n));
	if (p->unit_price)
		solana_unit_price(&all[m.n++], p->unit_price);
	if (p->memo[0])
		solana_memo(&all[m.n++], p->memo);
	for (int i = 0; i < n && rc == 0; i++) {
		struct solana_key account;

		if (solana_associated(&list[i].wallet, &p->token_program, &p->mint,
			    &account) < 0)
			rc = err_set(EX_DATAERR, "a wallet has no associated account");
		if (list[i].create)
			solana_create_idempotent(&all[m.n++], &p->wallet, &account,
				&list[i].wallet, &p->mint, &p->token_program);
		solana_transfer_checked(&all[m.n++], &p->token_program, &p->account,
			&p->mint, &account, &p->wallet, (uint64_t)list[i].base_units,
			p->decimals);
	}
	if (rc == 0)
		rc = solana_compile(out, &m);
	free(all);
	return rc;
}

int payplan_take(const struct payer *p, const struct owed *list, int n, size_t *bytes)
{
	static const struct solana_key no_blockhash;
	struct buf message = BUF_INIT;
	int taken = 0, rc = 0;

	*bytes = 0;
	while (taken < n && taken < PAYPLAN_PAYOUTS_MAX && !list[taken].held) {
		size_t size;

		if (taken && (list[0].alone || list[taken].alone))
			break;
		buf_reset(&message);
		rc = payplan_message(&message, p, &no_blockhash, list, taken + 1);
		size = 1 + SOLANA_SIGNATURE_BYTES + message.len;
		if (rc < 0 || size > SOLANA_TX_BYTES_MAX)
			break;
		*bytes = size;
		taken++;
	}
	buf_release(&message);
	return rc < 0 ? -1 : taken;
}
