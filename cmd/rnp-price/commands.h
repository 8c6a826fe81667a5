/* commands.h - the subcommands of rnp-price, one file each. */
#ifndef RNP_PRICE_COMMANDS_H
#define RNP_PRICE_COMMANDS_H

#include "common/cli/opt.h"

/* Rows that commands share. */
/* clang-format off */
#define OPT_PRICED_NODE(to_path) \
	OPT(TEXT, "node", (to_path), "F", \
		"the rnp.node record to price", .required = true)
#define OPT_PRICED_MODEL(to_model) \
	OPT(TEXT, "gpu-model", (to_model), "M", \
		"of a node with several GPU models, price this one (default: the most powerful)")
#define OPT_COSTS(to_path) \
	OPT(TEXT, "costs", (to_path), "F", \
		"what power, hardware and network cost, see rnp-price(1)", .required = true, .setting = true)
#define OPT_MIN_RELIABILITY(to_ppm) \
	OPT_IN(PPM, "min-reliability", (to_ppm), "PPM", 0, 1000000, \
		"hosts below it do not count (default 900000: 90%)")

/* A bound on the age of what is read; the default is said in the help. */
#define OPT_MAX_AGE(to_ms, help_text) \
	OPT_IN(DURATION, "max-age", (to_ms), "D", 1, INT64_MAX / 2, help_text)

/* As OPT_CA, but never from settings: those are of the registry, and a market is another server. */
#define OPT_MARKET_CA(to_path) \
	OPT(TEXT, "ca", (to_path), "F", \
		"trust these certificates (PEM), not the system's")
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
