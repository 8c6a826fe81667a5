/* check.c - rnp-register check: compares node records with the minima of a reward policy. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/record/eligibility.h"
#include "common/json/json.h"
#include "common/cli/human.h"
#include "common/cli/out.h"
#include "common/record/policy.h"
#include "common/record/pool.h"
#include "common/cli/prog.h"
#include "common/cli/records.h"
#include "common/cli/table.h"
#include "common/json/schema.h"

static const char *policy_name;

static const struct opt opts[] = {
	{ .name = "policy",
		.kind = OPT_TEXT,
		.required = true,
		.to = &policy_name,
		.metavar = "P",
		.help = "name of a policy, or path of its file" },
	{ 0 },
};

static void set_actual(json_t *entry, const struct fact *f)
{
	if (!f->known)
		json_set_text(entry, "unknown",
			f->cause[0] ? f->cause : "the record does not say");
	else if (f->none)
		json_set_text(entry, "actual", "none");
	else if (f->text)
		json_set_text(entry, "actual", f->text);
	else
		json_set_i64(entry, "actual", f->value);
}

/* Adds one requirement as an entry; an unknown value is neither met nor unmet. */
static json_t *hold(const struct policy *p, const struct policy_need *n,
	const json_t *node, json_t *reasons)
{
	json_t *entry = json_object();
	struct buf required = BUF_INIT;
	struct fact f;
	bool met;

	fact_read(node, n->field, &f);
	met = eligibility_met(p, n, &f);
	policy_need_page(&required, n);
	json_set_text(entry, "name", n->name);
	set_actual(entry, &f);
	json_set_text(entry, "required", required.data);
	json_set_text(entry, "unit", n->unit);
	if (f.known)
		json_set_bool(entry, "met", met);
	if (!met)
		json_set_text(entry, "remedy", n->remedy);
	if (!met && reasons) {
		buf_reset(&required);
		eligibility_reason(&required, n, &f);
		json_push_text(reasons, required.data);
	}
	buf_release(&required);
	return entry;
}

static json_t *hold_all(const struct policy *p, const char *list, const json_t *node,
	json_t *reasons)
{
	struct policy_need needs[POLICY_NEEDS_MAX];
	json_t *entries = json_array();
	int n = policy_needs(p, list, needs);

	for (int i = 0; i < n; i++)
		if (needs[i].when != POLICY_EPOCH)
			json_push(entries, hold(p, &needs[i], node, reasons));
	return entries;
}

static json_t *evaluate(const struct policy *p, const json_t *node, bool *qualified)
{
	json_t *record = json_record("rnp.eligibility"), *reasons = json_array();
	json_t *required = hold_all(p, "requires", node, reasons);
	json_t *recommended = hold_all(p, "recommends", node, NULL);
	struct buf path = BUF_INIT;
	struct pool pool;

	*qualified = json_array_size(reasons) == 0;
	pool_of_node(node, &pool);
	pool_path(&path, &pool);
	json_set_text(record, "node", json_string_value(json_object_get(node, "node")));
	json_set_text(record, "policy", p->name);
	json_set_text(record, "policy_sha256", p->sha256);
	json_set_bool(record, "qualified", *qualified);
	json_set(record, "reasons", reasons);
	json_set_text(record, "tier", pool.tier->label);
	json_set_text(record, "pool", path.data);
	json_set(record, "requirements", required);
	if (json_array_size(recommended))
		json_set(record, "recommendations", recommended);
	else
		json_decref(recommended);
	buf_release(&path);
	return record;
}

/* --- for people ------------------------------------------------------------------------------ */

#define LABEL_WIDTH 14 /* "  cpu_threads" */

static void add_line(struct buf *page, const char *label, struct buf *text)
{
	table_card_line(page, label, LABEL_WIDTH, buf_text(text), out_width());
	buf_reset(text);
}

static void add_field(struct buf *page, const char *label, const char *value)
{
	struct buf text = BUF_INIT;

	buf_adds(&text, value);
	add_line(page, label, &text);
	buf_release(&text);
}

/* "  gpu memory    ok: 25.757 GB (at least 24 GB)", and below it what helps. */
static void add_entry(struct buf *page, const json_t *entry)
{
	const json_t *met = json_object_get(entry, "met"),
		     *actual = json_object_get(entry, "actual");
	const char *cause = json_string_value(json_object_get(entry, "unknown")),
		   *remedy = json_string_value(json_object_get(entry, "remedy")),
		   *unit = json_string_value(json_object_get(entry, "unit"));
	struct buf text = BUF_INIT, label = BUF_INIT;

	buf_adds(&label, "  ");
	human_heading(&label, json_string_value(json_object_get(entry, "name")));
	buf_adds(&text, json_is_true(met) ? "ok: " : met ? "no: " : "not known: ");
	if (json_is_string(actual))
		buf_adds(&text, json_string_value(actual));
	else if (actual && unit && (strcmp(unit, "B") == 0 || strcmp(unit, "bit/s") == 0))
		human_number(&text, (double)json_integer_value(actual), unit);
	else if (actual)
		policy_amount_text(&text, json_integer_value(actual), unit);
	else
		buf_adds(&text, cause ? cause : "");
	buf_addf(&text, " (%s)", json_string_value(json_object_get(entry, "required")));
	add_line(page, buf_text(&label), &text);
	if (remedy)
		add_field(page, "", remedy);
	buf_release(&text);
	buf_release(&label);
}

static void add_entries(struct buf *page, const char *heading, const json_t *entries)
{
	const json_t *entry;
	size_t i;

	if (json_array_size(entries))
		buf_addf(page, "\n%s\n", heading);
	json_array_foreach(entries, i, entry)
		add_entry(page, entry);
}

static int print_page(const json_t *record)
{
	static bool another;
	const char *const fields[] = { "node", "policy", "tier", "pool" };
	const json_t *required = json_object_get(record, "requirements");
	struct buf page = BUF_INIT, text = BUF_INIT;
	size_t i, unmet = json_array_size(json_object_get(record, "reasons"));
	int rc;

	if (another)
		buf_addc(&page, '\n');
	another = true;
	for (i = 0; i < sizeof fields / sizeof *fields; i++) {
		const char *value = json_string_value(json_object_get(record, fields[i]));

		if (value)
			add_field(&page, fields[i], value);
	}
	if (unmet)
		buf_addf(&text, "no: %zu of %zu requirements %s not met", unmet,
			json_array_size(required), unmet == 1 ? "is" : "are");
	else
		buf_adds(&text, "yes");
	add_line(&page, "qualified", &text);
	add_entries(&page, "Requirements", required);
	add_entries(&page, "Recommended", json_object_get(record, "recommendations"));
	rc = out_text(buf_text(&page), page.len);
	buf_release(&page);
	buf_release(&text);
	return rc;
}

struct session {
	struct policy policy;
	bool all_qualified;
};

static int check_record(void *session, const struct record *r)
{
	struct session *s = session;
	json_t *record;
	bool qualified;
	int rc;

	if (schema_check(r->json, r->where, "rnp.node") < 0)
		return -1;
	record = evaluate(&s->policy, r->json, &qualified);
	s->all_qualified = s->all_qualified && qualified;
	rc = out_for_people() ? print_page(record) : out_record(record);
	json_decref(record);
	return rc;
}

static int run(int nargs, char **args)
{
	struct session s = { .all_qualified = true };
	int rc;

	if (policy_load(&s.policy, policy_name) < 0)
		return err_report();
	rc = records_each(args, nargs, JSON_RECORD_BYTES_MAX, check_record, &s);
	policy_release(&s.policy);
	if (rc < 0)
		return err_report();
	return s.all_qualified ? EX_OK : EXIT_NO;
}

const struct command command_check = {
	.name = "check",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary = "Whether a node qualifies under a policy, and what is missing.",
	.details =
		"Reads rnp.node records, writes one rnp.eligibility each. Exit status 1 when a node\n"
		"does not qualify.",
	.opts = opts,
	.run = run,
};
