/* Reads two files of figures, finds what belongs together, and says how it differs. */
#include "cmd/rnp-bench/figures/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/cli/human.h"
#include "common/json/canon.h"
#include "common/json/json.h"
#include "common/json/schema.h"

void entries_release(struct entries *e)
{
	for (size_t i = 0; i < e->n; i++) {
		free(e->at[i].key);
		json_decref(e->at[i].record);
	}
	free(e->at);
}

/* The key consists of suite, test, unit and the parameters that define the work; how it was
 * done may change. */
static char *key_of(const json_t *record)
{
	static const char *const how[] = { "kernel", "threads", "cache_bytes", "disk",
		"limit", "worst_ppm", "token_ns", "matrix_flop_per_s",
		"memory_bytes_per_s", "matrix_ppm", "memory_ppm", "roof_ppm" };
	json_t *params = json_copy(json_object_get(record, "params"));
	struct buf key = BUF_INIT;

	if (!params)
		params = json_object();
	for (size_t i = 0; i < sizeof how / sizeof *how; i++)
		json_object_del(params, how[i]);
	buf_addf(&key, "%s %s %s ", json_string_value(json_object_get(record, "suite")),
		json_string_value(json_object_get(record, "test")),
		json_string_value(json_object_get(record, "unit")));
	if (canon_write(&key, params) < 0)
		err_clear(); /* records parsed by json_parse always have a canonical form */
	json_decref(params);
	return buf_take(&key);
}

struct entry *entries_find(const struct entries *e, const char *key)
{
	for (size_t i = 0; i < e->n; i++)
		if (strcmp(e->at[i].key, key) == 0)
			return &e->at[i];
	return NULL;
}

/* The verdict rests on the interval: one without its own median within is none. */
static int check_figure(struct figure f, const char *where)
{
	if (f.low <= f.median && f.median <= f.high)
		return 0;
	return err_set(EX_DATAERR, "%s: median: not between low and high", where);
}

/* Of several records with one key the last counts. */
static int add(struct entries *e, char *line, size_t len, const char *where)
{
	json_t *record = json_parse_object(line, len, where);
	struct entry *known;
	char *key;

	if (!record || schema_check(record, where, "rnp.bench") < 0 ||
		check_figure(figure_of(record), where) < 0) {
		json_decref(record);
		return -1;
	}
	key = key_of(record);
	known = entries_find(e, key);
	if (known) {
		free(key);
		json_decref(known->record);
		known->record = record;
		return 0;
	}
	e->at = xgrow(e->at, &e->cap, e->n + 1, sizeof *e->at);
	e->at[e->n++] = (struct entry){ key, record };
	return 0;
}

int entries_load(struct entries *e, char *path)
{
	struct lines lines;
	char *line;
	size_t len;
	int more;

	lines_open(&lines, &path, 1, JSON_RECORD_BYTES_MAX);
	while ((more = lines_next(&lines, &line, &len)) > 0)
		if (add(e, line, len, lines_where(&lines)) < 0) {
			more = -1;
			break;
		}
	lines_close(&lines);
	return more;
}

struct figure figure_of(const json_t *record)
{
	return (struct figure){ json_integer_value(json_object_get(record, "median")),
		json_integer_value(json_object_get(record, "low")),
		json_integer_value(json_object_get(record, "high")) };
}

static void copy_field(json_t *to, const json_t *from, const char *key)
{
	json_t *v = json_object_get(from, key);

	if (v)
		json_set(to, key, json_incref(v));
}

static void add_value(struct buf *out, int64_t v, const char *unit)
{
	json_t *number = json_integer(v);

	human_value(out, "median", number, unit, 0);
	json_decref(number);
}

/* "the intervals overlap: 1.01 to 1.09 s and 1.05 to 1.12 s" */
static char *reason(struct figure old, struct figure new, const char *unit,
	struct difference d)
{
	struct buf text = BUF_INIT;

	buf_adds(&text,
		d.verdict == VERDICT_SAME ? "the 95% intervals overlap: " :
					    "the 95% intervals are apart: ");
	add_value(&text, old.low, unit);
	buf_adds(&text, " to ");
	add_value(&text, old.high, unit);
	buf_adds(&text, " and ");
	add_value(&text, new.low, unit);
	buf_adds(&text, " to ");
	add_value(&text, new.high, unit);
	return buf_take(&text);
}

json_t *compare_record(const json_t *old, const json_t *new, struct difference d)
{
	static const char *const words[] = { "no difference", "better", "worse" };
	struct figure a = figure_of(old), b = figure_of(new);
	json_t *record = json_record("rnp.compare");
	char *why = reason(a, b, json_string_value(json_object_get(new, "unit")), d);

	copy_field(record, new, "suite");
	copy_field(record, new, "test");
	copy_field(record, new, "unit");
	copy_field(record, new, "params");
	json_set_i64(record, "old_median", a.median);
	json_set_i64(record, "old_low", a.low);
	json_set_i64(record, "old_high", a.high);
	json_set_i64(record, "new_median", b.median);
	json_set_i64(record, "new_low", b.low);
	json_set_i64(record, "new_high", b.high);
	json_set_i64(record, "change_ppm", d.change_ppm);
	json_set_text(record, "verdict", words[d.verdict]);
	json_set_text(record, "why", why);
	free(why);
	return record;
}
