/* check.c - rnp-register check: compares node records with the minima of a reward policy. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/commands.h"
#include "cmd/rnp-register/node/wallet.h"
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
#include "common/record/gpus.h"
#include "common/json/schema.h"

static const char *policy_name, *rpc;

static const struct opt opts[] = {
	OPT(TEXT, "policy", &policy_name, "P", "name of a policy, or path of its file",
		.required = true, .words = POLICY_NAMES),
	OPT_RPC(&rpc),
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

/* What a person can do about a requirement that is not met: the command, where one mends it, else
 * the policy's own words. Policies are data of a network and know no commands. */
static void add_remedy(json_t *entry, const struct policy_need *n, const struct fact *f)
{
	static const struct {
		const char *field, *unknown, *unmet;
	} commands[] = {
		{ "wallet", "say who is paid: rnp-register setup --wallet ADDRESS",
			"name another wallet: rnp-register setup --wallet ADDRESS" },
		{ "gpu_model", NULL,
			"this policy pays only the GPU models of its tables; testnet takes any machine: rnp-register setup --policy testnet" },
		{ "down_bps", "measure the line: rnp-register setup --peer URL",
			"a faster line or another place is needed; to measure again: rnp-register setup --peer URL" },
		{ "up_bps", "measure the line: rnp-register setup --peer URL",
			"a faster line or another place is needed; to measure again: rnp-register setup --peer URL" },
		{ "os", "the record does not share it, and need not", NULL },
		{ "nvme_bytes", "the record does not share it, and need not", NULL },
	};
	const char *text = n->remedy;

	for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
		const char *own = f->known ? commands[i].unmet : commands[i].unknown;

		if (strcmp(n->field, commands[i].field) == 0 && own)
			text = own;
	}
	json_set_text(entry, "remedy", text);
}

/* A node and its GPUs; group: those that count, or NULL. */
struct checked {
	/* without GPUs that are never challenged, where it has others */
	const json_t *node;
	struct eligibility_gpus divided;
	struct gpu_group groups[GPUS_MAX];
	const struct gpu_group *group;
	int ngroups;
	const char *no_wallet; /* why payers hold what its wallet is owed, or NULL */
};

/* What a person can do about a GPU that is never challenged. Owned by the caller. */
static void unpaid_remedy(struct buf *out, const json_t *gpu)
{
	const char *uuid = json_string_value(json_object_get(gpu, "uuid"));

	if (uuid && json_is_true(json_object_get(gpu, "mig")))
		buf_addf(out,
			"switch its slices off, as root: nvidia-smi -i %.64s -mig 0; then: "
			"rnp-register setup",
			uuid);
	else
		buf_adds(out,
			"the driver tells uuids: make the record on the machine itself, with "
			"rnp-register setup");
}

/* Says in an entry that no GPU of the node is ever challenged. */
static void set_unpaid(json_t *entry, const struct checked *c,
	const struct policy_need *n, json_t *reasons)
{
	struct buf text = BUF_INIT;

	json_set_bool(entry, "met", false);
	unpaid_remedy(&text, c->divided.unasked);
	json_set_text(entry, "remedy", text.data);
	buf_reset(&text);
	eligibility_unasked(&text, n, c->divided.unasked);
	if (reasons)
		json_push_text(reasons, text.data);
	buf_release(&text);
}

/* Adds one requirement as an entry; an unknown value is neither met nor unmet. */
static json_t *hold(const struct policy *p, const struct policy_need *n,
	const struct checked *c, json_t *reasons)
{
	json_t *entry = json_object();
	struct buf required = BUF_INIT;
	struct fact f;
	bool met, wallet = strcmp(n->field, "wallet") == 0;

	fact_read_group(c->node, c->group, n->field, &f);
	met = eligibility_met(p, n, &f) && !(wallet && c->no_wallet);
	policy_need_page(&required, n);
	json_set_text(entry, "name", n->name);
	set_actual(entry, &f);
	json_set_text(entry, "required", required.data);
	json_set_text(entry, "unit", n->unit);
	if (met && c->divided.unasked && fact_is_of_gpus(n->field)) {
		set_unpaid(entry, c, n, reasons);
		buf_release(&required);
		return entry;
	}
	if (f.known)
		json_set_bool(entry, "met", met);
	if (!met)
		add_remedy(entry, n, &f);
	if (!met && reasons) {
		buf_reset(&required);
		if (wallet && c->no_wallet)
			buf_addf(&required, "%s: %s", n->name, c->no_wallet);
		else
			eligibility_reason(&required, n, &f);
		json_push_text(reasons, required.data);
	}
	buf_release(&required);
	return entry;
}

static json_t *hold_all(const struct policy *p, const char *list, const struct checked *c,
	json_t *reasons)
{
	struct policy_need needs[POLICY_NEEDS_MAX];
	json_t *entries = json_array();
	int n = policy_needs(p, list, needs);

	for (int i = 0; i < n; i++)
		if (needs[i].when != POLICY_EPOCH)
			json_push(entries, hold(p, &needs[i], c, reasons));
	return entries;
}

/* Whether a group of GPUs counts, and why not: the first requirement that it does not meet by
 * itself, or why it is never challenged. */
static void add_reason(json_t *entry, const struct policy *p, const json_t *node,
	const struct gpu_group *g)
{
	struct policy_need needs[POLICY_NEEDS_MAX];
	int n = policy_needs(p, "requires", needs);
	const char *why = gpus_why_unpaid(json_array_get(g->gpus, (size_t)g->at[0]));
	struct buf text = BUF_INIT;
	struct fact f;

	for (int i = 0; i < n && !text.len; i++) {
		if (needs[i].when == POLICY_EPOCH || !fact_is_of_gpus(needs[i].field))
			continue;
		fact_read_group(node, g, needs[i].field, &f);
		if (!eligibility_met(p, &needs[i], &f))
			eligibility_reason(&text, &needs[i], &f);
	}
	if (!text.len && why)
		buf_addf(&text, "%s, and is not paid", why);
	json_set_bool(entry, "counts", !text.len);
	if (text.len)
		json_set_text(entry, "reason", buf_text(&text));
	buf_release(&text);
}

static void list_groups(json_t *list, const struct policy *p, const json_t *node,
	const struct gpu_group *groups, int n)
{
	for (int i = 0; i < n; i++) {
		json_t *entry = json_object();

		json_set_text(entry, "model", groups[i].model);
		json_set_i64(entry, "count", groups[i].count);
		add_reason(entry, p, node, &groups[i]);
		json_push(list, entry);
	}
}

/* Chooses the GPUs that count; names all groups where there are several. */
static void choose_gpus(json_t *record, const struct policy *p, struct checked *c)
{
	struct policy_need needs[POLICY_NEEDS_MAX];
	struct gpu_group others[GPUS_MAX];
	int n = policy_needs(p, "requires", needs), nothers;
	json_t *list;

	eligibility_divide(c->node, &c->divided);
	c->node = c->divided.node ? c->divided.node : c->node;
	c->ngroups = gpus_group(c->node, c->groups);
	c->group = c->ngroups ? &c->groups[eligibility_group(p, needs, n, c->node,
					c->groups, c->ngroups)] :
				NULL;
	nothers = c->divided.others ? gpus_group(c->divided.others, others) : 0;
	if (c->ngroups + nothers < 2)
		return;
	list = json_array();
	list_groups(list, p, c->node, c->groups, c->ngroups);
	list_groups(list, p, c->divided.others, others, nothers);
	json_set(record, "gpus", list);
}

static bool needs_wallet(const struct policy *p)
{
	struct policy_need needs[POLICY_NEEDS_MAX];
	int n = policy_needs(p, "requires", needs);

	for (int i = 0; i < n; i++)
		if (strcmp(needs[i].field, "wallet") == 0 &&
			needs[i].when != POLICY_EPOCH)
			return true;
	return false;
}

static json_t *evaluate(const struct policy *p, const json_t *node, bool *qualified)
{
	json_t *record = json_record("rnp.eligibility"), *reasons = json_array();
	const char *wallet = json_string_value(json_object_get(node, "wallet"));
	struct checked c = { .node = node };
	json_t *required, *recommended;
	struct buf path = BUF_INIT;
	struct pool pool;

	if (wallet)
		c.no_wallet = node_wallet_why_not(wallet, rpc);
	choose_gpus(record, p, &c);
	required = hold_all(p, "requires", &c, reasons);
	recommended = hold_all(p, "recommends", &c, NULL);
	/* also where the policy asks for no wallet: this one is not paid */
	if (c.no_wallet && !needs_wallet(p)) {
		buf_addf(&path, "wallet: %s", c.no_wallet);
		json_push_text(reasons, path.data);
		buf_reset(&path);
	}
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
	eligibility_divide_release(&c.divided);
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
		table_card_advice(page, "", LABEL_WIDTH, remedy, out_width());
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

/* "gpus          2 RTX 4090; not counted: 1 NVIDIA T400 4GB (gpu model: ...)" */
static void add_gpus(struct buf *page, const json_t *gpus)
{
	struct buf counts = BUF_INIT, others = BUF_INIT;
	const json_t *g;
	size_t i;

	json_array_foreach(gpus, i, g) {
		const char *reason = json_string_value(json_object_get(g, "reason"));
		bool of = json_is_true(json_object_get(g, "counts"));

		buf_addf(of ? &counts : &others, "%s%lld %s",
			(of ? &counts : &others)->len ? ", " : "",
			(long long)json_integer_value(json_object_get(g, "count")),
			json_string_value(json_object_get(g, "model")));
		if (!of && reason)
			buf_addf(&others, " (%s)", reason);
	}
	if (others.len)
		buf_addf(&counts, "%snot counted: %s", counts.len ? "; " : "",
			buf_text(&others));
	if (counts.len)
		add_line(page, "gpus", &counts);
	buf_release(&counts);
	buf_release(&others);
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
	add_gpus(&page, json_object_get(record, "gpus"));
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
	bool any, all_qualified;
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
	s->any = true;
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
	if (rc == 0 && !s.any)
		rc = err_set(EX_DATAERR, "there is no rnp.node record to check");
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
	.group = "node",
	.opts = opts,
	.run = run,
};
