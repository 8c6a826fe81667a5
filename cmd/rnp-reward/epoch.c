/* epoch.c - rnp-reward epoch: reads usages, writes what each node is paid, and the epoch's
 * closing record. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/epoch/core.h"
#include "cmd/rnp-reward/epoch/inputs.h"
#include "cmd/rnp-reward/ledger/stake.h"
#include "cmd/rnp-reward/epoch/slices.h"
#include "cmd/rnp-reward/epoch/usage_read.h"
#include "cmd/rnp-reward/epoch/write.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

#define SLICE      1024      /* records that one thread formats at a time */
#define BASE_UNITS 100000000 /* of one token */

static struct epoch_inputs inputs = EPOCH_INPUTS_INIT;
static const char *store, *key_path;
static bool open_epoch;

static const struct opt options[] = {
	EPOCH_INPUTS_POLICY(inputs),
	EPOCH_INPUTS_POOL(inputs),
	OPT(TEXT, "store", &store, "DB", "seal the epoch in this ledger"),
	OPT(TEXT, "key", &key_path, "F", "sign the sealed epoch with this key"),
	OPT_SWITCH("open", &open_epoch,
		"seal an epoch that is not over: nobody is ever paid for the rest of it"),
	{ .kind = OPT_END },
};

static int compute(struct epoch *e, const struct usages *u)
{
	size_t bad;

	if (epoch_compute(e, &bad) == 0)
		return 0;
	return bad < e->n ? err_add("%s", usages_where(u, bad)) : -1;
}

static void format_rewards(void *epoch, size_t from, size_t to, struct buf *out)
{
	for (size_t i = from; i < to; i++)
		reward_write(out, epoch, i);
}

/* The rows of the epoch that is sealed, in the order in which the ledger stores them. */
struct sealing {
	struct epoch *epoch;
	struct usage_ref *refs; /* first by claimant, then by node */
	size_t at;
	bool by_node;
};

static size_t next_claims(void *sealing, struct merkle_leaf *list)
{
	struct sealing *s = sealing;

	if (!s->refs)
		s->refs = usage_rows_sort(s->epoch->usages, usage_rows_claimant);
	return epoch_next_leaves(s->epoch, s->refs, &s->at, list, LEDGER_BATCH);
}

/* Lists what each node locks, and the nodes that were up. */
static size_t next_stakes(void *sealing, struct ledger_stake *list)
{
	struct sealing *s = sealing;
	const struct epoch *e = s->epoch;
	struct usage u;
	size_t n = 0, row;

	if (e->rules->stake_uusd < 0)
		return 0;
	if (!s->by_node) {
		free(s->refs);
		s->refs = usage_rows_sort(e->usages, usage_rows_node);
		s->at = 0;
		s->by_node = true;
	}
	while (n < LEDGER_BATCH && s->at < e->n) {
		row = s->refs[s->at++].row;
		usage_rows_get(e->usages, row, &u);
		list[n] = (struct ledger_stake){ .base_units = epoch_locked(e, row) };
		if (!list[n].base_units && !u.value[FIELD_UP_S])
			continue;
		list[n].uusd = (int64_t)((u128)list[n].base_units * (u128)e->price_uusd /
			BASE_UNITS);
		memcpy(list[n].node, u.node, sizeof u.node);
		memcpy(list[n++].wallet, usage_rows_claimant(e->usages, row),
			sizeof list->wallet);
	}
	return n;
}

static int seal(struct epoch *e, json_t *record)
{
	struct sealing sealing = { .epoch = e };
	struct ledger_content content = { &sealing, next_claims, next_stakes };
	struct ledger l = LEDGER_INIT;
	struct key k = KEY_INIT;
	bool there = false;
	int rc = -1;

	if (e->to_ms > clock_now_ms() && !open_epoch)
		return err_set(EX_DATAERR,
			"the epoch is not over yet, and is sealed once: wait for its end, or --open");
	if (key_path && key_load(&k, key_path, NULL) < 0)
		return -1;
	if (ledger_open(&l, store, false) == 0)
		rc = ledger_seal(&l, record, &content, key_path ? &k : NULL,
			clock_now_ms(), &there);
	if (rc == 0 && there)
		prog_info("%s: this epoch is in the ledger already", store);
	free(sealing.refs);
	ledger_close(&l);
	key_release(&k);
	return rc;
}

/* Writes the ledger first, so that whatever appears on standard output is already stored. */
static int write_all(struct epoch *e)
{
	json_t *record = epoch_record(e);
	int rc = store ? seal(e, record) : 0;

	if (rc == 0)
		rc = slices_write(e->n, SLICE, format_rewards, e);
	if (rc == 0)
		rc = out_record(record);
	json_decref(record);
	return rc;
}

static int run(int n, char **args)
{
	struct usages usages = USAGES_INIT;
	struct rules rules;
	struct epoch epoch;
	int rc = -1;

	if (key_path && !store) {
		err_set(EX_USAGE, "--key signs what --store seals: give both");
		return err_report();
	}
	if (rules_load(&rules, inputs.policy) < 0)
		return err_report();
	human_set_token(rules.policy.token);
	epoch_init(&epoch, &rules, &usages.rows);
	if (epoch_inputs_apply(&inputs, &epoch) < 0 ||
		usages_read(&usages, &rules, args, n) < 0)
		goto out;
	if (!usages.rows.n)
		err_set(EX_DATAERR,
			"there are no rnp.usage records: an epoch needs at least one");
	else if (compute(&epoch, &usages) == 0)
		rc = write_all(&epoch);
out:
	epoch_release(&epoch);
	usages_release(&usages);
	rules_release(&rules);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_epoch = {
	.name = "epoch",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "What each node is paid for an epoch, to the last base unit.",
	.details =
		"Reads rnp.usage records, writes one rnp.reward each and one rnp.epoch.",
	.columns = "node,qualified,job_base_units,availability_base_units,base_units;"
		   "rnp.epoch:",
	.opts = options,
	.run = run,
};
