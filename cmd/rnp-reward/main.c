/* rnp-reward - computes, explains and proves rewards, to the last base unit. */
#include "common/prog.h"

static const struct command *const commands[] = { NULL };

static const char *const kinds[] = { "rnp.error", NULL };

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
