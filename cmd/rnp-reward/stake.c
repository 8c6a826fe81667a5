/* stake.c - rnp-reward stake: releases and slashes the stakes of a ledger by its policy's rule. */
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/ledger/stake_moves.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"
#include "common/record/policy.h"

static const char *store, *key_path, *policy;
static int64_t row = -1;
static bool dry_run;

static const struct opt options[] = {
	OPT_LEDGER(&store),
	OPT_KEY(&key_path),
	OPT(I64, "epoch", &row, "ROW", "the epoch of this row (default the last one)"),
	OPT(TEXT, "policy", &policy, "P",
		"the policy (default: the one that the epoch names)",
		.words = POLICY_NAMES),
	OPT_SWITCH("dry-run", &dry_run,
		"show what would be moved; sign and store nothing"),
	{ .kind = OPT_END },
};

static int move_all(struct ledger *l, json_t *records, const struct key *k)
{
	json_t *record;
	size_t i;
	int rc = 0;

	json_array_foreach(records, i, record) {
		if (!dry_run)
			rc = ledger_move_stakes(l, record, k, clock_now_ms());
		if (rc == 0)
			rc = out_record(record);
		if (rc < 0)
			break;
	}
	return rc;
}

static int stake(struct ledger *l, const struct key *k, char **files, int n)
{
	struct buf reason = BUF_INIT;
	json_t *epoch, *records = NULL;
	int rc = -1;

	if (row < 0)
		row = ledger_last(l, "rnp.epoch");
	if (row < 0)
		return row == -2 ? -1 : err_set(EXIT_NO, "'%s' has no epoch", store);
	epoch = ledger_row(l, row);
	if (epoch &&
		strcmp(json_string_value(json_object_get(epoch, "kind")), "rnp.epoch") !=
			0)
		err_set(EX_USAGE, "--epoch: row %lld is not an epoch", (long long)row);
	else if (epoch)
		rc = stake_moves(l, epoch, policy, files, n, INT64_MAX, &records,
			&reason);
	if (rc == 0 && reason.len)
		rc = err_set(EXIT_NO, "nothing is moved: row %lld: %s", (long long)row,
			reason.data);
	if (rc == 0 && !json_array_size(records))
		prog_info("no stake is due to be released or slashed");
	if (rc == 0)
		rc = move_all(l, records, k);
	json_decref(records);
	json_decref(epoch);
	buf_release(&reason);
	return rc;
}

static int run(int n, char **args)
{
	struct ledger l = LEDGER_INIT;
	struct key k = KEY_INIT;
	int rc = -1;

	if ((dry_run || key_load(&k, key_path, NULL) == 0) &&
		ledger_open_existing(&l, store, dry_run) == 0)
		rc = stake(&l, &k, args, n);
	ledger_close(&l);
	key_release(&k);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_stake = {
	.name = "stake",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Release and slash the stakes of a ledger, by its policy's rule.",
	.details =
		"Reads the rnp.usage records of a sealed epoch, computes the epoch again, and writes\n"
		"one rnp.stake for what is slashed and one for what is released: rows of the ledger\n"
		"from then on. Exits 1, and moves nothing, when the epoch differs.",
	.columns = "action,epoch,nodes,total_base_units,merkle_root",
	.opts = options,
	.run = run,
};
