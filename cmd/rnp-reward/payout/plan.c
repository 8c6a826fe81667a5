/* plan.c - packs payouts into transactions of at most 1,232 bytes. */
#include "cmd/rnp-reward/payout/plan.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"

/* Compute units, more than programs were measured to use: the creation of an account searches
 * for its address, which may take several tries of 1,500 units. */
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

/* Adds the instructions that every message begins with; a nonce must be the first. */
static void start_message(struct solana_message *m, const struct payer *p, uint32_t limit)
{
	if (p->with_nonce)
		solana_advance_nonce(&m->list[m->n++], &p->nonce, &p->wallet);
	solana_unit_limit(&m->list[m->n++], p->unit_limit ? p->unit_limit : limit);
	if (p->unit_price)
		solana_unit_price(&m->list[m->n++], p->unit_price);
	if (p->memo[0])
		solana_memo(&m->list[m->n++], p->memo);
}

bool payplan_adopt(struct payer *p, const struct solana_parsed *m)
{
	p->legacy = m->legacy;
	p->unit_limit = 0;
	p->unit_price = 0;
	for (int i = 0; i < m->n; i++) {
		const unsigned char *data = m->list[i].data;

		if (memcmp(&m->keys[m->list[i].program],
			    solana_program(SOLANA_COMPUTE_BUDGET), SOLANA_KEY_BYTES) != 0)
			continue;
		if (m->list[i].ndata == 5 && data[0] == 2)
			p->unit_limit = (uint32_t)solana_number(data + 1, 4);
		else if (m->list[i].ndata == 9 && data[0] == 3)
			p->unit_price = solana_number(data + 1, 8);
	}
	return p->unit_price <= PAYPLAN_PRICE_MAX;
}

int payplan_order(struct buf *out, const struct payer *p,
	const struct solana_key *blockhash, enum pay_action action, int64_t base_units)
{
	struct solana_instruction all[5];
	struct solana_message m = { .payer = p->wallet,
		.blockhash = *blockhash,
		.legacy = p->legacy,
		.list = all };

	start_message(&m, p, units(NULL, 0) + UNITS_TRANSFER);
	if (action == ACTION_BURN)
		solana_burn_checked(&all[m.n++], &p->token_program, &p->account, &p->mint,
			&p->wallet, (uint64_t)base_units, p->decimals);
	else
		solana_mint_to_checked(&all[m.n++], &p->token_program, &p->mint,
			&p->account, &p->wallet, (uint64_t)base_units, p->decimals);
	return solana_compile(out, &m);
}

int64_t payplan_fee(const struct payer *p, int64_t base_units)
{
	__int128 fee = ((__int128)base_units * p->fee_bps + 9999) / 10000;

	return fee > p->fee_max ? p->fee_max : (int64_t)fee;
}

int payplan_message(struct buf *out, const struct payer *p,
	const struct solana_key *blockhash, const struct owed *list, int n)
{
	struct solana_instruction *all = xcalloc((size_t)(2 * n + 4), sizeof *all);
	struct solana_message m = { .payer = p->wallet,
		.blockhash = *blockhash,
		.legacy = p->legacy,
		.list = all };
	int rc = 0;

	start_message(&m, p, units(list, n));
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

int payplan_fit(const struct payer *p, const struct owed *list, int n, size_t *bytes)
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
