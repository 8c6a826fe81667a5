/* commands.h - the subcommands of rnp-serve, one file each. */
#ifndef RNP_SERVE_COMMANDS_H
#define RNP_SERVE_COMMANDS_H

#include "common/cli/opt.h"

extern const struct command command_ask;
extern const struct command command_batch;
extern const struct command command_bench;
extern const struct command command_inspect;
extern const struct command command_key;
extern const struct command command_metrics;
extern const struct command command_plan;
extern const struct command command_run;

#endif
