/* explain.c - rnp-reward explain: shows every term of one node's pay, with its inputs and their
 * sources. */
#include <inttypes.h>
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/epoch/core.h"
#include "cmd/rnp-reward/epoch/explain_page.h"
#include "cmd/rnp-reward/epoch/inputs.h"
#include "cmd/rnp-reward/policy/formula.h"
#include "cmd/rnp-reward/epoch/usage_read.h"
#include "cmd/rnp-reward/epoch/write.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/money.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

static struct epoch_inputs inputs = EPOCH_INPUTS_INIT;
static const char *node;
/* of a node with several, the GPUs that the steps are about: "2 RTX 4090" */
static char group_text[120];

static const struct opt options[] = {
	OPT_NODE(&node),
	EPOCH_INPUTS_POLICY(inputs),
	EPOCH_INPUTS_POOL(inputs),
	{ .kind = OPT_END },
};

/* --- steps ---------------------------------------------------------------------------------- */

/* Writes one step; texts that are NULL are omitted. */
static int step(const char *part, const char *name, const char *value,
	const char *formula, const char *source)
{
	json_t *record;
	int rc;

	if (out_for_people())
		return explain_page_step(group_text, part, name, value, formula, source);
	record = json_record("rnp.explain");
	json_set_text(record, "node", node);
	json_set_text(record, "gpus", *group_text ? group_text : NULL);
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

/* The inputs of a group after the first: those that are its own. */
static int explain_group_inputs(const json_t *record, const char *where)
{
	int rc = input(record, "gpu_model", where);

	for (int i = 0; i < FIELD_GROUP_N && rc == 0; i++)
		rc = input(record, field_names[field_of_group[i]], where);
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
	const char *name, *why;
	json_t *cause;
	int rc = 0;

	json_object_foreach(json_object_get(record, "unknown"), name, cause) {
		why = json_string_value(cause);
		if (rc < 0 || !why || strncmp(name, "gpus[", 5) != 0)
			continue;
		rc = step("pay", "not_paid", name, NULL, why);
	}
	return rc;
}

/* further: the group gets what it adds, since another is paid for the node as a whole. */
static int explain_pay(const struct epoch *e, const struct outcome *o, bool further)
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
		if (further)
			buf_adds(&formula, "what these GPUs and their work add to ");
		add_rate(&formula, e, part);
		buf_adds(&formula,
			outcome_qualified(o) ? "" :
				*group_text  ? " (not paid: they do not qualify)" :
					       " (not paid: the node does not qualify)");
		add_tokens(&value, e, o->pay[part]);
		rc = step("pay", pay_names[part], value.data, formula.data,
			p->share || e->scaled_down ? "largest remainder" :
						     "rounded down to 10^-8");
	}
	buf_release(&value);
	buf_release(&formula);
	return rc;
}

static int explain_total(const struct epoch *e, const struct outcome *o)
{
	struct buf value = BUF_INIT;
	int rc = 0;

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

/* Returns the usage of a node as it would be with the k-th of its groups alone; the caller owns
 * it. */
static json_t *record_of_group(const json_t *record, size_t k)
{
	json_t *one = json_deep_copy(record), *v;
	const json_t *group = json_array_get(json_object_get(record, "more_gpus"), k - 1);
	const char *key;

	if (!k)
		return one;
	json_object_del(one, "gpu_model");
	for (int i = 0; i < FIELD_GROUP_N; i++)
		json_object_del(one, field_names[field_of_group[i]]);
	json_object_foreach((json_t *)group, key, v) {
		json_t *both = json_object_get(one, key);

		if (json_is_object(v) && both)
			json_object_update(both, v);
		else
			json_set(one, key, json_incref(v));
	}
	return one;
}

struct story {
	const struct epoch *epoch;
	const char *where;
	struct outcome groups[EPOCH_GROUPS_MAX];
	json_t *records[EPOCH_GROUPS_MAX];
	size_t n;
};

static void choose_group(const struct story *s, size_t k)
{
	const struct usage *u = &s->groups[k].usage;

	group_text[0] = '\0';
	if (s->n > 1)
		snprintf(group_text, sizeof group_text, "%" PRId64 " %.80s",
			u->value[FIELD_GPU_COUNT],
			u->model == RULES_NO_MODEL ?
				"GPUs" :
				s->epoch->rules->models[u->model].name);
}

/* Writes what is the same for each group of the node's GPUs. */
static int explain_group(const struct story *s, size_t k)
{
	struct eval v;

	choose_group(s, k);
	rules_eval_init(&v, s->epoch->rules, &s->groups[k].usage, s->epoch->epoch_s,
		s->epoch->price_uusd, s->epoch->max);
	return explain_needs(s->epoch, &s->groups[k]) < 0 ? -1 :
							    explain_terms(s->epoch, &v);
}

static int explain_groups_pay(const struct story *s)
{
	bool further = false;
	int rc = 0;

	for (size_t k = 0; k < s->n && rc == 0; k++) {
		choose_group(s, k);
		rc = explain_pay(s->epoch, &s->groups[k], further);
		further = further || outcome_qualified(&s->groups[k]);
	}
	return rc;
}

static int explain_groups_missing(const struct story *s)
{
	struct eval v;
	int rc = 0;

	for (size_t k = 0; k < s->n && rc == 0; k++) {
		choose_group(s, k);
		rules_eval_init(&v, s->epoch->rules, &s->groups[k].usage,
			s->epoch->epoch_s, s->epoch->price_uusd, s->epoch->max);
		rc = rules_eval_terms(&v);
		if (rc == 0)
			rc = explain_missing(s->epoch, &s->groups[k], &v, s->records[k]);
	}
	return rc;
}

/* The pay and what is missing come last, where somebody looks first. */
static int explain_all(struct story *s, const struct outcome *all, const json_t *record)
{
	int rc = 0;

	for (size_t k = 0; k < s->n && rc == 0; k++) {
		choose_group(s, k);
		rc = k ? explain_group_inputs(s->records[k], s->where) :
			 explain_inputs(s->epoch, s->records[k], s->where);
	}
	group_text[0] = '\0';
	if (rc == 0)
		rc = explain_notes(s->epoch);
	for (size_t k = 0; k < s->n && rc == 0; k++)
		rc = explain_group(s, k);
	if (rc == 0)
		rc = explain_groups_pay(s);
	group_text[0] = '\0';
	if (rc < 0 || explain_total(s->epoch, all) < 0 || explain_gpus(record) < 0)
		return -1;
	return explain_groups_missing(s);
}

static int explain(struct epoch *e, const struct usages *u)
{
	struct story s = { .epoch = e };
	struct outcome all;
	size_t i = 0, bad;
	int rc;

	if (epoch_compute(e, &bad) < 0)
		return bad < e->n ? err_add("%s", usages_where(u, bad)) : -1;
	while (i < e->n &&
		memcmp(usage_rows_node(e->usages, i), u->wanted, ADDRESS_BYTES) != 0)
		i++;
	if (i == e->n)
		return err_set(EXIT_NO, "node %.60s has no usage in this epoch", node);
	epoch_outcome(e, i, &all);
	s.where = usages_where(u, i);
	s.n = epoch_groups(e, i, s.groups);
	for (size_t k = 0; k < s.n; k++)
		s.records[k] = record_of_group(u->wanted_record, k);
	rc = explain_all(&s, &all, u->wanted_record);
	for (size_t k = 0; k < s.n; k++)
		json_decref(s.records[k]);
	return rc;
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
