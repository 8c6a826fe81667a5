/* io.c - reads and writes whole files; a file appears under its name only when it is complete. */
#include "common/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/base/mem.h"

#define READ_CHUNK_BYTES ((size_t)64 << 10)
#define FLUSHED_FDS      256 /* below it, files that are flushed stay open */

void io_say_typed(void)
{
	if (isatty(STDIN_FILENO))
		err_warn("reads what you type here; Ctrl-D ends it, Ctrl-C gives up");
}

int io_read(struct buf *out, const char *path, size_t max_bytes)
{
	bool is_stdin = strcmp(path, "-") == 0;
	const char *name = is_stdin ? "standard input" : path;
	int fd = is_stdin ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	size_t start = out->len;
	int rc = -1;

	if (fd < 0)
		return err_sys(0, "cannot open '%s'", path);
	if (is_stdin)
		io_say_typed();
	for (;;) {
		ssize_t n = read(fd, buf_reserve(out, READ_CHUNK_BYTES),
			READ_CHUNK_BYTES);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0) {
			err_sys(errno == EISDIR ? EX_NOINPUT : EX_IOERR,
				"cannot read '%s'", name);
			break;
		}
		if (n == 0) {
			rc = 0;
			break;
		}
		out->len += (size_t)n;
		out->data[out->len] = '\0';
		if (out->len - start > max_bytes) {
			err_set(EX_DATAERR, "'%s' is larger than %zu bytes", name,
				max_bytes);
			break;
		}
	}
	if (!is_stdin)
		close(fd);
	return rc;
}

int io_write_all(int fd, const void *data, size_t len)
{
	const char *at = data;

	while (len) {
		ssize_t n = write(fd, at, len);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
	}
	return 0;
}

int io_write_all_at(int fd, const void *data, size_t len, int64_t offset)
{
	const char *at = data;

	while (len) {
		ssize_t n = pwrite(fd, at, len, offset);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		at += n;
		len -= (size_t)n;
		offset += n;
	}
	return 0;
}

static char *directory_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	if (!slash)
		return xstrdup(".");
	return slash == path ? xstrdup("/") : xstrndup(path, (size_t)(slash - path));
}

/* The directory in which path lies. Returns -1 with errno. */
static int open_directory(const char *path)
{
	char *dir = directory_of(path);
	int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC), why = errno;

	free(dir);
	errno = why;
	return fd;
}

/* Flushes and closes what open_directory returned. */
static int flush_directory(int fd, const char *path)
{
	int rc = fd < 0 ? -1 : 0;

	/* some file systems cannot flush a directory and return EINVAL; nothing can be done
	 * about it */
	if (fd >= 0 && fsync(fd) < 0 && errno != EINVAL)
		rc = -1;
	if (rc < 0)
		err_sys(0, "cannot flush the directory of '%s'", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

int io_flush_directory(const char *path)
{
	return flush_directory(open_directory(path), path);
}

int io_flush_file(const char *path)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), rc = fd < 0 ? -1 : fsync(fd);

	if (rc < 0)
		err_sys(EX_IOERR, "cannot write '%s'", path);
	if (fd >= 0)
		close(fd);
	return rc;
}

static int fail_create(const char *path)
{
	int code = errno == EACCES || errno == EPERM || errno == EROFS ? EX_NOPERM :
									 EX_CANTCREAT;

	return err_sys(errno == ENOSPC || errno == EDQUOT ? EX_IOERR : code,
		"cannot create '%s'", path);
}

/* Refuses devices and pipes: renaming a file over one would take it away from the whole system. */
static int check_replaceable(const char *path)
{
	struct stat st;

	if (stat(path, &st) < 0 || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return 0;
	return err_set(EX_CANTCREAT, "cannot create '%s': not a regular file", path);
}

int io_check_place(const char *path)
{
	char *dir;
	struct stat st;
	int rc;

	if (check_replaceable(path) < 0)
		return -1;
	dir = directory_of(path);
	rc = stat(dir, &st);
	if (rc == 0 && !S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		rc = -1;
	}
	if (rc == 0)
		rc = access(dir, W_OK | X_OK);
	if (rc == 0 && (!*path || (stat(path, &st) == 0 && S_ISDIR(st.st_mode)))) {
		errno = *path ? EISDIR : ENOENT;
		rc = -1;
	}
	free(dir);
	return rc < 0 ? fail_create(path) : 0;
}

/* --- what a signal removes ---------------------------------------------------------------- */

/* A path to remove at a signal. Whoever swaps it out of `path` owns it: the thread that writes
 * the file, or a handler on any thread. Entries are reused and never freed, so that the handler
 * may walk the list at any instant. */
struct io_beside {
	_Atomic(char *) path;
	struct io_beside *next;
};

static _Atomic(struct io_beside *) besides;
/* a forked child inherits the list, but the files are not its own */
static pid_t watcher;

static struct io_beside *beside_add(const char *path)
{
	struct io_beside *b;
	char *name = xstrdup(path), *none = NULL;

	for (b = besides; b; b = b->next, none = NULL)
		if (atomic_compare_exchange_strong(&b->path, &none, name))
			return b;
	b = xcalloc(1, sizeof *b);
	b->path = name;
	b->next = besides;
	while (!atomic_compare_exchange_weak(&besides, &b->next, b))
		;
	return b;
}

static void beside_forget(struct io_beside *b)
{
	free(atomic_exchange(&b->path, NULL));
}

void io_end_by_signal(int number)
{
	if (getpid() == watcher)
		for (struct io_beside *b = besides; b; b = b->next) {
			char *path = atomic_exchange(&b->path, NULL);

			if (path)
				unlink(path);
		}
	signal(number, SIG_DFL);
	raise(number); /* is delivered when the handler returns */
}

void io_watch_signals(void)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP, SIGQUIT };
	struct sigaction a = { .sa_handler = io_end_by_signal }, old;

	watcher = getpid();
	for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
		if (sigaction(numbers[i], NULL, &old) == 0 && old.sa_handler == SIG_DFL)
			sigaction(numbers[i], &a, NULL);
}

/* --- whole files, out --------------------------------------------------------------------- */

/* What is written has a name beside its target, one of a few, and a lock as long as its writer
 * lives. So a name without a lock is what a kill or a power cut left, and goes when the same file
 * is written next. */
#define PART_NAMES 8

static bool is_same_file(const struct stat *a, const struct stat *b)
{
	return a->st_dev == b->st_dev && a->st_ino == b->st_ino;
}

/* Where the file system keeps no locks, what nobody wrote for a day is left. */
static bool is_left(int fd, const struct stat *st)
{
	if (flock(fd, LOCK_EX | LOCK_NB) == 0)
		return true;
	return errno != EWOULDBLOCK && time(NULL) - st->st_mtime > 86400;
}

static void remove_left(const char *name)
{
	/* of a stranger, who may have put anything there, nothing is opened but regular files */
	int fd = open(name, O_RDWR | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	struct stat is, there;

	if (fd < 0)
		return;
	if (fstat(fd, &is) == 0 && S_ISREG(is.st_mode) && is.st_uid == geteuid() &&
		is_left(fd, &is) && lstat(name, &there) == 0 && is_same_file(&is, &there))
		unlink(name);
	close(fd);
}

/* Makes the file, and locks it where the file system can. Returns -1 with errno; EEXIST: it is
 * somebody's. */
static int make_part(const char *name)
{
	int fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	struct stat st;

	if (fd < 0)
		return -1;
	/* who looks for what was left may come between */
	if ((flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK) ||
		(fstat(fd, &st) == 0 && !st.st_nlink)) {
		close(fd);
		errno = EEXIST;
		return -1;
	}
	return fd;
}

/* Returns a file with its name in `name`, or -1 with errno. */
static int find_part(const char *path, struct buf *name)
{
	int fd = -1, why = EEXIST;

	for (int i = 0; i < PART_NAMES; i++) {
		struct buf one = BUF_INIT;

		buf_addf(&one, "%s.rnp-part%d", path, i);
		remove_left(one.data);
		if (fd < 0 && why == EEXIST) {
			fd = make_part(one.data);
			why = errno;
			if (fd >= 0)
				buf_adds(name, one.data);
		}
		buf_release(&one);
	}
	errno = why;
	return fd;
}

int io_part_open(struct io_part *p, const char *path, mode_t mode)
{
	struct buf temporary = BUF_INIT;

	*p = (struct io_part){ 0 };
	if (check_replaceable(path) < 0)
		return -1;
	*p = (struct io_part){ .fd = find_part(path, &temporary) };
	if (p->fd < 0 && errno == EEXIST) {
		buf_addf(&temporary, "%s.rnp-partXXXXXX", path);
		p->fd = mkostemp(temporary.data, O_CLOEXEC);
	}
	if (p->fd < 0) {
		fail_create(path);
		buf_release(&temporary);
		return -1;
	}
	p->path = xstrdup(path);
	p->beside = beside_add(temporary.data);
	p->temporary = buf_take(&temporary);
	if (fchmod(p->fd, mode) < 0) {
		err_sys(EX_IOERR, "cannot write '%s'", path);
		io_part_drop(p);
		return -1;
	}
	return 0;
}

int io_part_write(struct io_part *p, const void *data, size_t len)
{
	if (io_write_all(p->fd, data, len) < 0)
		return err_sys(EX_IOERR, "cannot write '%s'", p->path);
	p->written += len;
	return 0;
}

int io_part_flush(struct io_part *p)
{
	int rc = fsync(p->fd);

	p->flushed = true;
	/* open, it stays locked; of a set of very many files some do without */
	if (p->fd >= FLUSHED_FDS) {
		if (close(p->fd) < 0)
			rc = -1;
		p->fd = -1;
	}
	return rc < 0 ? err_sys(EX_IOERR, "cannot write '%s'", p->path) : 0;
}

static void part_release(struct io_part *p)
{
	if (p->path && p->fd >= 0)
		close(p->fd);
	if (p->beside)
		beside_forget(p->beside);
	free(p->path);
	free(p->temporary);
	*p = (struct io_part){ 0 };
}

static bool has_no_links(int why)
{
	return why == EPERM || why == EOPNOTSUPP || why == ENOSYS || why == EMLINK;
}

static int copy_to(int from, int to)
{
	char *chunk = xmalloc(READ_CHUNK_BYTES);
	ssize_t n;
	int rc = 0;

	while ((n = read(from, chunk, READ_CHUNK_BYTES)) != 0 && rc == 0)
		if (n > 0)
			rc = io_write_all(to, chunk, (size_t)n);
		else if (errno != EINTR)
			rc = -1;
	free(chunk);
	return rc < 0 ? -1 : fdatasync(to);
}

int io_link(const char *from, const char *to)
{
	int in, out, rc = -1, why;

	if (link(from, to) == 0)
		return 0;
	if (!has_no_links(errno))
		return -1;
	in = open(from, O_RDONLY | O_CLOEXEC);
	out = in < 0 ? -1 : open(to, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (out >= 0)
		rc = copy_to(in, out);
	why = errno;
	if (out >= 0 && close(out) < 0 && rc == 0)
		rc = -1;
	else
		errno = why;
	if (in >= 0)
		close(in);
	if (rc < 0 && out >= 0)
		unlink(to);
	return rc;
}

/* Gives the file its name, which must be free: in one step, or a kill would leave a second name. */
static int name_new(const struct io_part *p)
{
	int fd;

	if (renameat2(AT_FDCWD, p->temporary, AT_FDCWD, p->path, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -1;
	/* a file system that cannot do that */
	if (link(p->temporary, p->path) == 0)
		return unlink(p->temporary);
	if (!has_no_links(errno))
		return -1;
	/* nor hard links (exFAT, SMB): the name is taken first; a kill now leaves it empty */
	fd = open(p->path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (fd < 0)
		return -1;
	close(fd);
	return rename(p->temporary, p->path);
}

/* Flushes the file and gives it its name. */
static int part_finish(struct io_part *p, bool may_exist)
{
	int rc = p->flushed ? 0 : io_part_flush(p);
	/* before: whoever waits for the name may take the file, and remove the directory */
	int dir = open_directory(p->path), why = errno;
	bool named = false;

	if (rc == 0)
		named = (may_exist ? rename(p->temporary, p->path) : name_new(p)) == 0;
	if (rc < 0) {
		/* reported already */
	} else if (!named) {
		rc = !may_exist && errno == EEXIST ?
			err_set(EX_CANTCREAT,
				"'%s' exists already and is never overwritten", p->path) :
			fail_create(p->path);
	} else {
		errno = why;
		rc = flush_directory(dir, p->path);
		dir = -1;
	}
	if (dir >= 0)
		close(dir);
	if (!named) /* else the name may be another writer's by now */
		unlink(p->temporary);
	part_release(p);
	return rc;
}

int io_part_close(struct io_part *p)
{
	return part_finish(p, true);
}

int io_part_name(struct io_part *p)
{
	int rc = rename(p->temporary, p->path) < 0 ? fail_create(p->path) : 0;

	if (rc < 0)
		unlink(p->temporary);
	part_release(p);
	return rc;
}

void io_part_drop(struct io_part *p)
{
	if (p->temporary)
		unlink(p->temporary);
	part_release(p);
}

static int write_beside(const char *path, const void *data, size_t len, mode_t mode,
	bool may_exist)
{
	struct io_part p;

	if (io_part_open(&p, path, mode) < 0)
		return -1;
	if (io_part_write(&p, data, len) < 0) {
		io_part_drop(&p);
		return -1;
	}
	return part_finish(&p, may_exist);
}

int io_replace(const char *path, const void *data, size_t len, mode_t mode)
{
	return write_beside(path, data, len, mode, true);
}

int io_create(const char *path, const void *data, size_t len, mode_t mode)
{
	return write_beside(path, data, len, mode, false);
}

int io_make_dirs(const char *path, mode_t mode)
{
	char *copy = xstrdup(path);
	struct stat st;
	int rc = *path ? 0 : err_set(EX_NOINPUT, "cannot make directory '': no name");

	for (char *s = copy + 1; rc == 0; s++) {
		char c = *s;

		if (c != '/' && c != '\0')
			continue;
		*s = '\0';
		if (mkdir(copy, mode) < 0 && errno != EEXIST)
			rc = err_sys(0, "cannot make directory '%s'", copy);
		*s = c;
		if (!c)
			break;
	}
	/* the name may be taken by something else */
	if (rc == 0 && stat(path, &st) == 0 && !S_ISDIR(st.st_mode)) {
		errno = ENOTDIR;
		rc = err_sys(EX_CANTCREAT, "cannot make directory '%s'", path);
	}
	free(copy);
	return rc;
}

int io_make_default_dirs(const char *path, mode_t mode)
{
	const char *home = getenv("HOME");
	size_t len = home ? strlen(home) : 0;
	struct stat st;

	if (len && strncmp(path, home, len) == 0 && stat(home, &st) < 0)
		return err_sys(0, "cannot make directory '%s': HOME '%s'", path, home);
	return io_make_dirs(path, mode);
}
