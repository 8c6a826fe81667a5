/* commands.h - the subcommands of rnp-reward, one file each. */
#ifndef RNP_CMD_REWARD_COMMANDS_H
#define RNP_CMD_REWARD_COMMANDS_H

#include "common/cli/opt.h"

/* The row `--store DB` of commands on an existing ledger. */
#define OPT_LEDGER(to_path) \
	OPT(TEXT, "store", (to_path), "DB", "the ledger", .required = true)

extern const struct command command_usage;
extern const struct command command_epoch;
extern const struct command command_explain;
extern const struct command command_proof;
extern const struct command command_verify;
extern const struct command command_ledger;
extern const struct command command_cosign;
extern const struct command command_policy;
extern const struct command command_pay;
extern const struct command command_twap;
extern const struct command command_burn;
extern const struct command command_mint;
extern const struct command command_simulate;
extern const struct command command_reputation;
extern const struct command command_report;
extern const struct command command_stake;

#endif
