/* compare.c - rnp-bench compare: compares two files of rnp.bench records, test by test. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/commands.h"
#include "cmd/rnp-bench/difference.h"
#include "common/json/canon.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/base/lines.h"
#include "common/base/mem.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/json/schema.h"

static struct {
	double threshold;
} options = { .threshold = 5 };

struct entry {
	char *key; /* equal for two figures of the same thing */
	json_t *record;
};

struct entries {
	struct entry *at;
	size_t n, cap;
};

static void entries_release(struct entries *e)
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

static struct entry *find(const struct entries *e, const char *key)
{
	for (size_t i = 0; i < e->n; i++)
		if (strcmp(e->at[i].key, key) == 0)
			return &e->at[i];
	return NULL;
}

/* Of several records with one key the last counts. */
static int add(struct entries *e, char *line, size_t len, const char *where)
{
	json_t *record = json_parse_object(line, len, where);
	struct entry *known;
	char *key;

	if (!record || schema_check(record, where, "rnp.bench") < 0) {
		json_decref(record);
		return -1;
	}
	key = key_of(record);
	known = find(e, key);
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

static int load(struct entries *e, char *path)
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

static struct figure figure_of(const json_t *record)
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

static int print(const json_t *old, const json_t *new, struct difference d)
{
	static const char *const words[] = { "no difference", "better", "worse" };
	json_t *record = json_record("rnp.compare");
	int rc;

	copy_field(record, new, "suite");
	copy_field(record, new, "test");
	copy_field(record, new, "unit");
	copy_field(record, new, "params");
	json_set_i64(record, "old_median", figure_of(old).median);
	json_set_i64(record, "new_median", figure_of(new).median);
	json_set_i64(record, "change_ppm", d.change_ppm);
	json_set_text(record, "verdict", words[d.verdict]);
	rc = out_record(record);
	json_decref(record);
	return rc;
}

/* Returns how many tests got worse beyond the threshold, or -1. */
static int compare(const struct entries *old, const struct entries *new,
	int64_t threshold_ppm)
{
	int worse = 0, matched = 0;

	for (size_t i = 0; i < new->n; i++) {
		const json_t *record = new->at[i].record;
		const char *unit = json_string_value(json_object_get(record, "unit"));
		struct entry *before = find(old, new->at[i].key);
		struct difference d;

		if (!before) {
			prog_detail("only in the new file: %s", new->at[i].key);
			continue;
		}
		d = difference_of(figure_of(before->record), figure_of(record),
			difference_smaller_is_better(unit));
		if (print(before->record, record, d) < 0)
			return -1;
		matched++;
		worse += difference_is_regression(d, threshold_ppm);
	}
	for (size_t i = 0; i < old->n; i++)
		if (!find(new, old->at[i].key))
			prog_warn("only in the old file: %s", old->at[i].key);
	if (!matched)
		return err_set(EX_DATAERR, "the two files have no test in common");
	return worse;
}

static int run(int n, char **args)
{
	struct entries old = { 0 }, new = { 0 };
	int worse = -1;

	(void)n;
	if (options.threshold < 0 || options.threshold > 1000000)
		err_set(EX_USAGE, "--threshold: must be from 0 to 1000000 percent");
	else if (load(&old, args[0]) == 0 && load(&new, args[1]) == 0)
		worse = compare(&old, &new, (int64_t)(options.threshold * 10000 + 0.5));
	entries_release(&old);
	entries_release(&new);
	if (worse < 0)
		return err_report();
	return worse ? EXIT_NO : EX_OK;
}

static const struct opt opts[] = {
	{ .name = "threshold",
		.kind = OPT_F64,
		.to = &options.threshold,
		.metavar = "P",
		.help = "percent that a median may get worse (default 5)" },
	{ 0 },
};

const struct command command_compare = {
	.name = "compare",
	.arguments = "OLD NEW",
	.args_min = 2,
	.args_max = 2,
	.summary = "Whether figures got better or worse.",
	.details =
		"Reads two files of rnp.bench records, writes one rnp.compare record for each test\n"
		"that is in both. Exit status 1 when one is worse beyond the threshold.",
	.columns = "suite,test,unit,old_median,new_median,change_ppm,verdict",
	.opts = opts,
	.run = run,
};
