/* rnp-bench - benchmarks of this machine, and a proof of compute. */
#include "common/prog.h"

static const struct command *const commands[] = { NULL };

static const char *const kinds[] = { "rnp.bench", "rnp.error", NULL };

static const struct program program = {
	.name = "rnp-bench",
	.summary = "Benchmarks of this machine, and a proof of compute.",
	.commands = commands,
	.kinds = kinds,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
