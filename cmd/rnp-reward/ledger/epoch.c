/* epoch.c - seals epochs, each once and never two for the same time, and counts who has signed
 * them. */
#include <inttypes.h>
#include <sodium.h>
#include <string.h>

#include "cmd/rnp-reward/ledger/ledger.h"
#include "cmd/rnp-reward/ledger/parts.h"
#include "cmd/rnp-reward/ledger/stake.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/signature.h"

#define SIGNERS_MAX 64

/* --- sealing ------------------------------------------------------------------------------- */

/* Whether two epochs are equal except for their place in the ledger and their signers. */
static bool same_epoch(const json_t *row, const json_t *record)
{
	json_t *plain = json_copy((json_t *)row);
	bool same;

	json_object_del(plain, "sequence");
	json_object_del(plain, "previous");
	json_object_del(plain, "proof");
	json_object_del(plain, "seen_sha256");
	same = json_equal(plain, (json_t *)record);
	json_decref(plain);
	return same;
}

static bool names(const json_t *record, const char *policy)
{
	const json_t *name;
	size_t i;

	json_array_foreach(json_object_get(record, "complements"), i, name)
		if (strcmp(json_string_value(name), policy) == 0)
			return true;
	return false;
}

/* Compares a new epoch with one that shares time with it. Returns 0 if both may exist, 1 if it
 * is the same epoch, -1 with EX_DATAERR. */
static int compare_with_row(struct ledger *l, json_t *record, int64_t sequence,
	const char *policy)
{
	const char *mine = json_string_value(json_object_get(record, "policy"));
	json_t *row = ledger_row(l, sequence);
	const char *from, *to;
	int rc = -1;

	if (!row)
		return -1;
	from = json_string_value(json_object_get(row, "from"));
	to = json_string_value(json_object_get(row, "to"));
	if (same_epoch(row, record)) {
		json_object_update(record, row);
		rc = 1;
	} else if (json_equal(json_object_get(row, "from"),
			   json_object_get(record, "from")) &&
		json_equal(json_object_get(row, "to"), json_object_get(record, "to")) &&
		strcmp(policy, mine) == 0) {
		err_set(EX_DATAERR,
			"the ledger's row %" PRId64
			" closes this epoch already, with another result",
			sequence);
	} else if (strcmp(policy, mine) != 0 &&
		(names(record, policy) || names(row, mine))) {
		rc = 0;
	} else {
		err_set(EX_DATAERR,
			"the ledger's row %" PRId64
			" (policy %.64s, %s to %s) pays for some of the same time",
			sequence, policy, from, to);
	}
	json_decref(row);
	return rc;
}

static int check_overlap(struct ledger *l, json_t *record, const char *token,
	int64_t from_ms, int64_t to_ms, bool *there)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT sequence, policy FROM epoch WHERE token = ? AND from_ms < ? AND to_ms > ?"
		" ORDER BY sequence");

	if (rc < 0)
		return -1;
	store_bind(q, "tii", token, to_ms, from_ms);
	while (!*there && (rc = store_step(&l->store, q)) == 1) {
		rc = compare_with_row(l, record, sqlite3_column_int64(q, 0),
			store_text(q, 1));
		if (rc < 0)
			break;
		*there = rc == 1;
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* Stores claims and stakes, a batch at a time. */
static int store_content(struct ledger *l, int64_t sequence, int64_t to_ms,
	const struct ledger_content *content)
{
	struct merkle_leaf claims[LEDGER_BATCH];
	struct ledger_stake stakes[LEDGER_BATCH];
	size_t n;

	while ((n = content->claims(content->ctx, claims)))
		if (ledger_store_claims(l, sequence, claims, n) < 0)
			return -1;
	while ((n = content->stakes(content->ctx, stakes)))
		if (ledger_lock(l, sequence, to_ms, stakes, n) < 0)
			return -1;
	return 0;
}

static int seal(struct ledger *l, json_t *record, const struct ledger_content *content,
	const struct key *k, int64_t now_ms, bool *there)
{
	const char *token = "RENDER";
	unsigned char seen[LEDGER_HASH_BYTES];
	char hex[2 * LEDGER_HASH_BYTES + 1];
	int64_t from_ms, to_ms, sequence, stakes;

	if (!json_object_get(record, "from"))
		return err_set(EX_DATAERR,
			"an epoch without times cannot be sealed: its usages say no from and to");
	if (json_get_time(record, "epoch", "from", &from_ms) < 0 ||
		json_get_time(record, "epoch", "to", &to_ms) < 0 ||
		json_opt_text(record, "epoch", "token", &token) < 0 ||
		check_overlap(l, record, token, from_ms, to_ms, there) < 0)
		return -1;
	if (*there)
		return 0;
	/* the row is last, because it states the content of the tables */
	if (ledger_next(l, &sequence) < 0 ||
		ledger_store_epoch(l, record, "epoch", sequence, true) < 0 ||
		store_content(l, sequence, to_ms, content) < 0 ||
		ledger_seen_hash(l, sequence, seen, &stakes) < 0)
		return -1;
	if (stakes) {
		sodium_bin2hex(hex, sizeof hex, seen, sizeof seen);
		json_set_text(record, "seen_sha256", hex);
	}
	return ledger_append(l, record, k, now_ms);
}

int ledger_seal(struct ledger *l, json_t *record, const struct ledger_content *content,
	const struct key *k, int64_t now_ms, bool *there)
{
	*there = false;
	if (store_begin(&l->store) < 0)
		return -1;
	if (ledger_row_follows(l) < 0 || seal(l, record, content, k, now_ms, there) < 0) {
		store_rollback(&l->store);
		return -1;
	}
	return store_commit(&l->store);
}

/* Checks that two epochs that share time may do so: one names the other's policy. Returns 0, or
 * -1. */
static int check_pair(struct ledger *l, int64_t a, int64_t b)
{
	json_t *x = ledger_row(l, a), *y = x ? ledger_row(l, b) : NULL;
	const char *p = json_string_value(json_object_get(x, "policy"));
	const char *q = json_string_value(json_object_get(y, "policy"));
	int rc = y ? 0 : -1;

	if (rc == 0 && (!p || !q || strcmp(p, q) == 0 || (!names(x, q) && !names(y, p))))
		rc = err_set(EX_DATAERR,
			"the ledger is not good: rows %" PRId64 " and %" PRId64
			" pay for the same time",
			a, b);
	json_decref(x);
	json_decref(y);
	return rc;
}

int ledger_check_times(struct ledger *l)
{
	sqlite3_stmt *q = NULL;
	int rc = store_prepare(&l->store, &q,
		"SELECT a.sequence, b.sequence FROM epoch a JOIN epoch b ON b.token = a.token"
		" AND b.sequence <> a.sequence AND b.from_ms < a.to_ms AND a.from_ms < b.to_ms"
		" WHERE a.owed > 0 ORDER BY 1, 2");

	while (rc == 0 && (rc = store_step(&l->store, q)) == 1)
		rc = check_pair(l, sqlite3_column_int64(q, 0),
			sqlite3_column_int64(q, 1));
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}

/* --- co-signing ---------------------------------------------------------------------------- */

bool ledger_pays(const json_t *row)
{
	const char *kind = json_string_value(json_object_get(row, "kind"));

	return kind && (strcmp(kind, "rnp.epoch") == 0 || strcmp(kind, "rnp.stake") == 0);
}

struct same_cosign {
	const char *signer, *sha256;
	bool found;
};

/* Whether a row is a co-signature. Its column `kind` may say so of another record. */
static bool is_cosign(const json_t *row)
{
	return strcmp(json_string_value(json_object_get(row, "kind")), "rnp.cosign") == 0;
}

static int find_cosign(void *ctx, int64_t sequence, const json_t *row)
{
	struct same_cosign *s = ctx;

	(void)sequence;
	if (is_cosign(row) &&
		strcmp(json_string_value(json_object_get(row, "signer")), s->signer) ==
			0 &&
		strcmp(json_string_value(json_object_get(row, "epoch_sha256")),
			s->sha256) == 0)
		s->found = true;
	return 0;
}

/* Checks that the cosign names an epoch of this ledger by its hash, is signed by the signer
 * that it names, and is new. Returns 0, 1 if it is already stored, or -1. */
static int check_cosign(struct ledger *l, json_t *record)
{
	struct same_cosign same = { .found = false };
	unsigned char hash[LEDGER_HASH_BYTES];
	struct signature_result signature;
	struct buf hex = BUF_INIT;
	json_t *epoch = NULL;
	int64_t sequence;
	int rc = -1;

	if (schema_check(record, "cosign", "rnp.cosign") < 0 ||
		json_get_i64(record, "cosign", "epoch", 0, INT64_MAX, &sequence) < 0 ||
		json_get_text(record, "cosign", "signer", &same.signer) < 0 ||
		json_get_text(record, "cosign", "epoch_sha256", &same.sha256) < 0)
		return -1;
	signature_verify(record, &signature);
	epoch = ledger_row(l, sequence);
	if (!epoch)
		return -1;
	ledger_hash(epoch, hash);
	buf_add_hex(&hex, hash, sizeof hash);
	if (!signature.valid || !signature_is_by(&signature, same.signer))
		err_set(EX_DATAERR,
			"the cosign of row %" PRId64 " is not signed by %s: %s", sequence,
			same.signer, signature.reason);
	else if (!ledger_pays(epoch) || strcmp(hex.data, same.sha256) != 0)
		err_set(EX_DATAERR, "row %" PRId64 " is not the epoch that was co-signed",
			sequence);
	else
		rc = ledger_each(l, "rnp.cosign", sequence, find_cosign, &same) < 0 ?
			-1 :
			same.found;
	buf_release(&hex);
	json_decref(epoch);
	return rc;
}

int ledger_add_cosign(struct ledger *l, json_t *record)
{
	int rc;

	if (store_begin(&l->store) < 0)
		return -1;
	/* the ledger added these; they were not signed */
	json_object_del(record, "sequence");
	json_object_del(record, "previous");
	rc = check_cosign(l, record);
	if (rc == 0)
		rc = ledger_append(l, record, NULL, 0);
	if (rc < 0) {
		store_rollback(&l->store);
		return -1;
	}
	return store_commit(&l->store);
}

struct approvals {
	const struct opt_list *trusted;
	const char *sha256;
	bool by[SIGNERS_MAX];
};

static void count_signers(struct approvals *a, const struct signature_result *signature)
{
	for (int i = 0; signature->valid && i < a->trusted->n; i++)
		if (signature_is_by(signature, a->trusted->items[i]))
			a->by[i] = true;
}

static int count_cosign(void *ctx, int64_t sequence, const json_t *row)
{
	struct approvals *a = ctx;
	const char *sha256 = json_string_value(json_object_get(row, "epoch_sha256"));
	struct signature_result signature;
	json_t *bare;

	(void)sequence;
	if (!is_cosign(row) || !sha256 || strcmp(sha256, a->sha256) != 0)
		return 0;
	bare = json_copy((json_t *)row);
	json_object_del(bare, "sequence");
	json_object_del(bare, "previous");
	signature_verify(bare, &signature);
	count_signers(a, &signature);
	json_decref(bare);
	return 0;
}

int ledger_signers(struct ledger *l, int64_t sequence, const struct opt_list *trusted)
{
	struct approvals a = { .trusted = trusted };
	unsigned char hash[LEDGER_HASH_BYTES];
	struct signature_result signature;
	struct buf hex = BUF_INIT;
	json_t *epoch;
	int n = 0;

	if (trusted->n > SIGNERS_MAX)
		return err_set(EX_USAGE, "more than %d signers", SIGNERS_MAX);
	epoch = ledger_row(l, sequence);
	if (!epoch)
		return -1;
	ledger_hash(epoch, hash);
	buf_add_hex(&hex, hash, sizeof hash);
	a.sha256 = hex.data;
	signature_verify(epoch, &signature);
	count_signers(&a, &signature);
	if (ledger_each(l, "rnp.cosign", sequence, count_cosign, &a) < 0)
		n = -1;
	for (int i = 0; n >= 0 && i < trusted->n; i++)
		n += a.by[i];
	json_decref(epoch);
	buf_release(&hex);
	return n;
}

int ledger_tokens(struct ledger *l, struct buf *out)
{
	sqlite3_stmt *q = NULL;
	size_t start = out->len;
	int rc = store_prepare(&l->store, &q,
		"SELECT DISTINCT token FROM epoch ORDER BY token");

	while (rc == 0 && (rc = store_step(&l->store, q)) == 1) {
		buf_addf(out, "%s%s", out->len > start ? ", " : "", store_text(q, 0));
		rc = 0;
	}
	sqlite3_finalize(q);
	return rc < 0 ? -1 : 0;
}
