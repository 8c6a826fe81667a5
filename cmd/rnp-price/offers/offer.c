/* offer.c - stores offers, and reads and writes them as records. */
#include "cmd/rnp-price/offers/offer.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/clock.h"
#include "common/base/fnv.h"
#include "common/json/json.h"
#include "common/json/schema.h"
#include "common/record/gpu.h"

void offer_init(struct offer *o)
{
	memset(o, 0, sizeof *o);
	o->gpu_count = 1;
	o->rentable = o->rented = o->verified = o->secure = OFFER_UNKNOWN;
	o->at_ms = o->gpu_memory_bytes = o->cpu_cores = o->memory_bytes = OFFER_UNKNOWN;
	o->down_bps = o->up_bps = o->reliability_ppm = OFFER_UNKNOWN;
}

void offer_list_release(struct offer_list *l)
{
	free(l->items);
	arena_release(&l->texts);
	memset(l, 0, sizeof *l);
}

static const char *copy_text(struct offer_list *l, const char *text)
{
	return text ? arena_strdup(&l->texts, text) : NULL;
}

/* Copies a text as copy_text does, but shares it with the previous offer if that has the same. */
static const char *copy_shared(struct offer_list *l, const char *text, const char *before)
{
	return text && before && strcmp(text, before) == 0 ? before : copy_text(l, text);
}

void offer_list_add(struct offer_list *l, const struct offer *o)
{
	struct offer *to, before = { 0 };

	if (l->n)
		before = l->items[l->n - 1];
	l->items = xgrow(l->items, &l->cap, l->n + 1, sizeof *l->items);
	to = &l->items[l->n++];
	*to = *o;
	to->market = copy_shared(l, o->market, before.market);
	to->id = copy_text(l, o->id);
	to->model = o->gpu ? o->gpu->name : copy_text(l, o->model);
	to->name = copy_text(l, o->name);
	to->country = copy_shared(l, o->country, before.country);
	to->region = copy_shared(l, o->region, before.region);
	to->machine = copy_text(l, o->machine);
	to->host = copy_text(l, o->host);
}

/* --- records ------------------------------------------------------------------------------ */

static void set_known(json_t *r, const char *key, int64_t v)
{
	if (v >= 0)
		json_set_i64(r, key, v);
}

static void set_flag(json_t *r, const char *key, int v)
{
	if (v >= 0)
		json_set_bool(r, key, v);
}

json_t *offer_to_json(const struct offer *o)
{
	json_t *r = json_record("rnp.offer");

	json_set_text(r, "market", o->market);
	json_set_text(r, "offer_id", o->id);
	if (o->at_ms >= 0)
		json_set_time(r, "at", o->at_ms);
	json_set_text(r, "gpu_model", o->model);
	json_set_text(r, "gpu_name", o->name);
	json_set_i64(r, "gpu_count", o->gpu_count);
	if (o->gpu_share_ppm)
		json_set_i64(r, "gpu_share_ppm", o->gpu_share_ppm);
	set_known(r, "gpu_memory_bytes", o->gpu_memory_bytes);
	json_set_i64(r, "uusd_per_gpu_hour", o->uusd_per_gpu_hour);
	json_set_bool(r, "spot", o->spot);
	set_known(r, "cpu_cores", o->cpu_cores);
	set_known(r, "memory_bytes", o->memory_bytes);
	set_known(r, "down_bps", o->down_bps);
	set_known(r, "up_bps", o->up_bps);
	set_known(r, "reliability_ppm", o->reliability_ppm);
	json_set_text(r, "country", o->country);
	json_set_text(r, "region", o->region);
	set_flag(r, "rentable", o->rentable);
	set_flag(r, "rented", o->rented);
	set_flag(r, "verified", o->verified);
	set_flag(r, "secure", o->secure);
	json_set_text(r, "machine", o->machine);
	json_set_text(r, "host", o->host);
	if (o->own)
		json_set_bool(r, "own", true);
	return r;
}

/* --- the same as text --------------------------------------------------------------------- */

static void add_text(struct buf *out, const char *key, const char *text)
{
	if (!text)
		return;
	buf_adds(out, key);
	json_write_text(out, text);
}

static void add_i64(struct buf *out, const char *key, int64_t v)
{
	if (v < 0)
		return;
	buf_adds(out, key);
	json_write_i64(out, v);
}

static void add_flag(struct buf *out, const char *key, int v)
{
	if (v < 0)
		return;
	buf_adds(out, key);
	buf_adds(out, v ? "true" : "false");
}

void offer_write(struct buf *out, const struct offer *o)
{
	char at[CLOCK_TEXT_MAX];

	buf_adds(out, "{\"kind\":\"rnp.offer\",\"v\":1");
	add_text(out, ",\"market\":", o->market);
	add_text(out, ",\"offer_id\":", o->id);
	if (o->at_ms >= 0) {
		clock_format(at, o->at_ms);
		add_text(out, ",\"at\":", at);
	}
	add_text(out, ",\"gpu_model\":", o->model);
	add_text(out, ",\"gpu_name\":", o->name);
	add_i64(out, ",\"gpu_count\":", o->gpu_count);
	if (o->gpu_share_ppm)
		add_i64(out, ",\"gpu_share_ppm\":", o->gpu_share_ppm);
	add_i64(out, ",\"gpu_memory_bytes\":", o->gpu_memory_bytes);
	add_i64(out, ",\"uusd_per_gpu_hour\":", o->uusd_per_gpu_hour);
	add_flag(out, ",\"spot\":", o->spot);
	add_i64(out, ",\"cpu_cores\":", o->cpu_cores);
	add_i64(out, ",\"memory_bytes\":", o->memory_bytes);
	add_i64(out, ",\"down_bps\":", o->down_bps);
	add_i64(out, ",\"up_bps\":", o->up_bps);
	add_i64(out, ",\"reliability_ppm\":", o->reliability_ppm);
	add_text(out, ",\"country\":", o->country);
	add_text(out, ",\"region\":", o->region);
	add_flag(out, ",\"rentable\":", o->rentable);
	add_flag(out, ",\"rented\":", o->rented);
	add_flag(out, ",\"verified\":", o->verified);
	add_flag(out, ",\"secure\":", o->secure);
	add_text(out, ",\"machine\":", o->machine);
	add_text(out, ",\"host\":", o->host);
	if (o->own)
		buf_adds(out, ",\"own\":true");
	buf_addc(out, '}');
}

static int get_flag(const json_t *r, const char *where, const char *key, int *out)
{
	bool v = false;

	if (!json_object_get(r, key))
		return 0;
	if (json_opt_bool(r, where, key, &v) < 0)
		return -1;
	*out = v;
	return 0;
}

const struct gpu_model *offer_list_find(struct offer_list *l, const char *name,
	int64_t memory_bytes)
{
	struct offer_name *slot;
	uint64_t h = fnv1a_text(FNV1A, name);

	slot = &l->names[h % OFFER_NAMES];
	if (!slot->name || strcmp(slot->name, name) != 0 ||
		slot->memory_bytes != memory_bytes) {
		slot->name = arena_strdup(&l->texts, name);
		slot->memory_bytes = memory_bytes;
		slot->gpu = gpu_find(name, memory_bytes);
	}
	return slot->gpu;
}

void offer_list_add_found(struct offer_list *l, struct offer *o)
{
	/* a record may come from elsewhere and name the model in any way */
	o->gpu = offer_list_find(l, o->model,
		o->gpu_memory_bytes > 0 ? o->gpu_memory_bytes : 0);
	o->known = o->gpu;
	if (o->gpu)
		o->model = o->gpu->name;
	offer_list_add(l, o);
}

int offer_list_add_json(struct offer_list *l, const json_t *r, const char *where)
{
	struct offer o;

	offer_init(&o);
	if (schema_check(r, where, "rnp.offer") < 0 ||
		json_get_text(r, where, "market", &o.market) < 0 ||
		json_get_text(r, where, "offer_id", &o.id) < 0 ||
		json_get_text(r, where, "gpu_model", &o.model) < 0 ||
		json_opt_text(r, where, "gpu_name", &o.name) < 0 ||
		json_get_i64(r, where, "gpu_count", 1, 1024, &o.gpu_count) < 0 ||
		json_opt_i64(r, where, "gpu_share_ppm", 1, 999999, &o.gpu_share_ppm) <
			0 ||
		json_opt_i64(r, where, "gpu_memory_bytes", 0, INT64_MAX,
			&o.gpu_memory_bytes) < 0 ||
		json_get_i64(r, where, "uusd_per_gpu_hour", 1, JSON_SAFE_INTEGER_MAX,
			&o.uusd_per_gpu_hour) < 0 ||
		json_get_bool(r, where, "spot", &o.spot) < 0 ||
		json_opt_bool(r, where, "own", &o.own) < 0 ||
		json_opt_time(r, where, "at", &o.at_ms) < 0 ||
		json_opt_i64(r, where, "cpu_cores", 0, INT64_MAX, &o.cpu_cores) < 0 ||
		json_opt_i64(r, where, "memory_bytes", 0, INT64_MAX, &o.memory_bytes) <
			0 ||
		json_opt_i64(r, where, "down_bps", 0, INT64_MAX, &o.down_bps) < 0 ||
		json_opt_i64(r, where, "up_bps", 0, INT64_MAX, &o.up_bps) < 0 ||
		json_opt_i64(r, where, "reliability_ppm", 0, 1000000,
			&o.reliability_ppm) < 0 ||
		json_opt_text(r, where, "country", &o.country) < 0 ||
		json_opt_text(r, where, "region", &o.region) < 0 ||
		json_opt_text(r, where, "machine", &o.machine) < 0 ||
		json_opt_text(r, where, "host", &o.host) < 0 ||
		get_flag(r, where, "rentable", &o.rentable) < 0 ||
		get_flag(r, where, "rented", &o.rented) < 0 ||
		get_flag(r, where, "verified", &o.verified) < 0 ||
		get_flag(r, where, "secure", &o.secure) < 0)
		return -1;
	offer_list_add_found(l, &o);
	return 0;
}
