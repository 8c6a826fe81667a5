/* speed.h - how fast a device of this machine does the work of challenges. */
#ifndef RNP_BENCH_PROVE_SPEED_H
#define RNP_BENCH_PROVE_SPEED_H

#include <stdbool.h>

#include "common/poc/poc.h"

struct dev;

/* Reads what is kept of the device (figure.h), or measures it with small challenges of our own,
 * for a second or two, and keeps it; again: measures in any case. No other thread proves
 * meanwhile. Returns 1 if it has measured, else 0; or -1 with err_set(): the device's error. */
int speed_of(struct poc_speed *out, struct dev *dev, bool again);

#endif
