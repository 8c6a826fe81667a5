/* share.h - how much an owner or a job was served for its share. Pure. */
#ifndef RNP_COMMON_MARKET_SHARE_H
#define RNP_COMMON_MARKET_SHARE_H

/* Returns the key of least attained service: what a job or an owner was served, divided by the
 * owner's share (0 or less counts as 1). The smallest key is served next, on a live market as in
 * a trace that is played. */
static inline double share_attained(double served, double share)
{
	return served / (share > 0 ? share : 1);
}

#endif
