/* explain.c - rnp-reward explain: shows every term of one node's pay, with its inputs and their
 * sources. */
#include <inttypes.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/epoch/core.h"
#include "cmd/rnp-reward/epoch/inputs.h"
#include "cmd/rnp-reward/policy/formula.h"
#include "cmd/rnp-reward/epoch/usage_read.h"
#include "cmd/rnp-reward/epoch/write.h"
#include "cmd/rnp-reward/evidence/collect.h"
#include "common/base/err.h"
#include "common/base/utf8.h"
#include "common/cli/human.h"
#include "common/json/json.h"
#include "common/base/money.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/table.h"

#define LABEL_WIDTH 22 /* "gpu memory bandwidth" and two blanks before it */

static struct epoch_inputs inputs = EPOCH_INPUTS_INIT;
static const char *node;

static const struct opt options[] = {
	OPT_NODE(&node),
	EPOCH_INPUTS_POLICY(inputs),
	EPOCH_INPUTS_POOL(inputs),
	{ .kind = OPT_END },
};

/* --- a page for people ---------------------------------------------------------------------- */

static const char *heading_of(const char *part)
{
	static const char *const headings[][2] = { { "input", "What the node did" },
		{ "requirement", "What the policy requires" }, { "term", "Terms" },
		{ "pay", "Pay" }, { "note", "Notes of the policy" } };

	for (size_t i = 0; i < sizeof headings / sizeof *headings; i++)
		if (strcmp(part, headings[i][0]) == 0)
			return headings[i][1];
	return part;
}

/* Appends an input: a number whose name ends in its unit, or text. */
static void add_input(struct buf *out, const char *name, const char *value)
{
	json_t *v = json_parse(value, strlen(value), JSON_DEPTH_MAX, name);

	if (v)
		human_value(out, name, v, NULL, 0);
	else
		buf_adds(out, value);
	err_clear();
	json_decref(v);
}

/* The text may be what strangers wrote, such as a source or a model: it is cleaned. */
static void add_line(struct buf *page, const char *label, struct buf *text)
{
	if (text->len)
		utf8_clean_line(text->data);
	if (text->len)
		table_card_line(page, label, LABEL_WIDTH, text->data, out_width());
	buf_reset(text);
}

/* Appends a step to the page on standard output: a heading where part is another than before,
 * the name with its value, below it formula and source. Texts that are NULL are omitted. Returns
 * 0, or -1 with err_set(EX_IOERR). */
static int explain_page_step(const char *part, const char *name, const char *value,
	const char *formula, const char *source)
{
	static char before[32];
	bool is_input = strcmp(part, "input") == 0;
	bool need = strcmp(part, "requirement") == 0;
	struct buf page = BUF_INIT, text = BUF_INIT, label = BUF_INIT;
	int rc;

	if (strcmp(part, before) != 0)
		buf_addf(&page, "%s%s\n", *before ? "\n" : "", heading_of(part));
	buf_adds(&label, "  ");
	/* without their units these two would have one name */
	if (strcmp(name, "up_s") == 0)
		buf_adds(&label, "time up");
	else if (strcmp(name, "up_bps") == 0)
		buf_adds(&label, "upload");
	else
		human_heading(&label, name);
	/* only the first note is labelled with the policy's name */
	if (strcmp(part, "note") == 0 && strcmp(part, before) == 0)
		buf_reset(&label);
	before[0] = '\0';
	strncat(before, part, sizeof before - 1);
	if (value && is_input)
		add_input(&text, name, value);
	else if (value)
		buf_adds(&text, value);
	if (need && formula)
		buf_addf(&text, " (%s)", formula);
	if (is_input && source)
		buf_addf(&text, "  (%s)", source);
	if (!text.len && source) {
		buf_adds(&text, source);
		source = NULL;
	}
	add_line(&page, buf_text(&label), &text);
	if (formula && !need)
		buf_addf(&text, "= %s", formula);
	add_line(&page, "", &text);
	if (source && !is_input)
		buf_adds(&text, source);
	add_line(&page, "", &text);
	rc = out_text(page.data, page.len);
	buf_release(&page);
	buf_release(&text);
	buf_release(&label);
	return rc;
}

/* --- steps ---------------------------------------------------------------------------------- */

/* Writes one step; texts that are NULL are omitted. */
static int step(const char *part, const char *name, const char *value,
	const char *formula, const char *source)
{
	json_t *record;
	int rc;

	if (out_for_people())
		return explain_page_step(part, name, value, formula, source);
	record = json_record("rnp.explain");
	json_set_text(record, "node", node);
	json_set_text(record, "part", part);
	json_set_text(record, "step", name);
	json_set_text(record, "value", value);
	json_set_text(record, "formula", formula);
	json_set_text(record, "source", source);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

/* --- inputs -------------------------------------------------------------------------------- */

static int input(const json_t *record, const char *name, const char *where)
{
	const json_t *v = json_object_get(record, name);
	const char *source = json_string_value(
		json_object_get(json_object_get(record, "sources"), name));
	const char *cause = json_string_value(
		json_object_get(json_object_get(record, "unknown"), name));
	struct buf text = BUF_INIT;
	int rc;

	if (json_is_string(v))
		buf_adds(&text, json_string_value(v));
	else if (v)
		json_write(&text, v);
	rc = step("input", name, v ? buf_text(&text) : "not known", NULL,
		source        ? source :
			cause ? cause :
			v     ? where :
				NULL);
	buf_release(&text);
	return rc;
}

static int explain_inputs(const struct epoch *e, const json_t *record, const char *where)
{
	struct buf text = BUF_INIT;
	int rc = 0;

	if (input(record, "wallet", where) < 0 || input(record, "gpu_model", where) < 0)
		return -1;
	for (int i = 0; i < FIELD_USAGE && rc == 0; i++)
		rc = input(record, field_names[i], where);
	if (rc == 0 && json_object_get(record, "factors"))
		rc = input(record, "factors", where);
	buf_addf(&text, "%" PRId64, e->epoch_s);
	if (rc == 0)
		rc = step("input", "epoch_s", text.data, NULL,
			e->rules->epoch_from_usage && e->from_ms >= 0 ?
				"from and to of the usages" :
				"the policy");
	buf_release(&text);
	return rc;
}

/* --- requirements, terms, pay -------------------------------------------------------------- */

static int explain_needs(const struct epoch *e, const struct outcome *o)
{
	const struct rules *r = e->rules;
	struct buf text = BUF_INIT, wanted = BUF_INIT;
	int rc = 0;

	for (int k = 0; k < r->nneeds && rc == 0; k++) {
		const char *value = "met";

		if (r->needs[k].when == POLICY_REGISTRATION)
			continue;
		buf_reset(&text);
		buf_reset(&wanted);
		policy_need_page(&wanted, &r->needs[k]);
		if ((o->unmet | o->waived) >> k & 1) {
			need_reason(&text, r, k, &o->usage);
			value = text.data + strlen(r->needs[k].name) + 2;
		}
		rc = step("requirement", r->needs[k].name, value, wanted.data, NULL);
	}
	buf_release(&text);
	buf_release(&wanted);
	return rc;
}

static int explain_terms(const struct epoch *e, struct eval *v)
{
	const struct rules *r = e->rules;
	struct buf value = BUF_INIT, formula = BUF_INIT, source = BUF_INIT;
	int rc = rules_eval_terms(v);

	for (int t = 0; t < r->nterms && rc == 0; t++) {
		int override = r->terms[t].override;

		buf_reset(&value);
		buf_reset(&formula);
		buf_reset(&source);
		formula_frac(&value, v->term[t]);
		if (override >= 0 && (v->env.usage->overridden >> override & 1))
			buf_addf(&formula, "factors.%s of the usage",
				factor_names[override]);
		else
			formula_write(&formula, r->terms[t].formula);
		for (int f = 0; f < FIELD_USAGE; f++)
			if (v->missing[t] >> f & 1)
				buf_addf(&source, "%s is not known, so this is 0; ",
					field_names[f]);
		buf_adds(&source, r->terms[t].note ? r->terms[t].note : "");
		rc = step("term", r->terms[t].name, value.data, formula.data,
			source.len ? source.data : NULL);
	}
	buf_release(&value);
	buf_release(&formula);
	buf_release(&source);
	return rc;
}

static void add_tokens(struct buf *out, const struct epoch *e, int64_t base_units)
{
	money_format(out, base_units, MONEY_RENDER_DECIMALS);
	buf_addf(out, " %s", e->rules->policy.token);
}

/* Appends the formula of a part, with the scale and the pool applied. */
static void add_rate(struct buf *out, const struct epoch *e, int part)
{
	struct frac one = { 1, 1 };
	bool scaled = frac_cmp(e->scale[part], one) != 0;

	if (scaled) {
		buf_addf(out, "--%s-scale ", pay_names[part]);
		formula_frac(out, e->scale[part]);
		buf_adds(out, " x (");
	}
	formula_write(out, e->rules->pay[part].formula);
	buf_adds(out, scaled ? ")" : "");
	if (e->scaled_down) {
		buf_adds(out, ", cut like all others to the pool of ");
		add_tokens(out, e, e->pool_base_units);
	}
}

/* Returns what a usage says of where a value comes from, or of why it is not known; or NULL. */
static const char *cause_of(const json_t *record, const char *field)
{
	const char *unknown = json_string_value(
		json_object_get(json_object_get(record, "unknown"), field));

	return unknown ?
		unknown :
		json_string_value(
			json_object_get(json_object_get(record, "sources"), field));
}

/* Returns a bit for each input that is 0, or not known, and makes a part of the pay 0. */
static uint32_t find_zeros(const struct epoch *e, const struct outcome *o,
	const struct eval *v)
{
	const struct rules *r = e->rules;
	uint32_t terms = 0, tables = 0, fields = 0, found = 0;

	for (int part = 0; part < PAY_N; part++) {
		const struct pay *p = &r->pay[part];

		if (p->formula && !o->pay[part])
			expr_uses(p->share ? p->share : p->amount, &terms, &tables,
				&fields);
	}
	/* a term uses only earlier ones */
	for (int t = r->nterms - 1; t >= 0; t--)
		if (terms >> t & 1 && !v->term[t].num)
			expr_uses(r->terms[t].value, &terms, &tables, &fields);
	for (int f = 0; f < FIELD_USAGE; f++)
		if (fields >> f & 1 && !o->usage.value[f])
			found |= UINT32_C(1) << f;
	return found;
}

/* Names what keeps the node from its pay, one row a fact, with its cause: requirements that are not
 * met, then inputs that are 0. */
static int explain_missing(const struct epoch *e, const struct outcome *o,
	const struct eval *v, const json_t *record)
{
	uint32_t zeros = outcome_qualified(o) ? find_zeros(e, o, v) : 0;
	struct buf text = BUF_INIT;
	int rc = 0;

	for (int k = 0; k < e->rules->nneeds && rc == 0; k++) {
		const struct policy_need *n = &e->rules->needs[k];

		if (n->when == POLICY_REGISTRATION || !(o->unmet >> k & 1))
			continue;
		buf_reset(&text);
		need_reason(&text, e->rules, k, &o->usage);
		rc = step("pay", "not_paid", text.data, NULL, cause_of(record, n->field));
	}
	for (int f = 0; f < FIELD_USAGE && rc == 0; f++) {
		if (!(zeros >> f & 1))
			continue;
		buf_reset(&text);
		buf_addf(&text, "%s: %s", field_names[f],
			json_object_get(record, field_names[f]) ? "0" : "not known");
		rc = step("pay", "not_paid", text.data, NULL,
			cause_of(record, field_names[f]));
	}
	buf_release(&text);
	return rc;
}

/* Names the GPUs of the node that are not paid, whatever is paid for the others. */
static int explain_gpus(const json_t *record)
{
	struct buf text = BUF_INIT;
	const char *name, *why;
	json_t *cause;
	int rc = 0;

	json_object_foreach(json_object_get(record, "unknown"), name, cause) {
		why = json_string_value(cause);
		if (rc < 0 || !why || strncmp(name, "gpus[", 5) != 0)
			continue;
		buf_reset(&text);
		buf_adds(&text, why);
		if (strncmp(why, USAGE_ONE_MODEL, strlen(USAGE_ONE_MODEL)) == 0)
			buf_adds(&text,
				"; a node of its own is paid for this one: rnp-register detect --gpus, with another key");
		rc = step("pay", "not_paid", name, NULL, text.data);
	}
	buf_release(&text);
	return rc;
}

static int explain_pay(const struct epoch *e, const struct outcome *o)
{
	struct buf value = BUF_INIT, formula = BUF_INIT;
	int rc = 0;

	for (int part = 0; part < PAY_N && rc == 0; part++) {
		const struct pay *p = &e->rules->pay[part];

		if (!p->formula)
			continue;
		buf_reset(&value);
		buf_reset(&formula);
		if (p->share) {
			add_tokens(&formula, e, e->pool_base_units);
			buf_adds(&formula, " of the pool x its part of the sum of: ");
		}
		add_rate(&formula, e, part);
		buf_adds(&formula,
			outcome_qualified(o) ? "" :
					       " (not paid: the node does not qualify)");
		add_tokens(&value, e, o->pay[part]);
		rc = step("pay", pay_names[part], value.data, formula.data,
			p->share || e->scaled_down ? "largest remainder" :
						     "rounded down to 10^-8");
	}
	buf_reset(&value);
	add_tokens(&value, e, outcome_total(o));
	if (rc == 0)
		rc = step("pay", "total", value.data,
			e->rules->wallet_base_units >= 0 ?
				"the sum of the parts, cut with the wallet's other nodes to its cap" :
				"the sum of the parts",
			NULL);
	buf_reset(&value);
	add_tokens(&value, e, o->locked);
	if (rc == 0 && o->locked)
		rc = step("pay", "locked", value.data,
			"of the total: the stake that is still missing, at --price, rounded up",
			"the policy's stake");
	buf_release(&value);
	buf_release(&formula);
	return rc;
}

static int explain_notes(const struct epoch *e)
{
	const json_t *notes = json_object_get(e->rules->policy.doc, "notes"), *note;
	int rc = 0;
	size_t i;

	json_array_foreach(notes, i, note)
		if (rc == 0)
			rc = step("note", e->rules->policy.name, NULL, NULL,
				json_string_value(note));
	return rc;
}

/* --- all of it ----------------------------------------------------------------------------- */

static int explain(struct epoch *e, const struct usages *u)
{
	struct outcome o;
	struct eval v;
	size_t i = 0, bad;

	if (epoch_compute(e, &bad) < 0)
		return bad < e->n ? err_add("%s", usages_where(u, bad)) : -1;
	while (i < e->n &&
		memcmp(usage_rows_node(e->usages, i), u->wanted, ADDRESS_BYTES) != 0)
		i++;
	if (i == e->n)
		return err_set(EXIT_NO, "node %.60s has no usage in this epoch", node);
	epoch_outcome(e, i, &o);
	rules_eval_init(&v, e->rules, &o.usage, e->epoch_s, e->price_uusd, e->max);
	/* the pay and what is missing come last, where somebody looks first */
	if (explain_inputs(e, u->wanted_record, usages_where(u, i)) < 0 ||
		explain_notes(e) < 0 || explain_needs(e, &o) < 0 ||
		explain_terms(e, &v) < 0 || explain_pay(e, &o) < 0 ||
		explain_gpus(u->wanted_record) < 0)
		return -1;
	return explain_missing(e, &o, &v, u->wanted_record);
}

static int run(int n, char **args)
{
	struct usages usages = USAGES_INIT;
	unsigned char key[KEY_PUBLIC_BYTES];
	struct rules rules;
	struct epoch e;
	int rc = -1;

	if (address_parse(node, "--node", key) < 0 ||
		rules_load(&rules, inputs.policy) < 0)
		return err_report();
	epoch_init(&e, &rules, &usages.rows);
	usages.wanted = key;
	if (epoch_inputs_apply(&inputs, &e) == 0 &&
		usages_read(&usages, &rules, args, n) == 0)
		rc = explain(&e, &usages);
	epoch_release(&e);
	usages_release(&usages);
	rules_release(&rules);
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_explain = {
	.name = "explain",
	.arguments = "[file ...]",
	.args_max = -1,
	.summary =
		"Every term of one node's pay, with the inputs and where each came from.",
	.details =
		"Reads the rnp.usage records of the epoch, writes one rnp.explain for each step.",
	.columns = "part,step,value,formula,source",
	.opts = options,
	.run = run,
};
