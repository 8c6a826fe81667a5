/* config.c - rnp-register config: prints the settings in force, and the source of each. */
#include "cmd/rnp-register/commands.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/cli/out.h"
#include "common/cli/prog.h"
#include "common/cli/settings.h"
#include "common/json/json.h"

static bool example;

static const struct opt opts[] = {
	OPT_SWITCH("example", &example, "print a file to begin with, and nothing else"),
	{ 0 },
};

/* The purpose of each setting. */
static const struct {
	const char *name, *line;
} lines[] = {
	{ "registry",
		"# where this node is registered\nregistry = https://registry.example" },
	{ "wallet",
		"# the Solana address that is paid\n"
		"#wallet = 4fYNw3dojWmQ4dXtSGE9epjRGy9pFSx62YypT7avPYvA" },
	{ "name", "# name of this machine, which everybody can read\n#name = my node" },
	{ "gpus",
		"# which GPUs it shares, by number from 0 or uuid; without it all\n"
		"#gpus = 0,1" },
	{ "label",
		"# country, region, host_type (data-center, miner, partner), compliance, peak_hours\n"
		"#label = country=DE; region=Saxony" },
	{ "costs",
		"# what the node costs: rnp-price floor --example > costs.json\n"
		"#costs = /etc/rnp/costs.json" },
	{ "bench",
		"# measurements: rnp-bench run --quick --suite mem > bench.jsonl\n"
		"#bench = /etc/rnp/bench.jsonl" },
	{ "key",
		"# key file, in place of ~/.config/rnp/key.json\n#key = /etc/rnp/key.json" },
	{ "passphrase-file",
		"# of an encrypted key file\n#passphrase-file = /etc/rnp/passphrase" },
	{ "node",
		"# whose status rnp-register status shows, where it is not the key's\n"
		"#node = 4fYNw3dojWmQ4dXtSGE9epjRGy9pFSx62YypT7avPYvA" },
	{ "rpc",
		"# a Solana server, to see whether the wallet can be paid\n"
		"#rpc = https://api.mainnet-beta.solana.com" },
	{ "ca", "# certificates to trust in place of the system's\n#ca = /etc/rnp/ca.pem" },
};

static int print_example(void)
{
	struct buf text = BUF_INIT;
	int rc;

	buf_adds(&text, "# ~/.config/rnp/config; lines that begin with # are comments\n");
	for (size_t i = 0; i < sizeof lines / sizeof *lines; i++)
		buf_addf(&text, "\n%s\n", lines[i].line);
	rc = out_text(text.data, text.len);
	buf_release(&text);
	return rc < 0 ? err_report() : EX_OK;
}

static int run(int n, char **args)
{
	int rc = 0;

	(void)n, (void)args;
	if (example)
		return print_example();
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
	.group = "node",
	.opts = opts,
	.run = run,
};
