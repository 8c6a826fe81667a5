/* state.c - the jobs that run on a cluster, and how much each customer has had. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"

struct match *match_open(enum match_algorithm a, struct match_node *nodes, size_t n)
{
	struct match *m = xcalloc(1, sizeof *m);

	m->stoppable.at_ms = INT64_MIN;
	match_index_fill(&m->ix, a, nodes, n);
	for (size_t i = 0; i < n; i++)
		m->dearest = fmax(m->dearest,
			(double)match_price_of(&m->ix, i, 1, MATCH_MILLI));
	return m;
}

void match_close(struct match *m)
{
	match_groups_release(&m->ix);
	chooser_release(&m->chooser);
	for (size_t i = 0; i < m->nrunning; i++)
		free(m->running[i].parts);
	free(m->running);
	free(m->owners);
	hash_index_release(&m->owner_index);
	free(m->by_price);
	free(m->stoppable.list);
	free(m);
}

/* --- what runs ------------------------------------------------------------------------------- */

/* The work of a match counts when it starts, so that a customer who has had much waits longer. */
void match_count_work(struct match *m, const struct match_part *p, int64_t length_ms)
{
	struct match_node *n = &m->ix.nodes[p->node];

	if (m->ix.algorithm != MATCH_ROTATION)
		return;
	match_withdraw(&m->ix, p->node);
	n->worked_ms += length_ms * match_units(p) * p->milli / MATCH_MILLI;
	match_enter(&m->ix, p->node);
}

static bool ends_before(const struct running *a, const struct running *b)
{
	return a->end_ms != b->end_ms ? a->end_ms < b->end_ms : a->order < b->order;
}

static void running_push(struct match *m, struct running r)
{
	size_t i = m->nrunning++;

	m->running = xgrow(m->running, &m->running_cap, m->nrunning, sizeof *m->running);
	for (; i && ends_before(&r, &m->running[(i - 1) / 2]); i = (i - 1) / 2)
		m->running[i] = m->running[(i - 1) / 2];
	m->running[i] = r;
}

static struct running running_remove(struct match *m, size_t i)
{
	struct running first = m->running[i], last = m->running[--m->nrunning];

	if (i == m->nrunning)
		return first;
	for (; i && ends_before(&last, &m->running[(i - 1) / 2]); i = (i - 1) / 2)
		m->running[i] = m->running[(i - 1) / 2];
	for (;;) {
		size_t c = 2 * i + 1;

		if (c >= m->nrunning)
			break;
		if (c + 1 < m->nrunning &&
			ends_before(&m->running[c + 1], &m->running[c]))
			c++;
		if (!ends_before(&m->running[c], &last))
			break;
		m->running[i] = m->running[c];
		i = c;
	}
	m->running[i] = last;
	return first;
}

struct running match_take_out(struct match *m, size_t order)
{
	size_t i = 0;

	while (i < m->nrunning && m->running[i].order != order)
		i++;
	if (i == m->nrunning)
		bug("match: no running match %zu", order);
	return running_remove(m, i);
}

static bool is_owner(const void *owners, uint32_t i, const void *name)
{
	return ((const struct owner *)owners)[i].name == name;
}

/* Names are interned, so that their pointers are compared. */
size_t match_owner_of(struct match *m, const char *name)
{
	uint32_t hash = (uint32_t)((uintptr_t)name * 0x9e3779b97f4a7c15u >> 32);
	uint64_t *slot;

	hash_index_reserve(&m->owner_index);
	slot = hash_index_slot(&m->owner_index, hash, is_owner, m->owners, name);
	if (!*slot) {
		m->owners = xgrow(m->owners, &m->owners_cap, m->nowners + 1,
			sizeof *m->owners);
		m->owners[m->nowners] = (struct owner){ .name = name,
			.left_at_ms = INT64_MIN };
		hash_index_set(&m->owner_index, slot, hash, m->nowners++);
	}
	return (uint32_t)*slot - 1;
}

void match_account(struct match *m, size_t owner, double served, int64_t now_ms)
{
	struct owner *o = &m->owners[owner];

	o->served += served;
	if (m->stoppable.at_ms != now_ms)
		return;
	if (o->left_at_ms != now_ms)
		o->left = 0;
	o->left_at_ms = now_ms;
	o->left += served;
}

bool match_is_fair(const struct match *m)
{
	return m->ix.algorithm == MATCH_LAS || m->ix.algorithm == MATCH_GAVEL;
}

void match_start(struct match *m, const struct running *one)
{
	struct running r = *one;

	r.order = m->started++;
	r.parts = xmalloc((size_t)r.nparts * sizeof *r.parts);
	memcpy(r.parts, one->parts, (size_t)r.nparts * sizeof *r.parts);
	for (int i = 0; i < r.nparts; i++)
		match_change(&m->ix, &r.parts[i], 1);
	running_push(m, r);
}

double match_served(const struct running *r, int64_t length_ms)
{
	double sum = 0;

	for (int i = 0; i < r->nparts; i++)
		sum += (double)length_ms * match_units(&r->parts[i]) * r->parts[i].milli;
	return sum * r->speed;
}

void match_count(struct match *m, const char *owner, const struct match_job *j,
	const struct match_result *r)
{
	int64_t length_ms = r->end_ms - r->start_ms;
	struct running x = { .parts = r->parts,
		.nparts = r->nparts,
		.speed = r->nparts ?
			match_speed(&m->ix, j, m->ix.nodes[r->parts[0].node].model) :
			1 };

	match_account(m, match_owner_of(m, owner), match_served(&x, length_ms),
		INT64_MAX);
	for (int i = 0; i < r->nparts; i++)
		match_count_work(m, &r->parts[i], length_ms);
}

void match_preempt(struct match *m)
{
	m->preempts = true;
}

bool match_occupy(struct match *m, const char *owner, const struct match_result *r)
{
	const struct match_part *parts = r->parts;
	int nparts = r->nparts;

	for (int p = 0; p < nparts; p++) {
		const struct match_node *n = &m->ix.nodes[parts[p].node];

		if (!parts[p].gpus && (n->gpus || n->left[0] < MATCH_MILLI))
			return false;
		for (int i = 0; i < parts[p].gpus; i++) {
			int g = parts[p].gpu[i];

			if (g < 0 || g >= n->gpus || n->left[g] < parts[p].milli)
				return false;
			for (int k = 0; k < i; k++)
				if (parts[p].gpu[k] == g)
					return false;
		}
		for (int k = 0; k < p; k++)
			if (parts[k].node == parts[p].node)
				return false;
	}
	match_start(m,
		&(struct running){ .start_ms = r->start_ms,
			.end_ms = r->end_ms,
			.job = r->job,
			.owner = match_owner_of(m, owner),
			.uusd = r->uusd_per_hour,
			.speed = 1,
			.parts = r->parts,
			.nparts = nparts });
	return true;
}

/* Gives back the GPUs of all that end by now. Returns whether there were any. */
bool match_give_back(struct match *m, int64_t now_ms)
{
	bool any = false;

	while (m->nrunning && m->running[0].end_ms <= now_ms) {
		struct running r = running_remove(m, 0);

		for (int i = 0; i < r.nparts; i++)
			match_change(&m->ix, &r.parts[i], -1);
		free(r.parts);
		any = true;
		m->stoppable.nfailed = 0;
	}
	return any;
}
