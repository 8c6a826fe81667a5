/* verify.c - rnp-reward verify: recomputes proofs, epochs and ledgers from records. */
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/epoch/recompute.h"
#include "cmd/rnp-reward/audit/audit.h"
#include "cmd/rnp-reward/epoch/claims_read.h"
#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/ledger/ledger.h"
#include "common/chain/rpc.h"
#include "cmd/rnp-reward/audit/rewards.h"
#include "common/base/address.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/record/policy.h"

static struct {
	const char *usage, *policy, *store, *scores, *ca;
	struct opt_list records, trust, rpc;
	bool heartbeats;
} opts;

static const struct opt options[] = {
	OPT(TEXT, "usage", &opts.usage, "F",
		"the rnp.usage records that the epoch was computed from: compute it again"),
	OPT(TEXT, "policy", &opts.policy, "P",
		"the policy (default: the one that the epoch names)",
		.words = POLICY_NAMES),
	OPT(TEXT, "store", &opts.store, "DB",
		"check the hash chain of this ledger, and that what is read is in it"),
	OPT(LIST, "records", &opts.records, "F",
		"signed records: compute the ledger's epochs again from these; may be "
		"given again"),
	OPT_TRUST(opts.trust,
		"whose signatures on records and epochs count; may be given again"),
	OPT(TEXT, "scores", &opts.scores, "P", "score verdicts as usage --policy P did"),
	OPT_SWITCH("heartbeats", &opts.heartbeats,
		"count a node's own heartbeats, as usage --heartbeats did"),
	OPT(LIST, "rpc", &opts.rpc, "URL",
		"ask this Solana server for the signatures of what is paid"),
	OPT(TEXT, "ca", &opts.ca, "F",
		"trust these certificates (PEM) with --rpc, not the system's"),
	{ .kind = OPT_END },
};

/* --- a proof ------------------------------------------------------------------------------- */

/* Parses a hash of 64 hex digits. Returns false if it is none. */
static bool proof_hash(const json_t *v, unsigned char out[MERKLE_HASH_BYTES])
{
	const char *text = json_string_value(v);
	size_t n;

	return text &&
		sodium_hex2bin(out, MERKLE_HASH_BYTES, text, strlen(text), NULL, &n,
			NULL) == 0 &&
		n == MERKLE_HASH_BYTES;
}

/* Checks a record that fits its schema, and gives the wallet (of record) and the root that it is
 * about; *reason: why it is not good, or NULL. Returns 0, or -1 (65): a field is out of range. */
static int evaluate_proof(const json_t *record, const char *where, const char **wallet,
	unsigned char root[MERKLE_HASH_BYTES], const char **reason)
{
	unsigned char proof[64][MERKLE_HASH_BYTES];
	unsigned char stated[MERKLE_HASH_BYTES], hash[MERKLE_HASH_BYTES];
	const json_t *siblings = json_object_get(record, "proof"), *v;
	struct merkle_leaf leaf;
	int64_t unlocked, locked;
	size_t i;

	if (json_get_text(record, where, "wallet", wallet) < 0 ||
		json_get_i64(record, where, "unlocked_base_units", 0, INT64_MAX,
			&unlocked) < 0 ||
		json_get_i64(record, where, "locked_base_units", 0, INT64_MAX, &locked) <
			0 ||
		address_parse(*wallet, where, leaf.claimant) < 0)
		return -1;
	/* the schema has checked their number and form */
	json_array_foreach(siblings, i, v)
		if (!proof_hash(v, proof[i]))
			bug("hash '%s'", json_string_value(v));
	proof_hash(json_object_get(record, "merkle_root"), root);
	leaf.unlocked = (uint64_t)unlocked;
	leaf.locked = (uint64_t)locked;
	merkle_leaf_hash(&leaf, hash);
	*reason = NULL;
	if (proof_hash(json_object_get(record, "leaf"), stated) &&
		memcmp(stated, hash, sizeof hash) != 0)
		*reason = "the leaf is not that of the wallet and its amounts";
	else if (!merkle_verify(&leaf, (const unsigned char(*)[MERKLE_HASH_BYTES])proof,
			 (int)i, root))
		*reason = "the leaf is not below the root";
	return 0;
}

/* Returns a field that is part of no hash, so that anybody could have written anything there, or
 * NULL. */
static const char *find_unhashed(const json_t *record)
{
	static const char *const hashed[] = { "kind", "v", "wallet",
		"unlocked_base_units", "locked_base_units", "leaf", "proof",
		"merkle_root" };
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)record, key, v) {
		bool known = false;

		for (size_t i = 0; i < sizeof hashed / sizeof *hashed; i++)
			known = known || strcmp(key, hashed[i]) == 0;
		if (!known)
			return key;
	}
	return NULL;
}

static int check_proof(struct rewards *s, const json_t *record, const char *where)
{
	unsigned char root[MERKLE_HASH_BYTES];
	const char *wallet, *reason, *unhashed = find_unhashed(record);
	char what[96], text[160];

	if (evaluate_proof(record, where, &wallet, root, &reason) < 0)
		return -1;
	if (!reason && unhashed) {
		snprintf(text, sizeof text,
			"%.64s is in no hash, so that it may say anything: leave it out",
			unhashed);
		reason = text;
	}
	buf_add(&s->roots, (const char *)root, sizeof root);
	snprintf(what, sizeof what, "proof of %s", wallet);
	return rewards_report(s, what, reason);
}

/* --- what is read -------------------------------------------------------------------------- */

static int add_other(void *rewards, const struct record *r)
{
	struct rewards *s = rewards;
	const char *kind = json_string_value(json_object_get(r->json, "kind"));

	if (strcmp(kind, "rnp.proof") == 0)
		return check_proof(s, r->json, r->where);
	if (strcmp(kind, "rnp.epoch") == 0 && !s->epoch) {
		s->epoch = json_incref(r->json);
		return 0;
	}
	return err_set(EX_DATAERR, "%s: %s '%.40s'", r->where,
		s->epoch ? "one epoch at a time, not another" :
			   "nothing to verify in kind",
		kind);
}

static int read_all(struct rewards *s, char **files, int n)
{
	struct claims_reader reader = { .claims = &s->claims,
		.ctx = s,
		.other = add_other };

	s->files = files;
	s->nfiles = rewards_can_reread(files, n) ? n : 0;
	if (opts.usage || opts.records.n) {
		reader.note = rewards_note;
		reader.keep = rewards_keep;
	}
	if (claims_read(&reader, files, n) < 0 || claims_finish(&s->claims) < 0)
		return -1;
	claims_root(&s->claims, s->root);
	/* the computations that follow need the memory */
	free(s->claims.leaves);
	s->claims.leaves = NULL;
	return 0;
}

/* --- an epoch computed again ---------------------------------------------------------------- */

static int check_usage(struct rewards *s)
{
	struct recompute_hook hook = { rewards_compare, s };
	struct buf reason = BUF_INIT;
	char *file = (char *)opts.usage;
	int rc = recompute_compare(s->epoch, opts.policy, &file, 1, &hook, &reason);

	if (rc == 0)
		rc = rewards_report(s, "recomputed", reason.len ? reason.data : NULL);
	buf_release(&reason);
	return rc;
}

/* --- a ledger ------------------------------------------------------------------------------ */

struct search {
	const json_t *epoch; /* NULL: only roots are needed */
	bool found;
	struct buf roots; /* of all rows */
};

static int search_row(void *ctx, int64_t sequence, const json_t *row)
{
	struct search *search = ctx;
	unsigned char root[MERKLE_HASH_BYTES];
	json_t *plain;

	(void)sequence;
	if (strcmp(json_string_value(json_object_get(row, "kind")), "rnp.epoch") != 0)
		return 0;
	if (proof_hash(json_object_get(row, "merkle_root"), root))
		buf_add(&search->roots, (const char *)root, sizeof root);
	if (!search->epoch)
		return 0;
	plain = json_copy((json_t *)row);
	/* rnp-reward epoch writes these fields only with --store */
	if (!json_object_get(search->epoch, "sequence")) {
		json_object_del(plain, "sequence");
		json_object_del(plain, "previous");
		json_object_del(plain, "proof");
		json_object_del(plain, "seen_sha256");
	}
	search->found = search->found || json_equal(plain, (json_t *)search->epoch);
	json_decref(plain);
	return 0;
}

/* Returns the first proof, counted from 1, whose root no row has; 0: there is none. A proof that
 * only leads to its own root proves nothing. */
static size_t find_foreign(const struct buf *roots, const struct buf *ledger)
{
	for (size_t i = 0; i < roots->len; i += MERKLE_HASH_BYTES) {
		size_t at = 0;

		while (at < ledger->len &&
			memcmp(roots->data + i, ledger->data + at, MERKLE_HASH_BYTES) !=
				0)
			at += MERKLE_HASH_BYTES;
		if (at == ledger->len)
			return i / MERKLE_HASH_BYTES + 1;
	}
	return 0;
}

/* Checks that every record that was read is in the ledger. */
static int search_ledger(struct rewards *s, struct ledger *l, struct buf *reason)
{
	struct search search = { .epoch = s->epoch };
	size_t foreign;
	int rc = ledger_each(l, NULL, 0, search_row, &search);

	if (rc == 0 && s->epoch && !search.found)
		buf_adds(reason, "the epoch is not in it");
	else if (rc == 0 && (foreign = find_foreign(&s->roots, &search.roots)))
		buf_addf(reason, "no epoch in it has the root of proof %zu", foreign);
	buf_release(&search.roots);
	return rc;
}

static int check_ledger(struct rewards *s)
{
	struct ledger l = LEDGER_INIT;
	struct buf reason = BUF_INIT;
	int rc = ledger_open(&l, opts.store, true);

	if (rc == 0)
		rc = ledger_verify(&l, &reason);
	if (rc == 0 && !reason.len)
		rc = search_ledger(s, &l, &reason);
	if (rc == 0)
		rc = rewards_report(s, "ledger", reason.len ? reason.data : NULL);
	ledger_close(&l);
	buf_release(&reason);
	return rc;
}

/* --- records ------------------------------------------------------------------------------- */

static int report_audit(void *rewards, const char *what, const char *reason)
{
	return rewards_report(rewards, what, reason);
}

/* Audits the ledger with --records and --rpc. */
static int audit(struct rewards *s)
{
	struct ledger l = LEDGER_INIT;
	struct audit a = { .ledger = &l,
		.evidence = { opts.trust, opts.heartbeats, true },
		.files = opts.records,
		.policy = opts.policy,
		.scores = opts.scores,
		.published = s->claims.nodes ? s->epoch : NULL,
		.rewards = { rewards_compare, s },
		.rpc = opts.rpc,
		.ca = opts.ca,
		.report = report_audit,
		.ctx = s };
	int rc = ledger_open(&l, opts.store, true);

	if (rc == 0 && opts.records.n)
		rc = audit_epochs(&a);
	if (rc == 0)
		rc = audit_payouts(&a);
	ledger_close(&l);
	return rc;
}

static int check_options(void)
{
	struct rpc servers[PAY_SERVERS_MAX]; /* only to check the URLs */

	if ((opts.records.n || opts.rpc.n) && (!opts.store || !opts.trust.n))
		return err_set(EX_USAGE, "--records and --rpc need --store and --trust");
	for (int i = 0; i < opts.records.n; i++)
		if (strcmp(opts.records.items[i], "-") == 0)
			return err_set(EX_USAGE,
				"--records: they are read twice, so they must be files");
	return rpc_open(servers, &opts.rpc, NULL);
}

/* Checks what is in the files, or on standard input. */
static int verify_input(struct rewards *s, int n, char **args)
{
	int rc = opts.usage ? rewards_same(s, args, n, opts.usage, opts.policy) : 0;

	if (rc)
		return rc < 0 ? -1 : 0;
	if (read_all(s, args, n) < 0)
		return -1;
	if (s->claims.nodes && !s->epoch)
		return err_set(EX_DATAERR,
			"there are rewards, but no rnp.epoch that closes them");
	if (opts.usage && !s->epoch)
		return err_set(EX_DATAERR, "there is no rnp.epoch to compute again");
	if (s->epoch && (s->claims.nodes || !opts.store) && rewards_check_epoch(s) < 0)
		return -1;
	if (opts.usage)
		return check_usage(s);
	/* wallets and amounts are below the root, and nothing else is hashed */
	return s->claims.nodes && !opts.records.n ?
		rewards_report(s, "rewards",
			"policy, reasons and terms are in no hash: they are computed again with --usage") :
		0;
}

static int verify(struct rewards *s, int n, char **args)
{
	if (check_options() < 0)
		return -1;
	/* a ledger alone needs no input */
	if ((n || !opts.store || opts.usage) && verify_input(s, n, args) < 0)
		return -1;
	if (opts.store && check_ledger(s) < 0)
		return -1;
	if ((opts.records.n || opts.rpc.n) && audit(s) < 0)
		return -1;
	return s->any ? 0 : err_set(EX_DATAERR, "there is nothing to verify");
}

static int run(int n, char **args)
{
	struct rewards s = { .all_ok = true, .in_ledger = opts.store != NULL };
	int rc;

	rewards_init();
	rc = verify(&s, n, args);

	claims_release(&s.claims);
	json_decref(s.epoch);
	buf_release(&s.rewards);
	free(s.hashes);
	buf_release(&s.roots);
	opt_list_release(&opts.records);
	opt_list_release(&opts.trust);
	opt_list_release(&opts.rpc);
	if (rc < 0)
		return err_report();
	return s.all_ok ? EX_OK : EXIT_NO;
}

const struct command command_verify = {
	.name = "verify",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Check inclusion proofs, epochs and ledgers by computing them again.",
	.details =
		"Reads rnp.proof records, or the rnp.reward and rnp.epoch records of one epoch; "
		"writes one rnp.check for each thing that was checked. Exits 1 when one is not "
		"good. With --records, every epoch of the ledger is computed from the signed records "
		"of what nodes did, and every transaction is held against its plan.",
	.columns = "ok,what,reason",
	.opts = options,
	.run = run,
};
