/* cosign.c - rnp-reward cosign: a second party recomputes a sealed epoch, then signs it. */
#include <sodium.h>
#include <string.h>

#include "cmd/rnp-reward/epoch/recompute.h"
#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/ledger/ledger.h"
#include "cmd/rnp-reward/ledger/stake_moves.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/signature.h"
#include "common/record/policy.h"

static const char *store, *key_path, *policy;
static int64_t row = -1;
static bool print;

static const struct opt options[] = {
	OPT_LEDGER(&store),
	OPT_KEY(&key_path),
	OPT(I64, "epoch", &row, "ROW", "the epoch of this row (default the last one)"),
	OPT(TEXT, "policy", &policy, "P",
		"the policy (default: the one that the epoch names)",
		.words = POLICY_NAMES),
	OPT_SWITCH("print", &print,
		"leave the ledger alone: who keeps it adds the record (ledger --add)"),
	{ .kind = OPT_END },
};

static json_t *make_cosign(const json_t *epoch, const struct key *k)
{
	unsigned char hash[LEDGER_HASH_BYTES];
	json_t *record = json_record("rnp.cosign");
	struct buf hex = BUF_INIT;

	ledger_hash(epoch, hash);
	buf_add_hex(&hex, hash, sizeof hash);
	json_set_i64(record, "epoch", row);
	json_set_text(record, "epoch_sha256", hex.data);
	json_set_text(record, "merkle_root",
		json_string_value(json_object_get(epoch, "merkle_root")));
	json_set_text(record, "signer", k->address);
	json_set_time(record, "at", clock_now_ms());
	buf_release(&hex);
	return record;
}

static int sign(struct ledger *l, const json_t *epoch, const struct key *k)
{
	json_t *record = make_cosign(epoch, k);
	int rc = signature_add(record, k, clock_now_ms());

	if (rc == 0 && !print)
		rc = ledger_add_cosign(l, record);
	if (rc == 0)
		rc = out_record(record);
	json_decref(record);
	return rc;
}

/* Recomputes a move of stakes from the usages of its epoch and the rows before it. */
static int compare_stake(struct ledger *l, const json_t *stake, char **files, int n,
	struct buf *reason)
{
	json_t *bare = json_copy((json_t *)stake), *records = NULL, *epoch = NULL, *v;
	int64_t of = -1;
	bool found = false;
	size_t i;
	int rc = -1;

	json_object_del(bare, "sequence");
	json_object_del(bare, "previous");
	json_object_del(bare, "proof");
	if (json_get_i64(stake, "stake", "epoch", 0, INT64_MAX, &of) == 0)
		epoch = ledger_row(l, of);
	if (epoch)
		rc = stake_moves(l, epoch, policy, files, n, row, &records, reason);
	json_array_foreach(records, i, v)
		found = found || json_equal(v, bare);
	if (rc == 0 && !found && !reason->len)
		buf_adds(reason, "by the rule, other stakes are moved");
	json_decref(records);
	json_decref(epoch);
	json_decref(bare);
	return rc;
}

static int compare(struct ledger *l, const json_t *epoch, char **files, int n)
{
	struct buf reason = BUF_INIT;
	bool is_stake = strcmp(json_string_value(json_object_get(epoch, "kind")),
				"rnp.stake") == 0;
	int rc = is_stake ? compare_stake(l, epoch, files, n, &reason) :
			    recompute_compare(epoch, policy, files, n, NULL, &reason);

	if (rc == 0 && reason.len)
		rc = err_set(EXIT_NO, "not signed: row %lld: %s", (long long)row,
			reason.data);
	buf_release(&reason);
	return rc;
}

static int cosign(struct ledger *l, const struct key *k, char **files, int n)
{
	json_t *epoch;
	int rc = -1;

	if (row < 0)
		row = ledger_last(l, "rnp.epoch");
	if (row < 0)
		return row == -2 ? -1 : err_set(EXIT_NO, "'%s' has no epoch", store);
	epoch = ledger_row(l, row);
	if (epoch && !ledger_pays(epoch))
		err_set(EX_USAGE, "--epoch: row %lld is not an epoch", (long long)row);
	else if (epoch && compare(l, epoch, files, n) == 0)
		rc = sign(l, epoch, k);
	json_decref(epoch);
	return rc;
}

static int run(int n, char **args)
{
	struct ledger l = LEDGER_INIT;
	struct key k = KEY_INIT;
	int rc = -1;

	if (key_load(&k, key_path, NULL) == 0 &&
		ledger_open_existing(&l, store, print) == 0)
		rc = cosign(&l, &k, args, n);
	ledger_close(&l);
	key_release(&k);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_cosign = {
	.name = "cosign",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary =
		"Compute a sealed epoch again from the usages, and sign it if it is right.",
	.details =
		"Reads the rnp.usage records of the epoch, writes one rnp.cosign, which is a row of\n"
		"the ledger from then on. Exits 1, and signs nothing, when the epoch differs.",
	.columns = "epoch,signer,merkle_root,at",
	.opts = options,
	.run = run,
};
