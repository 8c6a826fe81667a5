/* lease_artifacts.c - what a job wants kept: the container puts it into its folder "out"
 * (start.sh), and here it is packed and sent; what was kept of a rank before is given to its next
 * container. */
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/agent_parts.h"
#include "cmd/rnp-register/agent/cell.h"
#include "cmd/rnp-register/market/artifacts.h"
#include "cmd/rnp-register/pack/transfer.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"

#define PACK_MS      300000
#define BYTES_PER_MS 20000 /* that are read and hashed, on a busy machine */

static const json_t *artifacts_of(const struct lease *l)
{
	return json_object_get(l->now.booking, "artifacts");
}

void lease_artifact_lines(struct buf *paths, struct buf *every, const struct lease *l)
{
	const json_t *list = json_object_get(artifacts_of(l), "paths"), *path,
		     *seconds = json_object_get(artifacts_of(l), "every_s");
	size_t i;

	json_array_foreach((json_t *)list, i, path) {
		const char *text = json_string_value(path);

		if (text && *text && !strchr(text, '\n'))
			buf_addf(paths, "%s\n", text);
	}
	if (json_is_integer(seconds))
		buf_addf(every, "%lld\n", (long long)json_integer_value(seconds));
}

const char *lease_artifacts_before(const struct lease *l)
{
	return artifacts_of(l) ?
		json_string_value(json_object_get(l->now.kept, "artifacts")) :
		NULL;
}

/* What a cell has packed is read from there while it is sent. */
struct sending {
	struct lease *l;
	struct cell *cell;
	const struct manifest_blob *blobs;
};

static int read_blob(void *ctx, size_t i, struct buf *out)
{
	struct sending *s = ctx;
	int64_t until_ns = s->l->last_until_ns; /* stays so while it is sent */

	if (until_ns && clock_mono_ns() > until_ns)
		return err_set(EX_TEMPFAIL, "the time for them is over");
	return cell_read(s->cell, i, s->blobs[i].bytes, out);
}

static int send_packed(struct lease *l, struct cell *cell, char name[65])
{
	const struct agent_config *c = l->agent->c;
	struct transfer t = { .http = &l->http,
		.base = c->registry,
		.ca = c->ca,
		.key = c->key,
		.cluster = l->row.cluster,
		.abort = &l->abort };
	struct manifest_blob *blobs = NULL;
	struct sending s = { .l = l, .cell = cell };
	struct transfer_source from = { .read = read_blob, .ctx = &s };
	int64_t most = artifact_bytes_max(l->now.booking), disk = lease_disk_bytes(l);
	int rc = cell_pack(cell, "artifacts", most < disk ? most : disk, &blobs, &from.n);

	if (rc == 0) {
		s.blobs = from.blobs = blobs;
		rc = transfer_send(&t, &from);
	}
	if (rc == 0)
		sodium_bin2hex(name, 65, blobs[from.n - 1].sha256, SHA256_BYTES);
	free(blobs);
	return rc;
}

int lease_send_artifacts(struct lease *l, char name[65])
{
	int64_t n = sandbox_collected(&l->agent->place, l->row.id),
		lost = sandbox_lost(&l->agent->place, l->row.id);
	struct cell_config config = { .first_id = lease_first_id(l),
		.ids = AGENT_IDS,
		.stop = lease_is_unwanted,
		.ctx = l,
		.timeout_ms = PACK_MS + lease_disk_bytes(l) / BYTES_PER_MS };
	struct cell cell = CELL_INIT;
	int rc;

	name[0] = '\0';
	if (artifacts_of(l) && lost != l->lost) {
		l->lost = lost;
		return err_set(EX_IOERR, "its disk is full; what was kept before stays");
	}
	if (!artifacts_of(l) || n == l->collected)
		return 0;
	config.dir = sandbox_folder(&l->agent->place, l->row.id, "out");
	if (config.dir < 0)
		return -1;
	rc = cell_open(&cell, &config);
	if (rc == 0)
		rc = send_packed(l, &cell, name);
	cell_close(&cell);
	close(config.dir);
	/* what will not be otherwise is not tried again */
	if (rc == 0 ||
		(err_get()->code != EX_TEMPFAIL && err_get()->code != EX_UNAVAILABLE))
		l->collected = n;
	return rc;
}
