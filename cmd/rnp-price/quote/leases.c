/* leases.c - reads leases and counts them: see leases.h. */
#include "cmd/rnp-price/quote/leases.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/cli/records.h"
#include "common/json/json.h"
#include "common/json/schema.h"

int leases_add(struct leases *l, const json_t *r, const char *where)
{
	struct lease one = { .end_ms = LEASES_RUNS };

	if (schema_check(r, where, "rnp.lease") < 0 ||
		json_get_time(r, where, "begin", &one.begin_ms) < 0 ||
		json_opt_time(r, where, "end", &one.end_ms) < 0)
		return -1;
	if (one.end_ms < one.begin_ms)
		return err_set(EX_DATAERR, "%s: the lease ends before it begins", where);
	l->items = xgrow(l->items, &l->cap, l->n + 1, sizeof *l->items);
	l->items[l->n++] = one;
	return 0;
}

static int read_one(void *ctx, const struct record *r)
{
	return leases_add(ctx, r->json, r->where);
}

int leases_read(struct leases *l, const char *path)
{
	char *file = (char *)(uintptr_t)path;

	return records_each(&file, 1, JSON_RECORD_BYTES_MAX, read_one, l);
}

void leases_release(struct leases *l)
{
	free(l->items);
	memset(l, 0, sizeof *l);
}

struct leases_between leases_between(const struct leases *l, int64_t from_ms,
	int64_t to_ms)
{
	struct leases_between out = { 0 };

	for (size_t i = 0; i < l->n; i++) {
		const struct lease *one = &l->items[i];
		int64_t from = one->begin_ms > from_ms ? one->begin_ms : from_ms;
		int64_t to = one->end_ms < to_ms ? one->end_ms : to_ms;

		out.began += one->begin_ms > from_ms && one->begin_ms <= to_ms;
		out.ended += one->end_ms > from_ms && one->end_ms <= to_ms;
		out.running += one->begin_ms <= to_ms && one->end_ms > to_ms;
		if (to > from)
			out.hours += (double)(to - from) / 3600000;
	}
	return out;
}
