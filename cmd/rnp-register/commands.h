/* commands.h - the subcommands of rnp-register, one file each. */
#ifndef RNP_REGISTER_COMMANDS_H
#define RNP_REGISTER_COMMANDS_H

#include "common/cli/opt.h"

extern const struct command command_account;
extern const struct command command_address;
extern const struct command command_book;
extern const struct command command_canon;
extern const struct command command_check;
extern const struct command command_clusters;
extern const struct command command_config;
extern const struct command command_deposit;
extern const struct command command_detect;
extern const struct command command_extend;
extern const struct command command_gateway;
extern const struct command command_heartbeat;
extern const struct command command_invoice;
extern const struct command command_keygen;
extern const struct command command_keys;
extern const struct command command_launch;
extern const struct command command_list;
extern const struct command command_logs;
extern const struct command command_metrics;
extern const struct command command_plan;
extern const struct command command_release;
extern const struct command command_replace;
extern const struct command command_serve;
extern const struct command command_session;
extern const struct command command_setup;
extern const struct command command_sign;
extern const struct command command_ssh;
extern const struct command command_status;
extern const struct command command_submit;
extern const struct command command_verify;
extern const struct command command_work;

#endif
