/* params.c - the parameters that all workers have: by updates, or whole. */
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/wire/filehash.h"
#include "cmd/rnp-train/worker/worker.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/cli/prog.h"
#include "common/lm/rounds/outer.h"

int worker_check_file(const char *path, const char hash[PROTOCOL_HEX])
{
	char hex[PROTOCOL_HEX];

	if (filehash_blake2b(path, hex) < 0)
		return -1;
	return strcmp(hex, hash) == 0 ?
		0 :
		err_set(EX_DATAERR,
			"what the coordinator sent has not the hash that it named");
}

#define UPDATES_MAX 4096 /* in a row */

/* What comes and where it belongs: everything, or what a round exchanges. */
struct coming {
	const char *path, *method;
	const float *was; /* what it is added to; NULL: nothing */
	struct update_range *ranges;
	size_t nranges;
	uint64_t elements, version; /* version: of the result */
	const char *wanted;         /* the hash that it must have ("": any) */
};

/* The parameters, as the container has them. */
static int read_whole(struct dev *d, const struct coming *from, float *to)
{
	struct container c = CONTAINER_INIT;
	int rc = container_open(&c, d, from->path, from->method, from->elements);

	if (rc == 0)
		rc = container_read(&c, to, from->elements);
	container_close(&c);
	return rc;
}

static int read_coming(struct worker *w, const struct coming *from, struct flatfile *to)
{
	struct dev *d = w->coder.ops ? &w->coder : &w->d;
	int rc;

	if (from->was) {
		memcpy(to->x, from->was, to->n * sizeof *to->x);
		rc = container_take(d, from->path, from->method, to->x, from->ranges,
			from->nranges);
	} else {
		rc = read_whole(d, from, to->x);
	}
	if (rc < 0 && err_get()->code == EX_DATAERR)
		err_add("the coordinator's parameters");
	return rc;
}

/* published becomes what comes, and is kept as the next file of the state. */
static int apply(struct worker *w, const struct coming *from)
{
	struct join_state *s = &w->state;
	struct flatfile to = FLATFILE_INIT;
	int64_t from_ns = clock_mono_ns();
	unsigned char hash[32];
	char name[64], hex[PROTOCOL_HEX];
	int rc;

	rc = worker_persisted(w);
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
		s->published = s->next++;
		s->version = from->version;
		memcpy(s->params_hash, hex, sizeof s->params_hash);
		rc = worker_persist(w, &to, 1);
	}
	flatfile_close(&to);
	w->work.overhead_ns += clock_mono_ns() - from_ns;
	return rc;
}

int worker_apply_update(struct worker *w)
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

	snprintf(request, sizeof request, "/v1/update/%s", s->params_hash);
	rc = client_fetch(&w->client, request, path,
		container_bytes_max(w->run.method_down, from.elements), &w->update_bytes);
	if (rc == 0) {
		snprintf(name, sizeof name, "pub-%llu.f32",
			(unsigned long long)s->published);
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

static int apply_whole(struct worker *w, const char *params_hash, uint64_t version)
{
	char *path = join_state_path(&w->state, "params-%s", params_hash), request[128];
	struct coming from = { .path = path,
		.method = "lossless",
		.elements = w->state.n,
		.version = version,
		.wanted = params_hash };
	/* at least half of their bytes are left */
	uint64_t max = container_bytes_max("lossless", w->state.n), guess = max / 2;
	int rc;

	snprintf(request, sizeof request, "/v1/params/%s", params_hash);
	rc = client_fetch(&w->client, request, path, max, &guess);
	if (rc == 0)
		rc = apply(w, &from);
	/* what is damaged would be there again at the next try */
	if (rc != -1 || err_get()->code == EX_DATAERR)
		unlink(path);
	free(path);
	return rc;
}

int worker_fetch_params(struct worker *w, const char params_hash[PROTOCOL_HEX],
	uint64_t version)
{
	struct join_state *s = &w->state;
	int rc = 0;

	for (int i = 0; s->published && strcmp(s->params_hash, params_hash) != 0 &&
		i < UPDATES_MAX;
		i++) {
		rc = worker_apply_update(w);
		if (rc)
			break;
	}
	if (rc < 0)
		return -1;
	if (s->published && strcmp(s->params_hash, params_hash) == 0)
		return 0;
	prog_detail("fetching all parameters");
	return apply_whole(w, params_hash, version);
}
