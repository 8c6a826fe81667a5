/* main.c - rnp-register: key, hardware facts, signed registration, and the registry that
 * collects them. */
#include "cmd/rnp-register/commands.h"
#include "common/cli/prog.h"

static const struct command *const commands[] = {
	&command_setup,
	&command_keygen,
	&command_address,
	&command_detect,
	&command_sign,
	&command_verify,
	&command_canon,
	&command_check,
	&command_submit,
	&command_heartbeat,
	&command_work,
	&command_session,
	&command_status,
	&command_config,
	&command_serve,
	&command_list,
	&command_metrics,
	&command_gateway,
	&command_deposit,
	&command_plan,
	&command_book,
	&command_launch,
	&command_clusters,
	&command_logs,
	&command_ssh,
	&command_account,
	&command_invoice,
	&command_extend,
	&command_replace,
	&command_keys,
	&command_release,
	NULL,
};

static const char *const kinds[] = {
	"rnp.access",
	"rnp.account",
	"rnp.action",
	"rnp.answer",
	"rnp.bench",
	"rnp.booking",
	"rnp.challenge",
	"rnp.check",
	"rnp.cluster",
	"rnp.deposit",
	"rnp.eligibility",
	"rnp.error",
	"rnp.event",
	"rnp.gateway",
	"rnp.heartbeat",
	"rnp.invitation",
	"rnp.invoice",
	"rnp.job",
	"rnp.key",
	"rnp.keyfile",
	"rnp.launch",
	"rnp.lease",
	"rnp.listing",
	"rnp.manifest",
	"rnp.metric",
	"rnp.node",
	"rnp.offer",
	"rnp.proposal",
	"rnp.quote",
	"rnp.receipt",
	"rnp.roots",
	"rnp.session",
	"rnp.setting",
	"rnp.setup",
	"rnp.status",
	"rnp.stored",
	"rnp.task",
	"rnp.unanswered",
	"rnp.uptime",
	"rnp.verdict",
	NULL,
};

static const struct program program = {
	.name = "rnp-register",
	.summary =
		"Key, hardware facts, signed registration, and the registry that collects them.",
	.commands = commands,
	.kinds = kinds,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
