/* rnp-register - key, hardware facts, signed registration, and the registry that collects them. */
#include <stddef.h>

#include "cmd/rnp-register/commands.h"
#include "common/prog.h"

static const struct command *const commands[] = {
	&command_keygen,
	&command_address,
	&command_canon,
	&command_sign,
	&command_verify,
	NULL,
};

static const char *const kinds[] = {
	"rnp.check",
	"rnp.error",
	"rnp.key",
	"rnp.keyfile",
	"rnp.node",
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
