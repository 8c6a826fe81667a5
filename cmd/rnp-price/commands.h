/* commands.h - the subcommands of rnp-price, one file each. */
#ifndef RNP_PRICE_COMMANDS_H
#define RNP_PRICE_COMMANDS_H

#include "common/cli/opt.h"

/* Rows that commands share. */
/* clang-format off */
#define OPT_PRICED_NODE(to_path) \
	{ .name = "node", .kind = OPT_TEXT, .required = true, .to = (to_path), .metavar = "F", \
		.help = "the rnp.node record to price" }
#define OPT_COSTS(to_path) \
	{ .name = "costs", .kind = OPT_TEXT, .required = true, .setting = true, .to = (to_path), \
		.metavar = "F", .help = "what power, hardware and network cost, see rnp-price(1)" }
#define OPT_MIN_RELIABILITY(to_ppm) \
	{ .name = "min-reliability", .kind = OPT_I64, .to = (to_ppm), .metavar = "PPM", .min = 0, \
		.max = 1000000, .help = "hosts below it do not count (default 900000: 90%)" }

/* A bound on the age of what is read; the default is said in the help. */
#define OPT_MAX_AGE(to_ms, help_text) \
	{ .name = "max-age", .kind = OPT_DURATION, .to = (to_ms), .metavar = "D", .min = 1, \
		.max = INT64_MAX / 2, .help = help_text }

/* As OPT_CA, but never from settings: those are of the registry, and a market is another server. */
#define OPT_MARKET_CA(to_path) \
	{ .name = "ca", .kind = OPT_TEXT, .to = (to_path), .metavar = "F", \
		.help = "trust these certificates (PEM), not the system's" }
/* clang-format on */

extern const struct command command_backtest;
extern const struct command command_bid;
extern const struct command command_estimate;
extern const struct command command_feed;
extern const struct command command_fit;
extern const struct command command_floor;
extern const struct command command_match;
extern const struct command command_publish;
extern const struct command command_quote;

#endif
