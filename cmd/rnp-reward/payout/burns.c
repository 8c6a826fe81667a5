/* burns.c - the burns of a run: the rnp.burn records that are due, each job once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/payout/run.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"

/* The burns of --burn that are due. The ledger has burns, too, but no signature of them, so a
 * burn without its record is not carried out. */
static struct burns {
	struct ledger_order *due; /* in the order of their ids */
	size_t n, cap;
	int64_t now_ms;
	int64_t first_ms; /* when the first of those that are early is due */
	int64_t since_ms; /* none of due can have been burned before this; 0: not known */
	long early;       /* how many burns are not due yet */
} burns;

void pay_burn_root(const struct ledger_order *o, unsigned char root[MERKLE_HASH_BYTES])
{
	sha256(root, o->id, strlen(o->id));
}

const char *pay_find_burn(const unsigned char root[MERKLE_HASH_BYTES])
{
	unsigned char one[MERKLE_HASH_BYTES];

	for (size_t i = 0; i < burns.n; i++) {
		pay_burn_root(&burns.due[i], one);
		if (memcmp(one, root, sizeof one) == 0)
			return burns.due[i].id;
	}
	return NULL;
}

int64_t pay_burns_since(void)
{
	return burns.n ? burns.since_ms : INT64_MAX;
}

static int add_burn(void *ctx, const struct record *r)
{
	struct burns *b = ctx;
	struct ledger_order o = { .action = ACTION_BURN };
	int64_t at_ms = 0;
	const char *job;

	if (schema_check(r->json, r->where, "rnp.burn") < 0)
		return -1;
	if (!json_object_get(r->json, "job"))
		return err_set(EX_DATAERR,
			"%s: it names no job, so that it could be burned twice",
			r->where);
	if (json_get_text(r->json, r->where, "job", &job) < 0 ||
		json_get_i64(r->json, r->where, "burned_base_units", 0, INT64_MAX,
			&o.base_units) < 0 ||
		json_opt_time(r->json, r->where, "burn_at", &at_ms) < 0)
		return -1;
	if (at_ms > b->now_ms) {
		b->first_ms = b->early++ && b->first_ms < at_ms ? b->first_ms : at_ms;
		return 0;
	}
	if ((size_t)snprintf(o.id, sizeof o.id, "burn %s", job) >= sizeof o.id)
		return err_set(EX_DATAERR, "%s: its job has too many bytes", r->where);
	if (!o.base_units)
		return 0;
	b->since_ms = b->n && b->since_ms < at_ms ? b->since_ms : at_ms;
	b->due = xgrow(b->due, &b->cap, b->n + 1, sizeof *b->due);
	b->due[b->n++] = o;
	return 0;
}

static int by_id(const void *a, const void *b)
{
	const struct ledger_order *x = a, *y = b;

	return strcmp(x->id, y->id);
}

int pay_read_burns(struct pay_run *run)
{
	char *files[1] = { (char *)run->burns }, at[CLOCK_TEXT_MAX];

	if (!run->burns)
		return 0;
	burns.now_ms = clock_now_ms();
	if (records_each(files, 1, JSON_RECORD_BYTES_MAX, add_burn, &burns) < 0)
		return -1;
	if (burns.n)
		qsort(burns.due, burns.n, sizeof *burns.due, by_id);
	for (size_t i = 1; i < burns.n; i++)
		if (by_id(&burns.due[i - 1], &burns.due[i]) == 0 &&
			burns.due[i - 1].base_units != burns.due[i].base_units)
			return err_set(EX_DATAERR, "%s: '%s' is there with two amounts",
				run->burns, burns.due[i].id);
	clock_format(at, burns.first_ms);
	if (burns.early)
		prog_info(
			"%ld burns are not due yet, the first at %s: left to a later run",
			burns.early, at);
	return 0;
}

bool pay_has_burn(const struct ledger_order *o)
{
	const struct ledger_order *found = burns.n ?
		bsearch(o, burns.due, burns.n, sizeof *burns.due, by_id) :
		NULL;

	return o->action == ACTION_BURN && found && found->base_units == o->base_units;
}

int pay_add_burns(struct pay_run *run)
{
	for (size_t i = 0; i < burns.n; i++)
		if (ledger_add_order(run->ledger, &burns.due[i]) < 0)
			return err_add("%s", run->burns);
	return 0;
}

void pay_release_burns(void)
{
	free(burns.due);
	burns.due = NULL;
}
