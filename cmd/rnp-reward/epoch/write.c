/* write.c - formats rnp.reward and rnp.epoch records as text, the same bytes on every machine. */
#include "cmd/rnp-reward/epoch/write.h"

#include <inttypes.h>
#include <string.h>

#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/base/money.h"

/* --- rnp.reward, by hand: a million of them in a second ------------------------------------- */

static void add_number(struct buf *out, const char *key, int64_t v)
{
	buf_addc(out, '"');
	buf_adds(out, key);
	buf_adds(out, "\":");
	json_write_i64(out, v);
}

void reward_number(struct buf *out, const char *text, int64_t v)
{
	buf_adds(out, text);
	json_write_i64(out, v);
}

static void add_texts(struct buf *out, const char *key, const char *text)
{
	buf_addc(out, '"');
	buf_adds(out, key);
	buf_adds(out, "\":");
	canon_string(out, text, strlen(text));
	buf_addc(out, ',');
}

static void add_address(struct buf *out, const char *key,
	const unsigned char address[ADDRESS_BYTES])
{
	char text[ADDRESS_MAX];

	address_format(address, text);
	add_texts(out, key, text);
}

void need_reason(struct buf *out, const struct rules *r, int i, const struct usage *u)
{
	const struct policy_need *n = &r->needs[i];
	bool unknown, met = rules_met(r, i, u, &unknown);
	int field = r->need_field[i];

	buf_addf(out, "%s: ", n->name);
	if (unknown) {
		buf_adds(out, met ? "not known, not held against the node" : "not known");
	} else if (n->op == POLICY_IN_TABLES || n->op == POLICY_ONE_OF) {
		buf_addf(out, "'%s' is not %s", r->models[u->model].name,
			n->op == POLICY_ONE_OF ? "among those wanted" :
						 "in the policy's tables");
	} else {
		buf_addf(out, "%" PRId64 "%s%s is not ", u->value[field],
			n->unit ? " " : "", n->unit ? n->unit : "");
		policy_need_text(out, n);
	}
}

static void add_reason(struct buf *out, bool *any, const struct buf *reason)
{
	if (*any)
		buf_addc(out, ',');
	*any = true;
	canon_string(out, reason->data, reason->len);
}

static void add_reasons(struct buf *out, const struct epoch *e, const struct outcome *o)
{
	struct buf reason = BUF_INIT;
	bool any = false;

	buf_adds(out, "\"reasons\":[");
	for (int k = 0; k < e->rules->nneeds; k++) {
		if (!((o->unmet | o->waived) >> k & 1))
			continue;
		buf_reset(&reason);
		need_reason(&reason, e->rules, k, &o->usage);
		add_reason(out, &any, &reason);
	}
	for (int f = 0; f < FIELD_USAGE; f++) {
		if (!(o->missing >> f & 1))
			continue;
		buf_reset(&reason);
		buf_addf(&reason, "%s: not known, the terms that need it are 0",
			field_names[f]);
		add_reason(out, &any, &reason);
	}
	buf_adds(out, "],");
	buf_release(&reason);
}

static void add_terms(struct buf *out, const struct rules *r, const struct outcome *o)
{
	buf_adds(out, "\"terms\":{");
	for (int t = 0; t < r->nterms; t++) {
		if (t)
			buf_addc(out, ',');
		buf_addc(out, '"');
		buf_adds(out, r->terms[t].name);
		buf_adds(out, "_ppm\":");
		json_write_i64(out, o->terms_ppm[t]);
	}
	buf_adds(out, "},");
}

/* Appends what a node and a group of its GPUs both have. */
static void add_outcome(struct buf *out, const struct epoch *e, const struct outcome *o)
{
	buf_adds(out,
		outcome_qualified(o) ? "\"qualified\":true," : "\"qualified\":false,");
	if (o->unmet || o->waived || o->missing)
		add_reasons(out, e, o);
	else
		buf_adds(out, "\"reasons\":[],");
	add_terms(out, e->rules, o);
	add_number(out, "job_base_units", o->pay[PAY_JOB]);
	buf_addc(out, ',');
	add_number(out, "availability_base_units", o->pay[PAY_AVAILABILITY]);
}

/* Appends the groups of a node that has several. */
static void add_groups(struct buf *out, const struct epoch *e, size_t i)
{
	struct outcome groups[EPOCH_GROUPS_MAX];
	const struct usage_group *more;
	size_t n;

	if (!usage_rows_groups(e->usages, i, &more))
		return;
	n = epoch_groups(e, i, groups);
	for (size_t k = 0; k < n; k++) {
		const struct usage *u = &groups[k].usage;

		buf_adds(out, k ? ",{" : ",\"groups\":[{");
		add_texts(out, "gpu_model",
			u->model == RULES_NO_MODEL ? "" :
						     e->rules->models[u->model].name);
		add_number(out, "gpu_count", u->value[FIELD_GPU_COUNT]);
		buf_addc(out, ',');
		add_outcome(out, e, &groups[k]);
		buf_addc(out, '}');
	}
	buf_addc(out, ']');
}

void reward_write(struct buf *out, const struct epoch *e, size_t i)
{
	struct outcome o;

	epoch_outcome(e, i, &o);
	buf_adds(out, "{\"kind\":\"rnp.reward\",\"v\":1,");
	add_address(out, "node", o.usage.node);
	if (o.usage.has_wallet)
		add_address(out, "wallet", o.usage.wallet);
	add_texts(out, "policy", e->rules->policy.name);
	add_outcome(out, e, &o);
	buf_addc(out, ',');
	add_number(out, "base_units", outcome_total(&o));
	if (o.locked) {
		buf_addc(out, ',');
		add_number(out, "locked_base_units", o.locked);
	}
	add_groups(out, e, i);
	buf_adds(out, "}\n");
}

/* --- rnp.epoch ----------------------------------------------------------------------------- */

static void set_scale(json_t *record, const char *key, struct frac scale)
{
	int64_t ppm;

	if (frac_floor(scale, MONEY_PPM, &ppm) && ppm != MONEY_PPM)
		json_set_i64(record, key, ppm);
}

json_t *epoch_record(const struct epoch *e)
{
	json_t *record = json_record("rnp.epoch"), *unknown;
	json_t *complements = json_object_get(e->rules->policy.doc, "complements");
	struct buf root = BUF_INIT;

	json_set_text(record, "policy", e->rules->policy.name);
	json_set_text(record, "policy_sha256", e->rules->policy.sha256);
	json_set_text(record, "token", e->rules->policy.token);
	if (complements)
		json_set(record, "complements", json_incref(complements));
	if (e->from_ms >= 0) {
		json_set_time(record, "from", e->from_ms);
		json_set_time(record, "to", e->to_ms);
	}
	json_set_i64(record, "epoch_s", e->epoch_s);
	if (e->scheduled_base_units >= 0)
		json_set_i64(record, "scheduled_base_units", e->scheduled_base_units);
	set_scale(record, "job_scale_ppm", e->scale[PAY_JOB]);
	set_scale(record, "availability_scale_ppm", e->scale[PAY_AVAILABILITY]);
	if (e->price_uusd)
		json_set_i64(record, "price_uusd", e->price_uusd);
	json_set_i64(record, "pool_base_units", e->pool_base_units);
	json_set_i64(record, "total_base_units", e->total_base_units);
	if (e->locked_base_units)
		json_set_i64(record, "locked_base_units", e->locked_base_units);
	json_set_i64(record, "nodes", (int64_t)e->n);
	json_set_i64(record, "qualified_nodes", (int64_t)e->qualified);
	json_set_i64(record, "claimants", (int64_t)e->claimants);
	unknown = json_object();
	if (e->claimants) {
		buf_add_hex(&root, e->root, sizeof e->root);
		json_set_text(record, "merkle_root", root.data);
	} else {
		json_set_text(unknown, "merkle_root", "nobody is paid");
	}
	if (e->rules->stake_uusd >= 0 && !e->price_uusd)
		json_set_text(unknown, "locked_base_units",
			"no price was given, so that no stake is locked");
	if (json_object_size(unknown))
		json_set(record, "unknown", json_incref(unknown));
	json_decref(unknown);
	buf_release(&root);
	return record;
}
