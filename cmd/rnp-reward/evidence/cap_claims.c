/* cap_claims.c - caps what a node claims about itself and policies pay for. Pure. Uses facts,
 * gpus. */
#include "cmd/rnp-reward/evidence/collect_parts.h"

#include <stdbool.h>
#include <string.h>

#include "common/record/facts.h"
#include "common/record/gpus.h"

#define GPU_CLOCK_MAX_MHZ 4000                  /* more than any that is sold */
#define LINK_MAX_BPS      INT64_C(800000000000) /* the fastest card that is sold */
/* above the highest tier of the proposals, 1600 down and 1200 up */
#define LINK_UNMEASURED_MAX_BPS INT64_C(2000000000)

/* Caps a claim about a GPU. Challenges prove such claims only in part, and policies pay in
 * proportion to them. So a clock counts up to what the fastest GPU has, and memory and bandwidth
 * count up to the data sheet of the model. Returns true if *v was above the cap and is now the
 * cap. */
static bool cap_by_model(const struct gpu_group *group, const char *name, int64_t *v)
{
	const struct gpu_model *m = NULL;
	int64_t most = 0;

	if (strcmp(name, "gpu_clock_mhz") == 0)
		most = GPU_CLOCK_MAX_MHZ;
	else if (strcmp(name, "gpu_memory_bytes") != 0 &&
		strcmp(name, "gpu_memory_bandwidth_bps") != 0)
		return false;
	if (group && !most) {
		m = group->known;
		/* no card of this name has such a memory: use the card that has the plain name */
		if (!m)
			m = gpu_find(group->model, 0);
	}
	if (m)
		most = strcmp(name, "gpu_memory_bytes") == 0 ?
			m->memory_bytes :
			m->bandwidth_mbytes * 1000000;
	if (!most || *v <= most)
		return false;
	*v = most;
	return true;
}

/* Caps a claim about the link. A verdict measures the slower direction of a link. The direction
 * that the node claims to be slower counts up to the best verdict of the epoch: that suffices,
 * because a policy that pays for a link asks for both directions. The other direction counts up to
 * the fastest link that is sold. Without a measurement the cap is above all published tiers, so
 * that only policies that pay in proportion feel it. Returns what to say of a claim above the cap,
 * or NULL. */
static const char *cap_by_verdicts(const json_t *node, const char *name, int64_t measured,
	int64_t *v)
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

const char *cap_claim(const json_t *node, const struct gpu_group *group, const char *name,
	int64_t bandwidth, int64_t *v)
{
	const char *capped = cap_by_verdicts(node, name, bandwidth, v);

	if (capped)
		return capped;
	return cap_by_model(group, name, v) ? ", which is more than its model has" : "";
}
