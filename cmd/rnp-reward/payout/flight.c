/* flight.c - signs, sends and follows the transactions of a run; every step is stored in
 * the ledger before a server can see it. */
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "cmd/rnp-reward/payout/run.h"
#include "common/base/address.h"
#include "common/base/base58.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

/* --- signing -------------------------------------------------------------------------------- */

/* Returns the server after the last sender that is not to be avoided; the next one if all are. */
static int next_sender(const struct pay_run *run)
{
	for (int k = 0; k < run->n; k++)
		if (!(run->avoid >> (run->next_sender + k) % run->n & 1))
			return (run->next_sender + k) % run->n;
	return run->next_sender % run->n;
}

/* Gets a blockhash and the last height at which it can be used, from any server whose answer is
 * plausible. What a server that is far behind gives has expired. */
static int fresh_blockhash(struct pay_run *run, struct solana_key *hash,
	int64_t *last_valid)
{
	int64_t heights[PAY_SERVERS_MAX], claimed;

	for (int k = 0; k < run->n; k++) {
		int i = (next_sender(run) + k) % run->n;

		if (rpc_blockhash(&run->servers[i], hash, &claimed) < 0) {
			prog_warn("%s", err_get()->text);
			err_clear();
			continue;
		}
		for (int j = 0; j < run->n; j++)
			if (rpc_height(&run->servers[j], "processed", &heights[j]) < 0) {
				heights[j] = -1;
				err_clear();
			}
		*last_valid = pay_last_valid(claimed, heights, run->n);
		for (int j = 0; *last_valid >= 0 && j < run->n; j++)
			if (!pay_is_near(heights[j], heights, run->n))
				run->avoid |= UINT32_C(1) << j;
		if (*last_valid >= 0 && pay_is_near(heights[i], heights, run->n))
			return 0;
		pay_format_heights(run, heights, claimed);
	}
	return err_set(EX_TEMPFAIL, "no server has a blockhash that can be used: %s",
		run->last_error);
}

static json_t *signed_record(const struct ledger_tx *tx)
{
	char base64[sodium_base64_ENCODED_LEN(SOLANA_TX_BYTES_MAX,
		sodium_base64_VARIANT_ORIGINAL)];
	char hash[ADDRESS_MAX];
	json_t *record = json_object();

	sodium_bin2base64(base64, sizeof base64, tx->bytes, tx->len,
		sodium_base64_VARIANT_ORIGINAL);
	address_format(tx->blockhash.bytes, hash);
	json_set_text(record, "signature", tx->signature);
	json_set_text(record, "blockhash", hash);
	json_set_i64(record, "last_valid_block_height", tx->last_valid);
	if (tx->nonce[0])
		json_set_text(record, "nonce", tx->nonce);
	json_set_text(record, "sender", tx->sender);
	json_set_text(record, "transaction", base64);
	return record;
}

/* Builds the message of a transaction, with its blockhash or nonce. */
static int build(struct pay_run *run, const struct ledger_tx *tx, struct buf *message)
{
	struct owed list[PAYPLAN_PAYOUTS_MAX];
	int n;

	run->payer.with_nonce = tx->nonce[0];
	if (tx->nonce[0] && address_parse(tx->nonce, "nonce", run->payer.nonce.bytes) < 0)
		return -1;
	if (tx->action != ACTION_PAY)
		return payplan_order(message, &run->payer, &tx->blockhash, tx->action,
			tx->base_units);
	n = ledger_payouts(run->ledger, tx->id, list, PAYPLAN_PAYOUTS_MAX);
	return n < 0 ? -1 :
		       payplan_message(message, &run->payer, &tx->blockhash, list, n);
}

/* Checks the message that is stored for a signer: the ledger's rows must give the same message
 * now. Otherwise somebody has changed the ledger's file since. Options may have changed what
 * payplan_adopt takes over. */
static int check_message(struct pay_run *run, const struct ledger_tx *tx)
{
	struct payer now = run->payer;
	struct solana_parsed parsed;
	struct buf message = BUF_INIT;
	bool same = solana_parse(tx->bytes, tx->len, &parsed) &&
		payplan_adopt(&run->payer, &parsed);
	int rc = same ? build(run, tx, &message) : 0;

	run->payer = now;
	same = same && message.len == tx->len &&
		memcmp(message.data, tx->bytes, tx->len) == 0;
	buf_release(&message);
	if (rc < 0 || same)
		return rc;
	return err_set(EX_DATAERR,
		"the ledger is not good: the message of transaction %" PRId64
		" is not what is planned",
		tx->id);
}

/* Checks that no transaction of the ledger has this signature. The same bytes are signed twice
 * if a server returns an old blockhash, or if two burns of one amount get the same one. Returns
 * 0, 1: the signature is in use, and the transaction waits for another blockhash, from another
 * server if there is one; a signer is asked once more with that; or -1. */
static int check_unused(struct pay_run *run, struct ledger_tx *tx)
{
	int known = ledger_has_signature(run->ledger, tx->signature);

	if (known <= 0)
		return known;
	tx->asked = false;
	if (!run->key && ledger_store_message(run->ledger, tx) < 0)
		return -1;
	run->next_sender++;
	snprintf(run->last_error, sizeof run->last_error, "%s",
		"a blockhash is offered that was used before");
	return 1;
}

/* Stores the signature: that of a key in the caller's commit, that of a signer in a commit of
 * its own. */
static int store_signed(struct pay_run *run, struct ledger_tx *tx)
{
	json_t *record = signed_record(tx);
	int rc = run->key ? 0 : store_begin(&run->ledger->store);

	if (rc == 0) {
		rc = ledger_move(run->ledger, tx, PAY_SIGNED, record, clock_now_ms());
		if (rc < 0 && !run->key)
			store_rollback(&run->ledger->store);
		else if (!run->key)
			rc = store_commit(&run->ledger->store);
	}
	json_decref(record);
	return rc;
}

/* Signs one transaction. Returns 0, 1: it waits for another blockhash, or -1. */
static int sign(struct pay_run *run, struct ledger_tx *tx)
{
	unsigned char signature[SOLANA_SIGNATURE_BYTES];
	struct buf message = BUF_INIT, whole = BUF_INIT;
	int rc = -1;

	if ((run->key ? build(run, tx, &message) : check_message(run, tx)) < 0)
		goto out;
	if (!run->key)
		buf_add(&message, tx->bytes, tx->len);
	if (pay_sign(run, message.data, message.len, signature) < 0)
		goto out;
	solana_transaction(&whole, signature, message.data, message.len);
	if (whole.len > sizeof tx->bytes) {
		err_set(EX_DATAERR, "transaction %" PRId64 " has %zu bytes", tx->id,
			whole.len);
		goto out;
	}
	memcpy(tx->bytes, whole.data, whole.len);
	tx->len = whole.len;
	base58_encode(tx->signature, signature, sizeof signature);
	rc = check_unused(run, tx);
	if (rc)
		goto out;
	run->next_sender = next_sender(run);
	snprintf(tx->sender, sizeof tx->sender, "%s",
		run->servers[run->next_sender++].peer.name);
	rc = store_signed(run, tx);
	tx->status = PAY_SIGNED;
out:
	buf_release(&message);
	buf_release(&whole);
	return rc;
}

static int store_message(struct pay_run *run, struct ledger_tx *tx)
{
	struct buf message = BUF_INIT;
	int rc = build(run, tx, &message);

	if (rc == 0 && message.len > sizeof tx->bytes)
		rc = err_set(EX_DATAERR, "a message of %zu bytes", message.len);
	if (rc == 0) {
		memcpy(tx->bytes, message.data, message.len);
		tx->len = message.len;
		rc = ledger_store_message(run->ledger, tx);
	}
	buf_release(&message);
	return rc;
}

/* Assigns a nonce account to list[tx] that no transaction in flight uses. Returns 0, 1: all are
 * in use, or -1. */
static int choose_nonce(struct pay_run *run, struct ledger_tx *list, int n, int tx)
{
	for (int k = 0; k < run->nonces.n; k++) {
		const char *nonce = run->nonces.items[k];
		bool used = false;

		for (int i = 0; i < n; i++)
			used = used || strcmp(list[i].nonce, nonce) == 0;
		if (used)
			continue;
		if (pay_check_nonce(run, nonce, &list[tx].blockhash) < 0)
			return -1;
		snprintf(list[tx].nonce, sizeof list[tx].nonce, "%s", nonce);
		list[tx].last_valid = 0; /* see ask_nonces */
		return 0;
	}
	return 1;
}

/* Gives each planned transaction a nonce, or all of them one blockhash; with a signer, only the
 * next one. Returns how many can be signed, or -1. */
static int prepare(struct pay_run *run, struct ledger_tx *list, int n)
{
	struct solana_key blockhash;
	int64_t last_valid = -1;
	int ready = 0;

	for (int i = 0; i < n; i++) {
		int rc = 0;

		if (list[i].status != PAY_PLANNED)
			continue;
		if (list[i].asked) {
			ready++;
			continue;
		}
		/* a person may take a while for each signature, and blockhashes expire meanwhile */
		if (!run->key && ready)
			continue;
		if (run->nonces.n) {
			rc = choose_nonce(run, list, n, i);
		} else {
			if (last_valid < 0)
				rc = fresh_blockhash(run, &blockhash, &last_valid);
			list[i].blockhash = blockhash;
			list[i].last_valid = last_valid;
		}
		if (rc < 0)
			return -1;
		list[i].asked = rc == 0;
		if (list[i].asked && !run->key && store_message(run, &list[i]) < 0)
			return -1;
		ready += list[i].asked;
	}
	return ready;
}

/* Signs planned transactions: with a key all of them, in one commit; with a signer only one,
 * which is sent before the signer is asked for the next. */
static int sign_all(struct pay_run *run, struct ledger_tx *list, int n)
{
	int ready = prepare(run, list, n), rc = 0;

	if (ready <= 0)
		return ready;
	if (run->key && store_begin(&run->ledger->store) < 0)
		return -1;
	for (int i = 0, done = 0; i < n && rc >= 0 && (run->key || !done); i++)
		if (list[i].status == PAY_PLANNED && list[i].asked) {
			rc = sign(run, &list[i]);
			done++;
		}
	if (!run->key)
		return rc < 0 ? -1 : 0;
	if (rc < 0) {
		store_rollback(&run->ledger->store);
		return -1;
	}
	return store_commit(&run->ledger->store);
}

/* --- sending -------------------------------------------------------------------------------- */

/* Whether a transaction was sent to this server, however its URL is spelled. */
static bool is_sender(const struct rpc *r, const struct ledger_tx *tx)
{
	struct rpc_peer sent_to;
	bool same = rpc_peer_parse(&sent_to, tx->sender) == 0 &&
		rpc_peer_same(&sent_to, &r->peer);

	err_clear();
	return same;
}

static struct rpc *sender_of(struct pay_run *run, const struct ledger_tx *tx)
{
	for (int i = 0; i < run->n; i++)
		if (is_sender(&run->servers[i], tx))
			return &run->servers[i];
	return NULL;
}

/* Sends the same bytes to the same server each time; its answer proves nothing. */
static void send_all(struct pay_run *run, struct ledger_tx *list, int n)
{
	for (int i = 0; i < n; i++) {
		struct rpc *server = sender_of(run, &list[i]);

		if (list[i].status < PAY_SIGNED || list[i].status == PAY_CONFIRMED ||
			!server)
			continue;
		if (rpc_send(server, list[i].bytes, list[i].len) < 0) {
			prog_detail("%s", err_get()->text);
			pay_note_refused(run, &list[i], server);
		}
		err_clear();
	}
}

/* --- following ------------------------------------------------------------------------------ */

static bool is_given_up(const struct pay_run *run, const char *signature)
{
	for (int i = 0; i < run->given_up->n; i++)
		if (strcmp(run->given_up->items[i], signature) == 0)
			return true;
	return false;
}

int pay_check_given_up(struct pay_run *run)
{
	for (int i = 0; i < run->given_up->n; i++) {
		int known = ledger_has_signature(run->ledger, run->given_up->items[i]);

		if (known < 0)
			return -1;
		if (!known)
			return err_set(EX_DATAERR,
				"--give-up: no transaction of the ledger has the signature '%.90s'",
				run->given_up->items[i]);
	}
	return 0;
}

bool pay_doubts(const struct pay_run *run, int64_t tx)
{
	for (int i = 0; i < run->ndoubts; i++)
		if (run->doubts[i].id == tx)
			return true;
	return false;
}

static void doubt(struct pay_run *run, const struct ledger_tx *tx)
{
	struct pay_doubt *d = &run->doubts[run->ndoubts++];

	d->id = tx->id;
	strcpy(d->signature, tx->signature);
}

struct views {
	struct pay_view list[PAY_IN_FLIGHT_MAX];
	const char *signatures[PAY_IN_FLIGHT_MAX];
};

/* Compares the nonce of a transaction with its account, as a server has it. Returns 0: the
 * account has that value, so the transaction can land; 1: it has a new value; -1: it has none,
 * or an older one, so the server is behind; -2 with err_set. */
static int nonce_height(struct pay_run *run, const struct rpc_account *got,
	const struct ledger_tx *tx)
{
	struct solana_key value;
	int used;

	if (!pay_read_nonce(got, &run->payer.wallet, &value))
		return -1;
	if (memcmp(&value, &tx->blockhash, sizeof value) == 0)
		return 0;
	used = ledger_used_nonce(run->ledger, tx->nonce, &value);
	return used < 0 ? -2 : used ? -1 : 1;
}

/* A transaction with a nonce can land as long as its account has that value. Its last valid
 * height is 0, and its finalised height is 0 until another value is final, then 1. */
static int ask_nonces(struct pay_run *run, int server, const struct ledger_tx *list,
	int n, int64_t *heights)
{
	static struct rpc_account got[PAY_IN_FLIGHT_MAX];
	struct solana_key keys[PAY_IN_FLIGHT_MAX];
	int at[PAY_IN_FLIGHT_MAX], asked = 0;

	for (int i = 0; i < n; i++) {
		if (!list[i].nonce[0])
			continue;
		if (address_parse(list[i].nonce, "nonce", keys[asked].bytes) < 0)
			return -1;
		at[asked++] = i;
	}
	if (!asked)
		return 0;
	if (rpc_accounts(&run->servers[server], "finalized", keys, asked, got) < 0)
		return -1;
	for (int k = 0; k < asked; k++) {
		heights[at[k]] = nonce_height(run, &got[k], &list[at[k]]);
		if (heights[at[k]] < -1)
			return -1;
	}
	return 0;
}

/* Asks one server: its finalised height, nonces and blockhashes first, then the statuses of the
 * signatures. Returns 0, whatever it says, or -1: the ledger cannot be written. */
static int ask_server(struct pay_run *run, int server, const struct ledger_tx *list,
	struct views *v, int n)
{
	enum pay_seen seen[PAY_IN_FLIGHT_MAX];
	int64_t height, heights[PAY_IN_FLIGHT_MAX];

	if (rpc_height(&run->servers[server], "finalized", &height) == 0)
		for (int i = 0; i < n; i++)
			heights[i] = height;
	else
		n = 0;
	if (n && pay_ask_hashes(run, server) < 0)
		return -1;
	if (!n || ask_nonces(run, server, list, n, heights) < 0 ||
		rpc_statuses(&run->servers[server], v->signatures, n, seen) < 0) {
		prog_detail("%s", err_get()->text);
		err_clear();
		return 0;
	}
	for (int i = 0; i < n; i++) {
		v->list[i].final_height[server] = heights[i];
		v->list[i].hash_gone[server] = pay_hash_gone(run, server, &list[i]);
		v->list[i].seen[server] = seen[i];
	}
	return 0;
}

static int ask_all(struct pay_run *run, const struct ledger_tx *list, int n,
	struct views *v)
{
	memset(v, 0, sizeof *v);
	for (int i = 0; i < n; i++) {
		v->list[i].servers = run->n;
		v->list[i].given = run->given;
		v->list[i].given_up = is_given_up(run, list[i].signature);
		v->list[i].last_valid = list[i].last_valid;
		v->signatures[i] = list[i].signature;
		for (int s = 0; s < run->n; s++) {
			v->list[i].final_height[s] = -1;
			if (is_sender(&run->servers[s], &list[i]))
				v->list[i].sent_to |= UINT32_C(1) << s;
		}
	}
	for (int s = 0; s < run->n; s++)
		if (ask_server(run, s, list, v, n) < 0)
			return -1;
	for (int i = 0; i < n; i++)
		if (pay_watch_hash(run, &list[i], &v->list[i]) < 0)
			return -1;
	return 0;
}

static int move(struct pay_run *run, struct ledger_tx *tx, const struct pay_view *v)
{
	int contradicts, rc;
	/* the server has the bytes, whatever it has answered */
	enum pay_status to = pay_decide(tx->status == PAY_SIGNED ? PAY_SENT : tx->status,
		v, &contradicts);

	if (!pay_is_over(to))
		pay_format_answers(run, tx, v);
	if (to == PAY_FINALISED)
		pay_note_denials(run, tx, v);
	if (contradicts >= 0) {
		snprintf(run->last_error, sizeof run->last_error,
			"%.120s alone says that transaction %" PRId64 " may still land",
			run->servers[contradicts].peer.name, tx->id);
		run->avoid |= UINT32_C(1) << contradicts;
	}
	if (!pay_is_over(to) && pay_is_doubtful(v))
		doubt(run, tx);
	if (to == tx->status)
		return 0;
	rc = ledger_move(run->ledger, tx, to, NULL, clock_now_ms());
	run->expired += to == PAY_EXPIRED;
	tx->status = to;
	return rc;
}

static int follow(struct pay_run *run, struct ledger_tx *list, int n)
{
	static struct views views;
	int rc = 0;

	run->ndoubts = 0;
	if (!n)
		return 0;
	if (ask_all(run, list, n, &views) < 0 || store_begin(&run->ledger->store) < 0)
		return -1;
	for (int i = 0; i < n && rc == 0; i++)
		rc = move(run, &list[i], &views.list[i]);
	if (rc < 0) {
		store_rollback(&run->ledger->store);
		return -1;
	}
	return store_commit(&run->ledger->store);
}

int pay_round(struct pay_run *run, int *left)
{
	static struct ledger_tx list[PAY_IN_FLIGHT_MAX];
	int n = ledger_in_flight(run->ledger, list, PAY_IN_FLIGHT_MAX);

	int waiting = 0;

	*left = run->nbehind = 0;
	run->last_error[0] = '\0';
	if (n < 0 || sign_all(run, list, n) < 0)
		return -1;
	/* transactions that wait for a nonce go to the end: no server can know them */
	for (int i = 0; i < n; i++) {
		struct ledger_tx one = list[i];

		if (one.status == PAY_PLANNED) {
			waiting++;
			continue;
		}
		list[i] = list[i - waiting];
		list[i - waiting] = one;
	}
	send_all(run, list, n - waiting);
	if (follow(run, list, n - waiting) < 0)
		return -1;
	for (int i = 0; i < n; i++) {
		bool behind = list[i].id < run->behind;

		if (pay_is_over(list[i].status) || pay_doubts(run, list[i].id))
			continue;
		run->nbehind += behind;
		*left += !behind;
	}
	return 0;
}

int pay_follow(struct pay_run *run)
{
	int64_t end_ns = clock_mono_ns() + run->timeout_ms * 1000000;
	struct timespec pause = { run->poll_ms / 1000, run->poll_ms % 1000 * 1000000 };

	for (int left;;) {
		if (pay_round(run, &left) < 0)
			return -1;
		if (!left)
			return 0;
		if (clock_mono_ns() > end_ns)
			return pay_still_in_flight(run, left + run->nbehind);
		nanosleep(&pause, NULL);
	}
}
