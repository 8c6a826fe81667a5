/* bring.c - artifacts come home. */
#include "cmd/rnp-register/customer/bring.h"

#include <stdio.h>
#include <string.h>

#include "cmd/rnp-register/market/artifacts.h"
#include "cmd/rnp-register/pack/transfer.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

#define RANKS_MAX 64

/* Reads what the registry says of one rank. Returns its manifest, borrowed, or NULL with
 * err_set. */
static const char *name_of(const json_t *one, int64_t *rank)
{
	const char *name;

	if (json_get_i64(one, "the registry's artifacts", "rank", 0, RANKS_MAX - 1,
		    rank) < 0 ||
		json_get_text(one, "the registry's artifacts", "sha256", &name) < 0)
		return NULL;
	if (strlen(name) == TRANSFER_NAME_MAX - 1 &&
		strspn(name, "0123456789abcdef") == TRANSFER_NAME_MAX - 1)
		return name;
	err_set(EX_DATAERR,
		"the registry's artifacts of rank %lld: '%.80s' is no SHA-256",
		(long long)*rank, name);
	return NULL;
}

/* Brings those of one rank to a folder of place, and writes which it is. */
static int bring(struct customer *c, const json_t *one, const char *place,
	int64_t bytes_max, struct buf *path)
{
	const struct unpack_config config = { .entries_max = ARTIFACT_ENTRIES_MAX,
		.bytes_max = bytes_max,
		.flush = true,
		.uid = (uid_t)-1,
		.gid = (gid_t)-1 };
	struct transfer t = { .http = &c->http,
		.base = c->registry,
		.ca = c->ca,
		.key = c->key };
	int64_t rank = 0;
	const char *name = name_of(one, &rank);

	if (!name)
		return -1;
	buf_reset(path);
	buf_addf(path, "%s/%lld", place, (long long)rank);
	if (io_make_dirs(place, 0777) < 0)
		return -1;
	if (transfer_download(&t, name, buf_text(path), &config) < 0)
		return err_add("artifacts %s", buf_text(path));
	prog_info("artifacts %s: %lld B", buf_text(path), (long long)t.total_bytes);
	return 0;
}

static int bring_all(struct customer *c, json_t *list, const char *place,
	int64_t bytes_max, json_t *here)
{
	struct buf path = BUF_INIT;
	struct err first = { .code = 0 };
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		if (bring(c, one, place, bytes_max, &path) == 0) {
			json_set_text(one, "path", buf_text(&path));
			json_push(here, json_incref(one));
		} else if (!first.code) {
			err_save(&first);
		}
	}
	buf_release(&path);
	return first.code ? err_restore(&first) : 0;
}

int bring_artifacts(struct customer *c, json_t *record, const char *cluster,
	const char *dir, int64_t bytes_max)
{
	json_t *list = json_object_get(record, "artifacts"), *here;
	struct buf place = BUF_INIT;
	int rc = 0;

	if (!list)
		return 0;
	here = json_array();
	if (dir)
		buf_adds(&place, dir);
	else
		buf_addf(&place, "artifacts/%s", cluster);
	if (json_array_size(list) > RANKS_MAX)
		rc = err_set(EX_DATAERR, "the registry names artifacts of %zu ranks",
			json_array_size(list));
	else if (!bytes_max)
		rc = err_set(EX_DATAERR,
			"the registry names artifacts, and the job keeps none");
	else
		rc = bring_all(c, list, buf_text(&place), bytes_max, here);
	json_set(record, "artifacts", here);
	buf_release(&place);
	return rc;
}
