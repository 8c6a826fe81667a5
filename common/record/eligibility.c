/* eligibility.c - see eligibility.h. */
#include "common/record/eligibility.h"

#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/gpu.h"

static bool text_met(const struct policy *p, const struct policy_need *n,
	const char *text)
{
	const struct gpu_model *gpu = gpu_find(text, 0);

	return policy_met_text(p, n, text) || (gpu && policy_met_text(p, n, gpu->name)) ||
		(gpu && policy_met_text(p, n, gpu->family));
}

bool eligibility_met(const struct policy *p, const struct policy_need *n,
	const struct fact *f)
{
	if (!f->known || f->none)
		return false;
	return f->text ? text_met(p, n, f->text) : policy_met_i64(n, f->value);
}

void eligibility_reason(struct buf *out, const struct policy_need *n,
	const struct fact *f)
{
	buf_addf(out, "%s: ", n->name);
	if (!f->known) {
		buf_addf(out, "not known%s%s", f->cause[0] ? ": " : "", f->cause);
	} else if (f->none) {
		buf_addf(out, "this machine has no %s",
			strncmp(n->field, "gpu", 3) == 0 ? "GPU" : n->name);
	} else if (f->text) {
		buf_addf(out, "'%s' is not among those of the policy", f->text);
	} else {
		policy_amount_text(out, f->value, n->unit);
		buf_adds(out, " is not ");
		policy_need_page(out, n);
	}
}

int eligibility_group(const struct policy *p, const struct policy_need *needs, int n,
	const json_t *node, const struct gpu_group *groups, int ngroups)
{
	for (int g = 0; g < ngroups; g++) {
		bool met = true;

		for (int i = 0; i < n && met; i++) {
			struct fact f;

			if (needs[i].when == POLICY_EPOCH ||
				!fact_is_of_gpus(needs[i].field))
				continue;
			fact_read_group(node, &groups[g], needs[i].field, &f);
			met = eligibility_met(p, &needs[i], &f);
		}
		if (met)
			return g;
	}
	return 0;
}

void eligibility_divide(const json_t *node, struct eligibility_gpus *out)
{
	json_t *some = json_array(), *others = json_array(), *gpu;
	size_t i;

	memset(out, 0, sizeof *out);
	json_array_foreach(json_object_get(node, "gpus"), i, gpu)
		json_push(gpus_why_unpaid(gpu) ? others : some, json_incref(gpu));
	if (json_array_size(some) && json_array_size(others)) {
		out->node = json_copy((json_t *)node);
		out->others = json_copy((json_t *)node);
		json_set(out->node, "gpus", some);
		json_set(out->others, "gpus", others);
		return;
	}
	if (json_array_size(others))
		out->unasked = json_array_get(json_object_get(node, "gpus"), 0);
	json_decref(some);
	json_decref(others);
}

void eligibility_divide_release(struct eligibility_gpus *g)
{
	json_decref(g->node);
	json_decref(g->others);
}

void eligibility_unasked(struct buf *out, const struct policy_need *n,
	const json_t *unasked)
{
	buf_addf(out, "%s: %s, and is not paid", n->name, gpus_why_unpaid(unasked));
}

/* Whether a node meets one requirement; appends why it does not. */
static bool check_one(const struct policy *p, const struct policy_need *n,
	const json_t *node, const struct gpu_group *group, const json_t *unasked,
	struct buf *why)
{
	struct fact f;

	if (n->when == POLICY_EPOCH)
		return true;
	fact_read_group(node, group, n->field, &f);
	if (!eligibility_met(p, n, &f)) {
		eligibility_reason(why, n, &f);
		return false;
	}
	if (unasked && fact_is_of_gpus(n->field)) {
		eligibility_unasked(why, n, unasked);
		return false;
	}
	return true;
}

bool eligibility_check(const struct policy *p, const json_t *node, struct buf *why)
{
	struct policy_need needs[POLICY_NEEDS_MAX];
	struct gpu_group groups[GPUS_MAX];
	const struct gpu_group *group = NULL;
	struct eligibility_gpus gpus;
	int n = policy_needs(p, "requires", needs), ngroups;
	bool met = true;

	if (n < 0) {
		buf_adds(why, err_get()->text);
		err_clear();
		return false;
	}
	eligibility_divide(node, &gpus);
	node = gpus.node ? gpus.node : node;
	ngroups = gpus_group(node, groups);
	if (ngroups)
		group = &groups[eligibility_group(p, needs, n, node, groups, ngroups)];
	for (int i = 0; i < n && met; i++)
		met = check_one(p, &needs[i], node, group, gpus.unasked, why);
	eligibility_divide_release(&gpus);
	return met;
}
