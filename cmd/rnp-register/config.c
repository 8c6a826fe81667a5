/* config.c - rnp-register config: prints the settings in force, and the source of each. */
#include "cmd/rnp-register/commands.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/settings.h"
#include "common/json/json.h"

static int run(int n, char **args)
{
	int rc = 0;

	(void)n, (void)args;
	for (int i = 0; settings_names[i] && rc == 0; i++) {
		const char *value = settings_find(settings_names[i]);
		json_t *record = json_record("rnp.setting");

		json_set_text(record, "name", settings_names[i]);
		json_set_text(record, "value", value);
		json_set_text(record, "from",
			value ? settings_origin(settings_names[i]) : NULL);
		rc = out_record(record);
		json_decref(record);
	}
	return rc < 0 ? err_report() : EX_OK;
}

const struct command command_config = {
	.name = "config",
	.summary = "The settings in force, and where each comes from.",
	.details =
		"Writes one rnp.setting record for each setting; one without a value is not set. See the section\n"
		"Settings in rnp(7).",
	.columns = "name,value,from",
	.run = run,
};
