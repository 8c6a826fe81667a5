/* bring.c - artifacts come home. */
#include "cmd/rnp-register/customer/bring.h"

#include <stdio.h>

#include "cmd/rnp-register/pack/transfer.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/cli/prog.h"
#include "common/json/json.h"

/* A job may fill a disk; more than this many files are no artifacts. */
#define ENTRIES_MAX 500000

static int bring(struct customer *c, const char *name, const char *path)
{
	const struct unpack_config config = { .entries_max = ENTRIES_MAX,
		.uid = (uid_t)-1,
		.gid = (gid_t)-1 };
	struct transfer t = { .http = &c->http,
		.base = c->registry,
		.ca = c->ca,
		.key = c->key };

	if (!name)
		return err_set(EX_DATAERR, "artifacts %s: the registry names none", path);
	if (transfer_download(&t, name, path, &config) < 0)
		return err_add("artifacts %s", path);
	prog_info("artifacts %s: %lld B", path, (long long)t.total_bytes);
	return 0;
}

int bring_artifacts(struct customer *c, json_t *record, const char *dir)
{
	json_t *list = json_object_get(record, "artifacts"), *one, *here = json_array();
	struct buf place = BUF_INIT, path = BUF_INIT;
	struct err first = { .code = 0 };
	size_t i;

	if (dir)
		buf_adds(&place, dir);
	else
		buf_addf(&place, "artifacts/%s",
			json_string_value(json_object_get(record, "cluster")));
	json_array_foreach(list, i, one) {
		buf_reset(&path);
		buf_addf(&path, "%s/%lld", buf_text(&place),
			(long long)json_integer_value(json_object_get(one, "rank")));
		if (io_make_dirs(buf_text(&place), 0777) < 0 ||
			bring(c, json_string_value(json_object_get(one, "sha256")),
				buf_text(&path)) < 0) {
			if (!first.code)
				err_save(&first);
			continue;
		}
		json_set_text(one, "path", buf_text(&path));
		json_push(here, json_incref(one));
	}
	if (list)
		json_set(record, "artifacts", here);
	else
		json_decref(here);
	buf_release(&place);
	buf_release(&path);
	return first.code ? err_restore(&first) : 0;
}
