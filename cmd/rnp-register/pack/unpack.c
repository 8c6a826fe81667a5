/* unpack.c - writes the stream of blobs into files, in the order of the manifest. A directory is
 * writable by us alone until everything is in it. */
#include "cmd/rnp-register/pack/unpack.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "cmd/rnp-register/pack/beneath.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/sha256.h"

struct unpacker {
	const struct manifest *m;
	const struct unpack_config *config;
	int root;        /* of the directory that is being made */
	struct buf blob; /* the blob that is being written, */
	size_t next, at; /* the one behind it, and what of it is written */
	char *parent;    /* the directory that is open at present, "" for the root */
	int parent_fd;   /* -1: none */
};

/* Opens the directory in which path lies, and returns its last part. */
static const char *enter(struct unpacker *u, const char *path)
{
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;

	if (u->parent_fd >= 0 && strlen(u->parent) == len &&
		memcmp(u->parent, path, len) == 0)
		return slash ? slash + 1 : path;
	if (u->parent_fd >= 0)
		close(u->parent_fd);
	free(u->parent);
	u->parent = xstrndup(path, len);
	u->parent_fd = len ? beneath_open(u->root, u->parent, O_RDONLY | O_DIRECTORY, 0) :
			     dup(u->root);
	if (u->parent_fd < 0) {
		err_sys(EX_IOERR, "cannot open '%.300s'", u->parent);
		return NULL;
	}
	return slash ? slash + 1 : path;
}

static bool has_owner(const struct unpacker *u)
{
	return u->config->uid != (uid_t)-1;
}

/* Gets the next blob, and checks it. */
static int next_blob(struct unpacker *u)
{
	const struct manifest_blob *b = &u->m->blobs[u->next];
	unsigned char hash[SHA256_BYTES];

	if (u->next >= u->m->nblobs)
		bug("the blobs of a manifest end before its files");
	buf_reset(&u->blob);
	u->at = 0;
	if (u->config->fetch(u->config->ctx, b, &u->blob) < 0)
		return -1;
	sha256(hash, buf_text(&u->blob), u->blob.len);
	if ((int64_t)u->blob.len != b->bytes || memcmp(hash, b->sha256, sizeof hash) != 0)
		return err_set(EX_DATAERR, "blob %zu is not what its hash says", u->next);
	u->next++;
	return 0;
}

/* Writes the bytes of a file from the stream. */
static int write_bytes(struct unpacker *u, const struct manifest_entry *e, int fd)
{
	unsigned char hash[SHA256_BYTES];
	int64_t rest = e->bytes;
	struct sha256_state state;

	sha256_init(&state);
	while (rest > 0) {
		size_t n;

		if (u->at == u->blob.len && next_blob(u) < 0)
			return -1;
		n = u->blob.len - u->at;
		if ((int64_t)n > rest)
			n = (size_t)rest;
		if (io_write_all(fd, u->blob.data + u->at, n) < 0)
			return err_sys(EX_IOERR, "cannot write '%.300s'", e->path);
		sha256_update(&state, u->blob.data + u->at, n);
		u->at += n;
		rest -= (int64_t)n;
	}
	sha256_final(&state, hash);
	if (memcmp(hash, e->sha256, sizeof hash) != 0)
		return err_set(EX_DATAERR, "file '%.300s' is not what its hash says",
			e->path);
	return 0;
}

static int make_file(struct unpacker *u, const struct manifest_entry *e, const char *name)
{
	int fd = openat(u->parent_fd, name,
		O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	int rc;

	if (fd < 0)
		return err_sys(EX_IOERR, "cannot make '%.300s'", e->path);
	rc = write_bytes(u, e, fd);
	if (rc == 0 &&
		((has_owner(u) && fchown(fd, u->config->uid, u->config->gid) < 0) ||
			fchmod(fd, e->mode) < 0))
		rc = err_sys(EX_IOERR, "cannot give away '%.300s'", e->path);
	if (close(fd) < 0 && rc == 0)
		rc = err_sys(EX_IOERR, "cannot write '%.300s'", e->path);
	return rc;
}

static int make_entry(struct unpacker *u, const struct manifest_entry *e)
{
	const char *name = enter(u, e->path);

	if (!name)
		return -1;
	if (e->type == MANIFEST_FILE)
		return make_file(u, e, name);
	if (e->type == MANIFEST_DIR)
		return mkdirat(u->parent_fd, name, 0700) < 0 ?
			err_sys(EX_IOERR, "cannot make '%.300s'", e->path) :
			0;
	if (symlinkat(e->target, u->parent_fd, name) < 0 ||
		(has_owner(u) &&
			fchownat(u->parent_fd, name, u->config->uid, u->config->gid,
				AT_SYMLINK_NOFOLLOW) < 0))
		return err_sys(EX_IOERR, "cannot make link '%.300s'", e->path);
	return 0;
}

/* Gives directories their owners and modes, those below first: a mode may forbid to enter. */
static int finish_directories(struct unpacker *u)
{
	for (size_t i = u->m->nentries; i-- > 0;) {
		const struct manifest_entry *e = &u->m->entries[i];
		int fd, rc;

		if (e->type != MANIFEST_DIR)
			continue;
		fd = beneath_open(u->root, e->path, O_RDONLY | O_DIRECTORY, 0);
		rc = fd < 0 ||
				(has_owner(u) &&
					fchown(fd, u->config->uid, u->config->gid) < 0) ||
				fchmod(fd, e->mode) < 0 ?
			err_sys(EX_IOERR, "cannot finish '%.300s'", e->path) :
			0;
		if (fd >= 0)
			close(fd);
		if (rc < 0)
			return -1;
	}
	if (has_owner(u) && fchown(u->root, u->config->uid, u->config->gid) < 0)
		return err_sys(EX_IOERR, "cannot give the directory away");
	return 0;
}

static int check_size(const struct manifest *m, const struct unpack_config *c)
{
	if (c->bytes_max && m->bytes > c->bytes_max)
		return err_set(EX_DATAERR,
			"its files have %lld bytes, more than the %lld allowed",
			(long long)m->bytes, (long long)c->bytes_max);
	if (c->entries_max && m->nentries > c->entries_max)
		return err_set(EX_DATAERR, "it has %zu files, more than the %zu allowed",
			m->nentries, c->entries_max);
	return 0;
}

/* What is there is left as it is, and nothing is fetched for it. */
static int check_place(const char *path)
{
	DIR *d = opendir(path);
	struct dirent *e;
	int names = 0;

	if (!d)
		return errno == ENOENT ?
			0 :
			err_sys(EX_CANTCREAT, "cannot unpack to '%s'", path);
	while (names <= 2 && (e = readdir(d)))
		names++;
	closedir(d);
	return names > 2 ? err_set(EX_CANTCREAT, "'%s' is there already", path) : 0;
}

/* A disk that is too small is not filled first. */
static int check_disk(const struct unpacker *u)
{
	struct statvfs disk;
	uint64_t free_bytes;

	/* some file systems do not say */
	if (fstatvfs(u->root, &disk) < 0 || !disk.f_blocks)
		return 0;
	free_bytes = (uint64_t)disk.f_bavail * disk.f_frsize;
	return (uint64_t)u->m->bytes > free_bytes ?
		err_set(EX_IOERR, "its files have %lld bytes, and the disk has %llu left",
			(long long)u->m->bytes, (unsigned long long)free_bytes) :
		0;
}

static int unpack_at(struct unpacker *u)
{
	if (check_disk(u) < 0)
		return -1;
	for (size_t i = 0; i < u->m->nentries; i++)
		if (make_entry(u, &u->m->entries[i]) < 0)
			return -1;
	return finish_directories(u);
}

/* Returns the directory beside path in which it is made, 0700, and its descriptor. */
static char *make_beside(const char *path, int *fd)
{
	struct buf name = BUF_INIT;
	uint64_t random = 0;
	size_t len = strlen(path);

	while (len > 1 && path[len - 1] == '/')
		len--;
	(void)!getrandom(&random, sizeof random, 0);
	buf_add(&name, path, len);
	buf_addf(&name, ".%012llx.part", (unsigned long long)random >> 16);
	*fd = -1;
	if (mkdir(name.data, 0700) == 0)
		*fd = open(name.data, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (*fd < 0) {
		err_sys(EX_CANTCREAT, "cannot make directory '%s'", name.data);
		buf_release(&name);
		return NULL;
	}
	return buf_take(&name);
}

int unpack(const struct manifest *m, const char *path, const struct unpack_config *config)
{
	struct unpacker u = { .m = m, .config = config, .root = -1, .parent_fd = -1 };
	char *beside;
	int rc;

	if (check_size(m, config) < 0 || check_place(path) < 0)
		return -1;
	beside = make_beside(path, &u.root);
	if (!beside)
		return -1;
	rc = unpack_at(&u);
	if (rc == 0 && config->flush && syncfs(u.root) < 0)
		rc = err_sys(EX_IOERR, "cannot write '%s'", path);
	/* 0755 as any directory; what rename(2) replaces may only be an empty one */
	if (rc == 0 && (fchmod(u.root, 0755) < 0 || rename(beside, path) < 0))
		rc = err_sys(EX_CANTCREAT, "cannot unpack to '%s'", path);
	if (rc < 0) {
		struct err why;

		err_save(&why);
		(void)beneath_remove(AT_FDCWD, beside);
		err_restore(&why);
	}
	if (u.parent_fd >= 0)
		close(u.parent_fd);
	close(u.root);
	free(u.parent);
	free(beside);
	buf_release(&u.blob);
	return rc;
}
