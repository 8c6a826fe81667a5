/* collect_usage.c - writes one node's rnp.usage from the collected records: proven facts, and
 * the source of each. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-reward/evidence/collect_draft.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/json/json.h"
#include "common/record/facts.h"

/* --- text ------------------------------------------------------------------------------------ */

/* Begins a field that the object does not have yet. The name needs no escapes. */
void draft_name(struct buf *object, const char *name)
{
	buf_adds(object, object->len ? ",\"" : "{\"");
	buf_adds(object, name);
	buf_adds(object, "\":");
}

void draft_i64(struct buf *object, const char *name, int64_t v)
{
	draft_name(object, name);
	json_write_i64(object, v);
}

/* json_write_text, because a cause may have been cut within a character. */
void draft_text(struct buf *object, const char *name, const char *text)
{
	draft_name(object, name);
	json_write_text(object, text);
}

static void set_time(struct buf *object, const char *name, int64_t ms)
{
	char text[CLOCK_TEXT_MAX];

	clock_format(text, ms);
	draft_text(object, name, text);
}

void draft_sourced(struct draft_object *o, const char *key, int64_t v, const char *source)
{
	draft_i64(&o->usage, key, v);
	draft_text(&o->sources, key, source);
}

void draft_object(struct buf *object, const char *name, const struct buf *v)
{
	draft_name(object, name);
	if (!v->len)
		buf_addc(object, '{');
	buf_add(object, v->data, v->len);
	buf_addc(object, '}');
}

void draft_object_release(struct draft_object *o)
{
	buf_release(&o->usage);
	buf_release(&o->sources);
	buf_release(&o->unknown);
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

/* --- facts ---------------------------------------------------------------------------------- */

void draft_fact(struct draft *d, struct draft_object *o, const json_t *node,
	const struct gpu_group *group, const char *name, const char *how)
{
	struct buf *source = &d->text;
	struct fact f;

	if (group)
		fact_read_group(node, group, name, &f);
	else
		fact_read(node, name, &f);
	if (!f.known || (f.none && strcmp(name, "gpu_count") != 0)) {
		draft_text(&o->unknown, name,
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
		f.text ? "" : cap_claim(node, group, name, d->node->bandwidth, &f.value));
	draft_text(&o->sources, name, source->data);
	if (f.text)
		draft_text(&o->usage, name, f.text);
	else
		draft_i64(&o->usage, name, f.value);
}

static void set_verdict(struct draft *d)
{
	char hex[2 * CANON_HASH_BYTES + 1];

	sodium_bin2hex(hex, sizeof hex, d->verdict->sha256, CANON_HASH_BYTES);
	draft_text(&d->top.usage, "verdict_sha256", hex);
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
		draft_text(&d->top.unknown, "gpu_model", text);
		return;
	}
	draft_text(&d->top.unknown, "gpu_model",
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

	const struct gpu_group *group = d->ngroups ? &d->groups[0].gpus : NULL;

	if (d->newest)
		draft_fact(d, &d->top, d->newest, NULL, "wallet", "its newest");
	else
		draft_text(&d->top.unknown, "wallet", "there is no rnp.node record");
	if (d->proven)
		set_verdict(d);
	else
		set_unproven(d);
	for (size_t i = 0; d->proven && i < sizeof names / sizeof *names; i++)
		draft_fact(d, &d->top, d->proven,
			fact_is_of_gpus(names[i]) ? group : NULL, names[i],
			"as challenged");
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

static int64_t up_ms_of(const struct collect *c, const struct collect_list *list)
{
	struct span *spans = xcalloc(list->n, sizeof *spans);
	int64_t up_ms;
	size_t n = 0;

	for (uint32_t i = list->first; i; i = c->up[i - 1].next)
		spans[n++] = c->up[i - 1].span;
	qsort(spans, n, sizeof *spans, by_start);
	up_ms = worked_union_ms(spans, n, c->from_ms, c->to_ms);
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
	draft_sourced(&d->top, "up_s", up_ms / 1000, source);
}

static void set_work(struct draft *d)
{
	const struct collect_node *node = d->node;
	uint32_t receipts = node->work.n;
	char source[32];
	struct worked all;

	snprintf(source, sizeof source, "%" PRIu32 " receipts", receipts);
	draft_add_work(d, &all);
	draft_sourced(&d->top, "worked_s", all.wall_ms / 1000, source);
	draft_sourced(&d->top, "gpu_worked_s",
		d->ngroups ? d->groups[0].worked.gpu_ms / 1000 : 0,
		d->ngroups ? source : "no GPU is proven and paid");
	draft_more_gpus(d, source);
	if (node->earned_known || !receipts)
		draft_sourced(&d->top, "earned_uusd", node->earned_uusd, source);
	if (node->credits_known || !receipts)
		draft_sourced(&d->top, "credits", node->credits, source);
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
	draft_sourced(&d->top, "challenges_passed", passed, source->data);
	if (node->verdicts)
		draft_sourced(&d->top, "passed_ppm", passed * MONEY_PPM / node->verdicts,
			source->data);
	else
		draft_text(&d->top.unknown, "passed_ppm", none);
	if (!node->scored) {
		draft_text(&d->top.unknown, "score_ppm",
			node->verdicts ? "no verdict has all readings" : none);
		return;
	}
	write_verdicts(d, "mean of ", node->scored);
	draft_sourced(&d->top, "score_ppm", (int64_t)(node->score_sum / node->scored),
		source->data);
}

void collect_usage_write(const struct collect *c, size_t i, int64_t staked_uusd,
	struct buf *out)
{
	struct draft d = { .c = c, .node = &c->nodes[c->order[i]] };

	draft_text(&d.top.usage, "kind", "rnp.usage");
	draft_i64(&d.top.usage, "v", 1);
	draft_text(&d.top.usage, "node", d.node->address);
	set_time(&d.top.usage, "from", c->from_ms);
	set_time(&d.top.usage, "to", c->to_ms);
	find_records(&d);
	draft_find_groups(&d);
	if (d.ngroups)
		draft_devices(&d.top.usage, &d.groups[0]);
	set_facts(&d);
	set_uptime(&d);
	set_work(&d);
	set_challenges(&d);
	if (staked_uusd >= 0)
		draft_sourced(&d.top, "staked_uusd", staked_uusd, "the ledger");
	draft_object(&d.top.usage, "sources", &d.top.sources);
	if (d.top.unknown.len)
		draft_object(&d.top.usage, "unknown", &d.top.unknown);
	buf_add(out, d.top.usage.data, d.top.usage.len);
	buf_addc(out, '}');
	draft_object_release(&d.top);
	buf_release(&d.text);
	json_decref(d.proven);
	json_decref(d.newest);
}
