/* main.c - rnp-train: train language models together over slow links. */
#include "cmd/rnp-train/commands.h"
#include "common/cli/prog.h"

static const struct command *const commands[] = {
	&command_tokenize,
	&command_init,
	&command_run,
	&command_eval,
	&command_export,
	&command_join,
	&command_coordinate,
	&command_judge,
	&command_simulate,
	&command_metrics,
	&command_compress,
	&command_decompress,
	NULL,
};

static const char *const kinds[] = {
	"rnp.assignment",
	"rnp.bench",
	"rnp.delta",
	"rnp.error",
	"rnp.eval",
	"rnp.join",
	"rnp.judgement",
	"rnp.link",
	"rnp.member",
	"rnp.metric",
	"rnp.plan",
	"rnp.receipt",
	"rnp.round",
	"rnp.run",
	"rnp.sim_round",
	"rnp.simulation",
	"rnp.step",
	"rnp.tokens",
	"rnp.training",
	NULL,
};

static const struct program program = {
	.name = "rnp-train",
	.summary = "Train language models together over slow links.",
	.commands = commands,
	.kinds = kinds,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
