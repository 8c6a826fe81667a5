/* ship.c - packs and sends. */
#include "cmd/rnp-register/customer/ship.h"

#include <fcntl.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/pack/pack.h"
#include "cmd/rnp-register/pack/transfer.h"
#include "common/base/err.h"
#include "common/base/io.h"
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

/* A path in the container for its shell: "~/data" is "$HOME"/'data'. */
static void add_place(struct buf *out, const char *path)
{
	if (path[0] == '~' && (path[1] == '/' || !path[1])) {
		buf_adds(out, "\"$HOME\"");
		path++;
	}
	if (*path)
		add_quoted(out, path);
}

void ship_mount_words(struct buf *out, size_t number, const char *to, const char *file)
{
	buf_adds(out, "mkdir -p ");
	if (file)
		buf_adds(out, "\"$(dirname ");
	add_place(out, to);
	if (file)
		buf_adds(out, ")\"");
	buf_addf(out, " && cp -a \"$HOME/sky_workdir/.rnp/mounts/%zu\"/", number);
	add_quoted(out, file ? file : ".");
	buf_addc(out, ' ');
	add_place(out, to);
	buf_adds(out, " || exit\n");
}

/* --- directories -------------------------------------------------------------------------- */

static void show_progress(void *ctx, int64_t done, int64_t total)
{
	(void)total;
	progress_update(ctx, done);
}

/* Packs and sends a directory, and appends its name to blobs. what, label: for people. */
static int ship_directory(struct customer *c, const char *dir, const char *what,
	const char *label, const struct pack_config *config, json_t *blobs)
{
	struct buf left = BUF_INIT;
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
	int rc = pack_directory(&p, dir, config);

	if (rc < 0)
		return err_add("%s %s", what, label);
	pack_left_text(&left, &p);
	if (left.len)
		prog_info("%s %s: %s", what, label, left.data);
	progress_start(&progress, what, "B", p.walk.manifest.bytes);
	rc = transfer_upload(&t, &p);
	progress_end(&progress);
	if (rc == 0) {
		sodium_bin2hex(name, sizeof name, p.sha256, sizeof p.sha256);
		json_push_text(blobs, name);
		prog_info("%s %s: %zu files, %lld B, of them %lld sent", what, label,
			p.walk.manifest.nentries, (long long)p.walk.manifest.bytes,
			(long long)t.bytes);
	}
	pack_release(&p);
	buf_release(&left);
	return rc;
}

static int copy_bytes(int from, int to)
{
	char piece[65536];
	ssize_t n;

	while ((n = read(from, piece, sizeof piece)) > 0)
		if (io_write_all(to, piece, (size_t)n) < 0)
			return -1;
	return n < 0 ? -1 : 0;
}

/* Copies a file into a directory, with who may run it. */
static int copy_file(const char *path, const char *to)
{
	int from = open(path, O_RDONLY | O_CLOEXEC), fd = -1, rc = -1;
	struct stat st;

	if (from < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (fstat(from, &st) == 0)
		fd = open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, st.st_mode & 0777);
	if (fd >= 0)
		rc = copy_bytes(from, fd);
	if (rc < 0)
		err_sys(EX_IOERR, "cannot copy '%s' to '%s'", path, to);
	if (fd >= 0 && close(fd) < 0 && rc == 0)
		rc = err_sys(EX_IOERR, "cannot write '%s'", to);
	close(from);
	return rc;
}

/* Sends a directory with one file in it, or nothing (file NULL). */
static int ship_file(struct customer *c, const char *file, const char *name,
	const char *label, json_t *blobs)
{
	const struct pack_config config = { .rules = false };
	const char *tmp = getenv("TMPDIR");
	struct buf dir = BUF_INIT, copy = BUF_INIT;
	int rc = 0;

	buf_addf(&dir, "%s/rnp-launch-XXXXXX", tmp && *tmp ? tmp : "/tmp");
	if (!mkdtemp(dir.data)) {
		rc = err_sys(EX_CANTCREAT, "cannot make '%s'", dir.data);
		goto out;
	}
	buf_addf(&copy, "%s/%s", dir.data, name);
	if (file)
		rc = copy_file(file, copy.data);
	if (rc == 0)
		rc = ship_directory(c, dir.data, "file_mounts", label, &config, blobs);
	if (file)
		unlink(copy.data);
	rmdir(dir.data);
out:
	buf_release(&dir);
	buf_release(&copy);
	return rc;
}

/* Sends what a line of file_mounts takes along, and appends to words how it comes to its place. */
static int ship_mount(struct customer *c, const json_t *mount, json_t *blobs,
	struct buf *words)
{
	const struct pack_config config = { .rules = false, .cache = true };
	const char *from = json_string_value(json_object_get(mount, "from")),
		   *to = json_string_value(json_object_get(mount, "to")), *name = NULL;
	size_t number = json_array_size(blobs);
	struct buf path = BUF_INIT;
	struct stat st;
	int rc;

	ship_local_path(&path, from);
	if (stat(buf_text(&path), &st) < 0) {
		rc = err_sys(EX_NOINPUT, "file_mounts %s", from);
	} else if (S_ISDIR(st.st_mode)) {
		rc = ship_directory(c, path.data, "file_mounts", from, &config, blobs);
	} else {
		name = strrchr(path.data, '/') ? strrchr(path.data, '/') + 1 : path.data;
		rc = S_ISREG(st.st_mode) ?
			ship_file(c, path.data, name, from, blobs) :
			err_set(EX_DATAERR, "file_mounts %s is neither file nor folder",
				from);
	}
	if (rc == 0)
		ship_mount_words(words, number, to, name);
	buf_release(&path);
	return rc;
}

static int ship_workdir(struct customer *c, const char *workdir, json_t *blobs)
{
	const struct pack_config config = { .rules = true, .cache = true };
	struct buf dir = BUF_INIT;
	int rc;

	ship_local_path(&dir, workdir);
	rc = ship_directory(c, buf_text(&dir), "workdir", workdir, &config, blobs);
	buf_release(&dir);
	return rc;
}

/* --- all of it ---------------------------------------------------------------------------- */

static int ship_text(struct customer *c, const json_t *task, const char *before,
	const char *field, const char *hash_field, json_t *booking)
{
	const char *script = json_string_value(json_object_get(task, field));
	struct buf words = BUF_INIT, text = BUF_INIT;
	char name[65];
	int rc = 0;

	if (!script && !*before)
		return 0;
	buf_addf(&words, "%s%s", before, script ? script : "");
	ship_script(&text, task, buf_text(&words));
	rc = customer_put(c, buf_text(&text), text.len, name);
	if (rc == 0)
		json_set_text(booking, hash_field, name);
	buf_release(&words);
	buf_release(&text);
	return rc;
}

int ship(struct customer *c, const json_t *task, json_t *booking)
{
	const char *workdir = json_string_value(json_object_get(task, "workdir"));
	const json_t *mounts = json_object_get(task, "mounts"), *mount;
	json_t *blobs = json_array();
	struct buf before = BUF_INIT;
	int rc = 0;
	size_t i;

	if (workdir)
		rc = ship_workdir(c, workdir, blobs);
	else if (json_array_size(mounts))
		rc = ship_file(c, NULL, "", "", blobs);
	json_array_foreach((json_t *)mounts, i, mount)
		if (rc == 0)
			rc = ship_mount(c, mount, blobs, &before);
	if (before.len)
		buf_adds(&before,
			"rm -rf \"$HOME/sky_workdir/.rnp/mounts\"\n"
			"rmdir \"$HOME/sky_workdir/.rnp\" 2>/dev/null\n");
	if (rc == 0)
		rc = ship_text(c, task, buf_text(&before), "setup", "setup_sha256",
			booking);
	if (rc == 0)
		rc = ship_text(c, task, "", "run", "run_sha256", booking);
	if (json_array_size(blobs))
		json_set(booking, "blobs", json_incref(blobs));
	json_decref(blobs);
	buf_release(&before);
	return rc;
}
