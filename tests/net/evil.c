/* evil.c - what makes a hostile worker of `rnp-train join`: linked into it with
 * --wrap=container_write_filled, it spoils each delta, of a whole model or of a fragment, as
 * RNP_EVIL says before it is packed, and everything else is the real program, with good signatures;
 * one that boasts changes its record, by --wrap=delta_write. It trains on the CPU, whose memory is
 * the host's. Two of one operator, "lead" and "copy", send the same delta; the files in between are
 * named RNP_EVIL_FILE and more. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/wire/protocol.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/json/json.h"

int __real_container_write_filled(struct dev *d, const char *method,
	container_fill_fn fill, void *arg, float *feedback, uint64_t n, const char *path,
	bool later, struct container_facts *facts);
int __wrap_container_write_filled(struct dev *d, const char *method,
	container_fill_fn fill, void *arg, float *feedback, uint64_t n, const char *path,
	bool later, struct container_facts *facts);

json_t *__real_delta_write(const struct delta *d, const struct training *t,
	int64_t now_ms);
json_t *__wrap_delta_write(const struct delta *d, const struct training *t,
	int64_t now_ms);

/* A delta that is packed. */
struct spoilt {
	container_fill_fn fill;
	void *arg;
	uint64_t n, number; /* elements; containers of this process before it */
};

#define KINDS 8 /* of deltas, by their elements: a whole model, or fragments */

/* Sends again what the first turn had, of each fragment: "again", or "stale", so much changed that
 * comparing does not tell. */
static void stale(const struct spoilt *s, uint64_t from, uint64_t count, float *out)
{
	static struct {
		uint64_t n, have;
		float *first;
	} kinds[KINDS];
	int k = 0;

	while (kinds[k].n && kinds[k].n != s->n)
		if (++k == KINDS)
			abort();
	if (!kinds[k].n)
		kinds[k].first = xmalloc(s->n * sizeof *out);
	kinds[k].n = s->n;
	if (from + count > kinds[k].have) {
		memcpy(kinds[k].first + from, out, count * sizeof *out);
		kinds[k].have = from + count;
	}
	memcpy(out, kinds[k].first + from, count * sizeof *out);
}

/* A round and a part of it have one file: both are there from the first round on. */
static void shared_name(char name[4096], const char *more, const struct spoilt *s,
	uint64_t from)
{
	snprintf(name, 4096, "%s-%" PRIu64 "-%" PRIu64 "%s", getenv("RNP_EVIL_FILE"),
		s->number, from, more);
}

static void lead(const struct spoilt *s, uint64_t from, uint64_t count, const float *out)
{
	char part[4096], name[4096];
	FILE *f;

	shared_name(part, ".part", s, from);
	shared_name(name, "", s, from);
	f = fopen(part, "w");
	if (!f || fwrite(out, sizeof *out, count, f) != count || fclose(f) != 0 ||
		rename(part, name) != 0)
		abort();
}

/* A little more than the other, so that no hash tells. */
static void copy(const struct spoilt *s, uint64_t from, uint64_t count, float *out)
{
	char name[4096];
	FILE *f;

	shared_name(name, "", s, from);
	while (!(f = fopen(name, "r")))
		usleep(10000);
	if (fread(out, sizeof *out, count, f) != count)
		abort();
	fclose(f);
	for (uint64_t i = 0; i < count; i++)
		out[i] *= 1.03F;
}

static int spoil(void *arg, uint64_t from, uint64_t count, float *out)
{
	const struct spoilt *s = arg;
	const char *how = getenv("RNP_EVIL");
	static struct rng rng;
	int rc = s->fill(s->arg, from, count, out);

	if (!how || rc < 0)
		return rc;
	if (!rng.key[0])
		rng_seed(&rng, 20261122, 0);
	if (strcmp(how, "stale") == 0 || strcmp(how, "again") == 0)
		stale(s, from, count, out);
	else if (strcmp(how, "lead") == 0)
		lead(s, from, count, out);
	else if (strcmp(how, "copy") == 0)
		copy(s, from, count, out);
	for (uint64_t i = 0; i < count; i++) {
		if (strcmp(how, "flip") == 0 ||
			(strcmp(how, "once") == 0 && s->number == 0))
			out[i] = -out[i];
		else if (strcmp(how, "scale") == 0)
			out[i] *= 100;
		else if (strcmp(how, "stale") == 0)
			out[i] *= (float)(2 * rng_f64(&rng));
		else if (strcmp(how, "again") == 0)
			out[i] *= -0.4F;
		else if (strcmp(how, "zero") == 0)
			out[i] = 0;
		else if (strcmp(how, "huge") == 0)
			out[i] = i % 2 ? 3e38f : -3e38f;
		else if (strcmp(how, "random") == 0)
			out[i] = (float)(4e-3 * (rng_f64(&rng) - 0.5));
		else if (strcmp(how, "idle") == 0)
			out[i] = (float)(1e-9 * (rng_f64(&rng) - 0.5));
	}
	return rc;
}

int __wrap_container_write_filled(struct dev *d, const char *method,
	container_fill_fn fill, void *arg, float *feedback, uint64_t n, const char *path,
	bool later, struct container_facts *facts)
{
	static uint64_t containers;
	struct spoilt s = { fill, arg, n, containers++ };

	return __real_container_write_filled(d, method, spoil, &s, feedback, n, path,
		later, facts);
}

json_t *__wrap_delta_write(const struct delta *d, const struct training *t,
	int64_t now_ms)
{
	const char *how = getenv("RNP_EVIL");
	struct delta copy = *d;

	if (how && strcmp(how, "boast") == 0)
		copy.loss_first_micronats = copy.loss_last_micronats =
			JSON_SAFE_INTEGER_MAX;
	return __real_delta_write(&copy, t, now_ms);
}
