/* offer.c - a job as the index understands it, and what the index answers as a proposal. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/market/money.h"
#include "cmd/rnp-register/market/plan.h"
#include "cmd/rnp-register/market/supply_parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/json/json.h"
#include "common/record/gpu.h"
#include "common/record/pool.h"

/* --- the wish --------------------------------------------------------------------------------- */

/* The index has one pointer for each text; of one that no node has this is another. */
static const char nobodys[] = "";

static const char *const compliances[] = { "SOC2", "HIPAA", "GDPR",
	"confidential-computing" };

uint32_t supply_compliance_bit(const char *name)
{
	for (size_t i = 0; name && i < sizeof compliances / sizeof *compliances; i++)
		if (strcmp(name, compliances[i]) == 0)
			return UINT32_C(1) << i;
	return 0;
}

static const char *text_of(const json_t *r, const char *key)
{
	return json_string_value(json_object_get(r, key));
}

static int64_t whole_of(const json_t *r, const char *key, int64_t absent)
{
	const json_t *v = json_object_get(r, key);

	return v ? (int64_t)json_integer_value(v) : absent;
}

static const char *known_text(const struct supply *s, const char *text)
{
	const char *known = match_index_text(s->ix, text);

	return known ? known : nobodys;
}

static void add_model(const struct supply *s, struct match_job *j, const char *name)
{
	const struct gpu_model *m = gpu_find(name, 0);

	j->models[j->nmodels++] = known_text(s, m ? m->name : name);
}

static int read_models(const struct supply *s, const json_t *job, struct match_job *j)
{
	const json_t *list = json_object_get(job, "gpu_models"), *one;
	size_t i;

	if (text_of(job, "gpu_model") && list)
		return err_set(EX_DATAERR, "gpu_model and gpu_models: one of them");
	if (text_of(job, "gpu_model"))
		add_model(s, j, text_of(job, "gpu_model"));
	json_array_foreach(list, i, one)
		add_model(s, j, json_string_value(one));
	return 0;
}

/* Places with shares are all there; without, any of them will do. */
static int read_places(const struct supply *s, const json_t *job, struct match_job *j)
{
	const json_t *list = json_object_get(job, "places"), *regions, *one;
	int64_t all_ppm = 0;
	size_t i, shares = 0;

	regions = json_object_get(job, "regions");
	if (!!list + !!regions + !!text_of(job, "region") > 1)
		return err_set(EX_DATAERR, "region, regions and places: one of them");
	if (text_of(job, "region"))
		j->places[j->nplaces++] = known_text(s, text_of(job, "region"));
	json_array_foreach(regions, i, one)
		j->places[j->nplaces++] = known_text(s, json_string_value(one));
	json_array_foreach(list, i, one) {
		const char *country = text_of(one, "country"),
			   *region = text_of(one, "region");

		all_ppm += whole_of(one, "share_ppm", 0);
		shares += json_object_get(one, "share_ppm") != NULL;
		if (!country && !region)
			return err_set(EX_DATAERR, "places[%zu]: no country, no region",
				i);
		j->shares[i] = (struct match_place){ .country = country ?
				known_text(s, country) :
				NULL,
			.region = region ? known_text(s, region) : NULL,
			.share_ppm = whole_of(one, "share_ppm", 0) };
		j->places[i] = known_text(s, region ? region : country);
	}
	if (shares && (shares != json_array_size(list) || all_ppm != MONEY_PPM))
		return err_set(EX_DATAERR,
			"places: share_ppm of all, and together 1000000");
	j->nshares = (int)shares;
	if (list)
		j->nplaces = shares ? 0 : (int)json_array_size(list);
	return 0;
}

static int read_size(const json_t *job, struct match_job *j)
{
	int64_t nodes = whole_of(job, "nodes", 0), gpus = whole_of(job, "gpu_count", 1);

	if (json_object_get(job, "gpu_share_ppm"))
		return err_set(EX_DATAERR,
			"gpu_share_ppm: nobody sells parts of a GPU here");
	if (json_object_get(job, "hours") && json_object_get(job, "seconds"))
		return err_set(EX_DATAERR, "hours and seconds: one of them");
	if (nodes && gpus % nodes)
		return err_set(EX_DATAERR, "nodes: %lld GPUs are not in %lld equal parts",
			(long long)gpus, (long long)nodes);
	j->gpus = (int)gpus;
	j->milli = MATCH_MILLI;
	j->nodes_min = nodes ? (int)nodes : 1;
	j->nodes_max = nodes ? (int)nodes : (int)whole_of(job, "nodes_max", 1);
	j->length_ms = json_object_get(job, "seconds") ?
		whole_of(job, "seconds", 0) * 1000 :
		whole_of(job, "hours", 1) * MARKET_HOUR_MS;
	return 0;
}

/* Whole hours that a job of that length has to book. */
static int64_t hours_of(const struct match_job *j)
{
	return (j->length_ms + MARKET_HOUR_MS - 1) / MARKET_HOUR_MS;
}

static void read_limits(const json_t *job, struct match_job *j)
{
	int64_t all = whole_of(job, "max_uusd", -1);
	const struct pool_tier *tier = pool_tier_find(
		text_of(job, "tier") ? text_of(job, "tier") : "unknown");
	const char *host = text_of(job, "host_type");
	const json_t *one;
	size_t i;

	j->limit_uusd = whole_of(job, "max_uusd_per_hour", MATCH_NO_LIMIT);
	if (all >= 0 && all / hours_of(j) < j->limit_uusd)
		j->limit_uusd = all / hours_of(j);
	j->gpu_memory_bytes = whole_of(job, "gpu_memory_bytes", 0);
	j->memory_bytes = whole_of(job, "memory_bytes", 0);
	j->disk_bytes = whole_of(job, "disk_bytes", 0);
	j->cpu_cores = whole_of(job, "cpu_cores", 0);
	j->ping_us = whole_of(job, "ping_us", 0);
	j->reputation_ppm = whole_of(job, "reputation_ppm", 0);
	j->spot = json_is_true(json_object_get(job, "spot"));
	j->tier = tier && tier->min_bps >= 0 ? (int)(pool_tier_find("none") - tier) + 1 :
					       0;
	for (int k = 1; host && k < MATCH_HOSTS; k++)
		if (strcmp(host, match_host_names[k]) == 0)
			j->host_type = (enum match_host)k;
	json_array_foreach(json_object_get(job, "compliance"), i, one)
		j->compliance |= supply_compliance_bit(json_string_value(one));
}

/* Returns the excluded nodes that are for sale, sorted as the index wants them; the caller frees
 * them. */
static const char **read_excluded(const struct supply *s, const json_t *job,
	struct match_job *j)
{
	const json_t *list = json_object_get(job, "exclude"), *one;
	const char **ids = xcalloc(json_array_size(list) + 1, sizeof *ids);
	size_t i;

	json_array_foreach(list, i, one) {
		const char *id = match_index_id(s->ix, json_string_value(one));

		if (id)
			ids[j->nexclude++] = id;
	}
	match_sort_ids(ids, j->nexclude);
	j->exclude = ids;
	return ids;
}

/* --- the answer ------------------------------------------------------------------------------- */

static json_t *part_json(const struct supply *s, const struct match_part *p,
	int64_t *uusd_per_hour)
{
	const struct match_node *m = match_index_at(s->ix, p->node);
	const struct sale *n = supply_find(s, m->id);
	json_t *part = json_object(), *gpus = json_array();
	char quote[2 * SHA256_BYTES + 1];
	int64_t uusd = sale_customer_uusd(n, p->gpus);

	if (!n->gpus)
		uusd = n->customer_uusd;
	for (int i = 0; i < p->gpus && n->gpus; i++)
		json_push_text(gpus, sale_uuid(n, match_place_of(m, p->gpu[i])));
	sodium_bin2hex(quote, sizeof quote, n->quote, sizeof n->quote);
	json_set_text(part, "node", n->node);
	if (n->gpus)
		json_set(part, "gpus", gpus);
	else
		json_decref(gpus);
	json_set_text(part, "quote", quote);
	json_set_i64(part, "uusd_per_hour", uusd);
	json_set_i64(part, "node_uusd_per_hour",
		n->gpus ? sale_node_uusd(n, p->gpus) : n->ask_uusd);
	if (n->proven_ms)
		json_set_time(part, "proven_at", n->proven_ms);
	*uusd_per_hour += uusd;
	return part;
}

static json_t *offer_json(const struct supply *s, const struct match_offer *o,
	int64_t hours)
{
	json_t *offer = json_object(), *nodes = json_array();
	int64_t uusd = 0, all;

	for (size_t i = 0; i < o->nparts; i++)
		json_push(nodes, part_json(s, &o->parts[i], &uusd));
	if (money_muldiv(uusd, hours, 1, MONEY_CEIL, &all) < 0) {
		err_clear();
		all = JSON_SAFE_INTEGER_MAX;
	}
	json_set(offer, "nodes", nodes);
	json_set_i64(offer, "uusd_per_hour", uusd);
	json_set_i64(offer, "up_to_uusd", all);
	return offer;
}

static json_t *nearest_json(const struct match_nearest *n)
{
	json_t *nearest = json_object();

	json_set_text(nearest, "wish", n->wish);
	if (n->text)
		json_set_text(nearest, "to", n->text);
	else if (n->value >= 0)
		json_set_i64(nearest, "to", n->value);
	json_set_i64(nearest, "nodes", (int64_t)n->nodes);
	return nearest;
}

static void write_answer(const struct supply *s, const struct match_answer *a,
	int64_t hours, json_t *proposal)
{
	json_t *offers = json_array(), *spares = json_array(), *left_out = json_object();
	int64_t unused = 0;

	for (size_t i = 0; i < a->noffers; i++)
		json_push(offers, offer_json(s, &a->offers[i], hours));
	for (size_t i = 0; i < a->nspares; i++)
		json_push(spares, part_json(s, &a->spares[i], &unused));
	for (int i = 0; i < MATCH_REASONS; i++)
		if (a->left_out[i])
			json_set_i64(left_out, match_reason_names[i],
				(int64_t)a->left_out[i]);
	json_set(proposal, "offers", offers);
	json_set(proposal, "spares", spares);
	json_set(proposal, "left_out", left_out);
	if (!a->noffers && a->nearest.any)
		json_set(proposal, "nearest", nearest_json(&a->nearest));
}

int supply_propose(struct supply *s, const json_t *job, int64_t now_ms, json_t *proposal)
{
	struct match_job j = { .id = "job", .at_ms = now_ms };
	struct match_answer answer = { 0 };
	const char **excluded = NULL;
	int rc;

	if (read_size(job, &j) < 0)
		return -1;
	read_limits(job, &j);
	pthread_rwlock_rdlock(&s->lock);
	rc = read_models(s, job, &j) < 0 || read_places(s, job, &j) < 0 ? -1 : 0;
	if (rc == 0) {
		excluded = read_excluded(s, job, &j);
		match_index_ask(s->ix, &j, PLAN_OFFERS_MAX, PLAN_SPARES_MAX, &answer);
		write_answer(s, &answer, hours_of(&j), proposal);
		match_answer_release(&answer);
	}
	pthread_rwlock_unlock(&s->lock);
	free(excluded);
	return rc;
}
