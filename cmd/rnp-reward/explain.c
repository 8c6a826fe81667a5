/* explain.c - rnp-reward explain: shows every term of one node's pay, with its inputs and their
 * sources. */
#include <inttypes.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/core.h"
#include "cmd/rnp-reward/explain_page.h"
#include "cmd/rnp-reward/given.h"
#include "cmd/rnp-reward/formula.h"
#include "cmd/rnp-reward/usage_read.h"
#include "cmd/rnp-reward/write.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/money.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

static struct given given = GIVEN_INIT;
static const char *node;

static const struct opt options[] = {
	OPT_NODE(&node),
	GIVEN_POLICY(given),
	GIVEN_POOL(given),
	{ .kind = OPT_END },
};

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

/* Returns the formula of a part, with the scale and the pool applied. */
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
	if (explain_inputs(e, u->wanted_record, usages_where(u, i)) < 0 ||
		explain_needs(e, &o) < 0 || explain_terms(e, &v) < 0 ||
		explain_pay(e, &o) < 0)
		return -1;
	return explain_notes(e);
}

static int run(int n, char **args)
{
	struct usages usages = USAGES_INIT;
	unsigned char key[KEY_PUBLIC_BYTES];
	struct rules rules;
	struct epoch e;
	int rc = -1;

	if (address_parse(node, "--node", key) < 0 ||
		rules_load(&rules, given.policy) < 0)
		return err_report();
	epoch_init(&e, &rules, &usages.rows);
	usages.wanted = key;
	if (given_apply(&given, &e) == 0 && usages_read(&usages, &rules, args, n) == 0)
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
