/* supply.c - what is for sale: an entry a node, which is in the index while all that it takes is
 * there: a record, a price, a listing, heartbeats. */
#include "cmd/rnp-register/market/supply.h"

#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cmd/rnp-register/market/money.h"
#include "cmd/rnp-register/market/supply_parts.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/mem.h"
#include "common/base/money.h"
#include "common/json/json.h"
#include "common/market/wish.h"
#include "common/record/gpus.h"
#include "common/record/pool.h"

#define DAY_MS INT64_C(86400000)

/* --- entries ---------------------------------------------------------------------------------- */

static bool is_node(const void *sales, uint32_t i, const void *node)
{
	return strcmp(((const struct sale *)sales)[i].node, node) == 0;
}

static uint32_t hash_of(const char *node)
{
	uint64_t h = fnv1a_text(hash_seed(), node);

	return (uint32_t)((h ^ (h >> 32)) * 0x9e3779b97f4a7c15u >> 32);
}

const struct sale *supply_find(const struct supply *s, const char *node)
{
	uint32_t i = node ?
		hash_index_find(&s->by_node, hash_of(node), is_node, s->sales, node) :
		UINT32_MAX;

	return i == UINT32_MAX ? NULL : &s->sales[i];
}

struct sale *supply_entry(struct supply *s, const char *node)
{
	uint32_t hash = hash_of(node);
	uint64_t *slot;

	hash_index_reserve(&s->by_node);
	slot = hash_index_slot(&s->by_node, hash, is_node, s->sales, node);
	if (*slot)
		return &s->sales[(uint32_t)*slot - 1];
	s->sales = xgrow(s->sales, &s->cap, s->n + 1, sizeof *s->sales);
	memset(&s->sales[s->n], 0, sizeof *s->sales);
	snprintf(s->sales[s->n].node, KEY_ADDRESS_MAX, "%s", node);
	hash_index_set(&s->by_node, slot, hash, s->n);
	return &s->sales[s->n++];
}

static void forget_record(struct sale *n)
{
	for (int i = 0; n->uuids && i < n->gpus; i++)
		free(n->uuids[i]);
	free(n->uuids);
	free(n->model);
	free(n->country);
	free(n->region);
	n->uuids = NULL;
	n->model = n->country = n->region = NULL;
	n->gpus = 0;
	n->places = 0;
	n->nameless = false;
}

struct supply *supply_new(void)
{
	struct supply *s = xcalloc(1, sizeof *s);

	pthread_rwlock_init(&s->lock, NULL);
	s->ix = match_index_new();
	s->started_ms = clock_now_ms();
	return s;
}

void supply_free(struct supply *s)
{
	if (!s)
		return;
	for (size_t i = 0; i < s->n; i++)
		forget_record(&s->sales[i]), free(s->sales[i].images);
	free(s->sales);
	hash_index_release(&s->by_node);
	match_index_free(s->ix);
	pthread_rwlock_destroy(&s->lock);
	free(s);
}

/* --- prices and presence ---------------------------------------------------------------------- */

int64_t sale_customer_uusd(const struct sale *n, int gpus)
{
	return market_part_ceil(n->customer_uusd, gpus, n->gpus);
}

int64_t sale_node_uusd(const struct sale *n, int gpus)
{
	return market_part_floor(n->ask_uusd, gpus, n->gpus);
}

static bool is_left_out(const struct sale *n, int64_t now_ms)
{
	return n->failed_ms[0] && n->failed_ms[0] > now_ms - DAY_MS;
}

/* Why a node is not for sale, for its operator; NULL: it is. */
static const char *why_not(const struct sale *n, int64_t now_ms)
{
	if (!n->known)
		return "it is not registered";
	if (!n->listed_until_ms)
		return "it has not said what it sells: its agent (rnp-work.service) does";
	if (n->listed_until_ms <= now_ms)
		return "its agent (rnp-work.service) has ended, or cannot reach the registry";
	if (!n->quote_at_ms)
		return "it has told no price: rnp-register setup --sell --price USD does";
	if (n->customer_uusd < n->ask_uusd || n->customer_uusd > MARKET_UUSD_MAX)
		return "its quote pays it more than its customer pays, or has no price that one can pay";
	if (n->priced && !(n->model && strcmp(n->priced, n->model) == 0))
		return "its price is for GPUs of another model than it has";
	if (n->nameless)
		return "a GPU of its record has no uuid, by which it would be leased";
	if (n->away)
		return "its heartbeats say that it does something else";
	if (!n->received_ms || sale_is_silent(n, 0, now_ms))
		return "its heartbeats do not come";
	if (now_ms < n->disputed_until_ms)
		return "another node has proven a GPU that it claims";
	if (is_left_out(n, now_ms))
		return "three customers' starts on it failed within a day: it is left out for a day";
	return NULL;
}

static bool is_for_sale(const struct sale *n, int64_t now_ms)
{
	return !why_not(n, now_ms);
}

static void put(struct supply *s, struct sale *n)
{
	struct match_node m = { .id = n->node,
		.model = n->model,
		.country = n->country,
		.region = n->region,
		.gpu_memory_bytes = n->gpu_memory_bytes,
		.memory_bytes = n->memory_bytes,
		.disk_bytes = n->disk_bytes,
		.cpu_cores = n->cpu_cores,
		.ping_us = n->ping_us,
		.all_uusd = n->customer_uusd,
		.reputation_ppm = -1,
		.uptime_ppm = MONEY_PPM,
		.compliance = n->compliance,
		.tier = n->tier,
		.host_type = n->host_type,
		.spot = n->spot,
		.gpus = n->gpus,
		.part_gpus = n->part_gpus ? n->part_gpus : n->gpus,
		.places = n->places };

	n->indexed = match_index_put(s->ix, &m) == 0;
	if (!n->indexed)
		err_clear();
	if (n->indexed && n->leased)
		match_index_lease(s->ix, n->node, n->leased);
}

/* Puts a node into the index, or takes it out, as what is known of it says. */
static void refresh(struct supply *s, struct sale *n, int64_t now_ms)
{
	bool was = n->indexed;

	if (was)
		match_index_remove(s->ix, n->node);
	n->indexed = false;
	if (is_for_sale(n, now_ms))
		put(s, n);
}

/* --- what came in ----------------------------------------------------------------------------- */

static const char *text_of(const json_t *r, const char *key)
{
	return json_string_value(json_object_get(r, key));
}

static int64_t whole_of(const json_t *r, const char *key)
{
	return json_integer_value(json_object_get(r, key));
}

static char *copy_of(const char *text)
{
	return text ? xstrdup(text) : NULL;
}

static char *lower_of(const char *text)
{
	char *copy = xstrdup(text);

	for (char *c = copy; *c; c++)
		if (*c >= 'A' && *c <= 'Z')
			*c = (char)(*c + 'a' - 'A');
	return copy;
}

static void read_gpus(struct sale *n, const json_t *record)
{
	struct gpu_group groups[GPUS_MAX];

	if (!gpus_group(record, groups)) {
		/* GPUs without a model cannot be sold, and neither can the rest beside them */
		n->nameless = json_array_size(json_object_get(record, "gpus")) > 0;
		return;
	}
	n->gpus = (int)groups->count;
	n->model = xstrdup(groups->model);
	n->gpu_memory_bytes = groups->memory_bytes;
	n->uuids = xcalloc((size_t)n->gpus, sizeof *n->uuids);
	for (int i = 0; i < n->gpus; i++) {
		const char *uuid = text_of(json_array_get(groups->gpus,
						   (size_t)groups->at[i]),
			"uuid");

		n->nameless = n->nameless || !uuid;
		n->uuids[i] = lower_of(uuid ? uuid : "");
		n->places |= UINT64_C(1) << groups->at[i];
	}
}

static void read_record(struct sale *n, const json_t *record)
{
	const json_t *labels = json_object_get(record, "labels");
	const char *host = text_of(labels, "host_type");
	struct pool pool;

	forget_record(n);
	n->known = true;
	read_gpus(n, record);
	pool_of_node(record, &pool);
	/* the index counts from the slowest, and 0 is unknown */
	n->tier = pool.tier->min_bps < 0 ? 0 :
					   (int)(pool_tier_find("none") - pool.tier) + 1;
	n->country = copy_of(text_of(labels, "country"));
	n->region = copy_of(text_of(labels, "region"));
	n->compliance = match_compliance_bits(json_object_get(labels, "compliance"));
	n->ping_us = whole_of(json_object_get(record, "network"), "ping_us");
	n->host_type = MATCH_HOST_UNKNOWN;
	for (int i = 1; host && i < MATCH_HOSTS; i++)
		if (strcmp(host, match_host_names[i]) == 0)
			n->host_type = (enum match_host)i;
}

void supply_node(struct supply *s, const json_t *record)
{
	const char *node = text_of(record, "node");
	struct sale *n;

	if (!node)
		return;
	pthread_rwlock_wrlock(&s->lock);
	n = supply_entry(s, node);
	read_record(n, record);
	n->proven_ms = n->disputed_until_ms = 0;
	refresh(s, n, clock_now_ms());
	pthread_rwlock_unlock(&s->lock);
}

void supply_quote(struct supply *s, const json_t *record, const char *sha256)
{
	const char *node = text_of(record, "node");
	const char *model = text_of(json_object_get(record, "spec"), "gpu_model");
	const struct gpu_model *known = model ? gpu_find(model, 0) : NULL;
	int64_t at_ms = clock_now_ms();
	struct sale *n;

	if (!node)
		return;
	if (json_opt_time(record, "quote", "at", &at_ms) < 0)
		err_clear();
	pthread_rwlock_wrlock(&s->lock);
	n = supply_entry(s, node);
	if (at_ms >= n->quote_at_ms &&
		sodium_hex2bin(n->quote, sizeof n->quote, sha256, strlen(sha256), NULL,
			NULL, NULL) == 0) {
		n->quote_at_ms = at_ms;
		n->customer_uusd = whole_of(record, "customer_uusd");
		n->ask_uusd = whole_of(record, "ask_uusd");
		n->priced = known ? known->name : NULL;
		refresh(s, n, clock_now_ms());
	}
	pthread_rwlock_unlock(&s->lock);
}

uint64_t supply_image(const char *text)
{
	static const char prefix[] = "sha256:";
	const char *hex = text ? strstr(text, prefix) : NULL;
	char first[17];

	snprintf(first, sizeof first, "%s", hex ? hex + sizeof prefix - 1 : "");
	return strtoull(first, NULL, 16);
}

static void take_images(struct sale *n, const json_t *images)
{
	size_t i;
	json_t *image;

	free(n->images);
	n->nimages = 0;
	n->images = xcalloc(json_array_size(images) + 1, sizeof *n->images);
	json_array_foreach((json_t *)images, i, image)
		if (json_is_string(image))
			n->images[n->nimages++] = supply_image(json_string_value(image));
}

void supply_listing(struct supply *s, const json_t *record)
{
	const char *node = text_of(record, "node");
	int64_t until_ms = 0;
	struct sale *n;

	if (!node || json_opt_time(record, "listing", "until", &until_ms) < 0) {
		err_clear();
		return;
	}
	pthread_rwlock_wrlock(&s->lock);
	n = supply_entry(s, node);
	n->listed_until_ms = until_ms;
	n->max_hours = whole_of(record, "max_hours");
	n->cpu_cores = whole_of(record, "cpu_cores");
	n->memory_bytes = whole_of(record, "memory_bytes");
	n->disk_bytes = whole_of(record, "disk_bytes");
	n->part_gpus = (int)whole_of(record, "part_gpus");
	n->spot = json_is_true(json_object_get(record, "spot"));
	take_images(n, json_object_get(record, "images"));
	refresh(s, n, clock_now_ms());
	pthread_rwlock_unlock(&s->lock);
}

json_t *supply_sale(struct supply *s, const char *node, int64_t now_ms)
{
	json_t *sale = NULL;
	const struct sale *n;
	const char *why;

	pthread_rwlock_rdlock(&s->lock);
	n = supply_find(s, node);
	if (n && n->listed_until_ms) {
		why = why_not(n, now_ms);
		sale = json_object();
		json_set_bool(sale, "for_sale", !why);
		json_set_text(sale, "why", why);
		if (n->quote_at_ms)
			json_set_i64(sale, "price_uusd", n->ask_uusd);
	}
	pthread_rwlock_unlock(&s->lock);
	return sale;
}

void supply_proven(struct supply *s, const char *node, int64_t at_ms)
{
	struct sale *n;

	pthread_rwlock_wrlock(&s->lock);
	n = supply_entry(s, node);
	if (at_ms > n->proven_ms)
		n->proven_ms = at_ms;
	n->to_prove = false;
	pthread_rwlock_unlock(&s->lock);
}

void supply_to_prove(struct supply *s, const char *node)
{
	pthread_rwlock_wrlock(&s->lock);
	supply_entry(s, node)->to_prove = true;
	pthread_rwlock_unlock(&s->lock);
}

void supply_dispute(struct supply *s, const char *node, int64_t until_ms)
{
	struct sale *n;

	pthread_rwlock_wrlock(&s->lock);
	n = supply_entry(s, node);
	if (n->disputed_until_ms != until_ms) {
		n->disputed_until_ms = until_ms;
		refresh(s, n, clock_now_ms());
	}
	pthread_rwlock_unlock(&s->lock);
}

void supply_beat(struct supply *s, const char *node, int64_t received_ms,
	int64_t interval_ms, bool away)
{
	struct sale *n;

	pthread_rwlock_wrlock(&s->lock);
	n = supply_entry(s, node);
	n->received_ms = received_ms;
	n->interval_ms = interval_ms;
	if (n->away != away || !n->indexed) {
		n->away = away;
		refresh(s, n, received_ms);
	}
	pthread_rwlock_unlock(&s->lock);
}

/* Whether a failure for that customer counts already. */
static bool has_failed_for(const struct sale *n, uint64_t customer, int64_t now_ms)
{
	for (int i = 0; i < SALE_FAILS_MAX; i++)
		if (n->failed_ms[i] > now_ms - DAY_MS && n->failed_for[i] == customer)
			return true;
	return false;
}

void supply_failed(struct supply *s, const char *node, const char *customer,
	int64_t now_ms)
{
	uint64_t hash = fnv1a_text(hash_seed(), customer);
	struct sale *n;

	pthread_rwlock_wrlock(&s->lock);
	n = supply_entry(s, node);
	if (!has_failed_for(n, hash, now_ms)) {
		for (int i = 1; i < SALE_FAILS_MAX; i++) {
			n->failed_ms[i - 1] = n->failed_ms[i];
			n->failed_for[i - 1] = n->failed_for[i];
		}
		n->failed_ms[SALE_FAILS_MAX - 1] = now_ms;
		n->failed_for[SALE_FAILS_MAX - 1] = hash;
		refresh(s, n, now_ms);
	}
	pthread_rwlock_unlock(&s->lock);
}

void supply_sweep(struct supply *s, int64_t now_ms)
{
	pthread_rwlock_wrlock(&s->lock);
	for (size_t i = 0; i < s->n; i++)
		if (s->sales[i].indexed != is_for_sale(&s->sales[i], now_ms))
			refresh(s, &s->sales[i], now_ms);
	pthread_rwlock_unlock(&s->lock);
}

/* --- leases ----------------------------------------------------------------------------------- */

const char *sale_uuid(const struct sale *n, int place)
{
	uint64_t below = n->places & ((UINT64_C(1) << place) - 1);

	return n->uuids[__builtin_popcountll(below)];
}

/* Returns the places of these GPUs, a bit for each; 0: one is not the node's, or not for sale. */
static uint64_t places_of(const struct sale *n, const json_t *gpus)
{
	uint64_t bits = 0;
	const json_t *one;
	size_t i;

	if (!n->gpus)
		return json_array_size(gpus) ? 0 : 1;
	json_array_foreach(gpus, i, one) {
		uint64_t bit = 0;

		for (int k = 0; k < MATCH_GPUS_MAX && !bit; k++)
			if ((n->places >> k & 1) &&
				strcasecmp(sale_uuid(n, k), json_string_value(one)) == 0)
				bit = UINT64_C(1) << k;
		if (!bit)
			return 0;
		bits |= bit;
	}
	return bits;
}

void supply_lease(struct supply *s, const char *node, const json_t *gpus, bool leased)
{
	struct sale *n;
	uint64_t bits;

	pthread_rwlock_wrlock(&s->lock);
	n = supply_entry(s, node);
	bits = places_of(n, gpus);
	n->leased = leased ? n->leased | bits : n->leased & ~bits;
	n->to_prove = n->to_prove && n->leased;
	refresh(s, n, clock_now_ms());
	pthread_rwlock_unlock(&s->lock);
}

bool supply_is_spared(struct supply *s, const char *node)
{
	const struct sale *n;
	bool is;

	pthread_rwlock_rdlock(&s->lock);
	n = supply_find(s, node);
	is = n && n->leased && !n->to_prove;
	pthread_rwlock_unlock(&s->lock);
	return is;
}

int64_t supply_proven_ms(struct supply *s, const char *node)
{
	const struct sale *n;
	int64_t ms;

	pthread_rwlock_rdlock(&s->lock);
	n = supply_find(s, node);
	ms = n ? n->proven_ms : 0;
	pthread_rwlock_unlock(&s->lock);
	return ms;
}

int64_t supply_count(struct supply *s)
{
	int64_t count;

	pthread_rwlock_rdlock(&s->lock);
	count = (int64_t)match_index_count(s->ix);
	pthread_rwlock_unlock(&s->lock);
	return count;
}

/* --- bookings --------------------------------------------------------------------------------- */

static int say(char why[SUPPLY_WHY_MAX], int rc, const char *node, const char *text)
{
	snprintf(why, SUPPLY_WHY_MAX, "node %s: %s", node, text);
	return rc;
}

static int check(const struct sale *n, const char *node, const json_t *part,
	int64_t hours, int64_t now_ms, char why[SUPPLY_WHY_MAX])
{
	const json_t *gpus = json_object_get(part, "gpus");
	uint64_t bits = n ? places_of(n, gpus) : 0;

	if (!n || !is_for_sale(n, now_ms))
		return say(why, 1, node, "is not for sale any more");
	if (!bits)
		return say(why, 1, node, "has not these devices any more");
	if (bits & n->leased)
		return say(why, 1, node, "a device is let already");
	if (n->max_hours && hours > n->max_hours)
		return say(why, 1, node, "is not let for so long");
	if (sale_customer_uusd(n, __builtin_popcountll(bits)) >
			whole_of(part, "uusd_per_hour") ||
		sale_node_uusd(n, __builtin_popcountll(bits)) >
			whole_of(part, "node_uusd_per_hour"))
		return say(why, 2, node, "asks more by now");
	return 0;
}

int supply_check(struct supply *s, const json_t *part, int64_t hours, int64_t now_ms,
	char why[SUPPLY_WHY_MAX])
{
	const char *node = text_of(part, "node");
	int rc;

	pthread_rwlock_rdlock(&s->lock);
	rc = check(supply_find(s, node), node, part, hours, now_ms, why);
	pthread_rwlock_unlock(&s->lock);
	return rc;
}
