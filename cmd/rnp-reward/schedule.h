/* schedule.h - a supply schedule read from a file that a person writes (kind rnp.schedule). */
#ifndef RNP_CMD_REWARD_SCHEDULE_H
#define RNP_CMD_REWARD_SCHEDULE_H

#include "cmd/rnp-reward/supply.h"

/* Reads a schedule. Returns 0, or -1: 66, 65 naming the field. */
int schedule_load(struct supply_schedule *s, const char *path);

#endif
