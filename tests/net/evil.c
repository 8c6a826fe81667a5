/* evil.c - what makes a hostile worker of `rnp-train join`: linked into it with --wrap=lm_flat_delta, it
 * spoils each delta as RNP_EVIL says, and everything else is the real program, with good signatures. It
 * trains on the CPU, whose memory is the host's. Two of one operator, "lead" and "copy", send the same
 * delta; the files in between are named RNP_EVIL_FILE and more. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/lm/train/flat.h"

int __real_lm_flat_delta(struct lm_train *t, uint64_t from, uint64_t count,
	const float *began, float *out);
int __wrap_lm_flat_delta(struct lm_train *t, uint64_t from, uint64_t count,
	const float *began, float *out);

/* Sends again what the first turn had. */
static void stale(uint64_t from, uint64_t count, float *out)
{
	static float *first;
	static uint64_t have;

	if (from + count > have) {
		first = xrealloc(first, (from + count) * sizeof *first);
		memcpy(first + from, out, count * sizeof *first);
		have = from + count;
	}
	memcpy(out, first + from, count * sizeof *out);
}

/* A round and a part of it have one file, by the parameters that they began with. */
static void shared_name(char name[4096], const char *more, uint64_t from, uint64_t count,
	const float *began)
{
	uint64_t hash = 0xcbf29ce484222325 ^ from;

	for (uint64_t i = 0; i < count; i++) {
		uint32_t bits;

		memcpy(&bits, &began[i], sizeof bits);
		hash = (hash ^ bits) * 0x100000001b3;
	}
	snprintf(name, 4096, "%s-%016" PRIx64 "%s", getenv("RNP_EVIL_FILE"), hash, more);
}

static void lead(uint64_t from, uint64_t count, const float *began, const float *out)
{
	char part[4096], name[4096];
	FILE *f;

	shared_name(part, ".part", from, count, began);
	shared_name(name, "", from, count, began);
	f = fopen(part, "w");
	if (!f || fwrite(out, sizeof *out, count, f) != count || fclose(f) != 0 ||
		rename(part, name) != 0)
		abort();
}

/* A little more than the other, so that no hash tells. */
static void copy(uint64_t from, uint64_t count, const float *began, float *out)
{
	char name[4096];
	FILE *f;

	shared_name(name, "", from, count, began);
	while (!(f = fopen(name, "r")))
		usleep(10000);
	if (fread(out, sizeof *out, count, f) != count)
		abort();
	fclose(f);
	for (uint64_t i = 0; i < count; i++)
		out[i] *= 1.03F;
}

int __wrap_lm_flat_delta(struct lm_train *t, uint64_t from, uint64_t count,
	const float *began, float *out)
{
	const char *how = getenv("RNP_EVIL");
	static struct rng rng;
	int rc = __real_lm_flat_delta(t, from, count, began, out);

	if (!how || rc < 0)
		return rc;
	if (!rng.key[0])
		rng_seed(&rng, 20261122, 0);
	if (strcmp(how, "stale") == 0)
		stale(from, count, out);
	else if (strcmp(how, "lead") == 0)
		lead(from, count, began, out);
	else if (strcmp(how, "copy") == 0)
		copy(from, count, began, out);
	for (uint64_t i = 0; i < count; i++) {
		if (strcmp(how, "flip") == 0)
			out[i] = -out[i];
		else if (strcmp(how, "scale") == 0)
			out[i] *= 100;
		else if (strcmp(how, "random") == 0)
			out[i] = (float)(4e-3 * (rng_f64(&rng) - 0.5));
		else if (strcmp(how, "idle") == 0)
			out[i] = (float)(1e-9 * (rng_f64(&rng) - 0.5));
	}
	return rc;
}
