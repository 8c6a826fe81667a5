/* stake_moves.c - applies a policy's rule to all stakes of a ledger. */
#include "cmd/rnp-reward/ledger/stake_moves.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/epoch/recompute.h"
#include "common/base/address.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/json/json.h"

enum stake_move stake_decide(int64_t slash_below_ppm, int64_t release_after_s,
	const struct stake_view *v)
{
	if (v->challenged && v->passed_ppm < slash_below_ppm)
		return STAKE_SLASH;
	if (release_after_s >= 0 && !v->up && v->absent_ms >= release_after_s * 1000)
		return STAKE_RELEASE;
	return STAKE_STAYS;
}

struct moves {
	struct ledger *ledger;
	int64_t before, sequence, end_ms;
	const struct epoch *epoch;
	json_t *out;
};

/* --- usages by node ------------------------------------------------------------------------- */

/* Gets the usage of a node, found in refs by bisection. Returns false if it has none. */
static bool find_usage(const struct epoch *e, const struct usage_ref *refs,
	const unsigned char node[ADDRESS_BYTES], struct usage *u)
{
	size_t low = 0, high = e->n;

	while (low < high) {
		size_t middle = low + (high - low) / 2;
		int order = memcmp(node, usage_rows_node(e->usages, refs[middle].row),
			ADDRESS_BYTES);

		if (order == 0) {
			usage_rows_get(e->usages, refs[middle].row, u);
			return true;
		}
		if (order < 0)
			high = middle;
		else
			low = middle + 1;
	}
	return false;
}

static bool knows(const struct usage *u, enum field f)
{
	return u && u->known >> f & 1;
}

static enum stake_move decide(const struct moves *m, const struct ledger_stake *s,
	const struct usage *u)
{
	const struct rules *r = m->epoch->rules;
	struct stake_view v = { .challenged = knows(u, FIELD_PASSED_PPM),
		.up = knows(u, FIELD_UP_S) && u->value[FIELD_UP_S] > 0,
		.absent_ms = m->end_ms - s->seen_ms };

	if (v.challenged)
		v.passed_ppm = u->value[FIELD_PASSED_PPM];
	return stake_decide(r->slash_below_ppm, r->release_after_s, &v);
}

/* --- records -------------------------------------------------------------------------------- */

static void add_stake(json_t *list, const struct ledger_stake *s)
{
	char text[ADDRESS_MAX];
	json_t *one = json_object();

	address_format(s->node, text);
	json_set_text(one, "node", text);
	address_format(s->wallet, text);
	json_set_text(one, "wallet", text);
	json_set_i64(one, "base_units", s->base_units);
	json_push(list, one);
}

static int set_root(json_t *record, const struct ledger_stake *const *list, size_t n)
{
	struct merkle_leaf *leaves = xcalloc(n, sizeof *leaves);
	unsigned char root[MERKLE_HASH_BYTES];
	struct buf hex = BUF_INIT;
	long wallets;

	for (size_t i = 0; i < n; i++) {
		memcpy(leaves[i].claimant, list[i]->wallet, sizeof leaves[i].claimant);
		leaves[i].unlocked = (uint64_t)list[i]->base_units;
	}
	wallets = merkle_sort(leaves, n);
	if (wallets > 0) {
		merkle_root(leaves, (size_t)wallets, root, 0, NULL, NULL);
		buf_add_hex(&hex, root, sizeof root);
		json_set_text(record, "merkle_root", hex.data);
	}
	buf_release(&hex);
	free(leaves);
	return wallets < 0 ? -1 : 0;
}

static int add_record(struct moves *m, const char *action,
	const struct ledger_stake *const *list, size_t n)
{
	const struct policy *p = &m->epoch->rules->policy;
	json_t *record = json_record("rnp.stake"), *stakes = json_array();
	int64_t total = 0;
	int rc = 0;

	for (size_t i = 0; i < n; i++) {
		add_stake(stakes, list[i]);
		total += list[i]->base_units; /* fits: part of what is locked */
	}
	json_set_text(record, "action", action);
	json_set_i64(record, "epoch", m->sequence);
	json_set_text(record, "policy", p->name);
	json_set_text(record, "policy_sha256", p->sha256);
	json_set_text(record, "token", p->token);
	json_set(record, "stakes", stakes);
	json_set_i64(record, "total_base_units", total);
	json_set_i64(record, "nodes", (int64_t)n);
	if (strcmp(action, "release") == 0)
		rc = set_root(record, list, n);
	json_push(m->out, record);
	return rc;
}

static int add_records(struct moves *m, const char *action,
	const struct ledger_stake *const *list, size_t n)
{
	int rc = 0;

	for (size_t i = 0; i < n && rc == 0; i += LEDGER_STAKES_MAX)
		rc = add_record(m, action, list + i,
			n - i < LEDGER_STAKES_MAX ? n - i : LEDGER_STAKES_MAX);
	return rc;
}

/* Decides the moves, once the epoch is recomputed; see recompute_fn. */
static int decide_all(void *ctx, const struct epoch *e, struct buf *reason)
{
	struct moves *m = ctx;
	struct ledger_stake *stakes = NULL;
	long n = ledger_stakes(m->ledger, m->before, &stakes);
	const struct ledger_stake **lists[3] = { NULL };
	size_t counts[3] = { 0 };
	struct usage_ref *refs;
	struct usage u;
	int rc = n < 0 ? -1 : 0;

	(void)reason;
	m->epoch = e;
	refs = usage_rows_sort(e->usages, usage_rows_node);
	for (int i = 0; i < 3; i++)
		lists[i] = xcalloc((size_t)(n > 0 ? n : 0) + 1, sizeof *lists[i]);
	for (long i = 0; i < n; i++) {
		bool there = find_usage(e, refs, stakes[i].node, &u);
		enum stake_move move = decide(m, &stakes[i], there ? &u : NULL);

		lists[move][counts[move]++] = &stakes[i];
	}
	if (rc == 0)
		rc = add_records(m, "slash", lists[STAKE_SLASH], counts[STAKE_SLASH]);
	if (rc == 0)
		rc = add_records(m, "release", lists[STAKE_RELEASE],
			counts[STAKE_RELEASE]);
	for (int i = 0; i < 3; i++)
		free(lists[i]);
	free(refs);
	free(stakes);
	return rc;
}

int stake_moves(struct ledger *l, const json_t *epoch, const char *policy, char **files,
	int n, int64_t before, json_t **out, struct buf *reason)
{
	struct moves m = { .ledger = l, .before = before, .out = json_array() };
	struct recompute_hook hook = { decide_all, &m };
	int rc = -1;

	*out = m.out;
	if (json_get_i64(epoch, "epoch", "sequence", 0, INT64_MAX, &m.sequence) == 0 &&
		json_get_time(epoch, "epoch", "to", &m.end_ms) == 0)
		rc = recompute_compare(epoch, policy, files, n, &hook, reason);
	if (reason->len)
		json_array_clear(m.out);
	return rc;
}
