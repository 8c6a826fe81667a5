/* config_file.h - options of a subcommand from a JSON object: {"steps": 1000, "lr": 0.0004,
 * "resume": true}. */
#ifndef RNP_TRAIN_LOCAL_CONFIG_FILE_H
#define RNP_TRAIN_LOCAL_CONFIG_FILE_H

#include <jansson.h>

#include "common/cli/opt.h"

/* Sets the options of c that the file at path has and the command line has not. *keep holds their
 * texts: to be json_decref'ed when they are no longer wanted. Returns 0, or -1 with err_set(): 66,
 * 65 malformed, 64 an option that there is not, or its value. */
int config_file_apply(const struct command *c, const char *path, json_t **keep);

#endif
