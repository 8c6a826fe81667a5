/* commands.h - the subcommands of rnp-bench, one file each. */
#ifndef RNP_BENCH_COMMANDS_H
#define RNP_BENCH_COMMANDS_H

#include "common/cli/opt.h"

extern const struct command command_list;
extern const struct command command_report;
extern const struct command command_run;
extern const struct command command_compare;
extern const struct command command_predict;
extern const struct command command_challenge;
extern const struct command command_answer;
extern const struct command command_verdict;
extern const struct command command_serve;

#endif
