/* stake_core.c - a policy's rule for stakes, applied to one node. */
#include "cmd/rnp-reward/stake_core.h"

enum stake_move stake_decide(int64_t slash_below_ppm, int64_t release_after_s,
	const struct stake_view *v)
{
	if (v->challenged && v->passed_ppm < slash_below_ppm)
		return STAKE_SLASH;
	if (release_after_s >= 0 && !v->up && v->absent_ms >= release_after_s * 1000)
		return STAKE_RELEASE;
	return STAKE_STAYS;
}
