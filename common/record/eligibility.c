/* eligibility.c - see eligibility.h. */
#include "common/record/eligibility.h"

#include <string.h>

#include "common/base/err.h"
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

bool eligibility_check(const struct policy *p, const json_t *node, struct buf *why)
{
	struct policy_need needs[POLICY_NEEDS_MAX];
	struct gpu_group groups[GPUS_MAX];
	const struct gpu_group *group = NULL;
	int n = policy_needs(p, "requires", needs), ngroups;

	if (n < 0) {
		buf_adds(why, err_get()->text);
		err_clear();
		return false;
	}
	ngroups = gpus_group(node, groups);
	if (ngroups)
		group = &groups[eligibility_group(p, needs, n, node, groups, ngroups)];
	for (int i = 0; i < n; i++) {
		struct fact f;

		if (needs[i].when == POLICY_EPOCH)
			continue;
		fact_read_group(node, group, needs[i].field, &f);
		if (!eligibility_met(p, &needs[i], &f)) {
			eligibility_reason(why, &needs[i], &f);
			return false;
		}
	}
	return true;
}
