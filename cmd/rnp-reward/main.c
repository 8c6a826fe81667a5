/* rnp-reward - computes, explains and proves rewards, to the last base unit. */
#include "cmd/rnp-reward/commands.h"
#include "common/prog.h"

static const struct command *const commands[] = { &command_usage, &command_epoch, NULL };

static const char *const kinds[] = { "rnp.usage", "rnp.reward", "rnp.epoch", "rnp.proof",
	"rnp.explain", "rnp.policy", "rnp.error", NULL };

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
