/* world_read.c - reads recorded markets for worlds: see world.h. */
#include "cmd/rnp-price/simulate/world.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/fnv.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/json/json.h"

#define PRICE_MAX 10000.0 /* dollars an hour: beyond every GPU */
#define COUNT_MAX 1e6

static int get_within(const json_t *obj, const char *where, const char *key, double max,
	double *out)
{
	if (json_get_f64(obj, where, key, out) < 0)
		return -1;
	if (!(*out >= 0) || *out > max)
		return err_set(EX_DATAERR, "%s: %s: %g is not between 0 and %g", where,
			key, *out, max);
	return 0;
}

/* Returns the same number for the same name. */
static uint64_t id_of(const char *name)
{
	return fnv1a_text(FNV1A, name);
}

int world_snapshot_read(struct world_snapshot *out, const json_t *r, const char *where)
{
	json_t *stats, *providers, *v;
	const char *name;
	char what[300];

	memset(out, 0, sizeof *out);
	if (json_get_object(r, where, "price_stats", &stats) < 0 ||
		json_get_object(r, where, "by_provider", &providers) < 0 ||
		get_within(stats, where, "median", PRICE_MAX, &out->median) < 0)
		return -1;
	if (json_object_size(providers) > DEMAND_SELLERS_MAX)
		return err_set(EX_DATAERR, "%s: by_provider: more than %d", where,
			DEMAND_SELLERS_MAX);
	json_object_foreach(providers, name, v) {
		struct demand_seller s;

		snprintf(what, sizeof what, "%.150s: by_provider.%.60s", where, name);
		if (get_within(v, what, "count", COUNT_MAX, &s.count) < 0 ||
			get_within(v, what, "min", PRICE_MAX, &s.price) < 0)
			return -1;
		if (s.count <= 0 || s.price <= 0)
			continue;
		s.id = id_of(name);
		if (!out->market.n || s.price < out->market.lowest)
			out->market.lowest = s.price;
		out->market.sellers[out->market.n++] = s;
	}
	return out->market.n && out->median > 0;
}

int world_series_read(struct world_series *s, char *path)
{
	struct lines in;
	char *line;
	size_t len;
	int rc;

	s->name = xstrdup(path);
	lines_open(&in, &path, 1, JSON_RECORD_BYTES_MAX);
	while ((rc = lines_next(&in, &line, &len)) > 0) {
		const char *where = lines_where(&in);
		json_t *r = json_parse_object(line, len, where);
		struct world_snapshot one;

		rc = r ? world_snapshot_read(&one, r, where) : -1;
		json_decref(r);
		if (rc > 0 && s->n == WORLD_STEPS_MAX)
			rc = err_set(EX_DATAERR, "%s: more than %d snapshots", where,
				WORLD_STEPS_MAX);
		if (rc < 0)
			break;
		if (!rc)
			continue;
		s->steps = xgrow(s->steps, &s->cap, s->n + 1, sizeof *s->steps);
		s->steps[s->n++] = one;
	}
	lines_close(&in);
	if (rc == 0 && s->n < 2)
		return err_set(EX_DATAERR, "%s: fewer than two snapshots with a price",
			path);
	return rc;
}

void world_series_release(struct world_series *s)
{
	free(s->name);
	free(s->steps);
	memset(s, 0, sizeof *s);
}
