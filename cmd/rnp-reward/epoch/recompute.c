/* recompute.c - recomputes an epoch and names the first difference. */
#include "cmd/rnp-reward/epoch/recompute.h"

#include <string.h>

#include "cmd/rnp-reward/epoch/usage_read.h"
#include "cmd/rnp-reward/epoch/write.h"
#include "common/base/err.h"
#include "common/json/json.h"

/* Finds a field that is stated and not computed: for example a root although nobody is paid.
 * is_row: fields that only a ledger's row has are none. */
static bool states_more(const json_t *stated, const json_t *computed, const char *path,
	bool is_row, struct buf *out)
{
	static const char *const only_in_rows[] = { "sequence", "previous", "proof",
		"seen_sha256" };
	const char *key;
	json_t *v;

	json_object_foreach((json_t *)stated, key, v) {
		bool row = false;

		for (size_t i = 0; i < sizeof only_in_rows / sizeof *only_in_rows; i++)
			row = row || (is_row && strcmp(key, only_in_rows[i]) == 0);
		if (row || json_object_get(computed, key))
			continue;
		buf_addf(out, "%s%s%.64s is stated, and not computed", path,
			path[0] ? "." : "", key);
		return true;
	}
	return false;
}

/* Finds the first field in which two records differ: "terms.gpu_ppm is 1, computed 2". */
static bool difference(const json_t *stated, const json_t *computed, const char *path,
	bool is_row, struct buf *out)
{
	struct buf below = BUF_INIT, a = BUF_INIT, b = BUF_INIT;
	const char *key;
	json_t *v;
	bool found = false;

	if (json_is_object(stated) && json_is_object(computed)) {
		json_object_foreach((json_t *)computed, key, v) {
			buf_reset(&below);
			buf_addf(&below, "%s%s%s", path, path[0] ? "." : "", key);
			found = difference(json_object_get(stated, key), v, below.data,
				false, out);
			if (found)
				break;
		}
		found = found || states_more(stated, computed, path, is_row, out);
	} else if (!stated || !json_equal((json_t *)stated, (json_t *)computed)) {
		if (stated)
			json_write(&a, stated);
		json_write(&b, computed);
		buf_addf(out, "%s is %.80s, computed %.80s", path,
			stated ? a.data : "absent", b.data);
		found = true;
	}
	buf_release(&below);
	buf_release(&a);
	buf_release(&b);
	return found;
}

bool recompute_difference(const json_t *stated, const json_t *computed, struct buf *out)
{
	return difference(stated, computed, "", false, out);
}

/* Pool, scales and price were decided outside of the computation, so the record has them. */
int recompute_read_decisions(struct epoch *e, const json_t *record)
{
	int64_t scale[PAY_N] = { 1000000, 1000000 };

	if (json_opt_i64(record, "epoch", "scheduled_base_units", 0, INT64_MAX,
		    &e->scheduled_base_units) < 0 ||
		json_opt_i64(record, "epoch", "job_scale_ppm", 0, INT64_MAX,
			&scale[PAY_JOB]) < 0 ||
		json_opt_i64(record, "epoch", "availability_scale_ppm", 0, INT64_MAX,
			&scale[PAY_AVAILABILITY]) < 0 ||
		json_opt_i64(record, "epoch", "price_uusd", 0, INT64_MAX,
			&e->price_uusd) < 0)
		return -1;
	for (int i = 0; i < PAY_N; i++)
		e->scale[i] = frac_of((uint64_t)scale[i], 1000000);
	return 0;
}

void recompute_compare_row(const json_t *record, const struct epoch *e,
	struct buf *reason)
{
	json_t *computed = epoch_record(e);

	buf_adds(reason, "epoch: ");
	if (!difference(record, computed, "", true, reason))
		buf_reset(reason);
	json_decref(computed);
}

int recompute_compare(const json_t *record, const char *policy, char **files, int n,
	const struct recompute_hook *hook, struct buf *reason)
{
	const char *name = json_string_value(json_object_get(record, "policy"));
	struct usages usages = USAGES_INIT;
	struct rules rules;
	struct epoch e;
	size_t bad;
	int rc = -1;

	if (rules_load(&rules, policy ? policy : name ? name : "") < 0)
		return -1;
	epoch_init(&e, &rules, &usages.rows);
	if (recompute_read_decisions(&e, record) < 0 ||
		usages_read(&usages, &rules, files, n) < 0)
		goto out;
	if (epoch_compute(&e, &bad) < 0) {
		if (bad < e.n)
			err_add("%s", usages_where(&usages, bad));
		goto out;
	}
	rc = hook ? hook->fn(hook->ctx, &e, reason) : 0;
	if (rc == 0 && !reason->len)
		recompute_compare_row(record, &e, reason);
out:
	epoch_release(&e);
	usages_release(&usages);
	rules_release(&rules);
	return rc;
}
