/* join_base.c - the parameters that all workers have: by updates, or whole. */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/container.h"
#include "cmd/rnp-train/join.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/lm/train/outer.h"

int worker_check_file(const char *path, const char hash[PROTOCOL_HEX])
{
	struct buf text = BUF_INIT;
	unsigned char is[32];
	char hex[PROTOCOL_HEX] = "";
	int rc = io_read(&text, path, SIZE_MAX);

	if (rc == 0) {
		crypto_generichash(is, sizeof is, (const unsigned char *)text.data,
			text.len, NULL, 0);
		protocol_hex(hex, is);
	}
	buf_release(&text);
	if (rc == 0 && strcmp(hex, hash) != 0)
		rc = err_set(EX_DATAERR,
			"what the coordinator sent has not the hash that it named");
	return rc;
}

#define UPDATES_MAX 4096 /* in a row */

/* The elements that a container has, one range after the other; was NULL: they are the values
 * themselves, else what is added to them. */
static int read_ranges(struct container *c, const struct update_range *ranges, size_t n,
	const float *was, float *to)
{
	float *values = xmalloc(CONTAINER_FLOATS * sizeof *values);
	struct update_walk walk = { .ranges = ranges, .n = n };
	uint64_t at, part;
	int rc = 0;

	while (rc == 0 && (part = update_walk_step(&walk, CONTAINER_FLOATS, &at))) {
		rc = container_read(c, values, part);
		for (uint64_t i = 0; rc == 0 && i < part; i++)
			to[at + i] = was ? was[at + i] + values[i] : values[i];
	}
	free(values);
	return rc;
}

/* What comes and where it belongs: everything, or what a round exchanges. */
struct coming {
	const char *path, *method;
	const float *was; /* what it is added to; NULL: nothing */
	struct update_range *ranges;
	size_t nranges;
	uint64_t elements, version; /* version: of the result */
	const char *wanted;         /* the hash that it must have ("": any) */
};

static int read_coming(struct worker *w, const struct coming *from, struct flatfile *to)
{
	struct container c = CONTAINER_INIT;
	struct dev *d = w->coder.ops ? &w->coder : &w->d;
	int rc;

	if (from->was)
		memcpy(to->x, from->was, to->n * sizeof *to->x);
	rc = container_open(&c, d, from->path, from->method, from->elements);
	if (rc == 0)
		rc = read_ranges(&c, from->ranges, from->nranges, from->was, to->x);
	if (rc < 0 && err_get()->code == EX_DATAERR)
		err_add("the coordinator's parameters");
	container_close(&c);
	return rc;
}

/* pub becomes what comes, and is kept as the next file of the state. */
static int apply(struct worker *w, const struct coming *from)
{
	struct join_state *s = &w->state;
	struct flatfile to = FLATFILE_INIT;
	int64_t from_ns = clock_mono_ns();
	unsigned char hash[32];
	char name[64], hex[PROTOCOL_HEX];
	int rc;

	rc = worker_kept(w);
	snprintf(name, sizeof name, "pub-%llu.f32", (unsigned long long)s->next);
	if (rc == 0)
		rc = flatfile_make(&to, s->dir, name, s->n);
	if (rc == 0)
		rc = read_coming(w, from, &to);
	if (rc == 0) {
		flatfile_hash(to.x, s->n, hash);
		protocol_hex(hex, hash);
		if (*from->wanted && strcmp(hex, from->wanted) != 0)
			rc = err_set(EX_DATAERR,
				"the coordinator's parameters have not the hash that it named");
	}
	if (rc == 0) {
		s->pub = s->next++;
		s->version = from->version;
		memcpy(s->base, hex, sizeof s->base);
		rc = worker_keep(w, &to, 1);
	}
	flatfile_close(&to);
	w->beside_ns += clock_mono_ns() - from_ns;
	return rc;
}

int worker_next_base(struct worker *w)
{
	struct join_state *s = &w->state;
	char *path = join_state_path(s, "params-update"), request[128], name[64];
	struct flatfile was = FLATFILE_INIT;
	struct coming from = { .path = path,
		.method = w->run.method_down,
		.version = s->version + 1,
		.wanted = "" };
	int rc;

	from.nranges = training_ranges(&w->run, s->version, &from.ranges, &from.elements);

	snprintf(request, sizeof request, "/v1/update/%s", s->base);
	rc = worker_ahead(w, true) ?
		0 :
		client_fetch(&w->client, request, path,
			container_bytes_max(w->run.method_down, from.elements),
			&w->update_bytes);
	if (rc == 0) {
		snprintf(name, sizeof name, "pub-%llu.f32", (unsigned long long)s->pub);
		rc = flatfile_open(&was, s->dir, name, s->n);
		if (rc == 0)
			from.was = was.x;
		if (rc == 0)
			rc = apply(w, &from);
		flatfile_close(&was);
	}
	unlink(path);
	free(from.ranges);
	free(path);
	return rc;
}

static int apply_whole(struct worker *w, const char *base, uint64_t version)
{
	char *path = join_state_path(&w->state, "params-%s", base), request[128];
	struct update_range all = { 0, w->state.n };
	struct coming from = { .path = path,
		.method = "lossless",
		.ranges = &all,
		.nranges = 1,
		.elements = w->state.n,
		.version = version,
		.wanted = base };
	/* at least half of their bytes are left */
	uint64_t max = container_bytes_max("lossless", w->state.n), guess = max / 2;
	int rc;

	snprintf(request, sizeof request, "/v1/params/%s", base);
	rc = client_fetch(&w->client, request, path, max, &guess);
	if (rc == 0)
		rc = apply(w, &from);
	/* what is damaged would be there again at the next try */
	if (rc != -1 || err_get()->code == EX_DATAERR)
		unlink(path);
	free(path);
	return rc;
}

int worker_get_base(struct worker *w, const char base[PROTOCOL_HEX], uint64_t version)
{
	struct join_state *s = &w->state;
	int rc = 0;

	for (int i = 0; s->pub && strcmp(s->base, base) != 0 && i < UPDATES_MAX; i++) {
		rc = worker_next_base(w);
		if (rc)
			break;
	}
	if (rc < 0)
		return -1;
	if (s->pub && strcmp(s->base, base) == 0)
		return 0;
	prog_detail("fetching all parameters");
	return apply_whole(w, base, version);
}
