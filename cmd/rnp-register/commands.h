/* commands.h - the subcommands of rnp-register, one file each. */
#ifndef RNP_REGISTER_COMMANDS_H
#define RNP_REGISTER_COMMANDS_H

#include "common/opt.h"

extern const struct command command_detect;

#endif
