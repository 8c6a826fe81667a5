/* reputation_core.c - weights and Wilson's bound in fixed point. */
#include "cmd/rnp-reward/reputation_core.h"

typedef unsigned __int128 u128;

#define ONE_63 (UINT64_C(1) << 63)

/* floor(sqrt(v)), bit by bit. */
static uint64_t root(u128 v)
{
	u128 r = 0;

	for (int bit = 63; bit >= 0; bit--) {
		u128 t = r | (u128)1 << bit;

		if (t * t <= v)
			r = t;
	}
	return (uint64_t)r;
}

uint64_t reputation_weight(int64_t age_ms, int64_t half_life_ms)
{
	int64_t halvings = age_ms / half_life_ms;
	uint64_t fraction = (uint64_t)(((u128)(age_ms % half_life_ms) << 32) /
		(u128)half_life_ms);
	uint64_t w = ONE_63, step = ONE_63 / 2; /* 2^-1 in units of 2^-63 */

	if (halvings >= 32)
		return 0;
	/* 2^-0.f = product of 2^(-2^-k) over the bits of f, each the root of the one before */
	for (int bit = 31; bit >= 0; bit--) {
		step = root((u128)step << 63);
		if (fraction >> bit & 1)
			w = (uint64_t)((u128)w * step >> 63);
	}
	return w >> 31 >> halvings;
}

void reputation_add(struct reputation *r, bool passed, int64_t age_ms,
	int64_t half_life_ms)
{
	uint64_t w = reputation_weight(age_ms, half_life_ms);

	r->trials++;
	r->passed += passed;
	r->weight += w;
	r->passed_weight += passed ? w : 0;
}

int64_t reputation_lower_ppm(const struct reputation *r)
{
	const u128 z = ((u128)196 << 32) / 100, z2 = ((u128)38416 << 32) / 10000;
	u128 s = r->passed_weight, n = r->weight, spread, top;

	if (!n)
		return 0;
	/* (s + z^2/2 - z sqrt(s (n - s) / n + z^2/4)) / (n + z^2) */
	spread = root((s * (n - s) / n + z2 / 4) << 32);
	top = s + z2 / 2;
	spread = z * spread >> 32;
	return top > spread ? (int64_t)((top - spread) * 1000000 / (n + z2)) : 0;
}
