/* main.c - rnp-bench: benchmarks of this machine, and proof of compute. */
#include "cmd/rnp-bench/commands.h"
#include "common/cli/prog.h"

static const struct command *const commands[] = { &command_answer, &command_challenge,
	&command_compare, &command_report, &command_list, &command_run, &command_serve,
	&command_verdict, NULL };

static const char *const kinds[] = { "rnp.answer", "rnp.bench", "rnp.challenge",
	"rnp.compare", "rnp.error", "rnp.heartbeat", "rnp.node", "rnp.peer", "rnp.roots",
	"rnp.test", "rnp.unanswered", "rnp.verdict", NULL };

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
