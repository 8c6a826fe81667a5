/* sandbox.c - volume, network and podman of a lease as one engine. */
#include "cmd/rnp-register/agent/sandbox.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/gate.h"
#include "cmd/rnp-register/agent/mounts.h"
#include "cmd/rnp-register/agent/podman.h"
#include "cmd/rnp-register/pack/beneath.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/num.h"
#include "common/base/sha256.h"

#define CLOSE_MS  20000
#define OWN       "/own" /* folder on the tmpfs that root alone may enter */
#define MOUNTS    16
#define SHORT_MAX 17 /* 64 bits of a hash in hex, with the NUL */

struct sandbox {
	struct engine engine; /* first, as in podman_parts.h */
	const struct sandbox_place *place;
	char id[VOLUME_ID_MAX + 1];
	struct engine *podman; /* NULL: the volume is not open */
};

static struct sandbox *sandbox_of(struct engine *e)
{
	return (struct sandbox *)(void *)e;
}

/* --- places ---------------------------------------------------------------------------------- */

/* The name of the lease's folder on the tmpfs: podman wants a path of at most 50 bytes. */
static void short_name(char out[SHORT_MAX], const char *id)
{
	unsigned char hash[SHA256_BYTES];

	sha256(hash, id, strlen(id));
	sodium_bin2hex(out, SHORT_MAX, hash, (SHORT_MAX - 1) / 2);
}

static char *run_path(const struct sandbox_place *place, const char *id, const char *name)
{
	struct buf out = BUF_INIT;
	char folder[SHORT_MAX];

	short_name(folder, id);
	buf_addf(&out, "%s/%s%s", place->run, folder, name);
	return buf_take(&out);
}

static char *data_path(const struct sandbox_place *place, const char *id,
	const char *name)
{
	struct buf out = BUF_INIT;

	volume_data(&out, place->volumes.dir, id);
	buf_adds(&out, name);
	return buf_take(&out);
}

void sandbox_in(struct buf *out, const struct sandbox_place *place, const char *id)
{
	char *path = run_path(place, id, OWN "/in");

	buf_adds(out, path);
	free(path);
}

void sandbox_podman(struct buf *out, const struct sandbox_place *place, const char *id,
	bool run)
{
	char *path = run ? run_path(place, id, "/p") : data_path(place, id, "/podman");

	buf_adds(out, path);
	free(path);
}

int sandbox_folder(const struct sandbox_place *place, const char *id, const char *name)
{
	char *path = data_path(place, id, *name ? "/" : "");
	struct buf whole = BUF_INIT;
	int fd;

	buf_addf(&whole, "%s%s", path, name);
	fd = open(whole.data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		err_sys(EX_IOERR, "cannot open '%s'", whole.data);
	buf_release(&whole);
	free(path);
	return fd;
}

/* Reads a number from a file of the container's: a link, a pipe, a gigabyte are none. Returns it,
 * or -1 without err_set. */
static int64_t read_number(const struct sandbox_place *place, const char *id,
	const char *name, int64_t max)
{
	char *path = data_path(place, id, name), text[16] = "";
	int fd = open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	int64_t number = -1;
	struct stat st;

	free(path);
	if (fd < 0)
		return -1;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) &&
		read(fd, text, sizeof text - 1) > 0) {
		text[strcspn(text, "\n")] = '\0';
		if (num_i64(text, "number", 0, max, &number) < 0)
			number = -1;
		err_clear();
	}
	close(fd);
	return number;
}

int64_t sandbox_collected(const struct sandbox_place *place, const char *id)
{
	int64_t n = read_number(place, id, "/out/collected", 1000000000);

	return n < 0 ? 0 : n;
}

int64_t sandbox_lost(const struct sandbox_place *place, const char *id)
{
	char *path = data_path(place, id, "/out/lost");
	struct stat st;
	int64_t at_ns = 0;

	if (lstat(path, &st) == 0)
		at_ns = st.st_mtim.tv_sec * INT64_C(1000000000) + st.st_mtim.tv_nsec;
	free(path);
	return at_ns;
}

int sandbox_exit(const struct sandbox_place *place, const char *id)
{
	return (int)read_number(place, id, "/out/exit", 255);
}

void sandbox_forget_exit(const struct sandbox_place *place, const char *id)
{
	char *path = data_path(place, id, "/out/exit");

	unlink(path);
	free(path);
}

/* --- images ---------------------------------------------------------------------------------- */

int sandbox_set_images(const struct sandbox_place *place, const char *id,
	const char *root)
{
	char *dir = run_path(place, id, ""), *link = run_path(place, id, "/images");
	int rc = io_make_dirs(dir, 0755);

	if (rc == 0 && unlink(link) < 0 && errno != ENOENT)
		rc = err_sys(EX_IOERR, "cannot remove '%s'", link);
	if (rc == 0 && symlink(root, link) < 0)
		rc = err_sys(EX_CANTCREAT, "cannot make '%s'", link);
	free(dir);
	free(link);
	return rc;
}

/* Appends where a link leads. */
static int follow(struct buf *out, const char *link)
{
	char to[PATH_MAX];
	ssize_t n = readlink(link, to, sizeof to);

	if (n < 0 || (size_t)n >= sizeof to)
		return err_sys(EX_NOINPUT, "cannot read '%s'", link);
	buf_add(out, to, (size_t)n);
	return 0;
}

int sandbox_images(struct buf *out, const struct sandbox_place *place, const char *id)
{
	char *link = run_path(place, id, "/images");
	int rc = follow(out, link);

	free(link);
	return rc;
}

bool sandbox_uses(const struct sandbox_place *place, const char *root)
{
	DIR *dir = opendir(place->run);
	struct dirent *entry;
	bool used = false;

	while (dir && !used && (entry = readdir(dir))) {
		struct buf link = BUF_INIT, to = BUF_INIT;

		buf_addf(&link, "%s/%s/images", place->run, entry->d_name);
		used = follow(&to, buf_text(&link)) == 0 &&
			strcmp(buf_text(&to), root) == 0;
		err_clear();
		buf_release(&link);
		buf_release(&to);
	}
	if (dir)
		closedir(dir);
	return used;
}

/* --- podman ---------------------------------------------------------------------------------- */

/* Opens the lease's podman, where its volume is open. Returns 0; -1 with err_set: 66 it is not. */
static int reach(struct sandbox *s)
{
	struct buf netns = BUF_INIT, images = BUF_INIT;
	struct podman_config c = { 0 };
	char *root, *run;

	if (s->podman)
		return 0;
	if (volume_adopt(&s->place->volumes, s->id) < 0 ||
		sandbox_images(&images, s->place, s->id) < 0)
		return -1;
	root = data_path(s->place, s->id, "/podman");
	run = run_path(s->place, s->id, "/p");
	c.root = root;
	c.run = run;
	c.images = buf_text(&images);
	network_path(&netns, s->place->networks.dir, s->id);
	c.netns = buf_text(&netns);
	s->podman = podman_open(&c);
	buf_release(&netns);
	buf_release(&images);
	free(root);
	free(run);
	return s->podman ? 0 : -1;
}

static int probe(struct engine *e, const char *label, struct engine_list *out)
{
	struct sandbox *s = sandbox_of(e);

	if (reach(s) < 0) {
		if (err_get()->code != EX_NOINPUT)
			return -1;
		err_clear();
		return 0;
	}
	return s->podman->ops->probe(s->podman, label, out);
}

static int pull(struct engine *e, const struct engine_pull_call *call)
{
	(void)e, (void)call;
	return err_set(EX_SOFTWARE, "images go into the node's store");
}

/* --- create ---------------------------------------------------------------------------------- */

static int make_volume(struct sandbox *s, int64_t disk_bytes)
{
	const struct volume_place *v = &s->place->volumes;

	if (volume_adopt(v, s->id) == 0)
		return 0;
	/* one whose key went with a restart of the machine is of no use */
	if (err_get()->code == EX_UNAVAILABLE && volume_close(v, s->id, CLOSE_MS) < 0)
		return -1;
	err_clear();
	return volume_open(v, s->id, disk_bytes);
}

static int make_network(struct sandbox *s, int64_t up_bits_per_s)
{
	if (network_adopt(&s->place->networks, s->id, up_bits_per_s) == 0)
		return 0;
	err_clear();
	if (network_close(&s->place->networks, s->id) < 0)
		return -1;
	return network_open(&s->place->networks, s->id, up_bits_per_s);
}

/* Makes the folder "in". It has the customer's secrets, which are not for this machine's users:
 * podman lets all of them through to where containers lie, and not to this one. */
static int make_in(const struct sandbox *s, const char *in)
{
	char *own = run_path(s->place, s->id, OWN);
	int rc = io_make_dirs(own, 0700);

	free(own);
	return rc < 0 ? -1 : io_make_dirs(in, 0755);
}

/* The container's root may write there, and nobody else. */
static int make_out(const char *path, uint32_t owner)
{
	if (mkdir(path, 0700) < 0 && errno != EEXIST)
		return err_sys(EX_IOERR, "cannot make '%s'", path);
	if (lchown(path, owner, owner) < 0)
		return err_sys(EX_IOERR, "cannot give '%s' away", path);
	return 0;
}

/* In the volume: nothing on the tmpfs may be executable. */
static int make_gate(const char *path)
{
	return io_replace(path, (const char *)gate_program, gate_bytes, 0555);
}

static int create(struct engine *e, const struct engine_spec *spec,
	char id[ENGINE_ID_MAX])
{
	struct sandbox *s = sandbox_of(e);
	struct engine_mount mounts[MOUNTS];
	struct engine_spec with = *spec;
	struct buf in = BUF_INIT, netns = BUF_INIT;
	char *out = data_path(s->place, s->id, "/out"),
	     *gate = data_path(s->place, s->id, "/gate"),
	     *work = data_path(s->place, s->id, "/work");
	int rc = -1;

	sandbox_in(&in, s->place, s->id);
	network_path(&netns, s->place->networks.dir, s->id);
	if (spec->nmounts + 4 > MOUNTS) {
		err_set(EX_SOFTWARE, "too many mounts");
		goto fail;
	}
	if (make_volume(s, spec->disk_bytes) < 0 ||
		make_network(s, spec->up_bits_per_s) < 0 || reach(s) < 0 ||
		make_in(s, buf_text(&in)) < 0 || make_gate(gate) < 0 ||
		make_out(out, spec->first_id) < 0 || make_out(work, spec->first_id) < 0)
		goto fail;
	for (size_t i = 0; i < spec->nmounts; i++)
		mounts[i] = spec->mounts[i];
	mounts[with.nmounts++] = (struct engine_mount){ buf_text(&in), SANDBOX_IN, true };
	mounts[with.nmounts++] = (struct engine_mount){ gate, SANDBOX_GATE, true };
	mounts[with.nmounts++] = (struct engine_mount){ out, SANDBOX_OUT, false };
	mounts[with.nmounts++] = (struct engine_mount){ work, SANDBOX_WORK, false };
	with.mounts = mounts;
	with.netns = buf_text(&netns);
	rc = s->podman->ops->create(s->podman, &with, id);
fail:
	buf_release(&in);
	buf_release(&netns);
	free(out);
	free(gate);
	free(work);
	return rc;
}

/* --- remove ---------------------------------------------------------------------------------- */

/* Removes the lease's folder on the tmpfs, with what podman left mounted there. */
static int remove_run(const struct sandbox *s)
{
	char *path = run_path(s->place, s->id, "");
	int dir = open(s->place->run, O_RDONLY | O_DIRECTORY | O_CLOEXEC), rc = 0;
	char folder[SHORT_MAX];

	if (dir < 0 && errno != ENOENT)
		rc = err_sys(EX_IOERR, "cannot open '%s'", s->place->run);
	short_name(folder, s->id);
	if (dir >= 0) {
		mounts_drop(path, true);
		if (beneath_remove(dir, folder) < 0 && errno != ENOENT)
			rc = err_sys(EX_IOERR, "cannot remove '%s'", path);
		close(dir);
	}
	free(path);
	return rc;
}

/* All of it goes, whatever of it there is; a part that does not go does not keep the others. */
static int remove_all(struct engine *e, const char *id)
{
	struct sandbox *s = sandbox_of(e);
	struct err first = { 0 };

	if (reach(s) == 0) {
		if (*id && s->podman->ops->remove(s->podman, id) < 0)
			err_save(&first);
		podman_quit(s->podman);
		s->podman = NULL;
	}
	err_clear();
	if (network_close(&s->place->networks, s->id) < 0)
		err_save(&first);
	if (volume_close(&s->place->volumes, s->id, CLOSE_MS) < 0)
		err_save(&first);
	if (remove_run(s) < 0)
		err_save(&first);
	return first.code ? err_restore(&first) : 0;
}

/* --- the others are podman's ------------------------------------------------------------------ */

static int start(struct engine *e, const char *id)
{
	struct sandbox *s = sandbox_of(e);

	return reach(s) < 0 ? -1 : s->podman->ops->start(s->podman, id);
}

static int stop(struct engine *e, const char *id, int64_t grace_ms)
{
	struct sandbox *s = sandbox_of(e);

	return reach(s) < 0 ? -1 : s->podman->ops->stop(s->podman, id, grace_ms);
}

static int exec(struct engine *e, const char *id, struct engine_exec *x)
{
	struct sandbox *s = sandbox_of(e);

	return reach(s) < 0 ? -1 : s->podman->ops->exec(s->podman, id, x);
}

static int logs(struct engine *e, const char *id, struct engine_log *at, size_t max,
	struct buf *out)
{
	struct sandbox *s = sandbox_of(e);

	return reach(s) < 0 ? -1 : s->podman->ops->logs(s->podman, id, at, max, out);
}

static int stat_one(struct engine *e, const char *id, int64_t wait_ms,
	struct engine_state *out)
{
	struct sandbox *s = sandbox_of(e);

	return reach(s) < 0 ? -1 : s->podman->ops->stat(s->podman, id, wait_ms, out);
}

static const struct engine_ops ops = {
	.probe = probe,
	.pull = pull,
	.create = create,
	.start = start,
	.stop = stop,
	.exec = exec,
	.logs = logs,
	.stat = stat_one,
	.remove = remove_all,
};

struct engine *sandbox_open(const struct sandbox_place *place, const char *id)
{
	struct sandbox *s;

	if (!volume_id_is_good(id)) {
		err_set(EX_DATAERR, "'%.80s' is no id of a lease", id);
		return NULL;
	}
	s = xcalloc(1, sizeof *s);
	s->engine.ops = &ops;
	s->place = place;
	snprintf(s->id, sizeof s->id, "%s", id);
	return &s->engine;
}

void sandbox_close(struct engine *e)
{
	if (!e)
		return;
	podman_close(sandbox_of(e)->podman);
	free(e);
}
