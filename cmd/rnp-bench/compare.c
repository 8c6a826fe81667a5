/* compare.c - rnp-bench compare: compares two files of rnp.bench records, test by test. */
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-bench/commands.h"
#include "cmd/rnp-bench/figures/pairs.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

static struct {
	double threshold;
} options = { .threshold = 5 };

#define FIGURES                                           \
	"old_median|old_low|old_high=old (95% interval)," \
	"new_median|new_low|new_high=new (95% interval)"

static int print(const json_t *old, const json_t *new, struct difference d)
{
	json_t *record = compare_record(old, new, d);
	int rc = out_record(record);

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
		struct entry *before = entries_find(old, new->at[i].key);
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
		if (!entries_find(new, old->at[i].key))
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
	/* the reason repeats the intervals in words */
	if (!out_width() || out_width() >= 160)
		out_columns(
			"suite,test,params," FIGURES ",change_ppm=change,verdict,why");
	if (options.threshold < 0 || options.threshold > 1000000)
		err_set(EX_USAGE, "--threshold: must be from 0 to 1000000 percent");
	else if (entries_load(&old, args[0]) == 0 && entries_load(&new, args[1]) == 0)
		worse = compare(&old, &new, (int64_t)(options.threshold * 10000 + 0.5));
	entries_release(&old);
	entries_release(&new);
	if (worse < 0)
		return err_report();
	return worse ? EXIT_NO : EX_OK;
}

static const struct opt opts[] = {
	OPT(F64, "threshold", &options.threshold, "P",
		"percent that a median may get worse (default 5)"),
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
		"that is in both, with its intervals and why it is a difference or none. Exit status 1 when one is worse beyond the threshold.",
	.columns = "test,params," FIGURES ",change_ppm=change,verdict",
	.opts = opts,
	.run = run,
};
