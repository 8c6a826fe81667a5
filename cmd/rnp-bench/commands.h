/* commands.h - the subcommands of rnp-bench, one file each. */
#ifndef RNP_BENCH_COMMANDS_H
#define RNP_BENCH_COMMANDS_H

#include "common/cli/opt.h"

/* Of rnp.bench records: a table a suite; only figures of comm say how they were sent. */
#define BENCH_COLUMNS                                          \
	"+suite,test,params.backend,params.over,params.bytes," \
	"median|low|high=median (95% interval),samples=n,throttled=slowed"

extern const struct command command_list;
extern const struct command command_report;
extern const struct command command_run;
extern const struct command command_compare;
extern const struct command command_challenge;
extern const struct command command_answer;
extern const struct command command_verdict;
extern const struct command command_serve;

#endif
