/* fit_record.c - writes and reads rnp.fit: see fit.h. */
#include "cmd/rnp-price/quote/fit.h"

#include <math.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/json/json.h"
#include "common/json/schema.h"

#define MILLION    1e6
#define LOG_MAX    100 /* bound of a coefficient: e^100 is beyond every price */
#define LEVELS_MAX 4096
#define ERROR_MAX  INT64_C(1000000000) /* a thousand times the price, in ppm */

/* --- out ------------------------------------------------------------------------------------ */

static void set_micro(json_t *obj, const char *key, double v)
{
	json_set_i64(obj, key, (int64_t)llround(v * MILLION));
}

static json_t *levels_of(const struct fit *f, enum fit_effect effect)
{
	json_t *out = json_object();

	for (size_t i = FIT_NUMBERS; i < f->ncolumns; i++) {
		const struct fit_column *c = &f->columns[i];
		json_t *level;

		if (c->effect != effect)
			continue;
		level = json_object();
		set_micro(level, "value", c->value);
		json_set_i64(level, "offers", c->rows);
		if (c->error > 0)
			set_micro(level, "error_ppm", c->error);
		json_set(out, c->name, level);
	}
	return out;
}

json_t *fit_to_json(const struct fit *f)
{
	json_t *r = json_record("rnp.fit"), *numbers = json_object(),
	       *spread = json_object();
	json_t *errors = json_object(), *levels = json_object();

	for (int i = 0; i < FIT_NUMBERS; i++)
		set_micro(numbers, fit_number_names[i], f->columns[i].value);
	for (int e = 0; e < FIT_EFFECTS; e++)
		json_set(levels, fit_effect_names[e], levels_of(f, (enum fit_effect)e));
	set_micro(spread, "low", f->low);
	set_micro(spread, "high", f->high);
	set_micro(spread, "low_new", f->low_new);
	set_micro(spread, "high_new", f->high_new);
	set_micro(errors, "in_sample", f->error);
	if (f->error_model >= 0)
		set_micro(errors, "model_left_out", f->error_model);
	if (f->error_market >= 0)
		set_micro(errors, "market_left_out", f->error_market);
	json_set(r, "coefficients", numbers);
	json_set(r, "levels", levels);
	json_set(r, "spread", spread);
	json_set(r, "error_ppm", errors);
	return r;
}

/* --- in ------------------------------------------------------------------------------------- */

static int get_log(const json_t *obj, const char *where, const char *key, double *out)
{
	int64_t v;

	if (json_get_i64(obj, where, key, -LOG_MAX * 1000000, LOG_MAX * 1000000, &v) < 0)
		return -1;
	*out = (double)v / MILLION;
	return 0;
}

static int get_error(const json_t *obj, const char *where, const char *key, double *out)
{
	int64_t v = -1000000;

	if (json_opt_i64(obj, where, key, 0, ERROR_MAX, &v) < 0)
		return -1;
	*out = (double)v / MILLION;
	return 0;
}

static struct fit_column *add(struct fit *f, enum fit_effect effect, const char *name)
{
	f->columns = xgrow(f->columns, &f->cap, f->ncolumns + 1, sizeof *f->columns);
	f->columns[f->ncolumns] = (struct fit_column){ .effect = effect,
		.name = xstrdup(name) };
	return &f->columns[f->ncolumns++];
}

static int read_levels(struct fit *f, const json_t *all, const char *where,
	enum fit_effect effect)
{
	json_t *levels, *level;
	const char *name;
	char what[400];

	if (json_get_object(all, where, fit_effect_names[effect], &levels) < 0)
		return -1;
	if (json_object_size(levels) > LEVELS_MAX)
		return err_set(EX_DATAERR, "%s: %s: more than %d levels", where,
			fit_effect_names[effect], LEVELS_MAX);
	json_object_foreach(levels, name, level) {
		struct fit_column *c = add(f, effect, name);
		int64_t rows;

		snprintf(what, sizeof what, "%.200s: %s.%.100s", where,
			fit_effect_names[effect], name);
		if (get_log(level, what, "value", &c->value) < 0 ||
			json_get_i64(level, what, "offers", 0, INT64_C(1000000000000),
				&rows) < 0)
			return -1;
		c->rows = (long)rows;
	}
	return 0;
}

int fit_from_json(struct fit *f, const json_t *r, const char *where)
{
	json_t *numbers, *levels, *spread, *errors;

	if (schema_check(r, where, "rnp.fit") < 0 ||
		json_get_object(r, where, "coefficients", &numbers) < 0 ||
		json_get_object(r, where, "levels", &levels) < 0 ||
		json_get_object(r, where, "spread", &spread) < 0 ||
		json_get_object(r, where, "error_ppm", &errors) < 0)
		return -1;
	for (int i = 0; i < FIT_NUMBERS; i++)
		if (get_log(numbers, where, fit_number_names[i],
			    &add(f, FIT_MARKET, fit_number_names[i])->value) < 0)
			return -1;
	for (int e = 0; e < FIT_EFFECTS; e++)
		if (read_levels(f, levels, where, (enum fit_effect)e) < 0)
			return -1;
	if (get_log(spread, where, "low", &f->low) < 0 ||
		get_log(spread, where, "high", &f->high) < 0 ||
		get_log(spread, where, "low_new", &f->low_new) < 0 ||
		get_log(spread, where, "high_new", &f->high_new) < 0 ||
		get_error(errors, where, "in_sample", &f->error) < 0 ||
		get_error(errors, where, "model_left_out", &f->error_model) < 0 ||
		get_error(errors, where, "market_left_out", &f->error_market) < 0)
		return -1;
	if (f->low > 0 || f->high < 0 || f->low_new > 0 || f->high_new < 0)
		return err_set(EX_DATAERR, "%s: spread: the middle is not within it",
			where);
	return 0;
}

int fit_load(struct fit *f, const char *path)
{
	struct buf text = BUF_INIT;
	json_t *r = NULL;
	int rc = -1;

	if (io_read(&text, path, FIT_RECORD_BYTES_MAX) == 0)
		r = json_parse_object(buf_text(&text), text.len, path);
	if (r)
		rc = fit_from_json(f, r, path);
	json_decref(r);
	buf_release(&text);
	return rc;
}
