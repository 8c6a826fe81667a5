/* hour.h - how much of the last hour this machine has worked on challenges: anybody can sign one,
 * and a registry may send one with each reply. */
#ifndef RNP_BENCH_PROVE_HOUR_H
#define RNP_BENCH_PROVE_HOUR_H

#include <stdint.h>

/* Returns the milliseconds of challenges that ended within the last hour, of all processes that
 * share the place of figure.h; without a place those of this process. */
int64_t hour_spent_ms(void);

/* Adds a challenge that has ended now. */
void hour_add(int64_t took_ms);

#endif
