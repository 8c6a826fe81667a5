/* throughputs.c - reads throughputs by type of job and GPU model: see throughputs.h. */
#include "cmd/rnp-price/match/throughputs.h"

#include <math.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/json/json.h"

#define RATE_MAX 1e12 /* and its inverse the least */

static int each_model(const char *path, const char *type, json_t *models,
	throughputs_fn fn, void *ctx)
{
	const char *model;
	json_t *v;

	if (!json_is_object(models))
		return err_set(EX_DATAERR, "%s: %.40s: not an object of models", path,
			type);
	json_object_foreach(models, model, v) {
		double rate = json_number_value(v);

		if (!json_is_number(v) || !isfinite(rate) || rate < 0 ||
			rate > RATE_MAX || (rate > 0 && rate < 1 / RATE_MAX))
			return err_set(EX_DATAERR, "%s: %.40s: %.40s: not a throughput",
				path, type, model);
		if (fn(ctx, path, type, model, rate) < 0)
			return -1;
	}
	return 0;
}

int throughputs_parse(const char *text, size_t len, const char *name, throughputs_fn fn,
	void *ctx)
{
	json_t *all = json_parse_object(text, len, name), *models;
	const char *type;
	int rc = all ? 0 : -1;

	json_object_foreach(all, type, models) {
		rc = rc == 0 ? each_model(name, type, models, fn, ctx) : rc;
	}
	json_decref(all);
	return rc;
}

int throughputs_each(const char *path, throughputs_fn fn, void *ctx)
{
	struct buf content = BUF_INIT;
	int rc = io_read(&content, path, THROUGHPUTS_BYTES_MAX);

	if (rc == 0)
		rc = throughputs_parse(buf_text(&content), content.len, path, fn, ctx);
	buf_release(&content);
	return rc;
}
