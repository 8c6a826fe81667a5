/* pool.c - bandwidth tiers by table, and the pool of a node from its record. */
#include "common/record/pool.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "common/record/gpus.h"

#define MBYTE_BPS INT64_C(8000000) /* RNP-004 speaks of bytes, records hold bits */

const struct pool_tier pool_tiers[] = {
	{ "ultra-high", "Ultra High", 1000 * MBYTE_BPS },
	{ "high", "High", 500 * MBYTE_BPS },
	{ "med-ii", "Med II", 300 * MBYTE_BPS },
	{ "med", "Med", 100 * MBYTE_BPS },
	{ "low", "Low", 50 * MBYTE_BPS },
	{ "none", "None", 0 },
	{ "unknown", "Unknown", -1 },
	{ NULL, NULL, 0 },
};

const char *pool_tier_name(int64_t number)
{
	const int64_t unknown = sizeof pool_tiers / sizeof *pool_tiers - 2;

	return pool_tiers[number >= 0 && number < unknown ? number : unknown].name;
}

const struct pool_tier *pool_tier_find(const char *name)
{
	for (const struct pool_tier *t = pool_tiers; t->name; t++)
		if (strcasecmp(name, t->name) == 0 || strcasecmp(name, t->label) == 0)
			return t;
	return NULL;
}

const struct pool_tier *pool_tier(int64_t down_bps, int64_t up_bps, int64_t ping_us)
{
	int64_t lower_bps = down_bps < up_bps ? down_bps : up_bps;
	const struct pool_tier *t = pool_tiers;

	if (lower_bps >= 0 && ping_us > POOL_PING_MAX_US)
		lower_bps = 0;
	while (t[1].name && lower_bps < t->min_bps)
		t++;
	return t;
}

static int64_t number(const json_t *obj, const char *key)
{
	const json_t *v = json_object_get(obj, key);

	return json_is_integer(v) && json_integer_value(v) >= 0 ? json_integer_value(v) :
								  -1;
}

static const char *text(const json_t *obj, const char *key)
{
	const char *s = json_string_value(json_object_get(obj, key));

	return s && s[0] ? s : NULL;
}

/* Returns the maker of a CPU by its model: the vendor in /proc/cpuinfo is no name for people. */
static const char *cpu_maker(const char *model)
{
	static const char *const makers[][2] = { { "Intel", "Intel" }, { "AMD", "AMD" },
		{ "EPYC", "AMD" }, { "Ryzen", "AMD" }, { "Xeon", "Intel" },
		{ "Apple", "Apple" }, { "Ampere", "Ampere" }, { "Neoverse", "ARM" },
		{ "ARM", "ARM" } };

	for (size_t i = 0; i < sizeof makers / sizeof *makers; i++)
		if (strcasestr(model, makers[i][0]))
			return makers[i][1];
	return "unknown";
}

static void copy(char to[POOL_TEXT_MAX], const char *from)
{
	snprintf(to, POOL_TEXT_MAX, "%s", from ? from : "unknown");
}

/* "AMD EPYC 7313" of maker "AMD" becomes "EPYC 7313"; "Intel(R) ..." stays */
static const char *without_maker(const char *model, const char *maker)
{
	size_t n = maker ? strlen(maker) : 0;

	if (n && model && strncasecmp(model, maker, n) == 0 && model[n] == ' ' &&
		model[n + 1])
		return model + n + 1;
	return model;
}

void pool_of_node(const json_t *node, struct pool *out)
{
	const json_t *network = json_object_get(node, "network");
	struct gpu_group groups[GPUS_MAX];
	const struct gpu_group *gpu = gpus_group(node, groups) ? groups : NULL;
	const char *model, *maker;

	out->tier = pool_tier(number(network, "down_bps"), number(network, "up_bps"),
		number(network, "ping_us"));
	copy(out->country, text(json_object_get(node, "labels"), "country"));
	out->device = gpu ? "GPU" : "CPU";
	out->gpus = gpu ? gpu->count : 0;
	out->memory_bytes = gpu ? gpu->memory_bytes : 0;
	model = gpu ? gpu->model : text(json_object_get(node, "cpu"), "model");
	maker = gpu   ? text(json_array_get(gpu->gpus, (size_t)gpu->at[0]), "vendor") :
		model ? cpu_maker(model) :
			NULL;
	copy(out->maker, gpu && gpu->known ? gpu->known->vendor : maker);
	copy(out->model, gpu && gpu->known ? model : without_maker(model, maker));
}

void pool_path(struct buf *out, const struct pool *p)
{
	buf_addf(out, "%s > %s > %s > %s > %s", p->tier->label, p->country, p->device,
		p->maker, p->model);
}
