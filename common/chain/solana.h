/* solana.h - Solana messages and addresses: program-derived addresses, instructions of the programs
 * that payouts use, legacy and v0 messages, byte for byte as @solana/kit compiles them. Pure but
 * for libsodium's SHA-256 and curve.
 *
 * Wire format: https://solana.com/docs/core/transactions. A transaction has at most 1,232 bytes. */
#ifndef RNP_COMMON_CHAIN_SOLANA_H
#define RNP_COMMON_CHAIN_SOLANA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/base/buf.h"

#define SOLANA_KEY_BYTES        32
#define SOLANA_SIGNATURE_BYTES  64
#define SOLANA_TX_BYTES_MAX     1232
#define SOLANA_ACCOUNTS_MAX     64 /* per message; 1,232 bytes hold 35 */
#define SOLANA_INSTRUCTIONS_MAX 64
#define SOLANA_DATA_MAX         600 /* per instruction */
#define SOLANA_ROLES_MAX        8   /* accounts per instruction */

struct solana_key {
	unsigned char bytes[SOLANA_KEY_BYTES];
};

/* The programs and sysvars that payouts use. */
enum solana_program {
	SOLANA_SYSTEM,
	SOLANA_COMPUTE_BUDGET,
	SOLANA_TOKEN,
	SOLANA_TOKEN_2022,
	SOLANA_ASSOCIATED,
	SOLANA_MEMO,
	SOLANA_RECENT_BLOCKHASHES,
	SOLANA_PROGRAMS
};
const struct solana_key *solana_program(enum solana_program which);

/* The instructions of the token programs that move tokens: a tag, the amount, the decimals. */
enum {
	SOLANA_TRANSFER_CHECKED = 12,
	SOLANA_MINT_TO_CHECKED = 14,
	SOLANA_BURN_CHECKED = 15
};
#define SOLANA_CHECKED_BYTES 10

/* Reads a little-endian number of at most 8 bytes. */
uint64_t solana_number(const unsigned char *data, int bytes);

/* Returns the amount of an instruction of SOLANA_CHECKED_BYTES. */
static inline uint64_t solana_checked_amount(const unsigned char *data)
{
	return solana_number(data + 1, 8);
}

/* Whether the bytes are a point of the curve, so that somebody may have the private key. */
bool solana_on_curve(const struct solana_key *key);

/* Computes the program-derived address of nseeds seeds (at most 16, of at most 32 bytes each)
 * with the highest bump that is off the curve. Returns the bump, or -1: there is none, or a
 * seed is too long. */
int solana_pda(const void *const *seeds, const size_t *lens, int nseeds,
	const struct solana_key *program, struct solana_key *out);

/* Computes a wallet's associated account for a mint of one of the two token programs. */
int solana_associated(const struct solana_key *wallet,
	const struct solana_key *token_program, const struct solana_key *mint,
	struct solana_key *out);

/* --- instructions --------------------------------------------------------------------------- */

struct solana_role {
	struct solana_key key;
	bool writable, signer;
};

struct solana_instruction {
	struct solana_key program;
	struct solana_role roles[SOLANA_ROLES_MAX];
	int nroles;
	unsigned char data[SOLANA_DATA_MAX];
	size_t ndata;
};

void solana_unit_limit(struct solana_instruction *i, uint32_t units);
void solana_unit_price(struct solana_instruction *i, uint64_t micro_lamports);
void solana_advance_nonce(struct solana_instruction *i, const struct solana_key *nonce,
	const struct solana_key *authority);
void solana_create_idempotent(struct solana_instruction *i,
	const struct solana_key *payer, const struct solana_key *account,
	const struct solana_key *wallet, const struct solana_key *mint,
	const struct solana_key *token_program);
void solana_transfer_checked(struct solana_instruction *i,
	const struct solana_key *token_program, const struct solana_key *from,
	const struct solana_key *mint, const struct solana_key *to,
	const struct solana_key *owner, uint64_t amount, uint8_t decimals);
void solana_burn_checked(struct solana_instruction *i,
	const struct solana_key *token_program, const struct solana_key *account,
	const struct solana_key *mint, const struct solana_key *owner, uint64_t amount,
	uint8_t decimals);
void solana_mint_to_checked(struct solana_instruction *i,
	const struct solana_key *token_program, const struct solana_key *mint,
	const struct solana_key *account, const struct solana_key *authority,
	uint64_t amount, uint8_t decimals);
/* text: at most SOLANA_DATA_MAX bytes of UTF-8. */
void solana_memo(struct solana_instruction *i, const char *text);

/* --- messages ------------------------------------------------------------------------------- */

struct solana_message {
	struct solana_key payer;
	struct solana_key blockhash; /* or the nonce's value */
	bool legacy;                 /* else v0, without lookup tables */
	struct solana_instruction *list;
	int n;
};

/* Appends the bytes to be signed. Accounts are in kit's order: the payer, then writable
 * signers, signers, writable ones, others, each group sorted by base58 text as its collator
 * does. Returns 0, or -1 with EX_DATAERR: too many accounts. */
int solana_compile(struct buf *out, const struct solana_message *m);

/* Reads how many signatures a message needs, and where its keys are. Returns false if
 * solana_compile could not have written the bytes (trailing bytes, indexes out of range, lookup
 * tables). */
struct solana_parsed {
	bool legacy;
	int nsigners, nreadonly_signers, nreadonly, nkeys;
	struct solana_key keys[SOLANA_ACCOUNTS_MAX];
	struct solana_key blockhash;
	struct {
		int program, roles[SOLANA_ROLES_MAX], nroles; /* indexes of keys */
		const unsigned char *data;                    /* in the input */
		size_t ndata;
	} list[SOLANA_INSTRUCTIONS_MAX];
	int n;
};
bool solana_parse(const unsigned char *message, size_t len, struct solana_parsed *out);

/* The first signer of a transaction; that signature names the transaction. message points into the
 * input. */
struct solana_first {
	const unsigned char *signature, *message;
	size_t nmessage;
	struct solana_key key;
};
/* Reads the first signer of any transaction, even if it has other signers, lookup tables or
 * anything else that solana_parse does not know. Returns true only if the signature is good:
 * then it belongs to no other key and no other message. */
bool solana_first_signer(const unsigned char *bytes, size_t len,
	struct solana_first *out);

/* Appends a description of a message, one line for each instruction, for the person or program
 * that signs it. */
void solana_words(struct buf *out, const struct solana_parsed *m);

/* Appends the whole transaction with its one signature. */
void solana_transaction(struct buf *out,
	const unsigned char signature[SOLANA_SIGNATURE_BYTES], const void *message,
	size_t len);

#endif
