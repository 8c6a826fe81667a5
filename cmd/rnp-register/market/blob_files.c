/* blob_files.c - a folder with 256 folders for blobs, by the first two digits of their names,
 * and one for parts. */
#include "cmd/rnp-register/market/blob_files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

#define PARTS       "parts"
#define FLUSH_BYTES ((int64_t)4 << 20)

/* Below the folder: "parts/17", "ab/cdef...". */
struct place {
	char text[80];
};

static struct place place_of_part(const struct blob_part *p)
{
	struct place at;

	snprintf(at.text, sizeof at.text, PARTS "/%llu", (unsigned long long)p->number);
	return at;
}

static struct place place_of(const char *name)
{
	struct place at;

	snprintf(at.text, sizeof at.text, "%.2s/%s", name, name + 2);
	return at;
}

bool blob_name_valid(const char *name)
{
	return strspn(name, "0123456789abcdef") == 64 && !name[64];
}

/* Calls fn for each name in a folder. */
static int each_name(int dir, const char *folder, void (*fn)(void *ctx, const char *name),
	void *ctx)
{
	int fd = openat(dir, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d) {
		if (fd >= 0)
			close(fd);
		return -1;
	}
	while ((e = readdir(d)))
		if (e->d_name[0] != '.')
			fn(ctx, e->d_name);
	closedir(d);
	return 0;
}

static void remove_part(void *ctx, const char *name)
{
	struct blob_files *f = ctx;
	char path[300];

	snprintf(path, sizeof path, PARTS "/%s", name);
	unlinkat(f->fd, path, 0);
}

static int make_folders(struct blob_files *f)
{
	char name[4];

	if (mkdirat(f->fd, PARTS, 0700) < 0 && errno != EEXIST)
		return -1;
	for (int i = 0; i < 256; i++) {
		snprintf(name, sizeof name, "%02x", i);
		if (mkdirat(f->fd, name, 0700) < 0 && errno != EEXIST)
			return -1;
	}
	return each_name(f->fd, PARTS, remove_part, f);
}

int blob_files_open(struct blob_files *f, const char *dir)
{
	memset(f, 0, sizeof *f);
	f->dir = xstrdup(dir);
	pthread_mutex_init(&f->lock, NULL);
	f->fd = -1;
	if (io_make_dirs(dir, 0700) == 0)
		f->fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->fd >= 0 && make_folders(f) == 0)
		return 0;
	err_sys(errno == EACCES ? 0 : EX_CANTCREAT, "cannot make the blobs' folder '%s'",
		dir);
	blob_files_close(f);
	return -1;
}

void blob_files_close(struct blob_files *f)
{
	if (!f->dir)
		return;
	while (f->parts) {
		struct blob_part *p = f->parts;

		f->parts = p->next;
		if (p->fd >= 0)
			close(p->fd);
		free(p);
	}
	if (f->fd >= 0)
		close(f->fd);
	pthread_mutex_destroy(&f->lock);
	free(f->dir);
	f->dir = NULL;
}

/* --- parts ------------------------------------------------------------------------------------ */

/* With the lock. */
static struct blob_part *find_part(struct blob_files *f, const char *holder,
	const char *name)
{
	struct blob_part *p = f->parts;

	while (p && (strcmp(p->name, name) != 0 || strcmp(p->holder, holder) != 0))
		p = p->next;
	return p;
}

int64_t blob_part_bytes(struct blob_files *f, const char *holder, const char *name)
{
	struct blob_part *p;
	int64_t bytes;

	pthread_mutex_lock(&f->lock);
	p = find_part(f, holder, name);
	bytes = p ? p->bytes : 0;
	pthread_mutex_unlock(&f->lock);
	return bytes;
}

int64_t blob_parts_bytes(struct blob_files *f, const char *holder, bool below,
	const char *but)
{
	size_t len = strlen(holder);
	int64_t bytes = 0;

	pthread_mutex_lock(&f->lock);
	for (struct blob_part *p = f->parts; p; p = p->next)
		if (strncmp(p->holder, holder, len) == 0 &&
			(!p->holder[len] || (below && p->holder[len] == '/')) &&
			strcmp(p->name, but) != 0)
			bytes += p->will_be + BLOB_OVERHEAD_BYTES;
	pthread_mutex_unlock(&f->lock);
	return bytes;
}

/* With the lock: the parts of a holder. */
static size_t count_parts(const struct blob_files *f, const char *holder)
{
	size_t n = 0;

	for (const struct blob_part *p = f->parts; p; p = p->next)
		n += strcmp(p->holder, holder) == 0;
	return n;
}

/* With the lock: removes p from the list, and its file. */
static void forget(struct blob_files *f, struct blob_part *p)
{
	struct blob_part **at = &f->parts;

	while (*at && *at != p)
		at = &(*at)->next;
	if (*at) {
		*at = p->next;
		f->nparts--;
	}
	if (p->fd >= 0)
		close(p->fd);
	unlinkat(f->fd, place_of_part(p).text, 0);
	free(p);
}

/* With the lock. */
static struct blob_part *add_part(struct blob_files *f, const char *holder,
	const char *name)
{
	struct blob_part *p = xcalloc(1, sizeof *p);

	snprintf(p->holder, sizeof p->holder, "%s", holder);
	snprintf(p->name, sizeof p->name, "%s", name);
	p->number = ++f->numbers;
	p->fd = -1;
	p->next = f->parts;
	f->parts = p;
	f->nparts++;
	return p;
}

/* With the lock: opens the file of a part, empty where it begins. */
static enum blob_begun open_part(struct blob_files *f, struct blob_part *p, int64_t from)
{
	p->fd = openat(f->fd, place_of_part(p).text,
		O_RDWR | O_CREAT | O_CLOEXEC | (from ? 0 : O_TRUNC), 0600);
	if (p->fd < 0) {
		err_sys(errno == ENOSPC ? EX_IOERR : 0, "cannot write to '%s'", f->dir);
		forget(f, p);
		return BLOB_FAILED;
	}
	if (!from) {
		p->bytes = p->flushing = 0;
		sha256_init(&p->state);
	}
	p->used_ns = clock_mono_ns();
	return BLOB_BEGUN;
}

enum blob_begun blob_part_begin(struct blob_files *f, const char *holder,
	const char *name, int64_t from, int64_t to, struct blob_part **out)
{
	enum blob_begun rc = BLOB_BEGUN;
	struct blob_part *p;

	pthread_mutex_lock(&f->lock);
	p = find_part(f, holder, name);
	if (p && p->fd >= 0)
		rc = BLOB_BUSY;
	else if (from && (!p || p->bytes != from))
		rc = BLOB_OTHER;
	else if (!p &&
		(f->nparts >= BLOB_PARTS_MAX ||
			count_parts(f, holder) >= BLOB_PARTS_HOLDER_MAX))
		rc = BLOB_MANY;
	if (rc == BLOB_BEGUN) {
		if (!p)
			p = add_part(f, holder, name);
		rc = open_part(f, p, from);
	}
	if (rc == BLOB_BEGUN)
		p->will_be = to;
	pthread_mutex_unlock(&f->lock);
	*out = rc == BLOB_BEGUN ? p : NULL;
	return rc;
}

int blob_part_write(struct blob_part *p, const void *data, size_t len)
{
	if (io_write_all_at(p->fd, data, len, p->bytes) < 0)
		return -1;
	sha256_update(&p->state, data, len);
	p->bytes += (int64_t)len;
	if (p->bytes - p->flushing >= FLUSH_BYTES) {
		/* the disk writes while the rest comes; not all systems can, and none has to */
		(void)sync_file_range(p->fd, p->flushing, p->bytes - p->flushing,
			SYNC_FILE_RANGE_WRITE);
		p->flushing = p->bytes;
	}
	return 0;
}

void blob_part_leave(struct blob_files *f, struct blob_part *p)
{
	pthread_mutex_lock(&f->lock);
	close(p->fd);
	p->fd = -1;
	p->will_be = p->bytes;
	p->used_ns = clock_mono_ns();
	pthread_mutex_unlock(&f->lock);
}

bool blob_part_whole(struct blob_part *p)
{
	unsigned char hash[SHA256_BYTES];
	char hex[BLOB_NAME_MAX];

	sha256_final(&p->state, hash);
	return strcmp(sodium_bin2hex(hex, sizeof hex, hash, sizeof hash), p->name) == 0;
}

int blob_part_flush(struct blob_part *p)
{
	return fdatasync(p->fd);
}

int blob_part_name(struct blob_files *f, struct blob_part *p)
{
	struct place from = place_of_part(p), to = place_of(p->name);

	return renameat(f->fd, from.text, f->fd, to.text) < 0 ?
		err_sys(EX_IOERR, "cannot name a blob in '%s'", f->dir) :
		0;
}

void blob_part_drop(struct blob_files *f, struct blob_part *p)
{
	pthread_mutex_lock(&f->lock);
	forget(f, p);
	pthread_mutex_unlock(&f->lock);
}

void blob_parts_sweep(struct blob_files *f, int64_t idle_ns)
{
	int64_t before_ns = clock_mono_ns() - idle_ns;

	pthread_mutex_lock(&f->lock);
	for (struct blob_part *p = f->parts, *next; p; p = next) {
		next = p->next;
		if (p->fd < 0 && p->used_ns < before_ns)
			forget(f, p);
	}
	pthread_mutex_unlock(&f->lock);
}

/* --- blobs ------------------------------------------------------------------------------------ */

int blob_open(struct blob_files *f, const char *name, int64_t *bytes)
{
	int fd = openat(f->fd, place_of(name).text, O_RDONLY | O_NOFOLLOW | O_CLOEXEC);
	struct stat st;

	if (fd >= 0 && (fstat(fd, &st) < 0 || !S_ISREG(st.st_mode))) {
		close(fd);
		errno = ENOENT;
		return -1;
	}
	if (fd >= 0)
		*bytes = st.st_size;
	return fd;
}

bool blob_is_there(struct blob_files *f, const char *name)
{
	return faccessat(f->fd, place_of(name).text, F_OK, 0) == 0;
}

int blob_remove(struct blob_files *f, const char *name)
{
	if (unlinkat(f->fd, place_of(name).text, 0) < 0 && errno != ENOENT)
		return err_sys(EX_IOERR, "cannot remove a blob in '%s'", f->dir);
	return 0;
}

/* One of the 256 folders. */
struct folder {
	const char *digits;
	void (*fn)(void *ctx, const char *name);
	void *ctx;
};

static void tell_name(void *ctx, const char *rest)
{
	const struct folder *o = ctx;
	char name[BLOB_NAME_MAX];

	if (strlen(rest) != 62)
		return;
	snprintf(name, sizeof name, "%.2s%.62s", o->digits, rest);
	if (blob_name_valid(name))
		o->fn(o->ctx, name);
}

int blob_each(struct blob_files *f, void (*fn)(void *ctx, const char *name), void *ctx)
{
	char digits[4];
	struct folder o = { digits, fn, ctx };

	for (int i = 0; i < 256; i++) {
		snprintf(digits, sizeof digits, "%02x", i);
		if (each_name(f->fd, digits, tell_name, &o) < 0)
			return err_sys(EX_IOERR, "cannot read the blobs in '%s'", f->dir);
	}
	return 0;
}
