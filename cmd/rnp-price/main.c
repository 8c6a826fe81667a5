/* main.c - rnp-price: prices a node from live market feeds. */
#include <stddef.h>

#include "cmd/rnp-price/commands.h"
#include "common/cli/prog.h"

static const struct command *const commands[] = {
	&command_backtest,
	&command_bid,
	&command_estimate,
	&command_feed,
	&command_fit,
	&command_floor,
	&command_match,
	&command_publish,
	&command_quote,
	NULL,
};

static const char *const kinds[] = {
	"rnp.backtest",
	"rnp.bench",
	"rnp.costs",
	"rnp.error",
	"rnp.estimate",
	"rnp.fit",
	"rnp.floor",
	"rnp.job",
	"rnp.lease",
	"rnp.listing",
	"rnp.markets",
	"rnp.match",
	"rnp.node",
	"rnp.offer",
	"rnp.price",
	"rnp.publication",
	"rnp.quote",
	"rnp.reputation",
	NULL,
};

static const struct program program = {
	.name = "rnp-price",
	.summary = "Prices a node from live market feeds.",
	.commands = commands,
	.kinds = kinds,
};

int main(int argc, char **argv)
{
	return prog_main(&program, argc, argv);
}
