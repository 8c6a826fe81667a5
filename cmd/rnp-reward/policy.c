/* policy.c - rnp-reward policy: explains a policy file: the bounds of each term, and
 * its errors. */
#include <string.h>

#include "cmd/rnp-reward/commands.h"
#include "cmd/rnp-reward/policy/formula.h"
#include "cmd/rnp-reward/policy/rules.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define GPUS_MAX 16 /* GPUs that one verdict can prove */

static bool all_ok;

static const struct opt options[] = {
	OPT_EXAMPLE("a policy"),
	{ .kind = OPT_END },
};

static const char policy_example[] =
	"{\n"
	"  \"kind\": \"rnp.policy\",\n"
	"  \"v\": 1,\n"
	"  \"name\": \"mine\",\n"
	"  \"title\": \"two tokens a week for being up, ten more for a week of work on a listed GPU\",\n"
	"  \"notes\": [\"what the words mean: rnp-reward(1), Policies\",\n"
	"    \"what is amiss, and what each term comes to: rnp-reward policy check FILE\"],\n"
	"  \"token\": \"TEST\",\n"
	"  \"epoch\": {\"seconds\": 604800},\n"
	"  \"tables\": {\"gpu\": {\"RTX 4090\": \"1.0\", \"RTX 3090\": \"0.85\", \"RTX 3060\": \"0.5\"}},\n"
	"  \"requires\": [\n"
	"    {\"name\": \"wallet\", \"field\": \"wallet\", \"known\": true,\n"
	"      \"remedy\": \"give a Solana address with rnp-register detect --wallet\"},\n"
	"    {\"name\": \"gpu_model\", \"field\": \"gpu_model\", \"in_tables\": [\"gpu\"],\n"
	"      \"remedy\": \"only GPU models of the table are paid\"},\n"
	"    {\"name\": \"challenges\", \"field\": \"passed_ppm\", \"at_least\": 500000, \"unit\": \"ppm\",\n"
	"      \"when\": \"epoch\", \"unknown\": \"pass\", \"remedy\": \"keep rnp-bench answer running\"}\n"
	"  ],\n"
	"  \"terms\": [\n"
	"    {\"name\": \"uptime\", \"value\": {\"divide\": [{\"field\": \"up_s\"}, {\"field\": \"epoch_s\"}]}},\n"
	"    {\"name\": \"worked\", \"value\": {\"divide\": [{\"field\": \"worked_s\"}, {\"field\": \"epoch_s\"}]}},\n"
	"    {\"name\": \"chip\", \"value\": {\"table\": \"gpu\", \"of\": \"gpu_model\", \"otherwise\": \"0\"}}\n"
	"  ],\n"
	"  \"pay\": {\n"
	"    \"job\": {\"amount\": {\"product\": [\"10\", {\"term\": \"chip\"}, {\"term\": \"worked\"}]}},\n"
	"    \"availability\": {\"amount\": {\"product\": [\"2\", {\"term\": \"uptime\"}]}}\n"
	"  }\n"
	"}\n";

/* Writes one rnp.check line. reason NULL: no error. */
static int report(const char *what, const json_t *formula, const struct frac *bound,
	const char *reason)
{
	json_t *record = json_record("rnp.check");
	struct buf text = BUF_INIT;
	int rc;

	all_ok = all_ok && !reason;
	json_set_bool(record, "ok", !reason);
	json_set_text(record, "what", what);
	if (formula) {
		formula_write(&text, formula);
		json_set_text(record, "formula", text.data);
	}
	if (bound) {
		buf_reset(&text);
		formula_frac(&text, *bound);
		json_set_text(record, "at_most", text.data);
	}
	json_set_text(record, "reason", reason);
	buf_release(&text);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

/* Sets the bounds that hold for every usage: times are at most the epoch, ratios 1, GPUs as many
 * as one verdict proves. Other fields (earnings, credits, bits a second) have none. */
static void bound_fields(const struct rules *r, struct expr_bounds *b)
{
	static const struct {
		enum field field;
		int64_t times_epoch, fixed;
	} bounds[] = { { FIELD_GPU_COUNT, 0, GPUS_MAX }, { FIELD_WORKED_S, 1, 0 },
		{ FIELD_UP_S, 1, 0 }, { FIELD_GPU_WORKED_S, GPUS_MAX, 0 },
		{ FIELD_PASSED_PPM, 0, 1000000 }, { FIELD_REPUTATION_PPM, 0, 1000000 },
		{ FIELD_EPOCH_S, 1, 0 } };

	memset(b, 0, sizeof *b);
	for (int i = 0; i < FIELD_N; i++)
		b->field[i] = FRAC_ZERO;
	for (size_t i = 0; i < sizeof bounds / sizeof *bounds; i++) {
		b->known |= UINT32_C(1) << bounds[i].field;
		b->field[bounds[i].field] = frac_of((uint64_t)(bounds[i].times_epoch *
								    r->epoch_s +
							    bounds[i].fixed),
			1);
	}
	for (int t = 0; t < r->scope.ntables; t++) {
		const char *row;
		json_t *value;

		b->tables[t] = FRAC_ZERO;
		json_object_foreach((json_t *)r->tables[t], row, value) {
			struct frac v;

			if (frac_parse(json_string_value(value), row, &v) == 0 &&
				frac_cmp(v, b->tables[t]) > 0)
				b->tables[t] = v;
		}
	}
}

static void uses(const struct rules *r, uint32_t *terms, uint32_t *tables)
{
	uint32_t fields = 0;

	*terms = *tables = 0;
	for (int i = 0; i < r->nterms; i++)
		expr_uses(r->terms[i].value, terms, tables, &fields);
	for (int i = 0; i < PAY_N; i++) {
		if (r->pay[i].amount)
			expr_uses(r->pay[i].amount, terms, tables, &fields);
		if (r->pay[i].share)
			expr_uses(r->pay[i].share, terms, tables, &fields);
	}
	for (int i = 0; i < r->nneeds; i++)
		for (int t = 0; t < r->scope.ntables; t++) {
			const json_t *name;
			size_t k;

			json_array_foreach(r->needs[i].names, k, name)
				if (strcmp(json_string_value(name), r->scope.tables[t]) ==
					0)
					*tables |= UINT32_C(1) << t;
		}
}

static int check_terms(const struct rules *r, struct expr_bounds *b, uint32_t used)
{
	char what[64];
	int rc = 0;

	for (int i = 0; i < r->nterms && rc == 0; i++) {
		bool bounded = expr_bound(b, r->terms[i].value, &b->terms[i]);

		/* a usage may override any factor */
		bounded = bounded && r->terms[i].override < 0;
		if (bounded)
			b->terms_known |= UINT32_C(1) << i;
		snprintf(what, sizeof what, "term %.50s", r->terms[i].name);
		rc = report(what, r->terms[i].formula, bounded ? &b->terms[i] : NULL,
			used >> i & 1 ? NULL : "nothing uses it");
	}
	return rc;
}

static int check_tables(const struct rules *r, uint32_t used)
{
	char what[64];
	int rc = 0;

	for (int i = 0; i < r->scope.ntables && rc == 0; i++) {
		snprintf(what, sizeof what, "table %.50s", r->scope.tables[i]);
		rc = report(what, NULL,
			&(struct frac){ json_object_size(r->tables[i]), 1 },
			used >> i & 1 ? NULL : "nothing uses it");
	}
	return rc;
}

/* Returns a bit for each field that leaves an amount without a bound: fields of its own, and
 * those of the terms that it uses and that have no bound either. */
static uint32_t find_unbounded(const struct rules *r, const struct expr_bounds *b,
	const struct expr *amount)
{
	uint32_t terms = 0, tables = 0, fields = 0, found;
	struct frac bound;

	expr_uses(amount, &terms, &tables, &fields);
	found = fields;
	/* a term uses only earlier ones */
	for (int i = r->nterms - 1; i >= 0; i--) {
		if (!(terms >> i & 1))
			continue;
		fields = 0;
		expr_uses(r->terms[i].value, &terms, &tables, &fields);
		if (!expr_bound(b, r->terms[i].value, &bound))
			found |= fields;
	}
	return found & ~b->known;
}

static void write_unbounded(struct buf *out, uint32_t fields)
{
	buf_adds(out, "no input bounds it");
	for (int i = 0, n = 0; i < FIELD_N; i++)
		if (fields >> i & 1)
			buf_addf(out, "%s%s", n++ ? ", " : " (", field_names[i]);
	buf_addf(out, "%s: only --pool does", fields ? ")" : "");
}

/* Checks that pay is bounded: shares by the pool, amounts by their inputs or by a limit of the
 * policy. */
static int check_pay(const struct rules *r, const struct expr_bounds *b)
{
	bool limited = r->per_node_base_units >= 0 || r->month_base_units >= 0 ||
		r->wallet_base_units >= 0;
	struct buf why = BUF_INIT;
	char what[64];
	int rc = 0;

	for (int i = 0; i < PAY_N && rc == 0; i++) {
		const struct pay *p = &r->pay[i];
		struct frac bound;
		bool bounded;

		if (!p->formula)
			continue;
		snprintf(what, sizeof what, "pay %s", pay_names[i]);
		bounded = p->amount && expr_bound(b, p->amount, &bound) &&
			frac_mul(&bound, bound, p->scale_max);
		buf_reset(&why);
		if (p->amount && !bounded)
			write_unbounded(&why, find_unbounded(r, b, p->amount));
		rc = report(what, p->formula, bounded ? &bound : NULL,
			p->share || bounded || limited ? NULL : buf_text(&why));
	}
	buf_release(&why);
	return rc;
}

static int check(const char *file)
{
	struct expr_bounds bounds;
	uint32_t terms, tables;
	struct rules r;
	int rc = -1;

	if (rules_load(&r, file) < 0)
		return -1;
	all_ok = true;
	bound_fields(&r, &bounds);
	uses(&r, &terms, &tables);
	if (check_tables(&r, tables) == 0 && check_terms(&r, &bounds, terms) == 0)
		rc = check_pay(&r, &bounds);
	rules_release(&r);
	return rc;
}

static int run(int n, char **args)
{
	(void)n;
	if (strcmp(args[0], "check") != 0)
		err_set(EX_USAGE,
			"'%.40s': the only thing to do with a policy is to check it",
			args[0]);
	else if (check(args[1]) == 0)
		return all_ok ? EX_OK : EXIT_NO;
	return err_report();
}

const struct command command_policy = {
	.name = "policy",
	.arguments = "check P",
	.args_min = 2,
	.args_max = 2,
	.summary = "Explain a policy: formulas, bounds, and what is amiss in it.",
	.details =
		"Writes one rnp.check for each table, term and pay. Exits 1 when nothing uses a table\n"
		"or a term, or when no input bounds a pay.",
	.columns = "ok,what,at_most,reason,formula",
	.example = policy_example,
	.opts = options,
	.run = run,
};
