/* How much a challenge asks of a device, and how long it may take. */
#include <stdio.h>
#include <string.h>

#include "common/poc.h"

/* What the slowest device of a class that we accept does: half of what two cores of 2015 do, and
 * a tenth of a GPU of 2018; the time for starting and sending is beside it. */
static const struct rates {
	double operations, bytes, hashes; /* a second */
} cpu_rates = { 5e10, 2e8, 2e6 }, gpu_rates = { 5e12, 2e10, 2e6 };

#define GRACE_MS 30000

struct sizes {
	int64_t n, rounds, memory_bytes, lanes, hashes;
};

static const struct sizes cpu_quick = { 1024, 16, 64 << 20, 64, 1 << 20 };
static const struct sizes cpu_full = { 4096, 64, 1 << 30, 256, 1 << 25 };
static const struct sizes gpu_quick = { 2048, 64, 1 << 30, 1024, 0 };
static const struct sizes gpu_full = { 8192, 2048, (int64_t)16 << 30, 8192, 0 };

static bool is_cpu(const char *uuid)
{
	return strncmp(uuid, "cpu:", 4) == 0;
}

void poc_plan_device(struct poc_device *d, const struct poc_challenge *c,
	const char *name, const struct poc_work *w)
{
	const struct sizes *s;
	int64_t bytes, hashes;

	*d = (struct poc_device){ 0 };
	snprintf(d->uuid, sizeof d->uuid, "%s", name);
	if (strcmp(name, "cpu") == 0)
		poc_cpu_uuid(d->uuid, c->node_key);
	if (is_cpu(d->uuid))
		s = w->quick ? &cpu_quick : &cpu_full;
	else
		s = w->quick ? &gpu_quick : &gpu_full;
	d->n = w->n ? w->n : s->n;
	d->rounds = w->rounds ? w->rounds : s->rounds;
	bytes = w->memory_bytes ? w->memory_bytes : s->memory_bytes;
	d->lanes = s->lanes;
	/* lanes of at least 16 blocks a slice, so that a lane is a chain worth the name */
	while (d->lanes > 8 && bytes / (MEMFILL_SLICES * MEMFILL_BYTES) / d->lanes < 16)
		d->lanes /= 2;
	d->per_slice = bytes / (MEMFILL_SLICES * MEMFILL_BYTES) / d->lanes;
	d->passes = 2;
	hashes = w->hashes ? w->hashes : s->hashes;
	if (hashes && is_cpu(d->uuid)) {
		d->segments = hashes < 1024 ? 1 : hashes < (1 << 24) ? 256 : 1024;
		d->steps = hashes / d->segments;
	}
}

int64_t poc_plan_deadline_ms(const struct poc_challenge *c)
{
	double all = 0;

	for (int i = 0; i < c->ndevices; i++) {
		const struct poc_device *d = &c->devices[i];
		const struct rates *r = is_cpu(d->uuid) ? &cpu_rates : &gpu_rates;
		double n = (double)d->n, seconds = 0;

		seconds += 2 * n * n * n * (double)d->rounds / r->operations;
		seconds += (double)(poc_step_leaves(d) * MEMFILL_SLICES * MEMFILL_BYTES *
				   d->passes) /
			r->bytes;
		seconds += (double)(d->segments * d->steps) / r->hashes;
		/* devices work at the same time */
		all = seconds > all ? seconds : all;
	}
	all = all * 1000 + GRACE_MS;
	return all < POC_DEADLINE_MS_MAX ? (int64_t)all : POC_DEADLINE_MS_MAX;
}
