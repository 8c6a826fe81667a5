/* commands.h - the subcommands of rnp-train, one file each. */
#ifndef RNP_TRAIN_COMMANDS_H
#define RNP_TRAIN_COMMANDS_H

#include "common/cli/opt.h"

extern const struct command command_compress;
extern const struct command command_coordinate;
extern const struct command command_decompress;
extern const struct command command_eval;
extern const struct command command_export;
extern const struct command command_init;
extern const struct command command_join;
extern const struct command command_judge;
extern const struct command command_metrics;
extern const struct command command_run;
extern const struct command command_simulate;
extern const struct command command_tokenize;

#endif
