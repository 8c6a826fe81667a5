/* gather_hold.c - see gather_hold.h. */
#include "cmd/rnp-reward/gather_hold.h"

#include <stdbool.h>
#include <string.h>

#include "common/record/facts.h"
#include "common/record/gpu.h"

#define GPU_CLOCK_MAX_MHZ 4000                  /* more than any that is sold */
#define LINK_MAX_BPS      INT64_C(800000000000) /* the fastest card that is sold */
/* above the highest tier of the proposals, 1600 down and 1200 up */
#define LINK_UNMEASURED_MAX_BPS INT64_C(2000000000)

/* What a node says of its GPU is proven only in part, and policies pay in proportion to it: a clock that
 * no GPU has, and more memory or bandwidth than the data sheet of its model says, do not count. Returns
 * whether *v was more, and is now the most that counts. */
static bool hold_to_model(const json_t *node, const char *name, int64_t *v)
{
	const json_t *gpu = json_array_get(json_object_get(node, "gpus"), 0);
	const char *model = json_string_value(json_object_get(gpu, "model"));
	const struct gpu_model *m = NULL;
	int64_t most = 0;

	if (strcmp(name, "gpu_clock_mhz") == 0)
		most = GPU_CLOCK_MAX_MHZ;
	else if (strcmp(name, "gpu_memory_bytes") != 0 &&
		strcmp(name, "gpu_memory_bandwidth_bps") != 0)
		return false;
	if (!most && model)
		m = gpu_find(model,
			json_integer_value(json_object_get(gpu, "memory_bytes")));
	/* a memory that no such card has: that of the plain name counts */
	if (!most && model && !m)
		m = gpu_find(model, 0);
	if (m)
		most = strcmp(name, "gpu_memory_bytes") == 0 ?
			m->memory_bytes :
			m->bandwidth_mbytes * 1000000;
	if (!most || *v <= most)
		return false;
	*v = most;
	return true;
}

/* A verdict measures the lower direction of a node's link. Of the direction that the node says is the
 * lower one no more counts than the best verdict of the epoch measured: a policy that pays for a link
 * asks for both; of the other, no more than a link that nobody has. Where none measured, a claim reaches
 * all published tiers, and policies that go on in proportion pay for no more. */
static const char *hold_to_measured(const json_t *node, const char *name,
	int64_t measured, int64_t *v)
{
	bool down = strcmp(name, "down_bps") == 0;
	int64_t most = measured ? LINK_MAX_BPS : LINK_UNMEASURED_MAX_BPS;
	struct fact other;

	if (!down && strcmp(name, "up_bps") != 0)
		return NULL;
	fact_read(node, down ? "up_bps" : "down_bps", &other);
	if (measured && measured < LINK_MAX_BPS / 8 &&
		(!other.known || (down ? *v < other.value : *v <= other.value)))
		most = measured * 8;
	if (*v <= most)
		return NULL;
	*v = most;
	return !measured ? ", which is more than counts where no verdict measured it" :
		most < LINK_MAX_BPS ? ", which is more than verdicts measured" :
				      ", which is more than a link carries";
}

const char *gather_hold(const json_t *node, const char *name, int64_t bandwidth,
	int64_t *v)
{
	const char *held = hold_to_measured(node, name, bandwidth, v);

	if (held)
		return held;
	return hold_to_model(node, name, v) ? ", which is more than its model has" : "";
}
