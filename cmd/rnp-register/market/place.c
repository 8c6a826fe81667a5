/* place.c - numbers of leases and ranks as IPv4 addresses. */
#include "cmd/rnp-register/market/place.h"

#include <stdio.h>
#include <stdlib.h>

#include "common/base/err.h"

#define LOOPBACK  UINT32_C(0x7f010000) /* 127.1.0.0 */
#define RANKS_NET UINT32_C(0x0a400000) /* 10.64.0.0 */

void place_text(uint32_t a, char out[PLACE_TEXT_MAX])
{
	snprintf(out, PLACE_TEXT_MAX, "%u.%u.%u.%u", a >> 24, a >> 16 & 255, a >> 8 & 255,
		a & 255);
}

void place_on_gateway(int64_t n, char out[PLACE_TEXT_MAX])
{
	if (n < 1 || n > PLACE_NUMBER_MAX)
		bug("lease number %lld", (long long)n);
	place_text(LOOPBACK + (uint32_t)n, out);
}

uint32_t place_rank(const char *cluster, int64_t ranks, int64_t rank)
{
	char first[4] = { 0 };
	unsigned long block = 0;

	if (rank < 0 || rank >= PLACE_RANKS_MAX)
		bug("rank %lld", (long long)rank);
	for (int i = 0; i < 3 && cluster[i]; i++)
		first[i] = cluster[i];
	if (ranks <= PLACE_RANKS_APART)
		block = strtoul(first, NULL, 16) & 0xfff;
	return RANKS_NET + (uint32_t)block * 1024 + (uint32_t)rank + 1;
}
