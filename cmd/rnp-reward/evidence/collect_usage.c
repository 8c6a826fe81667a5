/* collect_usage.c - writes one node's rnp.usage from the collected records: proven facts, and
 * the source of each. It is long because all parts write into one draft. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/evidence/collect_parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/json/json.h"
#include "common/record/eligibility.h"
#include "common/record/facts.h"

struct draft {
	const struct collect *c;
	const struct collect_node *node;
	struct buf usage, sources, unknown; /* objects but for their '}' */
	struct buf text; /* of one source: there are some fifteen a node */
	json_t *proven; /* the rnp.node that the last passed verdict names, paid devices only */
	json_t *newest; /* the newest rnp.node before the end of the epoch, for the wallet */
	const struct collect_verdict *verdict; /* the last that proves devices, or NULL */
	int64_t gpus;                          /* proven and paid */
};

/* --- text ------------------------------------------------------------------------------------ */

/* Begins a field that the object does not have yet. The name needs no escapes. */
static void add_name(struct buf *object, const char *name)
{
	buf_adds(object, object->len ? ",\"" : "{\"");
	buf_adds(object, name);
	buf_adds(object, "\":");
}

static void set_i64(struct buf *object, const char *name, int64_t v)
{
	add_name(object, name);
	json_write_i64(object, v);
}

/* json_write_text, because a cause may have been cut within a character. */
static void set_text(struct buf *object, const char *name, const char *text)
{
	add_name(object, name);
	json_write_text(object, text);
}

static void set_time(struct buf *object, const char *name, int64_t ms)
{
	char text[CLOCK_TEXT_MAX];

	clock_format(text, ms);
	set_text(object, name, text);
}

static void set_sourced(struct draft *d, const char *key, int64_t v, const char *source)
{
	set_i64(&d->usage, key, v);
	set_text(&d->sources, key, source);
}

/* --- which record counts --------------------------------------------------------------------- */

/* Whether the record of new_ms counts and that of old_ms does not. The newest record from before
 * the end of the epoch counts; if there is none, the oldest after it. */
static bool counts_rather(int64_t end_ms, int64_t new_ms, int64_t old_ms)
{
	bool new_before = new_ms < end_ms, old_before = old_ms < end_ms;

	if (new_before != old_before)
		return new_before;
	return new_before ? new_ms > old_ms : new_ms < old_ms;
}

static json_t *record_json(const struct collect_record *r)
{
	json_t *record = r ? json_parse_object(r->text, strlen(r->text), "rnp.node") :
			     NULL;

	if (r && !record)
		bug("%s", err_get()->text);
	return record;
}

static void find_records(struct draft *d)
{
	const struct collect_node *node = d->node;
	const struct collect_record *newest = NULL, *proven = NULL;

	d->verdict = node->proof ? &d->c->verdicts[node->proof - 1] : NULL;
	for (uint32_t i = node->records; i; i = d->c->records[i - 1].next) {
		const struct collect_record *r = &d->c->records[i - 1];

		if (!newest || counts_rather(d->c->to_ms, r->at_ms, newest->at_ms) ||
			(r->at_ms == newest->at_ms &&
				memcmp(r->sha256, newest->sha256, sizeof r->sha256) > 0))
			newest = r;
		if (d->verdict &&
			memcmp(r->sha256, &d->c->named[d->verdict->named - 1],
				sizeof r->sha256) == 0)
			proven = r;
	}
	/* they are usually one record; who changes proven does not read the same in newest */
	d->newest = record_json(newest);
	d->proven = proven == newest ? json_incref(d->newest) : record_json(proven);
}

/* --- devices -------------------------------------------------------------------------------- */

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
	json_set_bool(seen, uuid, true);
	return NULL;
}

/* Returns the group of the proven GPUs that is paid: the one that meets the policy if that is
 * known, else the most powerful one. */
static int paid_group(const struct draft *d, const json_t *node,
	const struct gpu_group *g, int n)
{
	const struct policy *p = d->c->scores;
	struct policy_need needs[POLICY_NEEDS_MAX];
	int nneeds = p ? policy_needs(p, "requires", needs) : 0;

	if (nneeds < 0)
		err_clear();
	return nneeds > 0 ? eligibility_group(p, needs, nneeds, node, g, n) : 0;
}

static void say_unpaid(struct draft *d, size_t gpu, const char *why)
{
	char name[32];

	snprintf(name, sizeof name, "gpus[%zu]", gpu);
	set_text(&d->unknown, name, why);
}

/* Chooses the group of kept GPUs that is paid. place: where each stands in the record. Returns the
 * GPUs, and records why the others are not paid. */
static json_t *choose_paid(struct draft *d, json_t *kept, const size_t *place,
	json_t *devices)
{
	json_t *node = json_object(), *paid = json_array(), *gpu;
	struct gpu_group groups[GPUS_MAX];
	bool is_paid[GPUS_MAX] = { false };
	int n, chosen;
	char why[128];
	size_t i;

	json_set(node, "gpus", json_incref(kept));
	n = gpus_group(node, groups);
	chosen = n ? paid_group(d, node, groups, n) : 0;
	for (int64_t k = 0; n && k < groups[chosen].count; k++)
		is_paid[groups[chosen].at[k]] = true;
	json_array_foreach(kept, i, gpu) {
		if (i < GPUS_MAX && is_paid[i]) {
			json_push(paid, json_incref(gpu));
			json_push_text(devices,
				json_string_value(json_object_get(gpu, "uuid")));
			continue;
		}
		snprintf(why, sizeof why,
			USAGE_ONE_MODEL ", and these are its %" PRId64 " %.60s",
			n ? groups[chosen].count : 0, n ? groups[chosen].model : "");
		say_unpaid(d, place[i], why);
	}
	json_decref(node);
	return paid;
}

/* Keeps only GPUs in the proven record that are proven, belong to this node and are of the model
 * that is paid; records why for the others. */
static void keep_paid_devices(struct draft *d)
{
	json_t *gpus = json_object_get(d->proven, "gpus"), *kept = json_array(),
	       *devices = json_array(), *seen = json_object(), *paid, *gpu;
	size_t *place = xcalloc(json_array_size(gpus) + 1, sizeof *place), i;

	json_array_foreach(gpus, i, gpu) {
		char text[128];
		const char *why = why_left_out(d, gpu, seen, text, sizeof text);

		if (why) {
			say_unpaid(d, i, why);
			continue;
		}
		place[json_array_size(kept)] = i;
		json_push(kept, json_incref(gpu));
	}
	paid = choose_paid(d, kept, place, devices);
	d->gpus = (int64_t)json_array_size(paid);
	/* Removes from the proven record all GPUs that are not paid. */
	if (gpus && (d->gpus || json_array_size(gpus) == 0)) {
		json_set(d->proven, "gpus", json_incref(paid));
	} else if (gpus) {
		json_object_del(d->proven, "gpus");
		json_object_del(json_object_get(d->proven, "unknown"), "gpus");
	}
	if (d->gpus) {
		add_name(&d->usage, "devices");
		json_write(&d->usage, devices);
	}
	free(place);
	json_decref(seen);
	json_decref(kept);
	json_decref(devices);
	json_decref(paid);
}

/* --- facts ---------------------------------------------------------------------------------- */

static void set_fact(struct draft *d, const json_t *node, const char *name,
	const char *how)
{
	struct buf *source = &d->text;
	struct fact f;

	fact_read(node, name, &f);
	if (!f.known || (f.none && strcmp(name, "gpu_count") != 0)) {
		set_text(&d->unknown, name,
			f.none             ? "this machine has no GPU" :
				f.cause[0] ? f.cause :
				strncmp(name, "gpu_", 4) == 0 ?
					     "no GPU of this node is proven and paid" :
					     "the node record does not say");
		return;
	}
	buf_reset(source);
	buf_adds(source, "rnp.node of ");
	buf_adds(source, json_string_value(json_object_get(node, "at")));
	buf_adds(source, ", ");
	buf_adds(source, how);
	buf_adds(source, ": ");
	buf_adds(source, f.source);
	buf_adds(source,
		f.text ? "" : cap_claim(node, name, d->node->bandwidth, &f.value));
	set_text(&d->sources, name, source->data);
	if (f.text)
		set_text(&d->usage, name, f.text);
	else
		set_i64(&d->usage, name, f.value);
}

static void set_verdict(struct draft *d)
{
	char hex[2 * CANON_HASH_BYTES + 1];

	sodium_bin2hex(hex, sizeof hex, d->verdict->sha256, CANON_HASH_BYTES);
	set_text(&d->usage, "verdict_sha256", hex);
}

/* Returns who passed the challenge of a verdict first. */
static const char *owner_of(const struct collect *c, const struct collect_verdict *v)
{
	return c->nodes[collect_challenge_owner(c, v)].address;
}

static void set_unproven(struct draft *d)
{
	const struct collect_node *node = d->node;
	char text[160];

	if (!d->verdict && node->last_void) {
		snprintf(text, sizeof text,
			"node %s passed the challenge of its last verdict first, and a challenge is for one node",
			owner_of(d->c, &d->c->verdicts[node->last_void - 1]));
		set_text(&d->unknown, "gpu_model", text);
		return;
	}
	set_text(&d->unknown, "gpu_model",
		d->verdict ? "the rnp.node that was challenged is not among the records" :
			node->verdicts ? "no verdict of this epoch proves a device" :
					 "it was not challenged in this epoch");
}

/* Claims about the hardware count only as far as they were challenged. */
static void set_facts(struct draft *d)
{
	static const char *const names[] = { "gpu_model", "gpu_count", "gpu_memory_bytes",
		"gpu_clock_mhz", "gpu_memory_bandwidth_bps", "cpu_cores", "cpu_clock_mhz",
		"down_bps", "up_bps" };

	if (d->newest)
		set_fact(d, d->newest, "wallet", "its newest");
	else
		set_text(&d->unknown, "wallet", "there is no rnp.node record");
	if (d->proven)
		set_verdict(d);
	else
		set_unproven(d);
	for (size_t i = 0; d->proven && i < sizeof names / sizeof *names; i++)
		set_fact(d, d->proven, names[i], "as challenged");
}

/* --- time and work -------------------------------------------------------------------------- */

static int by_start(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->from_ms > y->from_ms) - (x->from_ms < y->from_ms);
}

static int by_time(const void *a, const void *b)
{
	const struct uptime_beat *x = a, *y = b;

	if (x->at_ms != y->at_ms)
		return x->at_ms < y->at_ms ? -1 : 1;
	return (x->interval_ms > y->interval_ms) - (x->interval_ms < y->interval_ms);
}

/* Returns the time within [from, to) that at least one of the spans covers, which are in the
 * order of their starts. */
static int64_t union_ms(const struct span *spans, size_t n, int64_t from_ms,
	int64_t to_ms)
{
	int64_t sum = 0, end = from_ms;

	for (size_t i = 0; i < n; i++) {
		int64_t start = spans[i].from_ms > end ? spans[i].from_ms : end;
		int64_t stop = spans[i].to_ms < to_ms ? spans[i].to_ms : to_ms;

		if (stop <= start)
			continue;
		sum += stop - start;
		end = stop;
	}
	return sum;
}

static int64_t up_ms_of(const struct collect *c, const struct collect_list *list)
{
	struct span *spans = xcalloc(list->n, sizeof *spans);
	int64_t up_ms;
	size_t n = 0;

	for (uint32_t i = list->first; i; i = c->up[i - 1].next)
		spans[n++] = c->up[i - 1].span;
	qsort(spans, n, sizeof *spans, by_start);
	up_ms = union_ms(spans, n, c->from_ms, c->to_ms);
	free(spans);
	return up_ms;
}

/* Heartbeats are evaluated as of the end of the epoch, so that the same records give the same
 * usage at any time. *different: how many there are, of equal ones one. */
static int64_t beating_ms(const struct collect *c, const struct collect_list *list,
	size_t *different)
{
	struct uptime_beat *beats = xcalloc(list->n, sizeof *beats);
	int64_t up_ms;
	size_t n = 0;

	for (uint32_t i = list->first; i; i = c->beats[i - 1].next)
		beats[n++] = c->beats[i - 1].beat;
	qsort(beats, n, sizeof *beats, by_time);
	*different = n > 0;
	for (size_t i = 1; i < n; i++)
		*different += by_time(&beats[i - 1], &beats[i]) != 0;
	up_ms = uptime_ms(beats, n, c->from_ms, c->to_ms, c->to_ms);
	free(beats);
	return up_ms;
}

static void set_uptime(struct draft *d)
{
	const struct collect_node *node = d->node;
	char source[96];
	int64_t up_ms;
	size_t beats;

	/* days, not records: a copy of one, of which any number may come, is no further source */
	if (node->days) {
		up_ms = up_ms_of(d->c, &node->up);
		if (d->c->to_ms - d->c->from_ms <= COLLECT_DAYS_MS)
			snprintf(source, sizeof source, "rnp.uptime records of %d days",
				__builtin_popcountll(node->days));
		else
			snprintf(source, sizeof source, "rnp.uptime records");
	} else {
		up_ms = beating_ms(d->c, &node->beats, &beats);
		/* the true cause, before anything that is there instead */
		snprintf(source, sizeof source,
			"no day that a trusted registry has signed (each day after its end)");
		if (beats)
			snprintf(source, sizeof source,
				"%zu heartbeats of its own, as no signed day is there",
				beats);
	}
	set_sourced(d, "up_s", up_ms / 1000, source);
}

/* What a receipt says of its time. */
struct work {
	struct span wall;
	int64_t gpu_ms; /* -1: not stated */
};

/* By start, and then by all else: what several receipts of one start add up to must not depend
 * on the order in which they came. */
static int by_work(const void *a, const void *b)
{
	const struct work *x = a, *y = b;

	if (x->wall.from_ms != y->wall.from_ms)
		return x->wall.from_ms < y->wall.from_ms ? -1 : 1;
	if (x->wall.to_ms != y->wall.to_ms)
		return x->wall.to_ms < y->wall.to_ms ? -1 : 1;
	return (x->gpu_ms > y->gpu_ms) - (x->gpu_ms < y->gpu_ms);
}

/* Returns the GPU-milliseconds of the receipts: for each receipt at most what all proven GPUs
 * could have done in its time, and for receipts that overlap at most what they could in the
 * time that they cover together. */
static int64_t gpu_worked_ms(const struct work *work, size_t n, int64_t gpus)
{
	int64_t sum = 0, part = 0, start = 0, end = INT64_MIN;

	for (size_t i = 0; i < n; i++) {
		const struct work *w = &work[i];
		int64_t max = (w->wall.to_ms - w->wall.from_ms) * gpus;

		if (w->gpu_ms < 0)
			continue;
		if (w->wall.from_ms >= end) {
			sum += part;
			part = 0;
			start = w->wall.from_ms;
		}
		end = w->wall.to_ms > end ? w->wall.to_ms : end;
		part += w->gpu_ms < max ? w->gpu_ms : max;
		part = part < (end - start) * gpus ? part : (end - start) * gpus;
	}
	return sum + part;
}

/* Returns the receipts of the node in the order of their starts, as many as its list has; the
 * caller frees them. */
static struct work *work_of(const struct draft *d)
{
	const struct collect_list *list = &d->node->work;
	struct work *work = xcalloc(list->n, sizeof *work);
	size_t n = 0;

	for (uint32_t i = list->first; i; i = d->c->work[i - 1].next)
		work[n++] = (struct work){ d->c->work[i - 1].wall,
			d->c->work[i - 1].gpu_ms };
	qsort(work, n, sizeof *work, by_work);
	return work;
}

/* Returns the time that receipts cover, each for at most the GPU time that it states. */
static int64_t worked_ms(const struct draft *d, const struct work *work, size_t n)
{
	struct span *spans = xcalloc(n, sizeof *spans);
	int64_t sum;

	for (size_t i = 0; i < n; i++) {
		spans[i] = work[i].wall;
		if (work[i].gpu_ms >= 0 &&
			work[i].gpu_ms < spans[i].to_ms - spans[i].from_ms)
			spans[i].to_ms = spans[i].from_ms + work[i].gpu_ms;
	}
	sum = union_ms(spans, n, d->c->from_ms, d->c->to_ms);
	free(spans);
	return sum;
}

static void set_work(struct draft *d)
{
	const struct collect_node *node = d->node;
	uint32_t receipts = node->work.n;
	struct work *work = work_of(d);
	const char *source;

	buf_reset(&d->text);
	buf_add_i64(&d->text, receipts);
	buf_adds(&d->text, " receipts");
	source = d->text.data;
	set_sourced(d, "worked_s", worked_ms(d, work, receipts) / 1000, source);
	set_sourced(d, "gpu_worked_s", gpu_worked_ms(work, receipts, d->gpus) / 1000,
		d->gpus ? source : "no GPU is proven and paid");
	if (node->earned_known || !receipts)
		set_sourced(d, "earned_uusd", node->earned_uusd, source);
	if (node->credits_known || !receipts)
		set_sourced(d, "credits", node->credits, source);
	free(work);
}

static void write_verdicts(struct draft *d, const char *before, uint32_t n)
{
	buf_reset(&d->text);
	buf_adds(&d->text, before);
	buf_add_i64(&d->text, n);
	buf_adds(&d->text, " verdicts, ");
	buf_add_i64(&d->text, d->node->failed);
	buf_adds(&d->text, " failed");
}

static void set_challenges(struct draft *d)
{
	const struct collect_node *node = d->node;
	int64_t passed = (int64_t)node->verdicts - node->failed;
	const char *none = node->void_verdicts ?
		"no verdict in this epoch but void ones" :
		"no verdict in this epoch";
	struct buf *source = &d->text;

	write_verdicts(d, "", node->verdicts);
	if (node->void_verdicts)
		buf_addf(source,
			"; %" PRIu32
			" void, as other nodes passed their challenges first",
			node->void_verdicts);
	set_sourced(d, "challenges_passed", passed, source->data);
	if (node->verdicts)
		set_sourced(d, "passed_ppm", passed * MONEY_PPM / node->verdicts,
			source->data);
	else
		set_text(&d->unknown, "passed_ppm", none);
	if (!node->scored) {
		set_text(&d->unknown, "score_ppm",
			node->verdicts ? "no verdict has all readings" : none);
		return;
	}
	write_verdicts(d, "mean of ", node->scored);
	set_sourced(d, "score_ppm", (int64_t)(node->score_sum / node->scored),
		source->data);
}

/* Adds an object, which may be empty, to another. */
static void set_object(struct buf *object, const char *name, const struct buf *v)
{
	add_name(object, name);
	if (!v->len)
		buf_addc(object, '{');
	buf_add(object, v->data, v->len);
	buf_addc(object, '}');
}

void collect_usage_write(const struct collect *c, size_t i, int64_t staked_uusd,
	struct buf *out)
{
	struct draft d = { .c = c, .node = &c->nodes[c->order[i]] };

	set_text(&d.usage, "kind", "rnp.usage");
	set_i64(&d.usage, "v", 1);
	set_text(&d.usage, "node", d.node->address);
	set_time(&d.usage, "from", c->from_ms);
	set_time(&d.usage, "to", c->to_ms);
	find_records(&d);
	keep_paid_devices(&d);
	set_facts(&d);
	set_uptime(&d);
	set_work(&d);
	set_challenges(&d);
	if (staked_uusd >= 0)
		set_sourced(&d, "staked_uusd", staked_uusd, "the ledger");
	set_object(&d.usage, "sources", &d.sources);
	if (d.unknown.len)
		set_object(&d.usage, "unknown", &d.unknown);
	buf_add(out, d.usage.data, d.usage.len);
	buf_addc(out, '}');
	buf_release(&d.usage);
	buf_release(&d.sources);
	buf_release(&d.unknown);
	buf_release(&d.text);
	json_decref(d.proven);
	json_decref(d.newest);
}
