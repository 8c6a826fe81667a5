/* rpc.c - calls a Solana server by JSON-RPC 2.0 over HTTP. */
#include "common/chain/rpc.h"

#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/address.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define ANSWER_BYTES_MAX ((size_t)4 << 20)
#define TIMEOUT_MS       10000
#define TRIES            2
/* a server that has made us wait for so long in all, the first second of each call not counted,
 * gets the shorter timeout from then on */
#define PATIENCE_MS     10000
#define LATE_TIMEOUT_MS 2000

void rpc_release(struct rpc *r)
{
	http_release(&r->http);
}

/* --- servers -------------------------------------------------------------------------------- */

int rpc_check_once(const char *option, const struct opt_list *list)
{
	for (int i = 0; i < list->n; i++)
		for (int k = 0; k < i; k++)
			if (strcmp(list->items[i], list->items[k]) == 0)
				return err_set(EX_USAGE, "%s: %.200s stands there twice",
					option, list->items[i]);
	return 0;
}

int rpc_open(struct rpc *servers, const struct opt_list *urls, const char *ca)
{
	if (urls->n > PAY_SERVERS_MAX)
		return err_set(EX_USAGE, "--rpc: more than %d servers", PAY_SERVERS_MAX);
	for (int i = 0; i < urls->n; i++) {
		servers[i] = (struct rpc){ .url = urls->items[i],
			.ca = ca,
			.others = urls->n > 1 };
		if (rpc_peer_parse(&servers[i].peer, urls->items[i]) < 0)
			return err_add("--rpc");
		for (int k = 0; k < i; k++)
			if (rpc_peer_same(&servers[i].peer, &servers[k].peer))
				return err_set(EX_USAGE,
					"--rpc: %s and %s are one server, which is one voice",
					servers[k].peer.name, servers[i].peer.name);
	}
	return 0;
}

int rpc_find_same(const struct rpc *servers, int n, const struct rpc *r)
{
	for (int i = 0; i < n; i++)
		if (rpc_peer_same_server(&servers[i].peer, &r->peer))
			return i;
	return -1;
}

/* Whether curl asks a proxy: its address is not the server's. */
static bool has_proxy(void)
{
	static const char *const names[] = { "http_proxy", "https_proxy", "HTTPS_PROXY",
		"all_proxy", "ALL_PROXY" };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (getenv(names[i]))
			return true;
	return false;
}

/* --- answers -------------------------------------------------------------------------------- */

/* Which instruction fails is in the error's data; servers and proxies that leave it out name it in
 * the message, as the node writes it ("Error processing Instruction 8") or as Rust does. */
static int failed_instruction(const json_t *error)
{
	static const char *const marks[] = { "rocessing Instruction ",
		"InstructionError(" };
	const json_t *of = json_object_get(json_object_get(json_object_get(error, "data"),
						   "err"),
		"InstructionError");
	const json_t *index = json_array_get(of, 0);
	const char *message = json_string_value(json_object_get(error, "message"));
	long found = json_is_integer(index) ? (long)json_integer_value(index) : -1;

	for (size_t i = 0; i < sizeof marks / sizeof *marks && message && found < 0;
		i++) {
		const char *at = strstr(message, marks[i]);

		at = at ? at + strlen(marks[i]) : "";
		if (*at >= '0' && *at <= '9')
			found = strtol(at, NULL, 10);
	}
	return found >= 0 && found < SOLANA_INSTRUCTIONS_MAX ? (int)found : -1;
}

static json_t *server_error(const json_t *error, const char *where)
{
	const char *message = json_string_value(json_object_get(error, "message"));

	err_set(EX_TEMPFAIL, "%s: %.200s (%" JSON_INTEGER_FORMAT ")", where,
		message ? message : "an error without a message",
		json_integer_value(json_object_get(error, "code")));
	return NULL;
}

json_t *rpc_answer(const char *text, size_t len, int64_t id, const char *where,
	int *failed)
{
	json_t *answer = json_parse_object(text, len, where), *result = NULL;
	const json_t *error = json_object_get(answer, "error");
	const char *version = json_string_value(json_object_get(answer, "jsonrpc"));

	*failed = -1;
	if (!answer)
		return NULL;
	if (!version || strcmp(version, "2.0") != 0)
		err_set(EX_DATAERR, "%s: the answer is not JSON-RPC 2.0", where);
	else if (!json_is_integer(json_object_get(answer, "id")) ||
		json_integer_value(json_object_get(answer, "id")) != id)
		err_set(EX_DATAERR, "%s: the answer has the id of another question",
			where);
	else if (error && !json_is_null(error)) {
		*failed = failed_instruction(error);
		result = server_error(error, where);
	} else if (!json_object_get(answer, "result"))
		err_set(EX_DATAERR, "%s: the answer has no result", where);
	else
		result = json_incref(json_object_get(answer, "result"));
	json_decref(answer);
	return result;
}

static int no_form(const char *where, const char *what)
{
	return err_set(EX_DATAERR, "%s: %s is not of its form", where, what);
}

/* Returns the value of an answer that comes with a context; NULL: it has none. */
static const json_t *value_of(const json_t *result)
{
	return json_object_get(result, "value");
}

static bool read_height(const json_t *v, int64_t *out)
{
	*out = json_integer_value(v);
	return json_is_integer(v) && *out >= 0 && *out <= RPC_HEIGHT_MAX;
}

int rpc_read_blockhash(const json_t *result, struct solana_key *out, int64_t *last_valid,
	const char *where)
{
	const json_t *value = value_of(result);
	const char *hash = json_string_value(json_object_get(value, "blockhash"));

	if (!hash ||
		!read_height(json_object_get(value, "lastValidBlockHeight"),
			last_valid) ||
		address_parse(hash, where, out->bytes) < 0)
		return no_form(where, "the blockhash");
	return 0;
}

int rpc_read_hash_good(const json_t *result, bool *good, int64_t *slot, const char *where)
{
	const json_t *value = value_of(result);

	*good = json_is_true(value);
	if (!json_is_boolean(value) ||
		!read_height(json_object_get(json_object_get(result, "context"), "slot"),
			slot))
		return no_form(where, "whether the blockhash is good");
	return 0;
}

/* Reads null, or an account with its data in base64. */
static int read_account(const json_t *v, struct rpc_account *out, const char *where)
{
	const char *program = json_string_value(json_object_get(v, "owner"));
	const json_t *data = json_object_get(v, "data");
	const char *base64 = json_string_value(json_array_get(data, 0));
	const char *encoding = json_string_value(json_array_get(data, 1));
	unsigned char *bytes;
	size_t n, len;
	int rc = 0;

	memset(out, 0, sizeof *out);
	if (json_is_null(v))
		return 0;
	if (!program || !base64 || !encoding || strcmp(encoding, "base64") != 0 ||
		address_parse(program, where, out->program.bytes) < 0)
		return no_form(where, "an account");
	n = strlen(base64);
	bytes = xmalloc(n + 1);
	if (sodium_base642bin(bytes, n, base64, n, NULL, &len, NULL,
		    sodium_base64_VARIANT_ORIGINAL) != 0) {
		rc = no_form(where, "an account's data");
	} else {
		out->exists = true;
		out->executable = json_is_true(json_object_get(v, "executable"));
		out->len = len < RPC_ACCOUNT_BYTES ? len : RPC_ACCOUNT_BYTES;
		memcpy(out->data, bytes, out->len);
	}
	free(bytes);
	return rc;
}

/* Both token programs: a mint has 82 bytes, or is padded to more than 165 with its type there. */
static const char *token_thing(const struct rpc_account *a)
{
	return a->len == 82 || (a->len > 165 && a->data[165] == 1) ?
		"it is a mint: a token, not a wallet" :
		a->len >= 165 ? "it is a token account: give the wallet that owns it" :
				"it belongs to a token program: it is not a wallet";
}

const char *rpc_why_no_wallet(const struct rpc_account *a)
{
	static const enum solana_program tokens[] = { SOLANA_TOKEN, SOLANA_TOKEN_2022 };

	if (!a->exists)
		return NULL;
	if (a->executable)
		return "it is a program, not a wallet";
	for (size_t i = 0; i < sizeof tokens / sizeof *tokens; i++)
		if (memcmp(&a->program, solana_program(tokens[i]), sizeof a->program) ==
			0)
			return token_thing(a);
	return memcmp(&a->program, solana_program(SOLANA_SYSTEM), sizeof a->program) ==
			0 ?
		NULL :
		"its account belongs to a program: it is not a wallet";
}

int rpc_read_accounts(const json_t *result, int n, struct rpc_account *out,
	const char *where)
{
	const json_t *value = value_of(result);

	if (!json_is_array(value) || json_array_size(value) != (size_t)n)
		return no_form(where, "the list of accounts");
	for (int i = 0; i < n; i++)
		if (read_account(json_array_get(value, (size_t)i), &out[i], where) < 0)
			return -1;
	return 0;
}

static int read_status(const json_t *v, enum pay_seen *out, const char *where)
{
	const char *level = json_string_value(json_object_get(v, "confirmationStatus"));
	const json_t *error = json_object_get(v, "err");

	*out = PAY_NULL;
	if (json_is_null(v))
		return 0;
	if (!json_is_object(v) || !level)
		return no_form(where, "a status");
	if (error && !json_is_null(error))
		*out = strcmp(level, "finalized") == 0 ? PAY_SEEN_FINAL_ERROR :
							 PAY_SEEN_ERROR;
	else if (strcmp(level, "finalized") == 0)
		*out = PAY_SEEN_FINAL;
	else if (strcmp(level, "confirmed") == 0)
		*out = PAY_SEEN_CONFIRMED;
	else
		*out = PAY_SEEN;
	return 0;
}

int rpc_read_statuses(const json_t *result, int n, enum pay_seen *out, const char *where)
{
	const json_t *value = value_of(result);

	if (!json_is_array(value) || json_array_size(value) != (size_t)n)
		return no_form(where, "the list of statuses");
	for (int i = 0; i < n; i++)
		if (read_status(json_array_get(value, (size_t)i), &out[i], where) < 0)
			return -1;
	return 0;
}

static int read_past(const json_t *v, struct rpc_past *out, const char *where)
{
	const char *signature = json_string_value(json_object_get(v, "signature"));
	const char *memo = json_string_value(json_object_get(v, "memo"));
	const json_t *error = json_object_get(v, "err"),
		     *at = json_object_get(v, "blockTime");

	memset(out, 0, sizeof *out);
	if (!signature || !*signature || strlen(signature) >= sizeof out->signature)
		return no_form(where, "a transaction of the past");
	strcpy(out->signature, signature);
	out->failed = error && !json_is_null(error);
	out->at_s = json_is_integer(at) && json_integer_value(at) > 0 ?
		json_integer_value(at) :
		0;
	if (memo)
		snprintf(out->memo, sizeof out->memo, "%.*s", (int)sizeof out->memo - 1,
			memo);
	return 0;
}

int rpc_read_past(const json_t *result, struct rpc_past out[RPC_PAST_MAX],
	const char *where)
{
	size_t n = json_array_size(result);

	if (!json_is_array(result) || n > RPC_PAST_MAX)
		return no_form(where, "the list of past transactions");
	for (size_t i = 0; i < n; i++)
		if (read_past(json_array_get(result, i), &out[i], where) < 0)
			return -1;
	return (int)n;
}

int rpc_read_transaction(const json_t *result, unsigned char out[SOLANA_TX_BYTES_MAX],
	size_t *len, const char *where)
{
	const json_t *data = json_object_get(result, "transaction");
	const char *base64 = json_string_value(json_array_get(data, 0));
	const char *encoding = json_string_value(json_array_get(data, 1));

	if (!base64 || !encoding || strcmp(encoding, "base64") != 0 ||
		sodium_base642bin(out, SOLANA_TX_BYTES_MAX, base64, strlen(base64), NULL,
			len, NULL, sodium_base64_VARIANT_ORIGINAL) != 0)
		return no_form(where, "a transaction");
	return 0;
}

/* --- questions ------------------------------------------------------------------------------ */

/* Calls a method and returns the result, or NULL. Takes params. */
static json_t *ask(struct rpc *r, const char *method, json_t *takes_params)
{
	/* a server that sends a byte a second would take twenty seconds for each question, and a
	 * blockhash lives for sixty */
	bool late = r->others && r->waited_ms > PATIENCE_MS;
	struct http_response answer = HTTP_RESPONSE_INIT;
	struct http_request q = { .url = r->url,
		.name = r->peer.name,
		.ca_file = r->ca,
		.response_bytes_max = ANSWER_BYTES_MAX,
		.timeout_ms = late ? LATE_TIMEOUT_MS : TIMEOUT_MS,
		.tries = late ? 1 : TRIES,
		/* a redirect might lead into our own network, or from two servers to one */
		.no_redirects = true };
	json_t *question = json_object(), *result = NULL;
	struct buf text = BUF_INIT;
	int64_t begun_ns = clock_mono_ns(), waited_ms;
	int rc;

	json_set_text(question, "jsonrpc", "2.0");
	json_set_i64(question, "id", ++r->id);
	json_set_text(question, "method", method);
	json_set(question, "params", takes_params);
	json_write(&text, question);
	q.body = text.data;
	q.body_bytes = text.len;
	r->failed_instruction = -1;
	rc = http_fetch(&r->http, &q, &answer);
	waited_ms = (clock_mono_ns() - begun_ns) / 1000000;
	if (!has_proxy())
		rpc_peer_note_address(&r->peer, answer.peer_ip, answer.peer_port,
			answer.peer_own);
	if (waited_ms > 1000)
		r->waited_ms += waited_ms - 1000;
	if (rc == 0)
		result = rpc_answer(buf_text(&answer.body), answer.body.len, r->id,
			r->peer.name, &r->failed_instruction);
	json_decref(question);
	buf_release(&text);
	http_response_release(&answer);
	return result;
}

static json_t *options(const char *commitment, const char *encoding)
{
	json_t *o = json_object();

	json_set_text(o, "commitment", commitment);
	json_set_text(o, "encoding", encoding);
	return o;
}

int rpc_genesis(struct rpc *r, char out[RPC_TEXT_MAX])
{
	json_t *result = ask(r, "getGenesisHash", json_array());
	const char *text = json_string_value(result);
	int rc = -1;

	if (result && (!text || strlen(text) >= RPC_TEXT_MAX))
		no_form(r->peer.name, "the genesis hash");
	else if (result) {
		strcpy(out, text);
		rc = 0;
	}
	json_decref(result);
	return rc;
}

int rpc_blockhash(struct rpc *r, struct solana_key *out, int64_t *last_valid)
{
	json_t *params = json_array(), *result;
	int rc = -1;

	json_push(params, options("confirmed", NULL));
	result = ask(r, "getLatestBlockhash", params);
	if (result)
		rc = rpc_read_blockhash(result, out, last_valid, r->peer.name);
	json_decref(result);
	return rc;
}

/* Calls a method whose result is a height or a slot. Takes params. */
static int ask_height(struct rpc *r, const char *method, json_t *params, const char *what,
	int64_t *out)
{
	json_t *result = ask(r, method, params);
	int rc = -1;

	if (result)
		rc = read_height(result, out) ? 0 : no_form(r->peer.name, what);
	json_decref(result);
	return rc;
}

int rpc_height(struct rpc *r, const char *commitment, int64_t *out)
{
	json_t *params = json_array();

	json_push(params, options(commitment, NULL));
	return ask_height(r, "getBlockHeight", params, "the block height", out);
}

int rpc_hash_good(struct rpc *r, const struct solana_key *hash, bool *good, int64_t *slot)
{
	json_t *params = json_array(), *result;
	char text[ADDRESS_MAX];
	int rc = -1;

	address_format(hash->bytes, text);
	json_push_text(params, text);
	json_push(params, options("finalized", NULL));
	result = ask(r, "isBlockhashValid", params);
	if (result)
		rc = rpc_read_hash_good(result, good, slot, r->peer.name);
	json_decref(result);
	return rc;
}

int rpc_first_slot(struct rpc *r, int64_t *out)
{
	return ask_height(r, "getFirstAvailableBlock", json_array(),
		"the first available block", out);
}

int rpc_slot_time(struct rpc *r, int64_t slot, int64_t *out)
{
	json_t *params = json_array(), *result;
	int rc = -1;

	json_push(params, json_integer(slot));
	result = ask(r, "getBlockTime", params);
	if (result)
		rc = read_height(result, out) ? 0 :
						no_form(r->peer.name, "a block's time");
	json_decref(result);
	return rc;
}

int rpc_accounts(struct rpc *r, const char *commitment, const struct solana_key *keys,
	int n, struct rpc_account *out)
{
	json_t *params = json_array(), *list = json_array(), *result;
	json_t *o = options(commitment, "base64"), *slice = json_object();
	char text[ADDRESS_MAX];
	int rc = -1;

	for (int i = 0; i < n; i++) {
		address_format(keys[i].bytes, text);
		json_push_text(list, text);
	}
	/* somebody who is to be paid may name an account of 10 MiB */
	json_set_i64(slice, "offset", 0);
	json_set_i64(slice, "length", RPC_ACCOUNT_BYTES);
	json_set(o, "dataSlice", slice);
	json_push(params, list);
	json_push(params, o);
	result = ask(r, "getMultipleAccounts", params);
	if (result)
		rc = rpc_read_accounts(result, n, out, r->peer.name);
	json_decref(result);
	return rc;
}

int rpc_send(struct rpc *r, const void *transaction, size_t len)
{
	char text[sodium_base64_ENCODED_LEN(SOLANA_TX_BYTES_MAX,
		sodium_base64_VARIANT_ORIGINAL)];
	json_t *params = json_array(), *o = options(NULL, "base64"), *result;

	if (len > SOLANA_TX_BYTES_MAX)
		bug("a transaction of %zu bytes", len);
	sodium_bin2base64(text, sizeof text, transaction, len,
		sodium_base64_VARIANT_ORIGINAL);
	json_set_text(o, "preflightCommitment", "confirmed");
	json_push_text(params, text);
	json_push(params, o);
	result = ask(r, "sendTransaction", params);
	if (!result)
		return -1;
	json_decref(result);
	return 0;
}

int rpc_statuses(struct rpc *r, const char *const *texts, int n, enum pay_seen *out)
{
	json_t *params = json_array(), *list = json_array(), *o = json_object(), *result;
	int rc = -1;

	for (int i = 0; i < n; i++)
		json_push_text(list, texts[i]);
	json_set_bool(o, "searchTransactionHistory", true);
	json_push(params, list);
	json_push(params, o);
	result = ask(r, "getSignatureStatuses", params);
	if (result)
		rc = rpc_read_statuses(result, n, out, r->peer.name);
	json_decref(result);
	return rc;
}

int rpc_past(struct rpc *r, const struct solana_key *address, const char *before,
	const char *until, struct rpc_past out[RPC_PAST_MAX])
{
	json_t *params = json_array(), *o = options("confirmed", NULL), *result;
	char text[ADDRESS_MAX];
	int n = -1;

	address_format(address->bytes, text);
	json_push_text(params, text);
	json_set_i64(o, "limit", RPC_PAST_MAX);
	if (*before)
		json_set_text(o, "before", before);
	if (*until)
		json_set_text(o, "until", until);
	json_push(params, o);
	result = ask(r, "getSignaturesForAddress", params);
	if (result)
		n = rpc_read_past(result, out, r->peer.name);
	json_decref(result);
	return n;
}

int rpc_transaction(struct rpc *r, const char *signature,
	unsigned char out[SOLANA_TX_BYTES_MAX], size_t *len)
{
	json_t *params = json_array(), *o = options("confirmed", "base64"), *result;
	int rc = -1;

	json_set_i64(o, "maxSupportedTransactionVersion", 0);
	json_push_text(params, signature);
	json_push(params, o);
	result = ask(r, "getTransaction", params);
	if (result)
		rc = json_is_null(result) ?
			1 :
			rpc_read_transaction(result, out, len, r->peer.name);
	json_decref(result);
	return rc;
}
