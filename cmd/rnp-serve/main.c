/* main.c - rnp-serve: serve a language model as an OpenAI-compatible chat. */
#include "cmd/rnp-serve/commands.h"
#include "common/cli/prog.h"

static const struct command *const commands[] = { &command_ask, &command_batch,
	&command_bench, &command_inspect, &command_key, &command_metrics, &command_plan,
	&command_run, NULL };

static const char *const kinds[] = { "rnp.api_key", "rnp.bench", "rnp.completion",
	"rnp.error", "rnp.metadata", "rnp.metric", "rnp.model", "rnp.plan", "rnp.tensor",
	NULL };

static const struct program program = {
	.name = "rnp-serve",
	.summary = "Serve a language model as an OpenAI-compatible chat.",
	.commands = commands,
	.kinds = kinds,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
