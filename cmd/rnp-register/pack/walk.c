/* walk.c - goes through a directory by descriptors, so that no name is followed that was exchanged
 * for a link meanwhile. */
#include "cmd/rnp-register/pack/walk.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/rnp-register/pack/ignore.h"
#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/utf8.h"

/* What an entry has in the manifest beside its path, at the most. */
#define ENTRY_TEXT_BYTES ((size_t)160)

/* A directory that is being listed, and those above it. */
struct level {
	const struct level *up;
	dev_t device;
	ino_t inode;
	bool in_git; /* below a .git, where no rule holds */
	struct ignore_list *rules;
};

struct walker {
	struct walk *w;
	struct buf path; /* of what is looked at, relative to the directory */
	/* the same, relative to the repository: `inside` of it belong to that */
	struct buf full;
	size_t inside;
	bool nested; /* each directory may have a .gitignore */
	int64_t bytes_max;
};

void walk_stat_of(struct walk_stat *out, const struct stat *st)
{
	out->device = st->st_dev;
	out->inode = st->st_ino;
	out->bytes = st->st_size;
	out->modified_ns = st->st_mtim.tv_sec * INT64_C(1000000000) + st->st_mtim.tv_nsec;
	out->changed_ns = st->st_ctim.tv_sec * INT64_C(1000000000) + st->st_ctim.tv_nsec;
}

static void left_release(struct walk_left *l)
{
	for (int i = 0; i < WALK_EXAMPLES; i++)
		free(l->examples[i]);
}

void walk_directory_release(struct walk *w)
{
	if (w->fd >= 0)
		close(w->fd);
	manifest_release(&w->manifest);
	free(w->stats);
	left_release(&w->ignored);
	left_release(&w->links);
	left_release(&w->special);
	*w = (struct walk)WALK_INIT;
}

static void leave(struct walk_left *l, const char *path)
{
	if (l->n < WALK_EXAMPLES) {
		l->examples[l->n] = xstrdup(path);
		utf8_clean_line(l->examples[l->n]);
	}
	l->n++;
}

/* --- rules ------------------------------------------------------------------------------------ */

/* Reads a file of rules in the directory fd, one that is no link. Returns 1 if it is there, 0, or
 * -1. */
static int read_rules_at(int fd, const char *name, struct ignore_list *list,
	const char *base, struct ignore_list *outer)
{
	struct buf text = BUF_INIT;
	int file = openat(fd, name, O_RDONLY | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK);
	struct stat st;
	ssize_t n = 0;
	int rc = 0;

	if (file < 0)
		return 0;
	if (fstat(file, &st) < 0 || !S_ISREG(st.st_mode)) {
		close(file);
		return 0;
	}
	do {
		text.len += (size_t)n;
		n = read(file, buf_reserve(&text, 65536), 65536);
	} while (n > 0 && text.len <= IGNORE_FILE_BYTES_MAX);
	if (n < 0)
		rc = err_sys(0, "cannot read '%s%s%s'", base, *base ? "/" : "", name);
	else if (text.len > IGNORE_FILE_BYTES_MAX)
		rc = err_set(EX_DATAERR, "%s%s%s: more than 1 MiB of rules", base,
			*base ? "/" : "", name);
	else
		rc = ignore_read(list, buf_text(&text), text.len, base, outer, name) < 0 ?
			-1 :
			1;
	close(file);
	buf_release(&text);
	return rc;
}

/* The rules that hold in the whole directory; each list is owned by the caller. */
struct rules {
	struct ignore_list **lists;
	size_t n, cap;
};

/* Reads one more file of rules, behind which those so far are asked. Returns 0 or -1. */
static int push_rules(struct rules *r, int fd, const char *name, const char *base)
{
	struct ignore_list *list = xcalloc(1, sizeof *list);
	int rc = read_rules_at(fd, name, list, base, r->n ? r->lists[r->n - 1] : NULL);

	if (rc <= 0) {
		free(list);
		return rc;
	}
	r->lists = xgrow(r->lists, &r->cap, r->n + 1, sizeof *r->lists);
	r->lists[r->n++] = list;
	return 0;
}

static void rules_release(struct rules *r)
{
	for (size_t i = 0; i < r->n; i++) {
		ignore_release(r->lists[i]);
		free(r->lists[i]);
	}
	free(r->lists);
}

static bool has_git(int fd)
{
	struct stat st;

	return fstatat(fd, ".git", &st, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Finds the repository in which the directory lies; real: its path without links. Returns a
 * descriptor of the repository's top, or -1, and in *inside how many bytes of real belong to
 * that. */
static int find_top(const char *real, size_t *inside)
{
	struct buf path = BUF_INIT;
	int fd = -1;

	buf_adds(&path, real);
	for (;;) {
		fd = open(path.len ? path.data : "/", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 || has_git(fd) || path.len <= 1)
			break;
		close(fd);
		path.len = (size_t)(strrchr(path.data, '/') - path.data);
		path.data[path.len] = '\0';
	}
	if (fd >= 0 && !has_git(fd)) {
		close(fd);
		fd = -1;
	}
	*inside = path.len;
	buf_release(&path);
	return fd;
}

/* Reads the repository's rules: its exclude file, and the .gitignore of each directory above the
 * packed one. rel: the packed directory in the repository, "" or "a/b". */
static int read_git_rules(struct rules *r, int top, const char *rel)
{
	struct buf base = BUF_INIT;
	int rc = push_rules(r, top, ".git/info/exclude", ""), fd = dup(top);

	for (const char *p = rel; rc == 0 && *p && fd >= 0;) {
		size_t len = strcspn(p, "/");
		char *name = xstrndup(p, len);
		int next;

		rc = push_rules(r, fd, ".gitignore", buf_text(&base));
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		close(fd);
		fd = next;
		buf_addf(&base, "%s%s", base.len ? "/" : "", name);
		free(name);
		p += len + (p[len] == '/');
	}
	if (fd >= 0)
		close(fd);
	buf_release(&base);
	return rc;
}

static int find_rules(struct walker *k, struct rules *r, const char *dir)
{
	char *real = realpath(dir, NULL);
	size_t inside = 0;
	int rc = 0, top;

	if (push_rules(r, k->w->fd, ".rnpignore", "") < 0 ||
		(!r->n && push_rules(r, k->w->fd, ".skyignore", "") < 0)) {
		free(real);
		return -1;
	}
	if (r->n || !real) {
		free(real);
		return 0;
	}
	k->nested = true;
	top = find_top(real, &inside);
	if (top >= 0) {
		const char *rel = real + inside + (real[inside] == '/');

		if (*rel)
			buf_addf(&k->full, "%s/", rel);
		k->inside = k->full.len;
		rc = read_git_rules(r, top, rel);
		close(top);
	}
	free(real);
	return rc;
}

/* --- the walk --------------------------------------------------------------------------------- */

static int walk_level(struct walker *k, int fd, const struct level *up, bool in_git,
	struct ignore_list *rules);

static int by_name(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

struct names {
	char **list;
	size_t n, cap;
};

/* Lists a directory in the order of its names; fd stays open. */
static int read_names(struct walker *k, int fd, struct names *out)
{
	int own = dup(fd);
	DIR *d = own < 0 ? NULL : fdopendir(own);
	struct dirent *e;

	if (!d) {
		if (own >= 0)
			close(own);
		return err_sys(0, "cannot read directory '%s'", buf_text(&k->path));
	}
	for (errno = 0; (e = readdir(d)); errno = 0) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		if (k->w->names++ >= WALK_NAMES_MAX) {
			closedir(d);
			return err_set(EX_DATAERR,
				"more than %d names are too many to look at",
				WALK_NAMES_MAX);
		}
		out->list = xgrow(out->list, &out->cap, out->n + 1, sizeof *out->list);
		out->list[out->n++] = xstrdup(e->d_name);
	}
	if (errno) {
		err_sys(0, "cannot read directory '%s'", buf_text(&k->path));
		closedir(d);
		return -1;
	}
	closedir(d);
	if (out->n)
		qsort(out->list, out->n, sizeof *out->list, by_name);
	return 0;
}

/* Whether one more entry may be packed. Whoever filled the directory may want us to have no end. */
static int check_room(struct walker *k, const struct manifest_entry *e)
{
	struct walk *w = k->w;

	if (w->manifest.nentries >= MANIFEST_ENTRIES_MAX)
		return err_set(EX_DATAERR, "more than 500000 files are too many to pack");
	w->text_bytes += k->path.len + (e->target ? strlen(e->target) : 0) +
		ENTRY_TEXT_BYTES;
	if (w->text_bytes > MANIFEST_BYTES_MAX)
		return err_set(EX_DATAERR, "more paths than fit into a manifest");
	if (e->bytes > k->bytes_max - w->manifest.bytes)
		return err_set(EX_DATAERR,
			"with '%.200s', of %lld bytes, its files have more than %lld bytes, holes included",
			buf_text(&k->path), (long long)e->bytes, (long long)k->bytes_max);
	return 0;
}

static int add_entry(struct walker *k, const struct stat *st, enum manifest_type type,
	char *takes_target)
{
	struct walk *w = k->w;
	struct manifest_entry e = { .type = type,
		.mode = type == MANIFEST_LINK ? 0 : st->st_mode & 0777,
		.target = takes_target };

	e.bytes = type == MANIFEST_FILE ? st->st_size : 0;
	if (check_room(k, &e) < 0) {
		free(takes_target);
		return -1;
	}
	e.path = xstrdup(buf_text(&k->path));
	w->stats = xgrow(w->stats, &w->stats_cap, w->manifest.nentries + 1,
		sizeof *w->stats);
	walk_stat_of(&w->stats[w->manifest.nentries], st);
	manifest_add(&w->manifest, &e);
	w->manifest.bytes += e.bytes;
	return 0;
}

static int add_link(struct walker *k, int fd, const char *name, const struct stat *st)
{
	char target[MANIFEST_PATH_MAX + 2];
	ssize_t n = readlinkat(fd, name, target, sizeof target - 1);

	if (n < 0)
		return errno == ENOENT || errno == EINVAL ?
			0 :
			err_sys(0, "cannot read link '%s'", buf_text(&k->path));
	target[n] = '\0';
	if (manifest_link_fault(buf_text(&k->path), target)) {
		leave(&k->w->links, buf_text(&k->path));
		return 0;
	}
	return add_entry(k, st, MANIFEST_LINK, xstrdup(target));
}

static int add_directory(struct walker *k, int fd, const char *name,
	const struct stat *st, const struct level *here, bool is_git)
{
	int below = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int rc;

	if (below < 0)
		return errno == ENOENT || errno == ENOTDIR || errno == ELOOP ?
			0 :
			err_sys(0, "cannot read directory '%s'", buf_text(&k->path));
	for (const struct level *up = here; up; up = up->up)
		if (up->device == st->st_dev && up->inode == st->st_ino) {
			close(below);
			return err_set(EX_DATAERR, "directory '%s' lies within itself",
				buf_text(&k->path));
		}
	rc = add_entry(k, st, MANIFEST_DIR, NULL);
	if (rc == 0)
		rc = walk_level(k, below, here, here->in_git || is_git, here->rules);
	close(below);
	return rc;
}

static int add_name(struct walker *k, int fd, const char *name, const struct level *here)
{
	bool is_git = strcmp(name, ".git") == 0;
	const char *fault;
	struct stat st;

	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ?
			0 :
			err_sys(0, "cannot look at '%s'", buf_text(&k->path));
	if (!here->in_git && !is_git &&
		ignore_ask(here->rules, buf_text(&k->full), k->full.len,
			S_ISDIR(st.st_mode)) == IGNORE_LEAVE_OUT) {
		leave(&k->w->ignored, buf_text(&k->path));
		return 0;
	}
	if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode) && !S_ISLNK(st.st_mode)) {
		leave(&k->w->special, buf_text(&k->path));
		return 0;
	}
	fault = manifest_path_fault(buf_text(&k->path));
	if (fault) {
		err_set(EX_DATAERR, "'%.200s' cannot be packed: its name %s",
			buf_text(&k->path), fault);
		return err_hint("rename it, or leave it out by a line in .gitignore or "
				".rnpignore");
	}
	if (S_ISLNK(st.st_mode))
		return add_link(k, fd, name, &st);
	if (S_ISDIR(st.st_mode))
		return add_directory(k, fd, name, &st, here, is_git);
	return add_entry(k, &st, MANIFEST_FILE, NULL);
}

/* Goes through an open directory, whose path is k->path. */
static int walk_level(struct walker *k, int fd, const struct level *up, bool in_git,
	struct ignore_list *rules)
{
	struct level here = { .up = up, .in_git = in_git, .rules = rules };
	size_t path_len = k->path.len, full_len = k->full.len;
	struct ignore_list own = { 0 };
	struct names names = { 0 };
	struct stat st;
	int rc = -1;

	if (fstat(fd, &st) < 0 || read_names(k, fd, &names) < 0)
		goto out;
	here.device = st.st_dev;
	here.inode = st.st_ino;
	if (k->nested && !in_git) {
		char *base = xstrndup(buf_text(&k->full), full_len ? full_len - 1 : 0);

		rc = read_rules_at(fd, ".gitignore", &own, up ? buf_text(&k->full) : base,
			rules);
		free(base);
		if (rc < 0)
			goto out;
		if (rc)
			here.rules = &own;
	}
	rc = 0;
	for (size_t i = 0; i < names.n && rc == 0; i++) {
		buf_addf(&k->path, "%s%s", up ? "/" : "", names.list[i]);
		buf_addf(&k->full, "%s%s", up ? "/" : "", names.list[i]);
		rc = add_name(k, fd, names.list[i], &here);
		k->path.len = path_len;
		k->path.data[path_len] = '\0';
		k->full.len = full_len;
		k->full.data[full_len] = '\0';
	}
out:
	for (size_t i = 0; i < names.n; i++)
		free(names.list[i]);
	free(names.list);
	ignore_release(&own);
	return rc;
}

int walk_directory(struct walk *w, const char *dir, bool rules, int64_t bytes_max)
{
	const int64_t most = MANIFEST_BLOBS_MAX * MANIFEST_BLOB_BYTES_MAX;
	struct walker k = { .w = w,
		.bytes_max = bytes_max > 0 && bytes_max < most ? bytes_max : most };
	struct rules r = { 0 };
	int rc = -1;

	*w = (struct walk)WALK_INIT;
	w->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (w->fd < 0) {
		err_sys(errno == ENOTDIR ? EX_NOINPUT : 0, "cannot open directory '%s'",
			dir);
		goto out;
	}
	if (rules && find_rules(&k, &r, dir) < 0)
		goto out;
	rc = walk_level(&k, w->fd, NULL, false, r.n ? r.lists[r.n - 1] : NULL);
out:
	rules_release(&r);
	buf_release(&k.path);
	buf_release(&k.full);
	if (rc < 0) {
		walk_directory_release(w);
		err_add("%s", dir);
	}
	return rc;
}
