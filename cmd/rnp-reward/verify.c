/* verify.c - rnp-reward verify: recomputes proofs, epochs and ledgers from records. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/again.h"
#include "cmd/rnp-reward/audit.h"
#include "cmd/rnp-reward/claims_read.h"
#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/ledger.h"
#include "cmd/rnp-reward/proof_check.h"
#include "cmd/rnp-reward/rpc.h"
#include "cmd/rnp-reward/verify_parts.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"

static struct {
	const char *usage, *policy, *store, *scores, *ca;
	struct opt_list records, trust, rpc;
	bool heartbeats;
} opts;

static const struct opt options[] = {
	{ .name = "usage",
		.kind = OPT_TEXT,
		.to = &opts.usage,
		.metavar = "F",
		.help = "the rnp.usage records that the epoch was computed from: compute it again" },
	{ .name = "policy",
		.kind = OPT_TEXT,
		.to = &opts.policy,
		.metavar = "P",
		.help = "the policy (default: the one that the epoch names)" },
	{ .name = "store",
		.kind = OPT_TEXT,
		.to = &opts.store,
		.metavar = "DB",
		.help = "check the hash chain of this ledger, and that what is read is in it" },
	{ .name = "records",
		.kind = OPT_LIST,
		.to = &opts.records,
		.metavar = "F",
		.help = "signed records: compute the ledger's epochs again from these; may be "
			"given again" },
	OPT_TRUST(opts.trust,
		"whose signatures on records and epochs count; may be given again"),
	{ .name = "scores",
		.kind = OPT_TEXT,
		.to = &opts.scores,
		.metavar = "P",
		.help = "score verdicts as usage --policy P did" },
	{ .name = "heartbeats",
		.kind = OPT_FLAG,
		.to = &opts.heartbeats,
		.help = "count a node's own heartbeats, as usage --heartbeats did" },
	{ .name = "rpc",
		.kind = OPT_LIST,
		.to = &opts.rpc,
		.metavar = "URL",
		.help = "ask this Solana server for the signatures of what is paid" },
	{ .name = "ca",
		.kind = OPT_TEXT,
		.to = &opts.ca,
		.metavar = "F",
		.help = "trust these certificates (PEM) with --rpc, not the system's" },
	{ .kind = OPT_END },
};

int seen_report(struct seen *s, const char *what, const char *reason)
{
	json_t *record = json_record("rnp.check");
	int rc;

	json_set_bool(record, "ok", reason == NULL);
	json_set_text(record, "what", what);
	json_set_text(record, "reason", reason);
	s->all_ok = s->all_ok && !reason;
	s->any = true;
	rc = out_record(record);
	json_decref(record);
	return rc;
}

static int check_proof(struct seen *s, const json_t *record, const char *where)
{
	unsigned char root[MERKLE_HASH_BYTES];
	const char *wallet;
	char what[96];
	bool good;

	if (proof_check(record, where, &wallet, root, &good) < 0)
		return -1;
	buf_add(&s->roots, (const char *)root, sizeof root);
	snprintf(what, sizeof what, "proof of %s", wallet);
	return seen_report(s, what, good ? NULL : "the leaf is not below the root");
}

/* --- what is read -------------------------------------------------------------------------- */

static int take_other(void *seen, const struct record *r)
{
	struct seen *s = seen;
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

static int read_all(struct seen *s, char **files, int n)
{
	struct claims_reader reader = { .claims = &s->claims,
		.ctx = s,
		.other = take_other };

	s->files = files;
	s->nfiles = seen_regular(files, n) ? n : 0;
	if (opts.usage || opts.records.n) {
		reader.note = seen_note;
		reader.keep = seen_keep;
	}
	if (claims_read(&reader, files, n) < 0 || claims_finish(&s->claims) < 0)
		return -1;
	claims_root(&s->claims, s->root);
	/* what follows needs the memory */
	free(s->claims.leaves);
	s->claims.leaves = NULL;
	return 0;
}

/* --- an epoch in itself -------------------------------------------------------------------- */

static bool differs(const json_t *epoch, const char *key, int64_t found,
	struct buf *reason)
{
	int64_t stated = -1;

	if (!json_object_get(epoch, key))
		return false;
	if (json_get_i64(epoch, "epoch", key, 0, INT64_MAX, &stated) == 0 &&
		stated == found)
		return false;
	err_clear();
	buf_addf(reason, "%s is %lld by the rewards, %lld by the epoch", key,
		(long long)found, (long long)stated);
	return true;
}

int seen_check_epoch(struct seen *s)
{
	const char *stated = json_string_value(json_object_get(s->epoch, "merkle_root"));
	struct buf reason = BUF_INIT;
	int rc;

	if (!differs(s->epoch, "nodes", (int64_t)s->claims.nodes, &reason) &&
		!differs(s->epoch, "total_base_units", s->claims.total_base_units,
			&reason) &&
		!differs(s->epoch, "claimants", (int64_t)s->claims.n, &reason) &&
		strcmp(stated ? stated : "", s->root) != 0)
		buf_addf(&reason, "merkle_root is %s by the rewards, %s by the epoch",
			s->root[0] ? s->root : "none", stated ? stated : "none");
	rc = seen_report(s, "epoch", reason.len ? reason.data : NULL);
	buf_release(&reason);
	return rc;
}

/* --- an epoch computed again ---------------------------------------------------------------- */

static int compute_again(struct seen *s)
{
	struct again_also also = { seen_compare, s };
	struct buf reason = BUF_INIT;
	char *file = (char *)opts.usage;
	int rc = again_compare(s->epoch, opts.policy, &file, 1, &also, &reason);

	if (rc == 0)
		rc = seen_report(s, "recomputed", reason.len ? reason.data : NULL);
	buf_release(&reason);
	return rc;
}

/* --- a ledger ------------------------------------------------------------------------------ */

struct search {
	const json_t *epoch; /* NULL: only roots are needed */
	bool found;
	struct buf roots; /* of all entries */
};

static int look(void *ctx, int64_t sequence, const json_t *row)
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
	/* epoch wrote it to standard output with sequence and previous, if it was new */
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

/* Returns the first proof whose root no entry has, counted from 1; 0: there is none. A proof
 * that only matches its own root proves nothing. */
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
static int search_ledger(struct seen *s, struct ledger *l, struct buf *reason)
{
	struct search search = { .epoch = s->epoch };
	size_t foreign;
	int rc = ledger_each(l, NULL, 0, look, &search);

	if (rc == 0 && s->epoch && !search.found)
		buf_adds(reason, "the epoch is not in it");
	else if (rc == 0 && (foreign = find_foreign(&s->roots, &search.roots)))
		buf_addf(reason, "no epoch in it has the root of proof %zu", foreign);
	buf_release(&search.roots);
	return rc;
}

static int check_ledger(struct seen *s)
{
	struct ledger l = LEDGER_INIT;
	struct buf reason = BUF_INIT;
	int rc = ledger_open(&l, opts.store, true);

	if (rc == 0)
		rc = ledger_verify(&l, &reason);
	if (rc == 0 && !reason.len)
		rc = search_ledger(s, &l, &reason);
	if (rc == 0)
		rc = seen_report(s, "ledger", reason.len ? reason.data : NULL);
	ledger_close(&l);
	buf_release(&reason);
	return rc;
}

/* --- records ------------------------------------------------------------------------------- */

static int report_audit(void *seen, const char *what, const char *reason)
{
	return seen_report(seen, what, reason);
}

/* From the signatures of records to the signatures of payments. */
static int audit(struct seen *s)
{
	struct ledger l = LEDGER_INIT;
	struct audit a = { .ledger = &l,
		.evidence = { opts.trust, opts.heartbeats, true },
		.files = opts.records,
		.policy = opts.policy,
		.scores = opts.scores,
		.published = s->claims.nodes ? s->epoch : NULL,
		.rewards = { seen_compare, s },
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
	struct rpc servers[PAY_SERVERS_MAX]; /* looked at only */

	if ((opts.records.n || opts.rpc.n) && (!opts.store || !opts.trust.n))
		return err_set(EX_USAGE, "--records and --rpc need --store and --trust");
	for (int i = 0; i < opts.records.n; i++)
		if (strcmp(opts.records.items[i], "-") == 0)
			return err_set(EX_USAGE,
				"--records: they are read twice, so they must be files");
	return rpc_open(servers, &opts.rpc, NULL);
}

/* Checks what is in the files, or on standard input. */
static int verify_input(struct seen *s, int n, char **args)
{
	int rc = opts.usage ? seen_same(s, args, n, opts.usage, opts.policy) : 0;

	if (rc)
		return rc < 0 ? -1 : 0;
	if (read_all(s, args, n) < 0)
		return -1;
	if (s->claims.nodes && !s->epoch)
		return err_set(EX_DATAERR,
			"there are rewards, but no rnp.epoch that closes them");
	if (opts.usage && !s->epoch)
		return err_set(EX_DATAERR, "there is no rnp.epoch to compute again");
	if (s->epoch && (s->claims.nodes || !opts.store) && seen_check_epoch(s) < 0)
		return -1;
	return opts.usage ? compute_again(s) : 0;
}

static int verify(struct seen *s, int n, char **args)
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
	struct seen s = { .all_ok = true };
	int rc;

	seen_init();
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
