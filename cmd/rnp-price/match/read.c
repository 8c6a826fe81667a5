/* read.c - reads jobs, nodes for sale and earlier matches: see read.h. long because
 * all of them share one table of texts and one of names. */
#include "cmd/rnp-price/match/read.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-price/match/throughputs.h"
#include "common/base/err.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/market/text.h"
#include "common/market/wish.h"

#define UPTIME_PPM 1000000

/* The records of a node that have been read, and their times; -1: none yet. */
struct match_sale {
	int64_t node_ms, quote_ms;
	int64_t uusd;       /* of the whole node, as its customer pays */
	const char *priced; /* model that the quote is for; NULL: it does not say */
	bool has_none;      /* it says that it has no GPU */
	int64_t listing_ms;
	struct match_node listing; /* what it has for sale; -1: as its record says */
};

/* --- texts and names ---------------------------------------------------------------------- */

static bool is_text(const void *items, uint32_t i, const void *text)
{
	return strcasecmp(((const struct match_text *)items)[i].text, text) == 0;
}

/* The entry of a text, made when it is new. Valid until the next call. */
static struct match_text *entry_of(struct match_texts *t, const char *text)
{
	uint32_t hash = match_text_hash(text);
	uint64_t *slot;

	hash_index_reserve(&t->index);
	slot = hash_index_slot(&t->index, hash, is_text, t->items, text);
	if (!*slot) {
		t->items = xgrow(t->items, &t->cap, t->n + 1, sizeof *t->items);
		t->items[t->n].text = arena_strdup(&t->arena, text);
		t->items[t->n].node = t->items[t->n].job = 0;
		hash_index_set(&t->index, slot, hash, t->n++);
	}
	return &t->items[(uint32_t)*slot - 1];
}

/* The one pointer of a text; NULL stays NULL. */
static const char *one_text(struct match_texts *t, const char *text)
{
	return text ? entry_of(t, text)->text : NULL;
}

static const char *model_name(struct match_texts *t, const char *name,
	int64_t memory_bytes)
{
	return one_text(t, match_model_name(name, memory_bytes));
}

static const char *one_word(void *ctx, enum match_word what, const char *text)
{
	(void)what;
	return one_text(ctx, text);
}

static struct match_words words_of(struct match_texts *t)
{
	return (struct match_words){ one_word, t, &t->arena };
}

/* --- jobs --------------------------------------------------------------------------------- */

static int64_t whole(const json_t *r, const char *key, int64_t absent)
{
	json_int_t v = json_integer_value(json_object_get(r, key));

	return json_object_get(r, key) ? (int64_t)v : absent;
}

static const char *text(const json_t *r, const char *key)
{
	return json_string_value(json_object_get(r, key));
}

static bool is_render(const json_t *r)
{
	return text(r, "work") && strcmp(text(r, "work"), "render") == 0;
}

struct jobs_reader {
	struct match_market *m;
	int64_t now_ms;
};

static void add_job(struct match_market *m, const struct match_job *j)
{
	m->jobs = xgrow(m->jobs, &m->jobs_cap, m->njobs + 1, sizeof *m->jobs);
	m->jobs[m->njobs++] = *j;
	entry_of(&m->texts, j->id)->job = (uint32_t)m->njobs;
}

static int read_job(void *ctx, const struct record *rec)
{
	struct jobs_reader *reader = ctx;
	struct match_market *m = reader->m;
	struct match_words words = words_of(&m->texts);
	struct match_job j;

	if (match_wish_read(rec->json, rec->where, reader->now_ms, &words, &j) < 0)
		return -1;
	j.order = m->njobs;
	if (entry_of(&m->texts, j.id)->job)
		return err_set(EX_DATAERR, "%s: there is a job '%.80s' already",
			rec->where, j.id);
	add_job(m, &j);
	return 0;
}

/* Sorts by time of arrival; jobs of one time stay in the order of the input. */
static void sort_by_time(struct match_job *jobs, size_t n)
{
	struct match_job *half = xmalloc((n / 2 + 1) * sizeof *half);
	size_t k = n / 2, a = 0, b = k;

	if (n > 1) {
		sort_by_time(jobs, k);
		sort_by_time(jobs + k, n - k);
		memcpy(half, jobs, k * sizeof *half);
		for (size_t i = 0; a < k; i++)
			jobs[i] = b < n && jobs[b].at_ms < half[a].at_ms ? jobs[b++] :
									   half[a++];
	}
	free(half);
}

static void sort_jobs(struct match_market *m)
{
	sort_by_time(m->jobs, m->njobs);
	for (size_t i = 0; i < m->njobs; i++)
		entry_of(&m->texts, m->jobs[i].id)->job = (uint32_t)i + 1;
}

int match_read_jobs(struct match_market *m, const char *path, int64_t now_ms)
{
	struct jobs_reader reader = { m, now_ms };
	char *file = (char *)(uintptr_t)path;

	if (records_each(&file, 1, JSON_RECORD_BYTES_MAX, read_job, &reader) < 0)
		return -1;
	sort_jobs(m);
	return 0;
}

/* --- nodes -------------------------------------------------------------------------------- */

static size_t node_of(struct match_market *m, const char *id)
{
	struct match_text *name = entry_of(&m->texts, id);

	if (name->node)
		return name->node - 1;
	name->node = (uint32_t)m->nnodes + 1;
	m->nodes = xgrow(m->nodes, &m->nodes_cap, m->nnodes + 1, sizeof *m->nodes);
	m->sales = xgrow(m->sales, &m->sales_cap, m->nnodes + 1, sizeof *m->sales);
	m->sales[m->nnodes] = (struct match_sale){ .node_ms = -1,
		.quote_ms = -1,
		.uusd = -1,
		.listing_ms = -1 };
	m->nodes[m->nnodes] = (struct match_node){ .id = name->text,
		.reputation_ppm = -1,
		.uptime_ppm = UPTIME_PPM };
	return m->nnodes++;
}

static int read_node(struct match_market *m, const json_t *r, const char *where)
{
	struct match_words words = words_of(&m->texts);
	struct match_sale *sale;
	struct match_node n;
	int64_t at_ms = 0;
	size_t i;

	if (!text(r, "node"))
		return err_set(EX_DATAERR, "%s: node is missing", where);
	if (json_opt_time(r, where, "at", &at_ms) < 0)
		return -1;
	i = node_of(m, text(r, "node"));
	sale = &m->sales[i];
	if (at_ms < sale->node_ms)
		return 0;
	sale->node_ms = at_ms;
	sale->has_none = json_array_size(json_object_get(r, "gpus")) == 0 &&
		json_object_get(r, "gpus");
	match_node_read(r, &words, &n);
	n.id = m->nodes[i].id;
	m->nodes[i] = n;
	return 0;
}

/* What is for sale of a node, whatever its record says. */
static int read_listing(struct match_market *m, const json_t *r, const char *where)
{
	struct match_sale *sale;
	int64_t at_ms = 0;
	size_t i = node_of(m, text(r, "node"));

	if (json_opt_time(r, where, "at", &at_ms) < 0)
		return -1;
	sale = &m->sales[i];
	if (at_ms < sale->listing_ms)
		return 0;
	sale->listing_ms = at_ms;
	sale->listing = (struct match_node){ .cpu_cores = -1,
		.memory_bytes = -1,
		.disk_bytes = -1 };
	match_listing_read(r, &sale->listing);
	return 0;
}

static int read_quote(struct match_market *m, const json_t *r, const char *where)
{
	const char *spec = text(json_object_get(r, "spec"), "gpu_model");
	struct match_sale *sale;
	int64_t at_ms = 0;
	size_t i;

	if (!text(r, "node"))
		return err_set(EX_DATAERR, "%s: node is missing", where);
	if (json_opt_time(r, where, "at", &at_ms) < 0)
		return -1;
	/* a statement of its own: node_of may move the sales */
	i = node_of(m, text(r, "node"));
	sale = &m->sales[i];
	if (at_ms >= sale->quote_ms) {
		sale->quote_ms = at_ms;
		sale->uusd = whole(r, "customer_uusd", -1);
		sale->priced = spec ? model_name(&m->texts, spec, 0) : NULL;
	}
	return 0;
}

static bool is_false(const json_t *r, const char *key)
{
	return json_is_false(json_object_get(r, key));
}

static int read_offer(struct match_market *m, const json_t *r, const char *where)
{
	int64_t gpus = whole(r, "gpu_count", 1);
	struct match_node *n;
	char id[600];
	size_t before = m->nnodes, i;

	if (json_object_get(r, "gpu_share_ppm") || gpus > MATCH_GPUS_MAX ||
		is_false(r, "rentable") || json_is_true(json_object_get(r, "rented"))) {
		m->left_out++;
		return 0;
	}
	snprintf(id, sizeof id, "%s/%s", text(r, "market"), text(r, "offer_id"));
	i = node_of(m, id);
	/* the same machine on demand and as spot: it is sold once, on demand */
	if (i < before && m->nodes[i].spot != json_is_true(json_object_get(r, "spot"))) {
		if (!m->nodes[i].spot)
			return 0;
	} else if (i < before)
		return err_set(EX_DATAERR, "%s: there is an offer '%.80s' already", where,
			id);
	n = &m->nodes[i];
	n->gpus = (int)gpus;
	n->places = 0;
	n->gpu_memory_bytes = whole(r, "gpu_memory_bytes", 0);
	n->model = model_name(&m->texts, text(r, "gpu_model"), n->gpu_memory_bytes);
	n->country = one_text(&m->texts, text(r, "country"));
	n->region = one_text(&m->texts, text(r, "region"));
	n->reputation_ppm = whole(r, "reliability_ppm", -1);
	n->uusd = whole(r, "uusd_per_gpu_hour", 0);
	n->spot = json_is_true(json_object_get(r, "spot"));
	m->sales[i] = (struct match_sale){ .listing_ms = -1 };
	return 0;
}

static int read_sale(void *ctx, const struct record *rec)
{
	struct match_market *m = ctx;
	const char *kind = text(rec->json, "kind");

	if (schema_check(rec->json, rec->where, NULL) < 0)
		return -1;
	if (strcmp(kind, "rnp.node") == 0)
		return read_node(m, rec->json, rec->where);
	if (strcmp(kind, "rnp.quote") == 0)
		return read_quote(m, rec->json, rec->where);
	if (strcmp(kind, "rnp.listing") == 0)
		return read_listing(m, rec->json, rec->where);
	if (strcmp(kind, "rnp.offer") == 0)
		return read_offer(m, rec->json, rec->where);
	return err_set(EX_DATAERR,
		"%s: %s, where rnp.node, rnp.quote, rnp.listing or rnp.offer is due",
		rec->where, kind);
}

static bool is_for_sale(const struct match_node *n, const struct match_sale *s)
{
	if (s->node_ms < 0 || s->quote_ms < 0 || s->uusd < 0)
		return false;
	if (!n->gpus)
		return s->has_none;
	return n->model && (!s->priced || s->priced == n->model);
}

static void apply_listing(struct match_node *n, const struct match_sale *s)
{
	const struct match_node *l = &s->listing;

	if (s->listing_ms < 0)
		return;
	/* read when the number of GPUs was not known: 0 is all of them */
	n->part_gpus = l->part_gpus ? l->part_gpus : n->gpus;
	n->cpu_cores = l->cpu_cores < 0 ? n->cpu_cores : l->cpu_cores;
	n->memory_bytes = l->memory_bytes < 0 ? n->memory_bytes : l->memory_bytes;
	n->disk_bytes = l->disk_bytes < 0 ? n->disk_bytes : l->disk_bytes;
	n->spot = l->spot;
}

/* Leaves only nodes that have a price, and GPUs or are known to have none; sets the price of one
 * GPU, rounded up. */
static void close_sales(struct match_market *m)
{
	size_t n = 0;

	for (size_t i = 0; i < m->nnodes; i++) {
		struct match_node node = m->nodes[i];
		const struct match_sale *s = &m->sales[i];
		int units = node.gpus ? node.gpus : 1;

		if (!is_for_sale(&node, s)) {
			m->unpriced++;
			continue;
		}
		apply_listing(&node, s);
		if (s->uusd) {
			node.uusd = (s->uusd + units - 1) / units;
			node.all_uusd = s->uusd;
		}
		m->sales[n] = *s;
		m->nodes[n++] = node;
	}
	m->nnodes = n;
	for (size_t i = 0; i < m->texts.n; i++)
		m->texts.items[i].node = 0;
	for (size_t i = 0; i < n; i++)
		entry_of(&m->texts, m->nodes[i].id)->node = (uint32_t)i + 1;
}

int match_read_nodes(struct match_market *m, char **files, int n)
{
	if (records_each(files, n, JSON_RECORD_BYTES_MAX, read_sale, m) < 0)
		return -1;
	close_sales(m);
	return 0;
}

/* --- what else is known of them -------------------------------------------------------------- */

static int read_reputation(void *ctx, const struct record *rec)
{
	struct match_market *m = ctx;
	uint32_t node;

	if (schema_check(rec->json, rec->where, "rnp.reputation") < 0)
		return -1;
	node = entry_of(&m->texts, text(rec->json, "node"))->node;
	if (node)
		m->nodes[node - 1].reputation_ppm = whole(rec->json, "reputation_ppm", 0);
	return 0;
}

int match_read_reputations(struct match_market *m, const char *path)
{
	char *file = (char *)(uintptr_t)path;

	return records_each(&file, 1, JSON_RECORD_BYTES_MAX, read_reputation, m);
}

/* The throughput of one type of work on one model. */
static int set_throughput(void *ctx, const char *where, const char *type,
	const char *model_text, double rate)
{
	struct match_market *m = ctx;
	const char *type_text = one_text(&m->texts, type),
		   *model = model_name(&m->texts, model_text, 0);

	(void)where;
	for (size_t i = 0; i < m->njobs; i++)
		for (int k = 0; k < m->jobs[i].nmodels; k++)
			if (m->jobs[i].type == type_text && m->jobs[i].models[k] == model)
				m->jobs[i].throughput[k] = rate;
	return 0;
}

int match_read_throughputs(struct match_market *m, const char *path)
{
	/* of what a name may mean there are no figures */
	for (size_t i = 0; i < m->njobs; i++)
		m->jobs[i].nmodels = m->jobs[i].named;
	return throughputs_each(path, set_throughput, m);
}

/* --- matches of earlier calls ---------------------------------------------------------------- */

/* A match that an earlier call decided, until it ends or was stopped. */
struct past {
	const char *job, *owner;
	struct match_result r; /* parts: owned */
	int64_t left_ms;       /* stopped: of its job's work; else -1 */
	struct match_job what; /* what the record says of the job */
	char *where;
};

struct past_reader {
	struct match_market *m;
	struct past *items;
	size_t n, cap;
	int64_t last_ms; /* the last decision */
};

/* One entry of nodes[] as a part. Returns 1, 0 when the node is not for sale here, or -1. */
static int read_part(struct match_market *m, const json_t *entry, int milli,
	struct match_part *p)
{
	const json_t *gpus = json_object_get(entry, "gpus");
	uint32_t node = entry_of(&m->texts, text(entry, "node"))->node;

	if (!node) {
		err_warn("a match runs on %.80s, which is not for sale here",
			text(entry, "node"));
		return 0;
	}
	p->node = node - 1;
	p->milli = milli;
	p->gpus = (int)json_array_size(gpus);
	for (int i = 0; i < p->gpus; i++)
		p->gpu[i] = (int8_t)match_gpu_at(&m->nodes[node - 1],
			(int)json_integer_value(json_array_get(gpus, (size_t)i)));
	return 1;
}

/* A stop ends the match of the same job that began then. Returns false where there is none. */
static bool apply_stop(struct past_reader *reader, const char *job, int64_t start_ms,
	int64_t end_ms, int64_t left_ms)
{
	for (size_t i = reader->n; i--;) {
		struct past *p = &reader->items[i];

		if (p->job != job || p->r.start_ms != start_ms || p->left_ms >= 0)
			continue;
		p->r.end_ms = end_ms;
		p->left_ms = left_ms;
		return true;
	}
	return false;
}

static void release_past(struct past *p)
{
	free(p->r.parts);
	free(p->where);
}

static int read_past(void *ctx, const struct record *rec)
{
	struct past_reader *reader = ctx;
	struct match_market *m = reader->m;
	const json_t *r = rec->json, *nodes = json_object_get(r, "nodes");
	int64_t share = whole(r, "gpu_share_ppm", 0);
	int milli = share ? (int)((share + 999) / 1000) : MATCH_MILLI, rc = 1;
	struct past p = { .left_ms = -1 };

	if (schema_check(r, rec->where, "rnp.match") < 0)
		return -1;
	if (!json_array_size(nodes))
		return 0;
	if (json_get_time(r, rec->where, "end", &p.r.end_ms) < 0)
		return -1;
	p.r.start_ms = p.r.end_ms;
	if (json_opt_time(r, rec->where, "start", &p.r.start_ms) < 0)
		return -1;
	if (p.r.start_ms > p.r.end_ms)
		return err_set(EX_DATAERR, "%s: it ends before it starts", rec->where);
	p.job = one_text(&m->texts, text(r, "job"));
	if (text(r, "stopped_for")) {
		int64_t left_ms = whole(r, "left_ms", -1);

		if (left_ms < 0)
			return err_set(EX_DATAERR, "%s: left_ms is missing", rec->where);
		if (!apply_stop(reader, p.job, p.r.start_ms, p.r.end_ms, left_ms))
			return err_set(EX_DATAERR,
				"%s: no match of '%.80s' before it began then",
				rec->where, p.job);
		return 0;
	}
	p.owner = one_text(&m->texts, text(r, "owner"));
	p.what = (struct match_job){ .id = p.job,
		.owner = p.owner,
		.at_ms = p.r.start_ms,
		.length_ms = p.r.end_ms - p.r.start_ms,
		.limit_uusd = MATCH_NO_LIMIT,
		.checkpoint_ms = whole(r, "checkpoint_s", 0) * 1000,
		.share_ppm = whole(r, "share_ppm", 1000000),
		.gpus = 1,
		.nodes_max = 1,
		.milli = milli,
		.spot = json_is_true(json_object_get(r, "spot")),
		.render = is_render(r),
		.begun = true,
		.elsewhere = true };
	p.r.uusd_per_hour = whole(r, "uusd_per_hour", 0);
	p.r.parts = xcalloc(json_array_size(nodes), sizeof *p.r.parts);
	for (size_t i = 0; i < json_array_size(nodes) && rc >= 0; i++) {
		rc = read_part(m, json_array_get(nodes, i), milli,
			&p.r.parts[p.r.nparts]);
		p.r.nparts += rc > 0;
	}
	p.where = xstrdup(rec->where);
	reader->items = xgrow(reader->items, &reader->cap, reader->n + 1,
		sizeof *reader->items);
	reader->items[reader->n++] = p;
	return rc < 0 ? -1 : 0;
}

/* What the last match of a job means for it: it has begun, or was stopped and waits for what is
 * left of it. Nothing happens before the last decision. */
static void settle_jobs(struct past_reader *reader)
{
	struct match_market *m = reader->m;
	int64_t last_ms = INT64_MIN;

	for (size_t i = 0; i < reader->n; i++) {
		const struct past *p = &reader->items[i];
		int64_t decided_ms = p->left_ms < 0 ? p->r.start_ms : p->r.end_ms;
		uint32_t job = entry_of(&m->texts, p->job)->job;
		struct match_job *j;

		last_ms = decided_ms > last_ms ? decided_ms : last_ms;
		if (!job) {
			add_job(m, &p->what);
			continue;
		}
		j = &m->jobs[job - 1];
		j->begun = j->elsewhere || p->left_ms < 0;
		if (p->left_ms >= 0 && !j->elsewhere) {
			j->length_ms = p->left_ms;
			j->at_ms = p->r.end_ms;
		}
	}
	for (size_t i = 0; i < m->njobs; i++)
		if (!m->jobs[i].begun && m->jobs[i].at_ms < last_ms)
			m->jobs[i].at_ms = last_ms;
	sort_jobs(m);
	reader->last_ms = last_ms;
}

/* Takes in what earlier calls decided: those that run at from_ms have their GPUs, the others
 * count. Returns how many run, or -1. */
static int settle_matches(struct past_reader *reader, int64_t from_ms, struct match *to)
{
	int running = 0;

	for (size_t i = 0; i < reader->n; i++) {
		struct past *p = &reader->items[i];
		size_t job = entry_of(&reader->m->texts, p->job)->job - 1;

		if (!p->r.nparts)
			continue;
		match_count(to, p->owner, &reader->m->jobs[job], &p->r);
		if (p->left_ms >= 0 || p->r.end_ms <= from_ms)
			continue;
		p->r.job = job;
		if (!match_occupy(to, p->owner, &p->r))
			return err_set(EX_DATAERR,
				"%s: these GPUs are taken by a match before", p->where);
		running++;
	}
	return running;
}

int match_read_running(struct match_market *m, const char *path, int64_t now_ms,
	struct match *to)
{
	struct past_reader reader = { .m = m };
	char *file = (char *)(uintptr_t)path;
	int64_t from_ms = INT64_MAX;
	int rc = records_each(&file, 1, JSON_RECORD_BYTES_MAX, read_past, &reader);

	if (rc == 0) {
		settle_jobs(&reader);
		for (size_t i = m->njobs; i--;)
			if (!m->jobs[i].begun)
				from_ms = m->jobs[i].at_ms;
		if (from_ms == INT64_MAX) /* nobody waits */
			from_ms = now_ms > reader.last_ms ? now_ms : reader.last_ms;
		rc = settle_matches(&reader, from_ms, to);
	}
	for (size_t i = 0; i < reader.n; i++)
		release_past(&reader.items[i]);
	free(reader.items);
	return rc;
}

void match_market_release(struct match_market *m)
{
	arena_release(&m->texts.arena);
	free(m->texts.items);
	hash_index_release(&m->texts.index);
	free(m->nodes);
	free(m->jobs);
	free(m->sales);
	memset(m, 0, sizeof *m);
}
