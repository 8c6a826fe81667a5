/* fields.c - the names of the fields and factors of rnp.usage, and how to find them. */
#include "cmd/rnp-reward/policy/fields.h"

#include <string.h>

const char *const field_names[FIELD_N] = { "gpu_count", "gpu_memory_bytes",
	"gpu_clock_mhz", "gpu_memory_bandwidth_bps", "cpu_cores", "cpu_clock_mhz",
	"worked_s", "up_s", "earned_uusd", "credits", "down_bps", "up_bps", "score_ppm",
	"gpu_worked_s", "challenges_passed", "passed_ppm", "reputation_ppm",
	"staked_uusd", "epoch_s", "price_uusd" };

const enum field field_of_group[FIELD_GROUP_N] = { FIELD_GPU_COUNT,
	FIELD_GPU_MEMORY_BYTES, FIELD_GPU_CLOCK_MHZ, FIELD_GPU_MEMORY_BANDWIDTH_BPS,
	FIELD_WORKED_S, FIELD_GPU_WORKED_S };

const char *const factor_names[FACTOR_N] = { "gpu", "vram", "network", "clock",
	"memory_bandwidth", "cpu" };

static int find(const char *const *names, int n, const char *name)
{
	for (int i = 0; name && i < n; i++)
		if (strcmp(names[i], name) == 0)
			return i;
	return -1;
}

int field_find(const char *name)
{
	return find(field_names, FIELD_N, name);
}

int factor_find(const char *name)
{
	return find(factor_names, FACTOR_N, name);
}
