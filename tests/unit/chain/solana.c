/* solana.c - sizes of payload messages, addresses and the parser; with an argument, a small
 * tool that tests/tools/solana_kit.mjs holds against @solana/kit. uses: cmd/rnp-reward
 *
 *     solana compile < lines      m LEGACY PAYER BLOCKHASH (; instruction ...)* -> hex of the
 *                                 message
 *     solana associated < lines   WALLET TOKEN_PROGRAM MINT -> address and bump
 *     solana pda < lines          PROGRAM HEX_SEED ... -> address and bump */
#include <sodium.h>
#include <stdlib.h>

#include "common/chain/solana.h"
#include "common/base/address.h"
#include "common/base/buf.h"
#include "tests/unit/test.h"

#define WORDS_MAX 512

static struct solana_key key_of(const char *text)
{
	struct solana_key key;

	if (address_parse(text, "key", key.bytes) < 0)
		exit(2);
	return key;
}

/* --- the tool ------------------------------------------------------------------------------- */

static char *words[WORDS_MAX];
static int nwords, at;

static char *word(void)
{
	if (at == nwords)
		exit(2);
	return words[at++];
}

static void split(char *line)
{
	nwords = at = 0;
	for (char *save, *w = strtok_r(line, " \n", &save); w && nwords < WORDS_MAX;
		w = strtok_r(NULL, " \n", &save))
		words[nwords++] = w;
}

static void read_instruction(struct solana_instruction *i)
{
	struct solana_key k[5];
	const char *kind = word();
	static const struct {
		const char *kind;
		int keys;
	} kinds[] = { { "limit", 0 }, { "price", 0 }, { "memo", 0 }, { "nonce", 2 },
		{ "create", 5 }, { "transfer", 5 }, { "burn", 4 }, { "mint", 4 } };
	uint64_t amount;
	size_t which = 0;

	while (strcmp(kinds[which].kind, kind) != 0)
		if (++which == sizeof kinds / sizeof *kinds)
			exit(2);
	for (int n = 0; n < kinds[which].keys; n++)
		k[n] = key_of(word());
	switch (which) {
	case 0:
		solana_unit_limit(i, (uint32_t)strtoul(word(), NULL, 10));
		return;
	case 1:
		solana_unit_price(i, strtoull(word(), NULL, 10));
		return;
	case 2:
		solana_memo(i, word());
		return;
	case 3:
		solana_advance_nonce(i, &k[0], &k[1]);
		return;
	case 4:
		solana_create_idempotent(i, &k[0], &k[1], &k[2], &k[3], &k[4]);
		return;
	}
	amount = strtoull(word(), NULL, 10);
	if (which == 5)
		solana_transfer_checked(i, &k[0], &k[1], &k[2], &k[3], &k[4], amount, 8);
	else if (which == 6)
		solana_burn_checked(i, &k[0], &k[1], &k[2], &k[3], amount, 8);
	else
		solana_mint_to_checked(i, &k[0], &k[1], &k[2], &k[3], amount, 8);
}

static void compile_line(void)
{
	static struct solana_instruction list[SOLANA_INSTRUCTIONS_MAX];
	struct solana_message m = { .list = list };
	struct solana_parsed parsed;
	struct buf out = BUF_INIT, hex = BUF_INIT;

	m.legacy = strcmp(word(), "1") == 0;
	m.payer = key_of(word());
	m.blockhash = key_of(word());
	while (at < nwords) {
		if (strcmp(word(), ";") != 0)
			exit(2);
		read_instruction(&list[m.n++]);
	}
	if (solana_compile(&out, &m) < 0)
		exit(2);
	/* a written message can be read, and nothing shorter or longer */
	if (!solana_parse((unsigned char *)out.data, out.len, &parsed) ||
		parsed.n != m.n ||
		solana_parse((unsigned char *)out.data, out.len - 1, &parsed))
		exit(3);
	buf_add_hex(&hex, out.data, out.len);
	puts(hex.data);
	buf_release(&out);
	buf_release(&hex);
}

static void print_address(int bump, const struct solana_key *key)
{
	char text[ADDRESS_MAX];

	address_format(key->bytes, text);
	printf("%s %d\n", text, bump);
}

static void associated_line(void)
{
	struct solana_key wallet = key_of(word()), program = key_of(word()),
			  mint = key_of(word()), out;
	int bump = solana_associated(&wallet, &program, &mint, &out);

	print_address(bump, &out);
}

static void pda_line(void)
{
	struct solana_key program = key_of(word()), out;
	unsigned char bytes[16][32];
	const void *seeds[16];
	size_t lens[16];
	int n = 0;

	for (; at < nwords; n++) {
		const char *hex = word();

		seeds[n] = bytes[n];
		if (sodium_hex2bin(bytes[n], 32, hex, strlen(hex), NULL, &lens[n],
			    NULL) != 0)
			exit(2);
	}
	print_address(solana_pda(seeds, lens, n, &program, &out), &out);
}

static int tool(const char *what)
{
	char *line = NULL;
	size_t cap = 0;

	while (getline(&line, &cap, stdin) > 0) {
		split(line);
		if (strcmp(what, "compile") == 0)
			compile_line();
		else if (strcmp(what, "associated") == 0)
			associated_line();
		else
			pda_line();
	}
	free(line);
	return 0;
}

/* --- the checks ----------------------------------------------------------------------------- */

static struct solana_key random_wallet(void)
{
	struct solana_key key;
	unsigned char secret[64];

	crypto_sign_keypair(key.bytes, secret);
	return key;
}

/* The size of a transaction with n payments in it. */
static size_t size_of(int n, bool create, bool around)
{
	static struct solana_instruction list[SOLANA_INSTRUCTIONS_MAX];
	struct solana_key payer = random_wallet(), mint = random_wallet(),
			  from = random_wallet();
	const struct solana_key *token = solana_program(SOLANA_TOKEN);
	struct solana_message m = { .payer = payer, .list = list };
	struct buf out = BUF_INIT;
	size_t size;

	if (around) {
		solana_unit_limit(&list[m.n++], 1000000);
		solana_unit_price(&list[m.n++], 1000);
		solana_memo(&list[m.n++], "J4tKqyDa5yTicVvypCpfySW9jf5b7owJcPvpKkMhZrqW");
	}
	for (int i = 0; i < n; i++) {
		struct solana_key wallet = random_wallet(), account;

		CHECK(solana_associated(&wallet, token, &mint, &account) >= 0);
		if (create)
			solana_create_idempotent(&list[m.n++], &payer, &account, &wallet,
				&mint, token);
		solana_transfer_checked(&list[m.n++], token, &from, &mint, &account,
			&payer, 1, 8);
	}
	CHECK(solana_compile(&out, &m) == 0);
	size = out.len + 1 + SOLANA_SIGNATURE_BYTES;
	buf_release(&out);
	return size;
}

/* A transfer that may create the account takes 91 bytes, and ten fit into a transaction; a bare
 * one takes 49, and twenty fit. */
static void check_sizes(void)
{
	CHECK_I64(1206, (int64_t)size_of(10, true, false));
	CHECK_I64(91, (int64_t)(size_of(10, true, false) - size_of(9, true, false)));
	CHECK_I64(1212, (int64_t)size_of(20, false, false));
	CHECK_I64(49, (int64_t)(size_of(20, false, false) - size_of(19, false, false)));
	CHECK(size_of(8, true, true) <= SOLANA_TX_BYTES_MAX);
	CHECK(size_of(9, true, true) > SOLANA_TX_BYTES_MAX);
	CHECK(size_of(17, false, true) <= SOLANA_TX_BYTES_MAX);
	CHECK(size_of(18, false, true) > SOLANA_TX_BYTES_MAX);
}

static void check_curve(void)
{
	struct solana_key wallet = random_wallet(), account;
	const struct solana_key *token = solana_program(SOLANA_TOKEN);

	CHECK(solana_on_curve(&wallet));
	CHECK(solana_associated(&wallet, token, token, &account) >= 0);
	CHECK(!solana_on_curve(&account));
	/* a point of order 8 is on the curve all the same */
	memset(&account, 0, sizeof account);
	CHECK(solana_on_curve(&account));
}

static void check_words(void)
{
	struct solana_instruction list[3];
	struct solana_key payer = key_of("J4tKqyDa5yTicVvypCpfySW9jf5b7owJcPvpKkMhZrqW");
	struct solana_message m = { .payer = payer, .list = list, .n = 3 };
	struct solana_parsed parsed;
	struct buf out = BUF_INIT, text = BUF_INIT;
	const struct solana_key *token = solana_program(SOLANA_TOKEN);

	solana_memo(&list[0], "root\n");
	solana_transfer_checked(&list[1], token, &payer, token,
		solana_program(SOLANA_MEMO), &payer, 123456789, 8);
	solana_unit_limit(&list[2], 7);
	list[2].data[0] = 9;
	CHECK(solana_compile(&out, &m) == 0);
	CHECK(solana_parse((unsigned char *)out.data, out.len, &parsed));
	solana_words(&text, &parsed);
	CHECK_TEXT(
		"fees are paid by J4tKqyDa5yTicVvypCpfySW9jf5b7owJcPvpKkMhZrqW\n"
		"memo of 5 bytes: root?\n"
		"transfer 1.23456789 to MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr\n"
		"UNKNOWN instruction of program ComputeBudget111111111111111111111111111111\n",
		text.data);
	/* every cut and every flipped byte is refused or read, never more than what is there */
	for (size_t i = 0; i < out.len; i++) {
		CHECK(!solana_parse((unsigned char *)out.data, i, &parsed));
		out.data[i] ^= (char)0x81;
		solana_parse((unsigned char *)out.data, out.len, &parsed);
		out.data[i] ^= (char)0x81;
	}
	buf_release(&out);
	buf_release(&text);
}

/* Builds a transaction of n signers with `extra` bytes behind their keys, signed by them. Returns
 * its length. */
static size_t build(unsigned char out[SOLANA_TX_BYTES_MAX], int n, bool legacy,
	size_t extra, unsigned char keys[][crypto_sign_PUBLICKEYBYTES])
{
	unsigned char secret[4][crypto_sign_SECRETKEYBYTES];
	unsigned char *message = out + 1 + n * SOLANA_SIGNATURE_BYTES, *to = message;

	out[0] = (unsigned char)n;
	if (!legacy)
		*to++ = 0x80;
	*to++ = (unsigned char)n;
	*to++ = 0;
	*to++ = 0;
	*to++ = (unsigned char)n;
	for (int i = 0; i < n; i++) {
		crypto_sign_keypair(keys[i], secret[i]);
		memcpy(to, keys[i], SOLANA_KEY_BYTES);
		to += SOLANA_KEY_BYTES;
	}
	/* what no parser of ours knows */
	memset(to, 0xee, extra);
	to += extra;
	for (int i = 0; i < n; i++)
		crypto_sign_detached(out + 1 + i * SOLANA_SIGNATURE_BYTES, NULL, message,
			(size_t)(to - message), secret[i]);
	return (size_t)(to - out);
}

static void check_first_signer(void)
{
	unsigned char bytes[SOLANA_TX_BYTES_MAX], keys[4][crypto_sign_PUBLICKEYBYTES],
		*end;
	struct solana_first first;

	for (int n = 1; n <= 4; n++)
		for (int legacy = 0; legacy < 2; legacy++) {
			size_t len = build(bytes, n, legacy, 300, keys);

			CHECK(solana_first_signer(bytes, len, &first));
			CHECK(first.signature == bytes + 1);
			CHECK(memcmp(&first.key, keys[0], SOLANA_KEY_BYTES) == 0);
			/* each byte of the first signature and of the message counts */
			end = bytes + len;
			for (unsigned char *b = bytes; b < end; b++) {
				bool others = b > bytes + SOLANA_SIGNATURE_BYTES &&
					b < first.message;

				*b ^= 1;
				CHECK(solana_first_signer(bytes, len, &first) == others);
				*b ^= 1;
			}
			for (size_t cut = 0; cut < len; cut++)
				CHECK(!solana_first_signer(bytes, cut, &first));
		}
	/* by nobody, and a message without keys */
	memset(bytes, 0, sizeof bytes);
	CHECK(!solana_first_signer(bytes, sizeof bytes, &first));
	bytes[0] = 1;
	CHECK(!solana_first_signer(bytes, 1 + SOLANA_SIGNATURE_BYTES + 4, &first));
}

int main(int argc, char **argv)
{
	if (sodium_init() < 0)
		return 2;
	if (argc > 1)
		return tool(argv[1]);
	check_sizes();
	check_curve();
	check_words();
	check_first_signer();
	TEST_END();
}
