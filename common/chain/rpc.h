/* rpc.h - calls a Solana RPC server, and parses its answers with pure functions.
 *
 * An answer is only checked to be well-formed; paystate.h draws conclusions from the answers of
 * several servers. Uses http, json, err. */
#ifndef RNP_CMD_REWARD_RPC_H
#define RNP_CMD_REWARD_RPC_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "cmd/rnp-reward/paystate.h"
#include "cmd/rnp-reward/solana.h"
#include "cmd/rnp-reward/voice.h"
#include "common/base/buf.h"
#include "common/cli/opt.h"
#include "common/net/http.h"

#define RPC_TEXT_MAX      128
#define RPC_ACCOUNT_BYTES 512 /* bytes of an account that are read */
#define RPC_BATCH_MAX     100 /* accounts or signatures per request */
#define RPC_HEIGHT_MAX    INT64_C(1000000000000)

struct rpc {
	const char *url; /* may hold somebody's key: others see voice.name */
	struct voice voice;
	const char *ca; /* file of the certificates to trust; NULL: the system's */
	struct http http;
	int64_t id; /* of the last request */
	bool others; /* are asked, too: this one need not be waited for as if it were alone */
	int64_t waited_ms;
};

/* Refuses what stands twice in a list of addresses (64): each is one voice. */
int rpc_check_once(const char *option, const struct opt_list *list);

/* Makes servers of a list of URLs. Returns 0, or -1 (64): one is no URL, is one server with another, or they
 * are more than PAY_SERVERS_MAX. */
int rpc_open(struct rpc *servers, const struct opt_list *urls, const char *ca);

/* Returns which of the n servers before it this one is under another name, as their addresses tell once they
 * have answered; -1: none. */
int rpc_again(const struct rpc *servers, int n, const struct rpc *r);

/* An account as getMultipleAccounts returns it. */
struct rpc_account {
	bool exists;
	struct solana_key program; /* its owner in Solana's sense */
	unsigned char data[RPC_ACCOUNT_BYTES];
	size_t len; /* of data, at most RPC_ACCOUNT_BYTES */
};

/* Each returns 0, or -1 with err_set naming the server: 69, 75, 65 a malformed answer. */
int rpc_genesis(struct rpc *r, char out[RPC_TEXT_MAX]);
int rpc_blockhash(struct rpc *r, struct solana_key *out, int64_t *last_valid);
int rpc_height(struct rpc *r, const char *commitment, int64_t *out);
int rpc_accounts(struct rpc *r, const char *commitment, const struct solana_key *keys,
	int n, struct rpc_account *out);
int rpc_send(struct rpc *r, const void *transaction, size_t len);
/* Gets statuses including their history. texts: base58 signatures. */
int rpc_statuses(struct rpc *r, const char *const *texts, int n, enum pay_seen *out);

/* Lists the transactions with an address in them, the newest first, until one that is known ("": none) and before one
 * ("": the newest); at most RPC_PAST_MAX. Returns how many, or -1. */
#define RPC_PAST_MAX       1000
#define RPC_SIGNATURE_MAX  96
#define RPC_MEMO_BYTES_MAX 640
struct rpc_past {
	char signature[RPC_SIGNATURE_MAX];
	int64_t at_s; /* seconds since 1970; 0: not known */
	bool failed;
	char memo
		[RPC_MEMO_BYTES_MAX]; /* as "[bytes] text"; "": none. A longer one is cut. */
};
int rpc_past(struct rpc *r, const struct solana_key *address, const char *before,
	const char *until, struct rpc_past out[RPC_PAST_MAX]);

/* Gets the first slot that the server still has, and when a slot was, in seconds since 1970. Returns 0, or -1. */
int rpc_first_slot(struct rpc *r, int64_t *out);
int rpc_slot_time(struct rpc *r, int64_t slot, int64_t *out);

/* Gets the bytes of a transaction. Returns 0, 1: the server does not have it, or -1. */
int rpc_transaction(struct rpc *r, const char *signature,
	unsigned char out[SOLANA_TX_BYTES_MAX], size_t *len);

/* --- pure ----------------------------------------------------------------------------------- */

/* Returns the result of an answer with this id; the caller owns it. NULL with EX_DATAERR (not
 * an answer of JSON-RPC 2.0, another id), or with EX_TEMPFAIL and the server's own message (an
 * error). */
json_t *rpc_answer(const char *text, size_t len, int64_t id, const char *where);

int rpc_read_accounts(const json_t *result, int n, struct rpc_account *out,
	const char *where);
int rpc_read_statuses(const json_t *result, int n, enum pay_seen *out, const char *where);
/* Returns how many, or -1. */
int rpc_read_past(const json_t *result, struct rpc_past out[RPC_PAST_MAX],
	const char *where);
int rpc_read_transaction(const json_t *result, unsigned char out[SOLANA_TX_BYTES_MAX],
	size_t *len, const char *where);
int rpc_read_blockhash(const json_t *result, struct solana_key *out, int64_t *last_valid,
	const char *where);

void rpc_release(struct rpc *r);

#endif
