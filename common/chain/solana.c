/* solana.c - writes and reads Solana's addresses, instructions and messages. */
#include "common/chain/solana.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/address.h"
#include "common/base/err.h"
#include "common/base/money.h"
#include "common/base/sha256.h"

#define VERSION_0 0x80

/* --- addresses ------------------------------------------------------------------------------ */

const struct solana_key *solana_program(enum solana_program which)
{
	static const char *const texts[SOLANA_PROGRAMS] = {
		"11111111111111111111111111111111",
		"ComputeBudget111111111111111111111111111111",
		"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
		"TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
		"ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL",
		"MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr",
		"SysvarRecentB1ockHashes11111111111111111111"
	};
	static struct solana_key keys[SOLANA_PROGRAMS];
	static bool known[SOLANA_PROGRAMS];

	if (!known[which] &&
		address_parse(texts[which], "program", keys[which].bytes) < 0)
		bug("%s", err_get()->text);
	known[which] = true;
	return &keys[which];
}

bool solana_on_curve(const struct solana_key *key)
{
	unsigned char sum[SOLANA_KEY_BYTES];

	/* the addition checks that both are points of the curve, not that they are in the
	 * prime-order group */
	return crypto_core_ed25519_add(sum, key->bytes, key->bytes) == 0;
}

int solana_pda(const void *const *seeds, const size_t *lens, int nseeds,
	const struct solana_key *program, struct solana_key *out)
{
	struct sha256_state start, h;

	sha256_init(&start);
	if (nseeds > 15)
		return -1;
	for (int i = 0; i < nseeds; i++) {
		if (lens[i] > 32)
			return -1;
		sha256_update(&start, seeds[i], lens[i]);
	}
	for (int bump = 255; bump >= 0; bump--) {
		unsigned char byte = (unsigned char)bump;

		h = start;
		sha256_update(&h, &byte, 1);
		sha256_update(&h, program->bytes, sizeof program->bytes);
		sha256_update(&h, "ProgramDerivedAddress", 21);
		sha256_final(&h, out->bytes);
		if (!solana_on_curve(out))
			return bump;
	}
	return -1;
}

int solana_associated(const struct solana_key *wallet,
	const struct solana_key *token_program, const struct solana_key *mint,
	struct solana_key *out)
{
	const void *seeds[3] = { wallet, token_program, mint };
	const size_t lens[3] = { SOLANA_KEY_BYTES, SOLANA_KEY_BYTES, SOLANA_KEY_BYTES };

	return solana_pda(seeds, lens, 3, solana_program(SOLANA_ASSOCIATED), out);
}

/* --- instructions --------------------------------------------------------------------------- */

static void start(struct solana_instruction *i, const struct solana_key *program)
{
	i->program = *program;
	i->nroles = 0;
	i->ndata = 0;
}

static void role(struct solana_instruction *i, const struct solana_key *key,
	bool writable, bool signer)
{
	i->roles[i->nroles++] = (struct solana_role){ *key, writable, signer };
}

static void put(struct solana_instruction *i, uint64_t v, int bytes)
{
	for (int k = 0; k < bytes; k++)
		i->data[i->ndata++] = (unsigned char)(v >> 8 * k);
}

void solana_unit_limit(struct solana_instruction *i, uint32_t units)
{
	start(i, solana_program(SOLANA_COMPUTE_BUDGET));
	put(i, 2, 1);
	put(i, units, 4);
}

void solana_unit_price(struct solana_instruction *i, uint64_t micro_lamports)
{
	start(i, solana_program(SOLANA_COMPUTE_BUDGET));
	put(i, 3, 1);
	put(i, micro_lamports, 8);
}

void solana_advance_nonce(struct solana_instruction *i, const struct solana_key *nonce,
	const struct solana_key *authority)
{
	start(i, solana_program(SOLANA_SYSTEM));
	role(i, nonce, true, false);
	role(i, solana_program(SOLANA_RECENT_BLOCKHASHES), false, false);
	role(i, authority, false, true);
	put(i, 4, 4);
}

void solana_create_idempotent(struct solana_instruction *i,
	const struct solana_key *payer, const struct solana_key *account,
	const struct solana_key *wallet, const struct solana_key *mint,
	const struct solana_key *token_program)
{
	start(i, solana_program(SOLANA_ASSOCIATED));
	role(i, payer, true, true);
	role(i, account, true, false);
	role(i, wallet, false, false);
	role(i, mint, false, false);
	role(i, solana_program(SOLANA_SYSTEM), false, false);
	role(i, token_program, false, false);
	put(i, 1, 1);
}

static void checked(struct solana_instruction *i, int code, uint64_t amount,
	uint8_t decimals)
{
	put(i, (uint64_t)code, 1);
	put(i, amount, 8);
	put(i, decimals, 1);
}

void solana_transfer_checked(struct solana_instruction *i,
	const struct solana_key *token_program, const struct solana_key *from,
	const struct solana_key *mint, const struct solana_key *to,
	const struct solana_key *owner, uint64_t amount, uint8_t decimals)
{
	start(i, token_program);
	role(i, from, true, false);
	role(i, mint, false, false);
	role(i, to, true, false);
	role(i, owner, false, true);
	checked(i, SOLANA_TRANSFER_CHECKED, amount, decimals);
}

void solana_burn_checked(struct solana_instruction *i,
	const struct solana_key *token_program, const struct solana_key *account,
	const struct solana_key *mint, const struct solana_key *owner, uint64_t amount,
	uint8_t decimals)
{
	start(i, token_program);
	role(i, account, true, false);
	role(i, mint, true, false);
	role(i, owner, false, true);
	checked(i, SOLANA_BURN_CHECKED, amount, decimals);
}

void solana_mint_to_checked(struct solana_instruction *i,
	const struct solana_key *token_program, const struct solana_key *mint,
	const struct solana_key *account, const struct solana_key *authority,
	uint64_t amount, uint8_t decimals)
{
	start(i, token_program);
	role(i, mint, true, false);
	role(i, account, true, false);
	role(i, authority, false, true);
	checked(i, SOLANA_MINT_TO_CHECKED, amount, decimals);
}

void solana_memo(struct solana_instruction *i, const char *text)
{
	size_t n = strlen(text);

	if (n > SOLANA_DATA_MAX)
		bug("a memo of %zu bytes", n);
	start(i, solana_program(SOLANA_MEMO));
	memcpy(i->data, text, n);
	i->ndata = n;
}

/* --- writing -------------------------------------------------------------------------------- */

struct account {
	struct solana_role role;
	char text[ADDRESS_MAX];
	bool payer;
};

struct accounts {
	struct account list[SOLANA_ACCOUNTS_MAX];
	int n;
};

static int add_account(struct accounts *a, const struct solana_role *r)
{
	struct account *new;

	for (int i = 0; i < a->n; i++)
		if (memcmp(&a->list[i].role.key, &r->key, sizeof r->key) == 0) {
			a->list[i].role.writable |= r->writable;
			a->list[i].role.signer |= r->signer;
			return 0;
		}
	if (a->n == SOLANA_ACCOUNTS_MAX)
		return err_set(EX_DATAERR, "a message with more than %d accounts",
			SOLANA_ACCOUNTS_MAX);
	new = &a->list[a->n++];
	new->role = *r;
	new->payer = false;
	address_format(r->key.bytes, new->text);
	return 0;
}

static int lower(char c)
{
	return c >= 'A' && c <= 'Z' ? c + 32 : c;
}

/* Orders letters and digits as Intl.Collator("en", {caseFirst: "lower"}): first ignoring case,
 * digits before letters; then lower case before upper case. */
static int collate(const char *a, const char *b)
{
	size_t i = 0;

	while (a[i] && b[i] && lower(a[i]) == lower(b[i]))
		i++;
	if (a[i] || b[i])
		return lower(a[i]) - lower(b[i]);
	for (i = 0; a[i]; i++)
		if (a[i] != b[i])
			return a[i] > b[i] ? -1 : 1;
	return 0;
}

static int rank(const struct account *a)
{
	return a->payer        ? 0 :
		a->role.signer ? 2 - a->role.writable :
				 4 - a->role.writable;
}

static int by_place(const void *x, const void *y)
{
	const struct account *a = x, *b = y;
	int order = rank(a) - rank(b);

	return order ? order : collate(a->text, b->text);
}

static int collect(struct accounts *a, const struct solana_message *m)
{
	struct solana_role payer = { m->payer, true, true };

	a->n = 0;
	if (add_account(a, &payer) < 0)
		return -1;
	a->list[0].payer = true;
	for (int i = 0; i < m->n; i++) {
		struct solana_role program = { m->list[i].program, false, false };

		if (add_account(a, &program) < 0)
			return -1;
		for (int k = 0; k < m->list[i].nroles; k++)
			if (add_account(a, &m->list[i].roles[k]) < 0)
				return -1;
	}
	qsort(a->list, (size_t)a->n, sizeof *a->list, by_place);
	return 0;
}

static int index_of(const struct accounts *a, const struct solana_key *key)
{
	for (int i = 0; i < a->n; i++)
		if (memcmp(&a->list[i].role.key, key, sizeof *key) == 0)
			return i;
	bug("an account that was not collected");
}

/* "compact-u16": 7 bits per byte, the lowest first. */
static void add_short(struct buf *out, size_t v)
{
	while (v > 0x7f) {
		buf_addc(out, (char)(0x80 | (v & 0x7f)));
		v >>= 7;
	}
	buf_addc(out, (char)v);
}

static void add_instruction(struct buf *out, const struct accounts *a,
	const struct solana_instruction *i)
{
	buf_addc(out, (char)index_of(a, &i->program));
	add_short(out, (size_t)i->nroles);
	for (int k = 0; k < i->nroles; k++)
		buf_addc(out, (char)index_of(a, &i->roles[k].key));
	add_short(out, i->ndata);
	buf_add(out, i->data, i->ndata);
}

int solana_compile(struct buf *out, const struct solana_message *m)
{
	int signers = 0, readonly_signers = 0, readonly = 0;
	struct accounts a;

	if (collect(&a, m) < 0)
		return -1;
	for (int i = 0; i < a.n; i++) {
		const struct solana_role *r = &a.list[i].role;

		signers += r->signer;
		readonly_signers += r->signer && !r->writable;
		readonly += !r->signer && !r->writable;
	}
	if (!m->legacy)
		buf_addc(out, (char)VERSION_0);
	buf_addc(out, (char)signers);
	buf_addc(out, (char)readonly_signers);
	buf_addc(out, (char)readonly);
	add_short(out, (size_t)a.n);
	for (int i = 0; i < a.n; i++)
		buf_add(out, a.list[i].role.key.bytes, SOLANA_KEY_BYTES);
	buf_add(out, m->blockhash.bytes, SOLANA_KEY_BYTES);
	add_short(out, (size_t)m->n);
	for (int i = 0; i < m->n; i++)
		add_instruction(out, &a, &m->list[i]);
	if (!m->legacy)
		add_short(out, 0);
	return 0;
}

void solana_transaction(struct buf *out,
	const unsigned char signature[SOLANA_SIGNATURE_BYTES], const void *message,
	size_t len)
{
	add_short(out, 1);
	buf_add(out, signature, SOLANA_SIGNATURE_BYTES);
	buf_add(out, message, len);
}

/* --- reading -------------------------------------------------------------------------------- */

struct reader {
	const unsigned char *at, *end;
	bool bad;
};

static const unsigned char *read_bytes(struct reader *r, size_t n)
{
	const unsigned char *at = r->at;

	if (r->bad || (size_t)(r->end - r->at) < n) {
		r->bad = true;
		return NULL;
	}
	r->at += n;
	return at;
}

static int read_byte(struct reader *r)
{
	const unsigned char *byte = read_bytes(r, 1);

	return byte ? *byte : 0;
}

/* Accepts only the shortest form; more than max is an error. */
static int read_short(struct reader *r, int max)
{
	int v = 0;

	for (int shift = 0; shift < 21; shift += 7) {
		int byte = read_byte(r);

		v |= (byte & 0x7f) << shift;
		if (byte & 0x80)
			continue;
		if (v > max || (shift && !byte))
			r->bad = true;
		return r->bad ? 0 : v;
	}
	r->bad = true;
	return 0;
}

static void read_key(struct reader *r, struct solana_key *out)
{
	const unsigned char *bytes = read_bytes(r, SOLANA_KEY_BYTES);

	if (bytes)
		memcpy(out->bytes, bytes, SOLANA_KEY_BYTES);
}

static void read_instruction(struct reader *r, struct solana_parsed *out)
{
	int n = out->n++;

	out->list[n].program = read_byte(r);
	out->list[n].nroles = read_short(r, SOLANA_ROLES_MAX);
	for (int i = 0; i < out->list[n].nroles; i++) {
		out->list[n].roles[i] = read_byte(r);
		r->bad = r->bad || out->list[n].roles[i] >= out->nkeys;
	}
	out->list[n].ndata = (size_t)read_short(r, SOLANA_DATA_MAX);
	out->list[n].data = read_bytes(r, out->list[n].ndata);
	r->bad = r->bad || out->list[n].program >= out->nkeys || !out->list[n].program;
}

bool solana_parse(const unsigned char *message, size_t len, struct solana_parsed *out)
{
	struct reader r = { message, message + len, false };
	int n;

	memset(out, 0, sizeof *out);
	out->legacy = len && !(message[0] & 0x80);
	if (!out->legacy && read_byte(&r) != VERSION_0)
		return false;
	out->nsigners = read_byte(&r);
	out->nreadonly_signers = read_byte(&r);
	out->nreadonly = read_byte(&r);
	out->nkeys = read_short(&r, SOLANA_ACCOUNTS_MAX);
	for (int i = 0; i < out->nkeys; i++)
		read_key(&r, &out->keys[i]);
	read_key(&r, &out->blockhash);
	n = read_short(&r, SOLANA_INSTRUCTIONS_MAX);
	while (!r.bad && out->n < n)
		read_instruction(&r, out);
	if (!out->legacy && read_short(&r, 0) != 0)
		return false;
	return !r.bad && r.at == r.end && out->nsigners >= 1 &&
		out->nsigners <= out->nkeys && out->nreadonly_signers < out->nsigners &&
		out->nreadonly <= out->nkeys - out->nsigners;
}

bool solana_first_signer(const unsigned char *bytes, size_t len, struct solana_first *out)
{
	struct reader r = { bytes, bytes + len, false };
	int n = read_short(&r, SOLANA_TX_BYTES_MAX / SOLANA_SIGNATURE_BYTES);
	const unsigned char *key;

	out->signature = read_bytes(&r, (size_t)n * SOLANA_SIGNATURE_BYTES);
	out->message = r.at;
	out->nmessage = (size_t)(r.end - r.at);
	/* the version, if there is one, and three counts of signers and read-only keys */
	read_bytes(&r, out->nmessage && *r.at & 0x80 ? 4 : 3);
	read_short(&r, UINT8_MAX);
	key = read_bytes(&r, SOLANA_KEY_BYTES);
	if (!n || !key)
		return false;
	memcpy(&out->key, key, sizeof out->key);
	return crypto_sign_verify_detached(out->signature, out->message, out->nmessage,
		       key) == 0;
}

/* --- in words ------------------------------------------------------------------------------- */

uint64_t solana_number(const unsigned char *data, int bytes)
{
	uint64_t v = 0;

	for (int i = bytes; i-- > 0;)
		v = v << 8 | data[i];
	return v;
}

static bool is(const struct solana_parsed *m, int key, enum solana_program program)
{
	return memcmp(&m->keys[key], solana_program(program), SOLANA_KEY_BYTES) == 0;
}

static void add_key(struct buf *out, const struct solana_parsed *m, int key)
{
	char text[ADDRESS_MAX];

	address_format(m->keys[key].bytes, text);
	buf_adds(out, text);
}

/* Prints amounts of TransferChecked, BurnChecked and MintToChecked with the decimals that they
 * state. */
static void add_amount(struct buf *out, const unsigned char *data)
{
	uint64_t amount = solana_checked_amount(data);

	if (amount <= INT64_MAX && data[9] <= 18)
		money_format(out, (int64_t)amount, data[9]);
	else
		buf_addf(out, "%" PRIu64 " x 10^-%d", amount, data[9]);
}

static bool token_words(struct buf *out, const struct solana_parsed *m, int i)
{
	static const struct {
		int code, nroles, from, to;
		const char *verb, *preposition;
	} kinds[] = { { SOLANA_TRANSFER_CHECKED, 4, 0, 2, "transfer", " to " },
		{ SOLANA_BURN_CHECKED, 3, 1, 0, "burn", " from " },
		{ SOLANA_MINT_TO_CHECKED, 3, 0, 1, "mint", " to " } };

	for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
		if (m->list[i].ndata != SOLANA_CHECKED_BYTES ||
			m->list[i].data[0] != kinds[k].code ||
			m->list[i].nroles != kinds[k].nroles)
			continue;
		buf_addf(out, "%s ", kinds[k].verb);
		add_amount(out, m->list[i].data);
		buf_adds(out, kinds[k].preposition);
		add_key(out, m, m->list[i].roles[kinds[k].to]);
		return true;
	}
	return false;
}

static bool instruction_words(struct buf *out, const struct solana_parsed *m, int i)
{
	const unsigned char *data = m->list[i].data;
	size_t n = m->list[i].ndata;
	int program = m->list[i].program;

	if (is(m, program, SOLANA_COMPUTE_BUDGET) && n == 5 && data[0] == 2) {
		buf_addf(out, "use at most %" PRIu64 " compute units",
			solana_number(data + 1, 4));
	} else if (is(m, program, SOLANA_COMPUTE_BUDGET) && n == 9 && data[0] == 3) {
		buf_addf(out, "pay %" PRIu64 " micro-lamports for each of them",
			solana_number(data + 1, 8));
	} else if (is(m, program, SOLANA_MEMO)) {
		buf_addf(out, "memo of %zu bytes: ", n);
		for (size_t k = 0; k < n; k++)
			buf_addc(out,
				data[k] >= 0x20 && data[k] < 0x7f ? (char)data[k] : '?');
	} else if (is(m, program, SOLANA_ASSOCIATED) && n == 1 && data[0] == 1 &&
		m->list[i].nroles == 6) {
		buf_adds(out, "create, if it is not there, the token account ");
		add_key(out, m, m->list[i].roles[1]);
		buf_adds(out, " of ");
		add_key(out, m, m->list[i].roles[2]);
	} else if (is(m, program, SOLANA_SYSTEM) && n == 4 &&
		solana_number(data, 4) == 4 && m->list[i].nroles == 3) {
		buf_adds(out, "advance the nonce ");
		add_key(out, m, m->list[i].roles[0]);
	} else if (is(m, program, SOLANA_TOKEN) || is(m, program, SOLANA_TOKEN_2022)) {
		return token_words(out, m, i);
	} else {
		return false;
	}
	return true;
}

void solana_words(struct buf *out, const struct solana_parsed *m)
{
	buf_adds(out, "fees are paid by ");
	add_key(out, m, 0);
	buf_addc(out, '\n');
	for (int i = 0; i < m->n; i++) {
		if (!instruction_words(out, m, i)) {
			buf_adds(out, "UNKNOWN instruction of program ");
			add_key(out, m, m->list[i].program);
		}
		buf_addc(out, '\n');
	}
}
