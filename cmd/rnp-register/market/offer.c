/* offer.c - a job as the index understands it, and what the index answers as a proposal. */
#include <sodium.h>

#include "cmd/rnp-register/market/money.h"
#include "cmd/rnp-register/market/plan.h"
#include "cmd/rnp-register/market/supply_parts.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/json/json.h"
#include "common/market/wish.h"

/* Whole hours that a job of that length has to book. */
static int64_t hours_of(const struct match_job *j)
{
	return (j->length_ms + MARKET_HOUR_MS - 1) / MARKET_HOUR_MS;
}

/* Reads a job for this market, which sells whole GPUs for whole hours. */
static int read_wish(const struct supply *s, const json_t *job, int64_t now_ms,
	struct arena *lists, struct match_job *j)
{
	struct match_words words = match_index_words(s->ix, lists);
	const json_t *all = json_object_get(job, "max_uusd");

	if (match_wish_read(job, "job", now_ms, &words, j) < 0)
		return -1;
	if (j->milli < MATCH_MILLI)
		return err_set(EX_DATAERR,
			"gpu_share_ppm: nobody sells parts of a GPU here");
	if (j->start_by_ms && j->start_by_ms < now_ms)
		return err_set(EX_DATAERR, "start_by: that is over");
	if (all && json_integer_value(all) / hours_of(j) < j->limit_uusd)
		j->limit_uusd = json_integer_value(all) / hours_of(j);
	return 0;
}

/* --- the answer ------------------------------------------------------------------------------- */

static bool has_image(const struct sale *n, uint64_t image)
{
	for (int i = 0; i < n->nimages; i++)
		if (image && n->images[i] == image)
			return true;
	return false;
}

static json_t *part_json(const struct supply *s, const struct match_part *p,
	uint64_t image, int64_t *uusd_per_hour)
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
	if (n->gpus && n->model)
		json_set_text(part, "gpu_model", n->model);
	if (n->country)
		json_set_text(part, "country", n->country);
	if (has_image(n, image))
		json_set_bool(part, "image_there", true);
	if (n->proven_ms)
		json_set_time(part, "proven_at", n->proven_ms);
	*uusd_per_hour += uusd;
	return part;
}

static json_t *offer_json(const struct supply *s, const struct match_offer *o,
	uint64_t image, int64_t hours)
{
	json_t *offer = json_object(), *nodes = json_array();
	int64_t uusd = 0, all;

	for (size_t i = 0; i < o->nparts; i++)
		json_push(nodes, part_json(s, &o->parts[i], image, &uusd));
	if (money_muldiv(uusd, hours, 1, MONEY_CEIL, &all) < 0) {
		err_clear();
		all = JSON_SAFE_INTEGER_MAX;
	}
	json_set(offer, "nodes", nodes);
	json_set_i64(offer, "uusd_per_hour", uusd);
	json_set_i64(offer, "up_to_uusd", all);
	return offer;
}

/* A limit in all is relaxed where the job has one. */
static json_t *nearest_json(const struct match_nearest *n, const json_t *job,
	int64_t hours)
{
	json_t *nearest = json_object();
	bool in_all = n->reason == MATCH_IS_DEAR && json_object_get(job, "max_uusd") &&
		!json_object_get(job, "max_uusd_per_hour");

	json_set_text(nearest, "wish", in_all ? "max_uusd" : n->wish);
	if (n->text)
		json_set_text(nearest, "to", n->text);
	else if (n->reason == MATCH_LACKS_FIRMNESS)
		json_set_bool(nearest, "to", true);
	else if (in_all && n->value <= JSON_SAFE_INTEGER_MAX / hours)
		json_set_i64(nearest, "to", n->value * hours);
	else if (n->value >= 0)
		json_set_i64(nearest, "to", n->value);
	json_set_i64(nearest, "nodes", (int64_t)n->nodes);
	return nearest;
}

/* How many of an offer's nodes have the image. */
static size_t images_there(const json_t *offer)
{
	const json_t *nodes = json_object_get(offer, "nodes"), *node;
	size_t i, n = 0;

	json_array_foreach((json_t *)nodes, i, node)
		n += json_is_true(json_object_get(node, "image_there"));
	return n;
}

/* Appends an offer, before those that cost the same and have the image on fewer nodes: they begin
 * later. */
static void add_offer(json_t *offers, json_t *offer)
{
	size_t at = json_array_size(offers);

	for (; at > 0; at--) {
		const json_t *before = json_array_get(offers, at - 1);

		if (!json_equal(json_object_get(before, "uusd_per_hour"),
			    json_object_get(offer, "uusd_per_hour")) ||
			images_there(before) >= images_there(offer))
			break;
	}
	json_array_insert_new(offers, at, offer);
}

static void write_answer(const struct supply *s, const struct match_answer *a,
	const json_t *job, int64_t hours, json_t *proposal)
{
	json_t *offers = json_array(), *spares = json_array(), *left_out = json_object();
	uint64_t image = supply_image(
		json_string_value(json_object_get(proposal, "image")));
	int64_t unused = 0;

	for (size_t i = 0; i < a->noffers; i++)
		add_offer(offers, offer_json(s, &a->offers[i], image, hours));
	for (size_t i = 0; i < a->nspares; i++)
		json_push(spares, part_json(s, &a->spares[i], image, &unused));
	for (int i = 0; i < MATCH_REASONS; i++)
		if (a->left_out[i])
			json_set_i64(left_out, match_reason_names[i],
				(int64_t)a->left_out[i]);
	json_set(proposal, "offers", offers);
	json_set(proposal, "spares", spares);
	json_set(proposal, "left_out", left_out);
	if (!a->noffers && a->nearest.any)
		json_set(proposal, "nearest", nearest_json(&a->nearest, job, hours));
}

int supply_propose(struct supply *s, const json_t *job, int64_t now_ms, json_t *proposal)
{
	struct arena lists = ARENA_INIT;
	struct match_answer answer;
	struct match_job j;
	int rc;

	pthread_rwlock_rdlock(&s->lock);
	rc = read_wish(s, job, now_ms, &lists, &j);
	if (rc == 0) {
		match_index_ask(s->ix, &j, PLAN_OFFERS_MAX, PLAN_SPARES_MAX, &answer);
		write_answer(s, &answer, job, hours_of(&j), proposal);
		match_answer_release(&answer);
	}
	pthread_rwlock_unlock(&s->lock);
	arena_release(&lists);
	return rc;
}
