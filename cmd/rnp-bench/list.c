/* list.c - rnp-bench list: lists suites and their tests. */
#include "cmd/rnp-bench/commands.h"
#include "cmd/rnp-bench/suites/suite.h"
#include "common/json/json.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"

static int run(int n, char **args)
{
	(void)n, (void)args;
	for (int i = 0; suites[i]; i++) {
		for (const struct test *t = suites[i]->tests; t->name; t++) {
			json_t *record = json_record("rnp.test");
			int rc;

			json_set_text(record, "suite", suites[i]->name);
			json_set_text(record, "test", t->name);
			json_set_text(record, "unit", t->unit);
			json_set_text(record, "summary", t->summary);
			rc = out_record(record);
			json_decref(record);
			if (rc < 0)
				return err_report();
		}
	}
	return 0;
}

const struct command command_list = {
	.name = "list",
	.args_max = 0,
	.summary = "The suites and their tests.",
	.details = "Writes one rnp.test record a test.",
	.columns = "suite,test,unit,summary",
	.run = run,
};
