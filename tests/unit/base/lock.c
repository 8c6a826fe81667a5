/* lock.c - file systems that keep no locks, have no hard links, or neither: what is said of them,
 * and that files get their names all the same. */
#include "common/base/lock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/file.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/io.h"
#include "tests/unit/test.h"

/* What the file system says; 0: it does it. Our calls find these functions. */
static int flock_says, link_says, noreplace_says, interrupted;

int flock(int fd, int operation)
{
	if (interrupted > 0) {
		interrupted--;
		errno = EINTR;
		return -1;
	}
	errno = flock_says;
	return flock_says ? -1 : (int)syscall(SYS_flock, fd, operation);
}

int link(const char *from, const char *to)
{
	errno = link_says;
	return link_says ? -1 : (int)syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0);
}

int renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
	errno = noreplace_says;
	return noreplace_says ?
		-1 :
		(int)syscall(SYS_renameat2, from_dir, from, to_dir, to, flags);
}

static int warnings;
static char warned[ERR_TEXT_MAX];

static void hear(const char *text)
{
	warnings++;
	snprintf(warned, sizeof warned, "%s", text);
}

static void check_kept(const char *dir)
{
	char path[300];
	int a, b;

	snprintf(path, sizeof path, "%s/lock", dir);
	a = open(path, O_RDWR | O_CREAT, 0600);
	b = open(path, O_RDWR);
	CHECK(lock_take(a, path, "another one is at work") == 0);
	CHECK(lock_take(b, "F", "another one is at work") < 0);
	CHECK(err_get()->code == EX_TEMPFAIL);
	CHECK_TEXT("'F': another one is at work", err_get()->text);
	CHECK(lock_take_if_kept(b, "F", "another one is at work") < 0);
	CHECK(err_get()->code == EX_TEMPFAIL);
	err_clear();
	close(a);
	interrupted = 3;
	lock_wait(b, path, NULL);
	CHECK(interrupted == 0 && warnings == 0);
	a = open(path, O_RDWR);
	CHECK(lock_take(a, "F", "taken") < 0);
	err_clear();
	close(a);
	close(b);
}

static void check_unkept(void)
{
	static const int codes[] = { ENOSYS, ENOLCK, EOPNOTSUPP, EBADF };
	_Atomic int stop = 0;

	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
		flock_says = codes[i];
		CHECK(lock_take(0, "F", "another payer is at work") < 0);
		CHECK(err_get()->code == EX_UNAVAILABLE);
		CHECK(strstr(err_get()->text,
			      "cannot lock 'F': its file system keeps no locks: ") &&
			!strstr(err_get()->text, "another"));
		err_clear();
		CHECK(lock_take_if_kept(0, "F", "another one is at work") == 0);
		lock_wait(0, "F", &stop);
	}
	CHECK(warnings == 1);
	CHECK_TEXT(
		"cannot lock 'F' (Function not implemented): only one program at a time may use it",
		warned);
	flock_says = 0;
	/* who is stopped while he waits does not wait on */
	stop = 1;
	interrupted = 1;
	lock_wait(0, "F", &stop);
	CHECK(interrupted == 0 && warnings == 1);
}

static void text_is(const char *path, const char *want)
{
	struct buf text = BUF_INIT;

	CHECK(io_read(&text, path, 1 << 20) == 0);
	CHECK_TEXT(want, buf_text(&text));
	buf_release(&text);
}

static void check_links(const char *dir)
{
	char from[300], to[300];

	snprintf(from, sizeof from, "%s/from", dir);
	snprintf(to, sizeof to, "%s/to", dir);
	for (int i = 0; i < 4; i++) {
		link_says = i & 1 ? EPERM : 0;
		noreplace_says = i & 2 ? EINVAL : 0;
		/* a name that is free, and one that is not */
		CHECK(io_create(from, "one", 3, 0600) == 0);
		CHECK(io_create(from, "two", 3, 0600) < 0);
		CHECK(err_get()->code == EX_CANTCREAT);
		err_clear();
		text_is(from, "one");
		CHECK(io_link(from, to) == 0);
		text_is(to, "one");
		CHECK(io_link(from, to) < 0 && errno == EEXIST);
		text_is(to, "one");
		CHECK(unlink(from) == 0 && unlink(to) == 0);
		CHECK(io_link(from, to) < 0 && access(to, F_OK) < 0);
	}
	link_says = noreplace_says = 0;
}

int main(void)
{
	char dir[] = "/tmp/rnp-lock-XXXXXX";
	struct buf command = BUF_INIT;

	CHECK(mkdtemp(dir) != NULL);
	err_listen(hear);
	check_kept(dir);
	check_unkept();
	check_links(dir);
	buf_addf(&command, "%s/lock", dir);
	unlink(command.data);
	CHECK(rmdir(dir) == 0);
	buf_release(&command);
	TEST_END();
}
