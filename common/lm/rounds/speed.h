/* speed.h - the speed that the turns of a round are measured by, of what members say.
 *
 * Part of round.h, whose object it works on; pure. */
#ifndef RNP_COMMON_LM_ROUNDS_SPEED_H
#define RNP_COMMON_LM_ROUNDS_SPEED_H

#include <stdint.h>

#include "common/lm/rounds/round.h"

/* Sets r->fastest and r->fastest_max (tokens a second) from the members that are here. */
void round_find_fastest(struct round *r);

/* A member of that speed has come: of many that come one after the other not each is held against
 * all. */
void round_hear_speed(struct round *r, uint64_t speed);

#endif
