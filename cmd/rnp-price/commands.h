/* commands.h - the subcommands of rnp-price, one file each. */
#ifndef RNP_PRICE_COMMANDS_H
#define RNP_PRICE_COMMANDS_H

#include "common/cli/opt.h"

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
