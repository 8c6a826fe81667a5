/* state.c - the nodes of a cluster in heaps, the jobs that run on them, and how much each
 * customer has had. */
#include <stdlib.h>
#include <string.h>

#include "common/market/parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"

#define SHARED 1e17 /* above every price */

/* --- places ------------------------------------------------------------------------------- */

int match_gpu_at(const struct match_node *n, int place)
{
	uint64_t before;

	if (!n->places)
		return place;
	if (place < 0 || place >= 64 || !(n->places >> place & 1))
		return -1;
	before = n->places & (((uint64_t)1 << place) - 1);
	return __builtin_popcountll(before);
}

int match_place_of(const struct match_node *n, int i)
{
	for (int place = 0; n->places && place < 64; place++)
		if (n->places >> place & 1 && match_gpu_at(n, place) == i)
			return place;
	return n->places ? -1 : i;
}

/* --- groups ------------------------------------------------------------------------------- */

static bool has_part(const struct match_node *n)
{
	for (int i = 0; i < n->gpus; i++)
		if (n->left[i] > 0 && n->left[i] < MATCH_MILLI)
			return true;
	return false;
}

/* The rank of a node for any job: lower is better. For fgd, nodes with a shared GPU come after
 * all others of their heap, because they are examined one by one. */
double match_score_of(const struct match *m, const struct match_node *n)
{
	if (m->algorithm == MATCH_FGD && has_part(n))
		return (double)n->uusd + SHARED;
	if (m->algorithm == MATCH_ROTATION)
		return (double)n->worked_ms * 1e6 /
			(double)(n->uptime_ppm > 0 ? n->uptime_ppm : 1);
	return (double)n->uusd;
}

static bool is_alike(const struct group *g, const struct match_node *n)
{
	return g->model == n->model && g->country == n->country &&
		g->region == n->region && g->memory_bytes == n->memory_bytes &&
		g->compliance == n->compliance && g->spot == n->spot &&
		g->gpus == n->gpus;
}

/* Restores best[] after a change of the heap of f: as far down as it differs. */
static void update_best(struct group *g, int from)
{
	for (int f = from; f >= 0; f--) {
		double own = g->heaps[f].n ? g->heaps[f].at[0].score : MATCH_HEAP_NONE;
		double more = f < MATCH_GPUS_MAX ? g->best[f + 1] : MATCH_HEAP_NONE;

		own = own < more ? own : more;
		if (g->best[f] == own)
			return;
		g->best[f] = own;
	}
}

static void list_partial(struct group *g, size_t node, bool wanted)
{
	for (size_t i = 0; i < g->npartial; i++)
		if (g->partial[i] == node) {
			if (!wanted)
				g->partial[i] = g->partial[--g->npartial];
			return;
		}
	if (!wanted)
		return;
	g->partial = xgrow(g->partial, &g->partial_cap, g->npartial + 1,
		sizeof *g->partial);
	g->partial[g->npartial++] = node;
}

void match_enter(struct match *m, size_t node)
{
	struct match_node *n = &m->nodes[node];
	struct group *g = &m->groups[n->group];

	match_heap_push(&g->heaps[n->free_gpus], match_score_of(m, n), node, m->nodes);
	update_best(g, n->free_gpus);
}

void match_withdraw(struct match *m, size_t node)
{
	struct match_node *n = &m->nodes[node];
	struct group *g = &m->groups[n->group];

	match_heap_remove(&g->heaps[n->free_gpus], n->heap_at, m->nodes);
	update_best(g, n->free_gpus);
}

/* Open addressing over the groups, only while they are made. */
static size_t group_of(struct match *m, size_t *table, size_t slots,
	const struct match_node *n)
{
	uint64_t h = (uint64_t)(uintptr_t)n->model * 31 + (uint64_t)(uintptr_t)n->country;
	size_t slot;

	h = h * 31 + (uint64_t)(uintptr_t)n->region;
	h = (h * 31 + (uint64_t)n->memory_bytes) * 31 + n->compliance * 128 +
		(uint64_t)n->gpus * 2 + n->spot;
	h *= 0x9e3779b97f4a7c15u;
	for (slot = (size_t)(h >> 20) & (slots - 1); table[slot];
		slot = (slot + 1) & (slots - 1))
		if (is_alike(&m->groups[table[slot] - 1], n))
			return table[slot] - 1;
	m->groups = xgrow(m->groups, &m->groups_cap, m->ngroups + 1, sizeof *m->groups);
	m->groups[m->ngroups] = (struct group){ .model = n->model,
		.country = n->country,
		.region = n->region,
		.memory_bytes = n->memory_bytes,
		.compliance = n->compliance,
		.spot = n->spot,
		.gpus = n->gpus };
	for (int f = 0; f <= MATCH_GPUS_MAX; f++)
		m->groups[m->ngroups].best[f] = MATCH_HEAP_NONE;
	table[slot] = ++m->ngroups;
	return m->ngroups - 1;
}

struct match *match_open(enum match_algorithm a, struct match_node *nodes, size_t n)
{
	struct match *m = xcalloc(1, sizeof *m);
	size_t slots = 16, *table;

	while (slots < 2 * n)
		slots *= 2;
	table = xcalloc(slots, sizeof *table);
	m->algorithm = a;
	m->nodes = nodes;
	m->n = n;
	m->stoppable.at_ms = INT64_MIN;
	for (size_t i = 0; i < n; i++) {
		nodes[i].free_gpus = nodes[i].gpus;
		if ((double)nodes[i].uusd > m->dearest)
			m->dearest = (double)nodes[i].uusd;
		for (int g = 0; g < nodes[i].gpus; g++)
			nodes[i].left[g] = MATCH_MILLI;
		nodes[i].group = group_of(m, table, slots, &nodes[i]);
		m->groups[nodes[i].group].members++;
		match_enter(m, i);
	}
	free(table);
	return m;
}

void match_close(struct match *m)
{
	for (size_t i = 0; i < m->ngroups; i++) {
		for (int f = 0; f <= MATCH_GPUS_MAX; f++)
			free(m->groups[i].heaps[f].at);
		free(m->groups[i].partial);
	}
	for (size_t i = 0; i < m->nrunning; i++)
		free(m->running[i].parts);
	free(m->groups);
	free(m->running);
	free(m->owners);
	hash_index_release(&m->owner_index);
	free(m->by_price);
	free(m->stoppable.list);
	free(m->classes);
	free(m);
}

/* --- taking and giving back ----------------------------------------------------------------- */

void match_change(struct match *m, const struct match_part *p, int sign)
{
	struct match_node *n = &m->nodes[p->node];
	struct group *g = &m->groups[n->group];

	match_withdraw(m, p->node);
	for (int i = 0; i < p->gpus; i++)
		n->left[p->gpu[i]] = (int16_t)(n->left[p->gpu[i]] - sign * p->milli);
	n->free_gpus = 0;
	for (int i = 0; i < n->gpus; i++)
		n->free_gpus += n->left[i] == MATCH_MILLI;
	match_enter(m, p->node);
	list_partial(g, p->node, has_part(n));
}

/* The work of a match counts when it starts, so that a customer who has had much waits longer. */
void match_count_work(struct match *m, const struct match_part *p, int64_t length_ms)
{
	struct match_node *n = &m->nodes[p->node];

	if (m->algorithm != MATCH_ROTATION)
		return;
	match_withdraw(m, p->node);
	n->worked_ms += length_ms * p->gpus * p->milli / MATCH_MILLI;
	match_enter(m, p->node);
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
	return m->algorithm == MATCH_LAS || m->algorithm == MATCH_GAVEL;
}

void match_start(struct match *m, const struct running *one)
{
	struct running r = *one;

	r.order = m->started++;
	r.parts = xmalloc((size_t)r.nparts * sizeof *r.parts);
	memcpy(r.parts, one->parts, (size_t)r.nparts * sizeof *r.parts);
	for (int i = 0; i < r.nparts; i++)
		match_change(m, &r.parts[i], 1);
	running_push(m, r);
}

double match_served(const struct running *r, int64_t length_ms)
{
	double sum = 0;

	for (int i = 0; i < r->nparts; i++)
		sum += (double)length_ms * r->parts[i].gpus * r->parts[i].milli;
	return sum * r->speed;
}

void match_count(struct match *m, const char *owner, const struct match_job *j,
	const struct match_result *r)
{
	int64_t length_ms = r->end_ms - r->start_ms;
	struct running x = { .parts = r->parts,
		.nparts = r->nparts,
		.speed = r->nparts ? match_speed(m, j, m->nodes[r->parts[0].node].model) :
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
		const struct match_node *n = &m->nodes[parts[p].node];

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
			match_change(m, &r.parts[i], -1);
		free(r.parts);
		any = true;
		m->stoppable.nfailed = 0;
	}
	return any;
}
