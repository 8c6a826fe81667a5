/* collect_gpus.c - which GPUs of a node are paid, in groups of one model, and what they did. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/evidence/collect_draft.h"
#include "common/base/mem.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/eligibility.h"
#include "common/record/facts.h"

/* --- which are paid -------------------------------------------------------------------------- */

/* Returns why a GPU of the record is not paid, or NULL. */
static const char *why_not_paid(struct draft *d, const char *uuid, char *text,
	size_t size)
{
	struct device_key key;
	uint32_t owner;
	bool proven = false;

	if (!uuid)
		return "it has no uuid: it cannot be challenged";
	collect_device_key(uuid, &key);
	for (int i = 0; i < d->verdict->nproven; i++)
		proven = proven ||
			memcmp(&key,
				&d->c->devices[d->c->proven[d->verdict->proven +
						       (uint32_t)i]]
					 .key,
				sizeof key) == 0;
	if (!proven)
		return "the last passed verdict does not prove it";
	owner = collect_device_owner(d->c, &key);
	if (&d->c->nodes[owner] == d->node)
		return NULL;
	snprintf(text, size, "node %s proved it first, and a device is paid once",
		d->c->nodes[owner].address);
	return text;
}

/* Returns why a GPU of the record is paid in no group, or NULL; seen: the uuids before it. */
static const char *why_left_out(struct draft *d, const json_t *gpu, json_t *seen,
	char *text, size_t size)
{
	const char *uuid = json_string_value(json_object_get(gpu, "uuid"));
	const char *why = why_not_paid(d, uuid, text, size);

	if (why)
		return why;
	if (json_object_get(seen, uuid))
		return "its uuid stands there twice";
	if (!json_object_get(gpu, "model"))
		return "the node record does not say its model";
	json_set_bool(seen, uuid, true);
	return NULL;
}

static void say_unpaid(struct draft *d, size_t gpu, const char *why)
{
	char name[32];

	snprintf(name, sizeof name, "gpus[%zu]", gpu);
	draft_text(&d->top.unknown, name, why);
}

/* Returns the group that comes first: the one that meets the policy if that is known, else the most
 * powerful one. */
static int first_group(const struct draft *d, const json_t *node,
	const struct gpu_group *g, int n)
{
	const struct policy *p = d->c->scores;
	struct policy_need needs[POLICY_NEEDS_MAX];
	int nneeds = p ? policy_needs(p, "requires", needs) : 0;

	if (nneeds < 0)
		err_clear();
	return nneeds > 0 ? eligibility_group(p, needs, nneeds, node, g, n) : 0;
}

/* Removes from the proven record the GPUs that are not paid. */
static void drop_unpaid(struct draft *d, json_t *gpus)
{
	json_t *kept = json_array(), *seen = json_object(), *gpu;
	size_t i;

	json_array_foreach(gpus, i, gpu) {
		char text[128];
		const char *why = why_left_out(d, gpu, seen, text, sizeof text);

		if (why)
			say_unpaid(d, i, why);
		else
			json_push(kept, json_incref(gpu));
	}
	if (json_array_size(kept) || json_array_size(gpus) == 0) {
		json_set(d->proven, "gpus", json_incref(kept));
	} else {
		json_object_del(d->proven, "gpus");
		json_object_del(json_object_get(d->proven, "unknown"), "gpus");
	}
	json_decref(seen);
	json_decref(kept);
}

void draft_find_groups(struct draft *d)
{
	json_t *gpus = json_object_get(d->proven, "gpus");
	struct gpu_group groups[GPUS_MAX], one;
	int n, first;

	if (!gpus)
		return;
	json_incref(gpus);
	drop_unpaid(d, gpus);
	json_decref(gpus);
	n = gpus_group(d->proven, groups);
	first = n ? first_group(d, d->proven, groups, n) : 0;
	one = groups[first];
	for (int i = first; i > 0; i--)
		groups[i] = groups[i - 1];
	groups[0] = one;
	/* one verdict proves no more devices than that */
	for (int i = 0; i < n && i < WORKED_GROUPS_MAX; i++)
		d->groups[d->ngroups++].gpus = groups[i];
}

/* --- what they did --------------------------------------------------------------------------- */

/* Returns the uuid of GPU i of a group. */
static const char *uuid_of(const struct gpu_group *g, int64_t i)
{
	return json_string_value(
		json_object_get(json_array_get(g->gpus, (size_t)g->at[i]), "uuid"));
}

/* Returns the group of a device, or -1. */
static int group_of(const struct draft *d, const struct device_key *key)
{
	struct device_key other;

	for (int k = 0; k < d->ngroups; k++)
		for (int64_t i = 0; i < d->groups[k].gpus.count; i++) {
			collect_device_key(uuid_of(&d->groups[k].gpus, i), &other);
			if (memcmp(&other, key, sizeof other) == 0)
				return k;
		}
	return -1;
}

/* Returns the receipts of the node, as many as its list has; the caller frees them. */
static struct worked_receipt *receipts_of(const struct draft *d)
{
	const struct collect_list *list = &d->node->work;
	struct worked_receipt *receipts = xcalloc(list->n, sizeof *receipts);
	size_t n = 0;

	for (uint32_t i = list->first; i; i = d->c->work[i - 1].next) {
		const struct collect_work *w = &d->c->work[i - 1];
		struct worked_receipt *r = &receipts[n++];

		r->wall = w->wall;
		r->gpu_ms = w->gpu_ms;
		r->named = (int)w->nused;
		for (uint32_t k = 0; k < w->nused; k++) {
			uint32_t device = d->c->used[w->used + k];
			int group = group_of(d, &d->c->devices[device].key);

			if (group >= 0)
				r->of[group]++;
		}
	}
	return receipts;
}

void draft_add_work(struct draft *d, struct worked *all)
{
	struct worked_receipt *receipts = receipts_of(d);
	int64_t gpus[WORKED_GROUPS_MAX];
	struct worked worked[WORKED_GROUPS_MAX];

	for (int k = 0; k < d->ngroups; k++)
		gpus[k] = d->groups[k].gpus.count;
	worked_sum(receipts, d->node->work.n, gpus, d->ngroups, worked);
	*all = worked[0];
	for (int k = 0; k < d->ngroups; k++)
		d->groups[k].worked = worked[k];
	free(receipts);
}

/* --- as JSON --------------------------------------------------------------------------------- */

void draft_devices(struct buf *object, const struct draft_group *group)
{
	json_t *devices = json_array();

	for (int64_t i = 0; i < group->gpus.count; i++)
		json_push_text(devices, uuid_of(&group->gpus, i));
	draft_name(object, "devices");
	json_write(object, devices);
	json_decref(devices);
}

static void add_group(struct draft *d, const struct draft_group *g, const char *receipts,
	struct buf *out)
{
	static const char *const names[] = { "gpu_model", "gpu_count", "gpu_memory_bytes",
		"gpu_clock_mhz", "gpu_memory_bandwidth_bps" };
	struct draft_object o = { .usage = BUF_INIT };

	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		draft_fact(d, &o, d->proven, &g->gpus, names[i], "as challenged");
	draft_sourced(&o, "worked_s", g->worked.wall_ms / 1000, receipts);
	draft_sourced(&o, "gpu_worked_s", g->worked.gpu_ms / 1000, receipts);
	draft_devices(&o.usage, g);
	draft_object(&o.usage, "sources", &o.sources);
	if (o.unknown.len)
		draft_object(&o.usage, "unknown", &o.unknown);
	buf_add(out, o.usage.data, o.usage.len);
	buf_addc(out, '}');
	draft_object_release(&o);
}

void draft_more_gpus(struct draft *d, const char *receipts)
{
	struct buf *out = &d->top.usage;

	for (int k = 1; k < d->ngroups; k++) {
		if (k == 1)
			draft_name(out, "more_gpus");
		buf_addc(out, k == 1 ? '[' : ',');
		add_group(d, &d->groups[k], receipts, out);
	}
	if (d->ngroups > 1)
		buf_addc(out, ']');
}
