/* main.c - rnp-reward: computes, explains and proves rewards, to the last base unit. */
#include "cmd/rnp-reward/commands.h"
#include "common/cli/prog.h"

static const struct command *const commands[] = { &command_usage, &command_epoch,
	&command_explain, &command_proof, &command_verify, &command_ledger,
	&command_cosign, &command_stake, &command_policy, &command_pay, &command_twap,
	&command_burn, &command_mint, &command_simulate, &command_reputation,
	&command_report, NULL };

static const char *const kinds[] = { "rnp.burn", "rnp.check", "rnp.cosign", "rnp.epoch",
	"rnp.error", "rnp.explain", "rnp.heartbeat", "rnp.node", "rnp.payout",
	"rnp.policy", "rnp.price", "rnp.proof", "rnp.receipt", "rnp.reputation",
	"rnp.reward", "rnp.schedule", "rnp.signing", "rnp.stake", "rnp.supply", "rnp.tx",
	"rnp.uptime", "rnp.usage", "rnp.verdict", NULL };

static const struct program program = {
	.name = "rnp-reward",
	.summary = "Computes, explains and proves rewards, to the last base unit.",
	.commands = commands,
	.kinds = kinds,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
