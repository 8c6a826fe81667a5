/* difference.h - decides whether two medians with intervals differ, and which is better. Pure. */
#ifndef RNP_BENCH_SUITES_DIFFERENCE_H
#define RNP_BENCH_SUITES_DIFFERENCE_H

#include <stdbool.h>
#include <stdint.h>

struct figure {
	int64_t median, low, high;
};

enum verdict { VERDICT_SAME, VERDICT_BETTER, VERDICT_WORSE };

struct difference {
	enum verdict verdict;
	/* Returns (new - old) / old in ppm, rounded towards 0; 0 when old is 0. */
	int64_t change_ppm;
};

/* Times and sizes (ns, us, ms, s, B) are better when smaller, everything else when larger. */
bool difference_smaller_is_better(const char *unit);

/* Whether two intervals overlap (a common end is an overlap): then there is no difference. */
struct difference difference_of(struct figure old, struct figure new,
	bool smaller_is_better);

/* Whether the new median is worse by more than threshold_ppm of the old one. */
bool difference_is_regression(struct difference d, int64_t threshold_ppm);

#endif
