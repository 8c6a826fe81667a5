/* ship.c - packs and sends. */
#include "cmd/rnp-register/customer/ship.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/rnp-register/pack/pack.h"
#include "cmd/rnp-register/pack/transfer.h"
#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/cli/progress.h"
#include "common/json/json.h"

void ship_local_path(struct buf *out, const char *path)
{
	const char *home = getenv("HOME");

	if (home && path[0] == '~' && (path[1] == '/' || !path[1]))
		buf_addf(out, "%s%s", home, path + 1);
	else
		buf_adds(out, path);
}

/* In single quotes a shell changes nothing. */
static void add_quoted(struct buf *out, const char *text)
{
	buf_addc(out, '\'');
	for (; *text; text++)
		if (*text == '\'')
			buf_adds(out, "'\\''");
		else
			buf_addc(out, *text);
	buf_addc(out, '\'');
}

void ship_script(struct buf *out, const json_t *task, const char *script)
{
	const char *name;
	json_t *value;

	json_object_foreach(json_object_get(task, "envs"), name, value) {
		buf_addf(out, "export %s=", name);
		add_quoted(out, json_string_value(value));
		buf_addc(out, '\n');
	}
	buf_adds(out, script);
}

static int ship_one(struct customer *c, const json_t *task, const char *field,
	const char *hash_field, json_t *booking)
{
	const char *script = json_string_value(json_object_get(task, field));
	struct buf text = BUF_INIT;
	char name[65];
	int rc = 0;

	if (!script)
		return 0;
	ship_script(&text, task, script);
	rc = customer_put(c, buf_text(&text), text.len, name);
	if (rc == 0)
		json_set_text(booking, hash_field, name);
	buf_release(&text);
	return rc;
}

static void show_progress(void *ctx, int64_t done, int64_t total)
{
	struct progress *p = ctx;

	(void)total;
	progress_update(p, done);
}

static int ship_directory(struct customer *c, const char *workdir, json_t *booking)
{
	const struct pack_config config = { .rules = true, .cache = true };
	struct buf dir = BUF_INIT, left = BUF_INIT;
	struct pack p = { 0 };
	struct progress progress;
	struct transfer t = { .http = &c->http,
		.base = c->registry,
		.ca = c->ca,
		.key = c->key,
		.abort = c->abort,
		.progress = show_progress,
		.ctx = &progress };
	char name[2 * SHA256_BYTES + 1];
	json_t *blobs;
	int rc;

	ship_local_path(&dir, workdir);
	rc = pack_directory(&p, buf_text(&dir), &config);
	if (rc < 0) {
		err_add("workdir %s", workdir);
		goto out;
	}
	pack_left_text(&left, &p);
	if (left.len)
		prog_info("workdir %s", left.data);
	progress_start(&progress, "workdir", "B", p.walk.manifest.bytes);
	rc = transfer_upload(&t, &p);
	progress_end(&progress);
	if (rc == 0) {
		sodium_bin2hex(name, sizeof name, p.sha256, sizeof p.sha256);
		blobs = json_array();
		json_push_text(blobs, name);
		json_set(booking, "blobs", blobs);
		prog_info("workdir %s: %zu files, %lld B, of them %lld sent", workdir,
			p.walk.manifest.nentries, (long long)p.walk.manifest.bytes,
			(long long)t.bytes);
	}
	pack_release(&p);
out:
	buf_release(&dir);
	buf_release(&left);
	return rc;
}

int ship(struct customer *c, const json_t *task, json_t *booking)
{
	const char *workdir = json_string_value(json_object_get(task, "workdir"));

	if (workdir && ship_directory(c, workdir, booking) < 0)
		return -1;
	return ship_one(c, task, "setup", "setup_sha256", booking) < 0 ?
		-1 :
		ship_one(c, task, "run", "run_sha256", booking);
}
