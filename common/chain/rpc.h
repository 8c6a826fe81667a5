/* rpc.h - calls a Solana RPC server, and parses its answers with pure functions.
 *
 * An answer is only checked to be well-formed; paystate.h of rnp-reward draws conclusions from the
 * answers of several servers. Uses http, json, cli, err. */
#ifndef RNP_COMMON_CHAIN_RPC_H
#define RNP_COMMON_CHAIN_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "common/base/buf.h"
#include "common/chain/rpc_peer.h"
#include "common/chain/seen.h"
#include "common/chain/solana.h"
#include "common/cli/opt.h"
#include "common/http/http.h"

#define RPC_TEXT_MAX 128
/* Bytes of an account that are read: a mint or an account of Token-2022 with all extensions of
 * fixed size. */
#define RPC_ACCOUNT_BYTES 1280
#define RPC_BATCH_MAX     100 /* accounts or signatures per request */
#define RPC_HEIGHT_MAX    INT64_C(1000000000000)

struct rpc {
	const char *url; /* may hold somebody's key, so messages show peer.name */
	struct rpc_peer peer;
	const char *ca; /* file of the certificates to trust; NULL: the system's */
	struct http http;
	int64_t id; /* of the last request */
	/* of the last answer: which instruction of a transaction fails, as the server says; -1: it
	 * names none */
	int failed_instruction;
	bool others; /* other servers are asked as well, so this one may be given up sooner */
	int64_t waited_ms;
};

/* Checks that no address stands twice in the list of an option: its vote would count twice.
 * Returns 0, or -1 (64). */
int rpc_check_once(const char *option, const struct opt_list *list);

/* Initialises a server for each URL of a list; nothing is sent yet. Returns 0, or -1 (64): a
 * text is no URL, two URLs name one server, or there are more than PAY_SERVERS_MAX. */
int rpc_open(struct rpc *servers, const struct opt_list *urls, const char *ca);

/* Returns which of these n servers is the same as r under another name, by the addresses that have
 * answered; -1: none is. */
int rpc_find_same(const struct rpc *servers, int n, const struct rpc *r);

/* An account as getMultipleAccounts returns it. */
struct rpc_account {
	bool exists;
	bool executable;           /* it is a program */
	struct solana_key program; /* its owner in Solana's sense */
	unsigned char data[RPC_ACCOUNT_BYTES];
	size_t len; /* of data, at most RPC_ACCOUNT_BYTES */
};

/* Returns why nobody can use tokens that are sent to an address with this account, as the rest of a
 * sentence about it; or NULL: it is a wallet, or there is no account (yet). */
const char *rpc_why_no_wallet(const struct rpc_account *a);

/* Each call returns 0, or -1 with an error that names the server: 69 it cannot be reached, 75 it
 * did not answer in time or refuses, 65 its answer is malformed. */
int rpc_genesis(struct rpc *r, char out[RPC_TEXT_MAX]);
int rpc_blockhash(struct rpc *r, struct solana_key *out, int64_t *last_valid);
int rpc_height(struct rpc *r, const char *commitment, int64_t *out);
/* Asks whether a blockhash is good at the newest finalised slot. */
int rpc_hash_good(struct rpc *r, const struct solana_key *hash, bool *good,
	int64_t *slot);
int rpc_accounts(struct rpc *r, const char *commitment, const struct solana_key *keys,
	int n, struct rpc_account *out);
int rpc_send(struct rpc *r, const void *transaction, size_t len);
/* Gets the statuses of signatures (in base58), those of old transactions included. */
int rpc_statuses(struct rpc *r, const char *const *texts, int n, enum pay_seen *out);

/* Lists the transactions that name an address, the newest first: those before the signature
 * `before` ("": from the newest on) and after the signature `until` ("": all), at most
 * RPC_PAST_MAX. Returns how many, or -1. */
#define RPC_PAST_MAX       1000
#define RPC_SIGNATURE_MAX  96
#define RPC_MEMO_BYTES_MAX 640
struct rpc_past {
	char signature[RPC_SIGNATURE_MAX];
	int64_t at_s; /* seconds since 1970; 0: not known */
	bool failed;
	/* as "[bytes] text"; "": none. A longer one is cut. */
	char memo[RPC_MEMO_BYTES_MAX];
};
int rpc_past(struct rpc *r, const struct solana_key *address, const char *before,
	const char *until, struct rpc_past out[RPC_PAST_MAX]);

/* Get the first slot that the server still has, and the time of a slot in seconds since 1970.
 * Return 0, or -1. */
int rpc_first_slot(struct rpc *r, int64_t *out);
int rpc_slot_time(struct rpc *r, int64_t slot, int64_t *out);

/* Gets the bytes of a transaction. Returns 0; 1: the server does not have it; or -1. */
int rpc_transaction(struct rpc *r, const char *signature,
	unsigned char out[SOLANA_TX_BYTES_MAX], size_t *len);

/* --- pure ----------------------------------------------------------------------------------- */

/* Returns the result of an answer with this id; the caller owns it. NULL with EX_DATAERR (not
 * an answer of JSON-RPC 2.0, another id), or with EX_TEMPFAIL and the server's own message (an
 * error). *failed: which instruction of a transaction fails, if the error names one; else -1. */
json_t *rpc_answer(const char *text, size_t len, int64_t id, const char *where,
	int *failed);

int rpc_read_accounts(const json_t *result, int n, struct rpc_account *out,
	const char *where);
int rpc_read_statuses(const json_t *result, int n, enum pay_seen *out, const char *where);
/* Returns how many transactions there are, or -1. */
int rpc_read_past(const json_t *result, struct rpc_past out[RPC_PAST_MAX],
	const char *where);
int rpc_read_transaction(const json_t *result, unsigned char out[SOLANA_TX_BYTES_MAX],
	size_t *len, const char *where);
int rpc_read_blockhash(const json_t *result, struct solana_key *out, int64_t *last_valid,
	const char *where);
int rpc_read_hash_good(const json_t *result, bool *good, int64_t *slot,
	const char *where);

void rpc_release(struct rpc *r);

#endif
