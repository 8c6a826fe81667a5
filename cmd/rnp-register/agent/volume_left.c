/* volume_left.c - which volumes are there, who holds them, and the end of those that nobody
 * owns. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "cmd/rnp-register/agent/loop.h"
#include "cmd/rnp-register/agent/mounts.h"
#include "cmd/rnp-register/agent/volume.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

#define HOLDERS_MAX 3
#define FILE_END    ".img"
#define DELETED     " (deleted)"

/* --- which are there ------------------------------------------------------------------------ */

struct found {
	char id[VOLUME_ID_MAX + 1];
	enum volume_state state;
	int64_t size_bytes;
};

struct listing {
	const char *dir;
	struct found *all;
	size_t n, cap;
};

/* The volume of that name in the list, which is added where it lacks; NULL: it names none. */
static struct found *entry(struct listing *l, const char *name, size_t len)
{
	char id[VOLUME_ID_MAX + 1];

	if (len > VOLUME_ID_MAX)
		return NULL;
	memcpy(id, name, len);
	id[len] = '\0';
	if (!volume_id_is_good(id))
		return NULL;
	for (size_t i = 0; i < l->n; i++)
		if (strcmp(l->all[i].id, id) == 0)
			return &l->all[i];
	l->all = xgrow(l->all, &l->cap, l->n + 1, sizeof *l->all);
	l->all[l->n] = (struct found){ .state = VOLUME_SHUT };
	memcpy(l->all[l->n].id, id, sizeof id);
	return &l->all[l->n++];
}

/* Whether a name ends so; *len is the length of what stands before. */
static bool ends(const char *name, const char *end, size_t *len)
{
	size_t all = strlen(name), tail = strlen(end);

	if (all <= tail || strcmp(name + all - tail, end) != 0)
		return false;
	*len = all - tail;
	return true;
}

/* Files and folders of the place. */
static int add_named(struct listing *l)
{
	DIR *dir = opendir(l->dir);
	struct dirent *e;
	struct found *f;
	struct stat st;
	size_t len;

	if (!dir)
		return errno == ENOENT ? 0 : err_sys(0, "cannot read '%s'", l->dir);
	while ((e = readdir(dir))) {
		if (fstatat(dirfd(dir), e->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
			continue;
		if (S_ISREG(st.st_mode) && ends(e->d_name, FILE_END, &len) &&
			(f = entry(l, e->d_name, len)))
			f->size_bytes = st.st_size;
		else if (S_ISDIR(st.st_mode))
			entry(l, e->d_name, strlen(e->d_name));
	}
	closedir(dir);
	return 0;
}

static bool add_mounted(const struct mount_row *row, void *context)
{
	struct listing *l = context;
	size_t len = strlen(l->dir);
	struct found *f;

	if (!path_is_in(row->point, l->dir) || !row->point[len] ||
		strchr(row->point + len + 1, '/'))
		return true;
	f = entry(l, row->point + len + 1, strlen(row->point + len + 1));
	if (f)
		f->state = VOLUME_OPEN;
	return true;
}

/* Devices whose file has lost its name: a lease that ended while somebody held it. */
static void add_held(const char *name, const char *file, int64_t size_bytes,
	void *context)
{
	struct listing *l = context;
	size_t len = strlen(l->dir), before, id_len;
	char *path;
	struct found *f;

	(void)name;
	if (!path_is_in(file, l->dir) || !ends(file, DELETED, &before))
		return;
	path = xstrndup(file, before);
	if (path[len] && ends(path + len + 1, FILE_END, &id_len) &&
		(f = entry(l, path + len + 1, id_len))) {
		if (f->state == VOLUME_SHUT)
			f->state = VOLUME_HELD;
		f->size_bytes = size_bytes;
	}
	free(path);
}

static int list(struct listing *l)
{
	if (add_named(l) < 0)
		return -1;
	if (mounts_each("/proc/self/mountinfo", add_mounted, l) < 0)
		return -1;
	return loop_each(add_held, l);
}

int volume_each(const struct volume_place *place,
	void (*visit)(const char *id, enum volume_state state, int64_t size_bytes,
		void *context),
	void *context)
{
	struct listing l = { .dir = place->dir };
	int rc = list(&l);

	for (size_t i = 0; rc == 0 && i < l.n; i++)
		visit(l.all[i].id, l.all[i].state, l.all[i].size_bytes, context);
	free(l.all);
	return rc;
}

int volume_clean(const struct volume_place *place,
	bool (*is_live)(const char *id, void *context), void *context, int64_t timeout_ms,
	int *closed)
{
	struct listing l = { .dir = place->dir };
	struct err why = { 0 };
	int rc = list(&l);

	*closed = 0;
	for (size_t i = 0; rc == 0 && i < l.n; i++) {
		if (l.all[i].state == VOLUME_HELD || is_live(l.all[i].id, context))
			continue;
		if (volume_close(place, l.all[i].id, timeout_ms) < 0)
			err_save(&why);
		else
			++*closed;
	}
	free(l.all);
	return why.code ? err_restore(&why) : rc;
}

/* --- who holds one -------------------------------------------------------------------------- */

struct hold {
	const char *point; /* of the volume */
	dev_t device;
	ino_t space; /* our mount namespace */
	bool found;
};

static bool is_same(const char *path, dev_t device)
{
	struct stat st;

	return stat(path, &st) == 0 && st.st_dev == device;
}

/* Its directory, its root, its program, or one of its open files. */
static bool has_open(const char *pid, dev_t device)
{
	static const char *const links[] = { "cwd", "root", "exe" };
	struct buf path = BUF_INIT;
	bool found = false;
	struct dirent *e;
	DIR *dir;

	for (size_t i = 0; !found && i < sizeof links / sizeof *links; i++) {
		buf_reset(&path);
		buf_addf(&path, "/proc/%s/%s", pid, links[i]);
		found = is_same(path.data, device);
	}
	buf_reset(&path);
	buf_addf(&path, "/proc/%s/fd", pid);
	dir = found ? NULL : opendir(path.data);
	while (dir && !found && (e = readdir(dir))) {
		buf_reset(&path);
		buf_addf(&path, "/proc/%s/fd/%s", pid, e->d_name);
		found = e->d_name[0] != '.' && is_same(path.data, device);
	}
	if (dir)
		closedir(dir);
	buf_release(&path);
	return found;
}

/* A mount of the volume, or one that is made of its folders, as an overlay is. */
static bool is_of(const struct mount_row *row, void *context)
{
	struct hold *h = context;

	h->found = makedev(row->major, row->minor) == h->device ||
		strstr(row->options, h->point);
	return !h->found;
}

/* Mounts in a namespace of its own, which keep a volume after ours has gone. */
static bool has_mounted(const char *pid, struct hold *h)
{
	struct buf path = BUF_INIT;
	struct stat st;

	h->found = false;
	buf_addf(&path, "/proc/%s/ns/mnt", pid);
	if (stat(path.data, &st) == 0 && st.st_ino != h->space) {
		buf_reset(&path);
		buf_addf(&path, "/proc/%s/mountinfo", pid);
		mounts_each(path.data, is_of, h);
	}
	buf_release(&path);
	return h->found;
}

static void say_process(struct buf *out, const char *pid)
{
	struct buf path = BUF_INIT, name = BUF_INIT;

	buf_addf(&path, "/proc/%s/comm", pid);
	if (io_read(&name, path.data, 256) < 0)
		err_clear();
	buf_addf(out, "%s%s (%.*s)", out->len ? ", " : "", pid,
		(int)strcspn(buf_text(&name), "\n"), buf_text(&name));
	buf_release(&path);
	buf_release(&name);
}

void volume_holders(struct buf *out, dev_t device, const char *point)
{
	struct hold h = { .point = point, .device = device };
	struct buf who = BUF_INIT;
	struct stat st;
	struct dirent *e;
	int found = 0;
	DIR *proc = opendir("/proc");

	if (stat("/proc/self/ns/mnt", &st) == 0)
		h.space = st.st_ino;
	while (proc && h.device && found <= HOLDERS_MAX && (e = readdir(proc))) {
		if (e->d_name[0] < '0' || e->d_name[0] > '9' ||
			(!has_open(e->d_name, h.device) && !has_mounted(e->d_name, &h)))
			continue;
		if (++found <= HOLDERS_MAX)
			say_process(&who, e->d_name);
	}
	if (proc)
		closedir(proc);
	err_clear();
	buf_addf(out, "%s%s", found ? who.data : "nobody who is known",
		found > HOLDERS_MAX ? " and others" : "");
	buf_release(&who);
}

struct sought {
	const char *file;
	bool found;
};

static void is_sought(const char *name, const char *file, int64_t size_bytes,
	void *context)
{
	struct sought *s = context;
	size_t before;

	(void)name;
	(void)size_bytes;
	if (ends(file, DELETED, &before) && before == strlen(s->file) &&
		strncmp(file, s->file, before) == 0)
		s->found = true;
}

bool volume_is_held(const char *file)
{
	struct sought s = { .file = file };

	if (loop_each(is_sought, &s) < 0)
		err_clear();
	return s.found;
}
