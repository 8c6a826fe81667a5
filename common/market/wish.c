/* wish.c - reads jobs and nodes: see wish.h. */
#include "common/market/wish.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/gpu.h"
#include "common/record/gpus.h"
#include "common/record/pool.h"

#define HOUR_MS INT64_C(3600000)
#define ALL_PPM 1000000

static const char *const compliances[] = { "SOC2", "HIPAA", "GDPR",
	"confidential-computing" };

static int64_t whole(const json_t *r, const char *key, int64_t absent)
{
	const json_t *v = json_object_get(r, key);

	return v ? (int64_t)json_integer_value(v) : absent;
}

static const char *text(const json_t *r, const char *key)
{
	return json_string_value(json_object_get(r, key));
}

static const char *word(const struct match_words *w, enum match_word what, const char *t)
{
	return t ? w->one(w->ctx, what, t) : NULL;
}

uint32_t match_compliance_bits(const json_t *list)
{
	uint32_t bits = 0;

	for (size_t i = 0; i < json_array_size(list); i++)
		for (size_t k = 0; k < sizeof compliances / sizeof *compliances; k++)
			if (strcmp(json_string_value(json_array_get(list, i)),
				    compliances[k]) == 0)
				bits |= 1u << k;
	return bits;
}

const char *match_model_name(const char *name, int64_t memory_bytes)
{
	const struct gpu_model *m = gpu_find(name, memory_bytes);

	return m ? m->name : name;
}

/* The ranks of tiers rise, those of the table fall; what is not measured is last there. */
static int tier_rank(const struct pool_tier *tier)
{
	const struct pool_tier *unknown = pool_tiers;

	while (unknown[1].name)
		unknown++;
	return (int)(unknown - tier);
}

/* --- GPU models ---------------------------------------------------------------------------- */

/* Whether a name has a word. */
static bool has_word(const char *name, const char *w, size_t len)
{
	for (const char *at = name; (at = strstr(at, w)); at++)
		if ((at == name || at[-1] == ' ') && (!at[len] || at[len] == ' '))
			return true;
	return false;
}

/* Whether a card is one of those that a name leaves open: of its chip and memory, with all words of
 * the name but sizes. */
static bool is_one_of(const struct gpu_model *m, const struct gpu_model *open)
{
	char name[64], *rest = name, *w;

	if (strcmp(m->family, open->family) != 0 ||
		(open->memory_bytes && m->memory_bytes &&
			m->memory_bytes != open->memory_bytes))
		return false;
	strncpy(name, open->name, sizeof name - 1);
	name[sizeof name - 1] = '\0';
	while ((w = strtok_r(rest, " ", &rest)))
		if (!isdigit((unsigned char)*w) && !has_word(m->name, w, strlen(w)))
			return false;
	return true;
}

static int add_model(struct match_job *j, const char *model, const char *where)
{
	for (int i = 0; i < j->nmodels; i++)
		if (j->models[i] == model)
			return 0;
	if (j->nmodels == MATCH_MODELS_MAX)
		return err_set(EX_DATAERR, "%s: gpu_models: they mean more than %d kinds",
			where, MATCH_MODELS_MAX);
	j->models[j->nmodels++] = model;
	return 0;
}

/* Adds the cards that a name without form or memory may mean. */
static int add_open(struct match_job *j, const struct match_words *w, const char *name,
	const char *where)
{
	const struct gpu_model *open = gpu_find(name, 0), *all;
	size_t n;

	if (!open || !open->unspecific)
		return 0;
	all = gpu_table(&n);
	for (size_t i = 0; i < n; i++)
		if (is_one_of(&all[i], open) &&
			add_model(j, word(w, MATCH_WORD_MODEL, all[i].name), where) < 0)
			return -1;
	return 0;
}

/* Calls fn for the name under `one` or, instead, those in the list under `many`. */
static int each_name(struct match_job *j, const json_t *r, const struct match_words *w,
	const char *where, const char *one, const char *many,
	int (*fn)(struct match_job *, const struct match_words *, const char *,
		const char *))
{
	const json_t *list = json_object_get(r, many);

	if (text(r, one) && list)
		return err_set(EX_DATAERR, "%s: %s and %s", where, one, many);
	if (text(r, one) && fn(j, w, text(r, one), where) < 0)
		return -1;
	for (size_t i = 0; i < json_array_size(list); i++)
		if (fn(j, w, json_string_value(json_array_get(list, i)), where) < 0)
			return -1;
	return 0;
}

static int add_named(struct match_job *j, const struct match_words *w, const char *name,
	const char *where)
{
	return add_model(j, word(w, MATCH_WORD_MODEL, match_model_name(name, 0)), where);
}

static int add_place(struct match_job *j, const struct match_words *w, const char *name,
	const char *where)
{
	(void)where; /* the schema bounds the list */
	j->places[j->nplaces++] = word(w, MATCH_WORD_PLACE, name);
	return 0;
}

/* --- the rest of a job ------------------------------------------------------------------------ */

static int read_nodes(struct match_job *j, const json_t *r, const char *where)
{
	int nodes = (int)whole(r, "nodes", 0);

	j->nodes_max = (int)whole(r, "nodes_max", 1);
	if (!nodes)
		return 0;
	if (json_object_get(r, "nodes_max"))
		return err_set(EX_DATAERR, "%s: nodes and nodes_max", where);
	if (j->gpus % nodes)
		return err_set(EX_DATAERR,
			"%s: gpu_count: %d GPUs are not %d equal parts, one for each of nodes",
			where, j->gpus, nodes);
	j->nodes_min = j->nodes_max = nodes;
	return 0;
}

static int read_size(struct match_job *j, const json_t *r, const char *where)
{
	static const char *const of_gpus[] = { "gpu_model", "gpu_models",
		"gpu_memory_bytes", "gpu_share_ppm" };
	int64_t share = whole(r, "gpu_share_ppm", 0);

	j->gpus = (int)whole(r, "gpu_count", 1);
	j->milli = share ? (int)((share + 999) / 1000) : MATCH_MILLI;
	for (size_t i = 0; i < sizeof of_gpus / sizeof *of_gpus && !j->gpus; i++)
		if (json_object_get(r, of_gpus[i]))
			return err_set(EX_DATAERR, "%s: %s, but gpu_count is 0", where,
				of_gpus[i]);
	if (share && j->gpus != 1)
		return err_set(EX_DATAERR, "%s: gpu_share_ppm is of one GPU, not of %d",
			where, j->gpus);
	if (json_object_get(r, "hours") && json_object_get(r, "seconds"))
		return err_set(EX_DATAERR, "%s: hours and seconds", where);
	j->length_ms = json_object_get(r, "seconds") ? whole(r, "seconds", 0) * 1000 :
						       whole(r, "hours", 1) * HOUR_MS;
	return read_nodes(j, r, where);
}

/* Either all places have a share, or none: then any of them will do. */
static int read_shares(struct match_job *j, const json_t *r, const struct match_words *w,
	const char *where)
{
	const json_t *list = json_object_get(r, "places");
	int64_t sum = 0;

	if (list && j->nplaces)
		return err_set(EX_DATAERR, "%s: places and regions", where);
	for (size_t i = 0; i < json_array_size(list); i++) {
		const json_t *p = json_array_get(list, i);
		struct match_place *to = &j->shares[j->nshares++];

		to->country = word(w, MATCH_WORD_PLACE, text(p, "country"));
		to->region = word(w, MATCH_WORD_PLACE, text(p, "region"));
		to->share_ppm = whole(p, "share_ppm", 0);
		sum += to->share_ppm;
		if (!to->country && !to->region)
			return err_set(EX_DATAERR,
				"%s: places[%zu]: neither country nor region", where, i);
		if (!to->share_ppm != !j->shares->share_ppm)
			return err_set(EX_DATAERR,
				"%s: places[%zu]: share_ppm: either all places have one or none",
				where, i);
	}
	if (sum && sum != ALL_PPM)
		return err_set(EX_DATAERR,
			"%s: places: the shares come to %lld ppm, not to %d", where,
			(long long)sum, ALL_PPM);
	return 0;
}

/* All in all, over its hours, is a limit of each hour. */
static void read_limits(struct match_job *j, const json_t *r)
{
	j->limit_uusd = whole(r, "max_uusd_per_hour", MATCH_NO_LIMIT);
	if (json_object_get(r, "max_uusd")) {
		int64_t hourly = (int64_t)((__int128)whole(r, "max_uusd", 0) * HOUR_MS /
			j->length_ms);

		j->limit_uusd = hourly < j->limit_uusd ? hourly : j->limit_uusd;
	}
}

static void read_excluded(struct match_job *j, const json_t *r,
	const struct match_words *w)
{
	const json_t *list = json_object_get(r, "exclude");
	const char **ids;

	j->nexclude = json_array_size(list);
	if (!j->nexclude)
		return;
	ids = arena_alloc(w->arena, j->nexclude * sizeof *ids);
	for (size_t i = 0; i < j->nexclude; i++)
		ids[i] = word(w, MATCH_WORD_NODE,
			json_string_value(json_array_get(list, i)));
	match_sort_ids(ids, j->nexclude);
	j->exclude = ids;
}

static enum match_host host_of(const char *name)
{
	for (int i = 1; name && i < MATCH_HOSTS; i++)
		if (strcmp(name, match_host_names[i]) == 0)
			return (enum match_host)i;
	return MATCH_HOST_UNKNOWN;
}

static void read_host(struct match_job *j, const json_t *r)
{
	j->gpu_memory_bytes = whole(r, "gpu_memory_bytes", 0);
	j->cpu_cores = whole(r, "cpu_cores", 0);
	j->memory_bytes = whole(r, "memory_bytes", 0);
	j->disk_bytes = whole(r, "disk_bytes", 0);
	j->ping_us = whole(r, "ping_us", 0);
	j->tier = text(r, "tier") ? tier_rank(pool_tier_find(text(r, "tier"))) : 0;
	j->host_type = host_of(text(r, "host_type"));
	j->reputation_ppm = whole(r, "reputation_ppm", 0);
	j->compliance = match_compliance_bits(json_object_get(r, "compliance"));
	j->spot = json_is_true(json_object_get(r, "spot"));
}

int match_wish_read(const json_t *r, const char *where, int64_t now_ms,
	const struct match_words *w, struct match_job *out)
{
	struct match_job j = { .at_ms = now_ms };

	if (schema_check(r, where, "rnp.job") < 0 ||
		json_opt_time(r, where, "at", &j.at_ms) < 0 ||
		json_opt_time(r, where, "start_by", &j.start_by_ms) < 0 ||
		read_size(&j, r, where) < 0 ||
		each_name(&j, r, w, where, "gpu_model", "gpu_models", add_named) < 0)
		return -1;
	j.named = j.nmodels;
	if (each_name(&j, r, w, where, "gpu_model", "gpu_models", add_open) < 0 ||
		each_name(&j, r, w, where, "region", "regions", add_place) < 0 ||
		read_shares(&j, r, w, where) < 0)
		return -1;
	j.since_ms = j.at_ms;
	j.id = word(w, MATCH_WORD_OTHER, text(r, "job"));
	j.owner = word(w, MATCH_WORD_OTHER, text(r, "owner"));
	j.type = word(w, MATCH_WORD_OTHER, text(r, "type"));
	j.render = text(r, "work") && strcmp(text(r, "work"), "render") == 0;
	j.share_ppm = whole(r, "share_ppm", ALL_PPM);
	j.checkpoint_ms = whole(r, "checkpoint_s", 0) * 1000;
	read_host(&j, r);
	read_limits(&j, r);
	read_excluded(&j, r, w);
	*out = j;
	return 0;
}

/* --- nodes --------------------------------------------------------------------------------- */

/* The largest disk: a job is on one. */
static int64_t largest_disk(const json_t *disks)
{
	int64_t most = 0;

	for (size_t i = 0; i < json_array_size(disks); i++) {
		int64_t size = whole(json_array_get(disks, i), "size_bytes", 0);

		most = size > most ? size : most;
	}
	return most;
}

void match_node_read(const json_t *r, const struct match_words *w, struct match_node *out)
{
	const json_t *labels = json_object_get(r, "labels"),
		     *network = json_object_get(r, "network");
	struct gpu_group groups[GPUS_MAX];
	int64_t ping_us = whole(network, "ping_us", -1);

	*out = (struct match_node){ .reputation_ppm = -1, .uptime_ppm = ALL_PPM };
	out->country = word(w, MATCH_WORD_PLACE, text(labels, "country"));
	out->region = word(w, MATCH_WORD_PLACE, text(labels, "region"));
	out->compliance = match_compliance_bits(json_object_get(labels, "compliance"));
	out->host_type = host_of(text(labels, "host_type"));
	out->cpu_cores = whole(json_object_get(r, "cpu"), "cores", 0);
	out->memory_bytes = whole(r, "memory_bytes", 0);
	out->disk_bytes = largest_disk(json_object_get(r, "disks"));
	out->ping_us = ping_us ? (ping_us < 0 ? 0 : ping_us) : 1; /* 0 is not known */
	out->tier = tier_rank(pool_tier(whole(network, "down_bps", -1),
		whole(network, "up_bps", -1), ping_us));
	if (!gpus_group(r, groups))
		return;
	out->gpus = (int)groups->count;
	for (int k = 0; k < out->gpus; k++)
		out->places |= (uint64_t)1 << groups->at[k];
	out->gpu_memory_bytes = groups->memory_bytes;
	out->model = word(w, MATCH_WORD_MODEL, groups->model);
}

void match_listing_read(const json_t *r, struct match_node *out)
{
	int part = (int)whole(r, "part_gpus", 0);

	out->part_gpus = part ? part : out->gpus;
	out->cpu_cores = whole(r, "cpu_cores", out->cpu_cores);
	out->memory_bytes = whole(r, "memory_bytes", out->memory_bytes);
	out->disk_bytes = whole(r, "disk_bytes", out->disk_bytes);
	out->spot = json_is_true(json_object_get(r, "spot"));
}

/* --- the words of an index ------------------------------------------------------------------ */

static const char *index_word(void *ctx, enum match_word what, const char *t)
{
	const struct match_index *ix = ctx;
	const char *own = NULL;

	if (what == MATCH_WORD_NODE)
		own = match_index_id(ix, t);
	else if (what != MATCH_WORD_OTHER)
		own = match_index_text(ix, t);
	return own ? own : t;
}

struct match_words match_index_words(const struct match_index *ix, struct arena *arena)
{
	return (struct match_words){ index_word, (void *)(uintptr_t)ix, arena };
}
