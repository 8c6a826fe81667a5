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

/* pub becomes was + the container's values, or the values alone where was is NULL; it is kept as
 * the next file of the state. wanted: the hash that it must have ("": any). */
static int apply(struct worker *w, const char *path, const char *method, const float *was,
	const char *wanted)
{
	struct join_state *s = &w->state;
	struct flatfile to = FLATFILE_INIT;
	struct container c = CONTAINER_INIT;
	unsigned char hash[32];
	char name[64], hex[PROTOCOL_HEX];
	int rc;

	snprintf(name, sizeof name, "pub-%llu.f32", (unsigned long long)s->next);
	rc = flatfile_make(&to, s->dir, name, s->n);
	if (rc == 0)
		rc = container_open(&c, &w->d, path, method, s->n);
	for (uint64_t at = 0; rc == 0 && at < s->n; at += CONTAINER_FLOATS) {
		uint64_t n = s->n - at < CONTAINER_FLOATS ? s->n - at : CONTAINER_FLOATS;
		float *values = to.x + at;

		rc = container_read(&c, values, n);
		for (uint64_t i = 0; rc == 0 && was && i < n; i++)
			values[i] = was[at + i] + values[i];
	}
	if (rc < 0 && err_get()->code == EX_DATAERR)
		err_add("the coordinator's parameters");
	if (rc == 0) {
		flatfile_hash(to.x, s->n, hash);
		protocol_hex(hex, hash);
		if (*wanted && strcmp(hex, wanted) != 0)
			rc = err_set(EX_DATAERR,
				"the coordinator's parameters have not the hash that it named");
	}
	if (rc == 0)
		rc = flatfile_keep(&to);
	if (rc == 0) {
		s->pub = s->next++;
		memcpy(s->base, hex, sizeof s->base);
		rc = join_state_save(s);
	}
	container_close(&c);
	flatfile_close(&to);
	return rc;
}

int worker_next_base(struct worker *w)
{
	struct join_state *s = &w->state;
	char *path = join_state_path(s, "params-update"), request[128], name[64];
	struct flatfile was = FLATFILE_INIT;
	int rc;

	snprintf(request, sizeof request, "/v1/update/%s", s->base);
	rc = client_fetch(&w->client, request, path,
		container_bytes_max(w->run.method_down, s->n));
	if (rc == 0) {
		snprintf(name, sizeof name, "pub-%llu.f32", (unsigned long long)s->pub);
		rc = flatfile_open(&was, s->dir, name, s->n);
		if (rc == 0)
			rc = apply(w, path, w->run.method_down, was.x, "");
		flatfile_close(&was);
	}
	unlink(path);
	free(path);
	return rc;
}

static int apply_whole(struct worker *w, const char *base)
{
	char *path = join_state_path(&w->state, "params-%s", base), request[128];
	int rc;

	snprintf(request, sizeof request, "/v1/params/%s", base);
	rc = client_fetch(&w->client, request, path,
		container_bytes_max("lossless", w->state.n));
	if (rc == 0)
		rc = apply(w, path, "lossless", NULL, base);
	/* what is damaged would be there again at the next try */
	if (rc != -1 || err_get()->code == EX_DATAERR)
		unlink(path);
	free(path);
	return rc;
}

int worker_get_base(struct worker *w, const char base[PROTOCOL_HEX])
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
	return apply_whole(w, base);
}
