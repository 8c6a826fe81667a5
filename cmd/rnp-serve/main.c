/* rnp-serve - serve a language model as an OpenAI-compatible chat. */
#include "common/prog.h"

static const struct command *const commands[] = { NULL };

static const char *const kinds[] = { "rnp.error", NULL };

static const struct program program = {
	.name = "rnp-serve",
	.summary = "Serve a language model as an OpenAI-compatible chat.",
	.commands = commands,
	.later = "serving is not part of this version: rnp-serve has no subcommand yet",
	.kinds = kinds,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
