/* images.c - the images that a node keeps, how they come and go. */
#include "cmd/rnp-register/agent/images.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/egress.h"
#include "cmd/rnp-register/agent/image.h"
#include "cmd/rnp-register/agent/mounts.h"
#include "cmd/rnp-register/agent/podman.h"
#include "cmd/rnp-register/agent/proc.h"
#include "cmd/rnp-register/pack/beneath.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"

#define DISK           "store" /* the volume's id */
#define MARK           "image" /* in a root that is whole: the image's name */
#define SIZE_MAX_B     (INT64_C(64) << 30)
#define SIZE_SHARE     4
#define UNPACKED_BY    3 /* what layers become of their size as they are sent, mostly */
#define CLOSE_MS       20000
#define END_MS         5000
#define REMOVE_TRIES   40
#define REMOVE_WAIT_US 50000
#define KEY_BYTES      16
#define MARK_BYTES     ((size_t)2 * IMAGE_NAME_MAX + IMAGE_DIGEST_MAX)

/* --- roots ------------------------------------------------------------------------------------ */

int images_root(struct buf *out, const struct images *s, const char *reference)
{
	unsigned char hash[SHA256_BYTES];
	char key[2 * KEY_BYTES + 1];
	struct buf name = BUF_INIT;
	struct image_name n;

	if (image_name_parse(&n, reference) < 0)
		return -1;
	image_name_write(&name, &n);
	sha256(hash, buf_text(&name), name.len);
	sodium_bin2hex(key, sizeof key, hash, KEY_BYTES);
	buf_addf(out, "%s/%s", s->data, key);
	buf_release(&name);
	return 0;
}

static char *mark_of(const char *root)
{
	struct buf path = BUF_INIT;

	buf_addf(&path, "%s/" MARK, root);
	return buf_take(&path);
}

/* Calls see for each folder. What it removes is seen all the same. */
static void each_root(const struct images *s, void (*see)(void *ctx, const char *root),
	void *ctx)
{
	DIR *dir = opendir(s->data);
	struct dirent *entry;

	while (dir && (entry = readdir(dir))) {
		struct buf root = BUF_INIT;

		if (entry->d_name[0] != '.') {
			buf_addf(&root, "%s/%s", s->data, entry->d_name);
			see(ctx, buf_text(&root));
		}
		buf_release(&root);
	}
	if (dir)
		closedir(dir);
}

struct visit {
	void (*visit)(void *ctx, const char *root, const char *name, int64_t used_ms);
	void *ctx;
};

static void visit_whole(void *ctx, const char *root)
{
	const struct visit *v = ctx;
	char *mark = mark_of(root);
	struct buf name = BUF_INIT;
	struct stat st;

	if (stat(mark, &st) == 0 && io_read(&name, mark, MARK_BYTES) == 0)
		v->visit(v->ctx, root, buf_text(&name),
			(int64_t)st.st_mtim.tv_sec * 1000 + st.st_mtim.tv_nsec / 1000000);
	err_clear();
	buf_release(&name);
	free(mark);
}

void images_each(const struct images *s,
	void (*visit)(void *ctx, const char *root, const char *name, int64_t used_ms),
	void *ctx)
{
	struct visit v = { visit, ctx };

	each_root(s, visit_whole, &v);
}

/* --- room ------------------------------------------------------------------------------------- */

int64_t images_free(const struct images *s)
{
	struct volume_use use;

	if (volume_use(&s->volumes, DISK, &use) == 0)
		return use.free_bytes;
	err_clear();
	return 0;
}

/* Removes a root, with what podman has mounted in it. The mark goes first: what is there in part is
 * no image. */
static void drop_root(const struct images *s, const char *root)
{
	int dir = open(s->data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *mark = mark_of(root);

	unlink(mark);
	mounts_drop(root, true);
	/* what unpacked a layer of it may be about to end */
	for (int i = 0; dir >= 0 && i < REMOVE_TRIES; i++) {
		if (beneath_remove(dir, strrchr(root, '/') + 1) == 0 || errno == ENOENT)
			break;
		usleep(REMOVE_WAIT_US);
	}
	if (dir >= 0)
		close(dir);
	err_clear();
	free(mark);
}

struct oldest {
	const struct images *s;
	struct buf root; /* empty: none */
	int64_t used_ms;
};

static void see_older(void *ctx, const char *root, const char *name, int64_t used_ms)
{
	struct oldest *o = ctx;

	(void)name;
	if ((o->root.len && used_ms >= o->used_ms) || sandbox_uses(o->s->place, root))
		return;
	buf_reset(&o->root);
	buf_adds(&o->root, root);
	o->used_ms = used_ms;
}

/* Removes the image whose last use is longest ago. Returns whether there was one. */
static bool drop_oldest(const struct images *s)
{
	struct oldest o = { .s = s };
	bool found;

	images_each(s, see_older, &o);
	found = o.root.len > 0;
	if (found)
		drop_root(s, buf_text(&o.root));
	buf_release(&o.root);
	return found;
}

/* Before an image comes, of which so much is sent. */
static void make_room(void *ctx, int64_t bytes)
{
	const struct images *s = ctx;
	int64_t need = bytes < INT64_MAX / UNPACKED_BY ? bytes * UNPACKED_BY : INT64_MAX;

	/* what cannot fit drives out nothing */
	if (bytes <= s->size_bytes)
		while (images_free(s) < need && drop_oldest(s))
			continue;
}

/* --- pulls ------------------------------------------------------------------------------------ */

static int write_mark(const char *root, const char *reference)
{
	struct buf name = BUF_INIT;
	char *mark = mark_of(root);
	struct image_name n;
	int rc = image_name_parse(&n, reference);

	image_name_write(&name, &n);
	if (rc == 0)
		rc = io_replace(mark, buf_text(&name), name.len, 0600);
	buf_release(&name);
	free(mark);
	return rc;
}

/* What the customer has to know of a connection that was not made. */
static void say_refused(struct egress *e)
{
	char where[EGRESS_WHERE_MAX];

	if (e && egress_refused(e, where))
		err_set(EX_DATAERR,
			"the image's registry leads to the private address %s", where);
}

/* Brings an image into its root. Returns 0; on failure nothing of it stays. */
static int bring(struct images *s, const char *root, const struct engine_pull_call *call)
{
	bool apart = !s->private_too && !getenv("https_proxy") && !getenv("HTTPS_PROXY");
	struct egress *egress = apart ? egress_open(s->netns) : NULL;
	struct podman_config c = { .root = root,
		.run = s->run,
		.netns = apart ? s->netns : NULL,
		.proxy = egress ? egress_proxy(egress) : NULL };
	struct engine_pull_call with = *call;
	struct engine *e = apart && !egress ? NULL : podman_open(&c);
	struct err why = { 0 };
	int rc = -1;

	with.make_room = make_room;
	with.room_ctx = s;
	with.public_only = !s->private_too;
	if (e)
		rc = e->ops->pull(e, &with);
	if (rc < 0)
		say_refused(egress);
	if (rc == 0)
		rc = write_mark(root, call->image);
	if (rc < 0)
		err_save(&why);
	podman_quit(e);
	egress_close(egress);
	if (rc < 0)
		drop_root(s, root);
	else
		mounts_drop(root, true);
	return rc < 0 ? err_restore(&why) : 0;
}

int images_pull(struct images *s, const struct engine_pull_call *call)
{
	struct buf root = BUF_INIT;
	bool dropped = false;
	char *mark = NULL;
	int rc = images_root(&root, s, call->image);

	if (rc < 0)
		goto out;
	mark = mark_of(buf_text(&root));
	/* which is its last use */
	if (utimensat(AT_FDCWD, mark, NULL, 0) == 0)
		goto out;
	rc = bring(s, buf_text(&root), call);
	if (rc == 0 || err_get()->code != EX_IOERR)
		goto out;
	/* it is larger than was thought, and has the whole disk for another try */
	while (drop_oldest(s))
		dropped = true;
	if (dropped)
		rc = bring(s, buf_text(&root), call);
	if (rc < 0 && err_get()->code == EX_IOERR)
		err_set(EX_DATAERR,
			"the image needs more than the %.1f MB that this node has for images",
			(double)s->size_bytes / 1e6);
out:
	buf_release(&root);
	free(mark);
	return rc;
}

/* --- life ------------------------------------------------------------------------------------- */

/* Of a pull that an earlier process did not end. Its podman goes first. */
static void drop_part(void *ctx, const char *root)
{
	const struct images *s = ctx;
	char *mark = mark_of(root);

	if (access(mark, F_OK) < 0) {
		proc_end("podman", root, END_MS);
		drop_root(s, root);
	}
	free(mark);
}

static void see_used(void *ctx, const char *root)
{
	struct oldest *o = ctx;

	if (sandbox_uses(o->s->place, root))
		buf_adds(&o->root, root);
}

static bool is_used(const struct images *s)
{
	struct oldest o = { .s = s };
	bool used;

	each_root(s, see_used, &o);
	used = o.root.len > 0;
	buf_release(&o.root);
	return used;
}

/* Returns the size of the disk that is there, 0: none. */
static int64_t size_there(const struct images *s)
{
	struct buf file = BUF_INIT;
	struct stat st = { 0 };

	volume_file(&file, s->volumes.dir, DISK);
	if (stat(buf_text(&file), &st) < 0)
		st.st_size = 0;
	buf_release(&file);
	return st.st_size;
}

int64_t images_grow(const struct images *s)
{
	struct buf file = BUF_INIT;
	struct stat st = { 0 };
	int64_t left;

	volume_file(&file, s->volumes.dir, DISK);
	stat(buf_text(&file), &st);
	left = volume_cost(s->size_bytes) - (int64_t)st.st_blocks * 512;
	buf_release(&file);
	return left > 0 ? left : 0;
}

static int make_disk(struct images *s, int64_t size_bytes)
{
	int64_t room;

	if (volume_close(&s->volumes, DISK, CLOSE_MS) < 0)
		return -1;
	if (!size_bytes) {
		if (volume_room(&s->volumes, &room) < 0)
			return -1;
		size_bytes = room / SIZE_SHARE < SIZE_MAX_B ? room / SIZE_SHARE :
							      SIZE_MAX_B;
		if (size_bytes < VOLUME_BYTES_MIN)
			size_bytes = VOLUME_BYTES_MIN;
	}
	s->size_bytes = size_bytes;
	return volume_open(&s->volumes, DISK, size_bytes);
}

int images_open(struct images *s, const struct images_config *c,
	const struct sandbox_place *place)
{
	struct buf data = BUF_INIT, netns = BUF_INIT;
	int rc;

	s->place = place;
	s->dir = xstrdup(c->dir);
	s->run = xstrdup(c->run);
	buf_addf(&netns, "%s.net", c->run);
	s->netns = buf_take(&netns);
	s->private_too = c->private_too;
	s->volumes = (struct volume_place){ s->dir, c->keep_bytes };
	volume_data(&data, s->dir, DISK);
	s->data = buf_take(&data);
	if (io_make_dirs(c->run, 0700) < 0)
		return -1;
	rc = volume_adopt(&s->volumes, DISK);
	err_clear();
	s->size_bytes = size_there(s);
	if (rc == 0)
		each_root(s, drop_part, s);
	if (rc < 0 || (c->size_bytes && c->size_bytes != s->size_bytes && !is_used(s)))
		return make_disk(s, c->size_bytes);
	return 0;
}

void images_close(struct images *s)
{
	free(s->dir);
	free(s->data);
	free(s->run);
	free(s->netns);
	*s = (struct images){ 0 };
}
