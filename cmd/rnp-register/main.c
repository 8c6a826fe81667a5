/* rnp-register - key, hardware facts, signed registration, and the registry that collects them. */
#include "common/prog.h"

static const struct command *const commands[] = { NULL };

static const char *const kinds[] = { "rnp.error", "rnp.node", NULL };

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
