/* rnp-train - train language models together over slow links. */
#include "common/prog.h"

static const struct command *const commands[] = { NULL };

static const char *const kinds[] = { "rnp.error", NULL };

static const struct program program = {
	.name = "rnp-train",
	.summary = "Train language models together over slow links.",
	.commands = commands,
	.later = "training is not part of this version: rnp-train has no subcommand yet",
	.kinds = kinds,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
