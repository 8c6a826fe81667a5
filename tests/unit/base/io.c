/* io.c - limits, and at every instant the old or the new content. */
#include "common/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/test.h"

static char dir[] = "/tmp/rnp-io-XXXXXX";

static const char *in_dir(const char *name)
{
	static struct buf paths[4];
	static unsigned at;
	struct buf *path = &paths[at++ % 4];

	buf_reset(path);
	buf_addf(path, "%s/%s", dir, name);
	return path->data;
}

static int64_t mode_of(const char *path)
{
	struct stat st;

	return stat(path, &st) < 0 ? -1 : (int64_t)(st.st_mode & 07777);
}

static int entries(void)
{
	struct buf command = BUF_INIT;
	char text[16] = "";
	FILE *f;

	buf_addf(&command, "ls -A %s | wc -l", dir);
	f = popen(command.data, "r");
	CHECK(f && fgets(text, sizeof text, f));
	pclose(f);
	buf_release(&command);
	return atoi(text);
}

static void check_replace(void)
{
	struct buf text = BUF_INIT;
	const char *path = in_dir("a");

	umask(077);
	CHECK(io_replace(path, "old", 3, 0644) == 0);
	CHECK_I64(0644, mode_of(path));
	CHECK(io_replace(path, "new\0!", 5, 0600) == 0);
	CHECK_I64(0600, mode_of(path));
	CHECK(io_read(&text, path, 5) == 0);
	CHECK(text.len == 5 && memcmp(text.data, "new\0!", 6) == 0);
	CHECK_FAILS(EX_CANTCREAT, io_create(path, "x", 1, 0600));
	CHECK_FAILS(EX_CANTCREAT, io_replace(in_dir("none/a"), "x", 1, 0600));
	CHECK_FAILS(EX_CANTCREAT, io_replace(dir, "x", 1, 0600));
	CHECK(io_create(in_dir("b"), "", 0, 0400) == 0);
	CHECK_I64(0400, mode_of(in_dir("b")));
	CHECK_I64(2, entries()); /* nothing left beside them */
	buf_release(&text);
}

static void check_limits(void)
{
	struct buf text = BUF_INIT;

	CHECK_FAILS(EX_DATAERR, io_read(&text, in_dir("a"), 4));
	buf_reset(&text);
	buf_adds(&text, "kept ");
	CHECK(io_read(&text, in_dir("b"), 0) == 0);
	CHECK_TEXT("kept ", buf_text(&text));
	CHECK_FAILS(EX_NOINPUT, io_read(&text, in_dir("none"), 10));
	CHECK_FAILS(EX_NOINPUT, io_read(&text, dir, 10));
	CHECK_FAILS(EX_DATAERR, io_read(&text, "/dev/zero", 1 << 20));
	buf_release(&text);
	CHECK(io_read(&text, in_dir("b"), 0) == 0);
	CHECK_TEXT("", buf_text(&text));
	buf_release(&text);
}

/* A disk that fills up in the middle of a file, simulated by a limit on file sizes: the old
 * content stays and no temporary file is left. */
static void check_full(void)
{
	struct rlimit before, small = { 2, 2 };
	struct buf text = BUF_INIT;
	int entries_before = entries();

	CHECK(io_replace(in_dir("a"), "old", 3, 0600) == 0);
	signal(SIGXFSZ, SIG_IGN);
	CHECK(getrlimit(RLIMIT_FSIZE, &before) == 0);
	small.rlim_max = before.rlim_max;
	CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
	CHECK_FAILS(EX_IOERR, io_replace(in_dir("a"), "newer", 5, 0600));
	CHECK_FAILS(EX_IOERR, io_create(in_dir("c"), "newer", 5, 0600));
	CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
	CHECK(io_read(&text, in_dir("a"), 100) == 0);
	CHECK_TEXT("old", buf_text(&text));
	CHECK_I64(entries_before, entries());
	buf_release(&text);
}

/* what a child does that a signal ends while it writes two files */
static void write_until(int number, bool watched, bool ignored)
{
	struct io_part whole, part;

	signal(number, ignored ? SIG_IGN : SIG_DFL);
	if (watched)
		io_watch_signals();
	if (io_part_open(&whole, in_dir("whole"), 0600) < 0 ||
		io_part_close(&whole) < 0 ||
		io_part_open(&whole, in_dir("flushed"), 0600) < 0 ||
		io_part_flush(&whole) < 0 ||
		io_part_open(&part, in_dir("part"), 0600) < 0 ||
		io_part_write(&part, "x", 1) < 0)
		_exit(1);
	raise(number);
	io_part_drop(&whole);
	io_part_drop(&part);
	_exit(2);
}

static int end_of_child(int number, bool watched, bool ignored)
{
	int status = 0;
	pid_t pid = fork();

	if (pid == 0)
		write_until(number, watched, ignored);
	CHECK(pid > 0 && waitpid(pid, &status, 0) == pid);
	return status;
}

/* A signal leaves complete files alone, and no temporary files. */
static void check_signals(void)
{
	static const int numbers[] = { SIGTERM, SIGINT, SIGHUP };
	int before = entries(), status;

	for (size_t i = 0; i < 3; i++) {
		status = end_of_child(numbers[i], true, false);
		CHECK(WIFSIGNALED(status) && WTERMSIG(status) == numbers[i]);
		CHECK_I64(before + 1, entries());
		CHECK(unlink(in_dir("whole")) == 0);
	}
	/* nohup */
	status = end_of_child(SIGHUP, true, true);
	CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 2);
	CHECK(unlink(in_dir("whole")) == 0);
	CHECK_I64(before, entries());
	/* and that it is the handler that does it */
	CHECK(WIFSIGNALED(end_of_child(SIGTERM, false, false)));
	CHECK_I64(before + 3, entries());
}

/* Several files that appear when there is room for all. */
/* what a child leaves that is killed while it writes; where live is not NULL it waits for that */
static void write_and_die(int *live)
{
	struct io_part part, other;
	char c = 'x';

	if (io_part_open(&part, in_dir("killed"), 0600) < 0 ||
		io_part_write(&part, "half", 4) < 0 ||
		io_part_open(&other, in_dir("killed"), 0600) < 0 ||
		io_part_flush(&other) < 0)
		_exit(1);
	if (live && (write(live[1], &c, 1) != 1 || read(live[2], &c, 1) != 1))
		_exit(2);
	raise(SIGKILL);
	_exit(3);
}

/* What SIGKILL left is gone when the file is written next, of two writers, too; what somebody
 * writes now is not, nor what only has such a name. */
static void check_killed(void)
{
	int there = entries(), to[2], from[2], status, live[3];
	struct io_part mine;
	char c;
	pid_t pid = fork();

	if (pid == 0)
		write_and_die(NULL);
	CHECK(waitpid(pid, &status, 0) == pid && WIFSIGNALED(status));
	CHECK_I64(there + 2, entries());
	CHECK(io_replace(in_dir("killed"), "whole", 5, 0600) == 0);
	CHECK_I64(there + 1, entries());
	CHECK(pipe(to) == 0 && pipe(from) == 0);
	live[1] = from[1];
	live[2] = to[0];
	pid = fork();
	if (pid == 0)
		write_and_die(live);
	CHECK(read(from[0], &c, 1) == 1);
	CHECK_I64(there + 3, entries());
	CHECK(io_part_open(&mine, in_dir("killed"), 0600) == 0);
	CHECK_I64(there + 4, entries());
	CHECK(io_part_close(&mine) == 0);
	CHECK_I64(there + 3, entries());
	CHECK(write(to[1], "x", 1) == 1 && waitpid(pid, &status, 0) == pid &&
		WIFSIGNALED(status));
	/* not ours to take away: another kind of file */
	CHECK(mkfifo(in_dir("killed.rnp-part2"), 0600) == 0);
	CHECK(io_create(in_dir("killed2"), "x", 1, 0600) == 0);
	CHECK(io_replace(in_dir("killed"), "whole", 5, 0600) == 0);
	CHECK_I64(there + 3, entries());
	for (int i = 0; i < 2; i++) {
		close(to[i]);
		close(from[i]);
	}
	CHECK(unlink(in_dir("killed.rnp-part2")) == 0 && unlink(in_dir("killed")) == 0 &&
		unlink(in_dir("killed2")) == 0);
}

/* More writers of one file at once than there are names. */
static void check_many(void)
{
	struct io_part parts[12];
	int there = entries();

	for (int i = 0; i < 12; i++)
		CHECK(io_part_open(&parts[i], in_dir("many"), 0600) == 0 &&
			io_part_write(&parts[i], "0123456789abcdef" + i, 1) == 0);
	CHECK_I64(there + 12, entries());
	for (int i = 0; i < 12; i++)
		CHECK(io_part_close(&parts[i]) == 0);
	CHECK_I64(there + 1, entries());
	CHECK(unlink(in_dir("many")) == 0);
}

static void check_flush(void)
{
	struct io_part p, gone = { 0 };

	CHECK(io_part_open(&p, in_dir("late"), 0600) == 0);
	CHECK(io_part_write(&p, "abc", 3) == 0 && io_part_flush(&p) == 0);
	CHECK(access(in_dir("late"), F_OK) < 0);
	CHECK(io_part_close(&p) == 0);
	CHECK(access(in_dir("late"), F_OK) == 0);
	CHECK(io_part_open(&p, in_dir("never"), 0600) == 0 && io_part_flush(&p) == 0);
	io_part_drop(&p);
	io_part_drop(&gone);
	CHECK(access(in_dir("never"), F_OK) < 0);
}

static void check_write_all(void)
{
	int full = open("/dev/full", O_WRONLY | O_CLOEXEC), ends[2];

	CHECK(full >= 0 && io_write_all(full, "x", 1) == -1 && errno == ENOSPC);
	close(full);
	CHECK(pipe2(ends, O_CLOEXEC) == 0);
	CHECK(io_write_all(ends[1], "", 0) == 0);
	CHECK(io_write_all(ends[1], "abc", 3) == 0);
	close(ends[0]);
	close(ends[1]);
	CHECK(io_write_all(-1, "x", 1) == -1 && errno == EBADF);
}

/* a device is not replaced: root could take /dev/null away from the system */
static void check_pipe(void)
{
	struct stat st;
	char path[300];

	snprintf(path, sizeof path, "%s", in_dir("pipe"));
	CHECK(mkfifo(path, 0600) == 0);
	CHECK_FAILS(EX_CANTCREAT, io_replace(path, "x", 1, 0644));
	CHECK(stat(path, &st) == 0 && S_ISFIFO(st.st_mode));
}

/* A write that would fail later fails now, with the same code, and nothing is created. */
static void check_place(void)
{
	int before = entries();

	CHECK(io_check_place(in_dir("new")) == 0);
	CHECK(io_check_place(in_dir("a")) == 0);
	CHECK(io_check_place("relative") == 0);
	CHECK_FAILS(EX_CANTCREAT, io_check_place(dir));
	CHECK_FAILS(EX_CANTCREAT, io_check_place(""));
	CHECK_FAILS(EX_CANTCREAT, io_check_place(in_dir("none/a")));
	CHECK_FAILS(EX_CANTCREAT, io_check_place(in_dir("a/b")));
	CHECK_FAILS(EX_CANTCREAT, io_check_place(in_dir("pipe")));
	CHECK_FAILS(EX_CANTCREAT, io_check_place("/dev/null"));
	CHECK_I64(before, entries());
	if (geteuid() == 0) /* may write everywhere */
		return;
	CHECK_FAILS(EX_NOPERM, io_check_place("/etc/rnp"));
}

static void check_dirs(void)
{
	CHECK(io_make_dirs(in_dir("d/e//f/"), 0700) == 0);
	CHECK_I64(0700, mode_of(in_dir("d/e/f")));
	CHECK(io_make_dirs(in_dir("d/e"), 0700) == 0);
	CHECK(io_make_dirs("/", 0700) == 0);
	/* below a home that is there, but not the home */
	setenv("HOME", in_dir("home"), 1);
	CHECK_FAILS(EX_NOINPUT, io_make_default_dirs(in_dir("home/.cache/rnp"), 0700));
	CHECK(access(in_dir("home"), F_OK) < 0);
	CHECK(io_make_dirs(in_dir("home"), 0700) == 0);
	CHECK(io_make_default_dirs(in_dir("home/.cache/rnp"), 0700) == 0);
	CHECK_I64(0700, mode_of(in_dir("home/.cache/rnp")));
	CHECK_FAILS(EX_NOINPUT, io_make_dirs("", 0700));
	CHECK_FAILS(EX_CANTCREAT, io_make_dirs(in_dir("a"), 0700));
	CHECK_FAILS(EX_NOINPUT, io_make_dirs(in_dir("a/b"), 0700));
}

/* Who waits for the file is at once there, takes it and removes the directory: a server's port,
 * read by the program that has started it. */
static bool taken_at_once;

int rename(const char *from, const char *to)
{
	int rc = renameat(AT_FDCWD, from, AT_FDCWD, to);

	if (rc == 0 && taken_at_once)
		CHECK(unlink(to) == 0 && rmdir(in_dir("taken")) == 0);
	return rc;
}

static void check_taken(void)
{
	CHECK(mkdir(in_dir("taken"), 0700) == 0);
	taken_at_once = true;
	CHECK(io_replace(in_dir("taken/port"), "8080\n", 5, 0600) == 0);
	taken_at_once = false;
	CHECK(access(in_dir("taken"), F_OK) < 0);
}

static void remove_dir(void)
{
	struct buf command = BUF_INIT;

	buf_addf(&command, "rm -rf %s", dir);
	CHECK(system(command.data) == 0);
	buf_release(&command);
}

int main(void)
{
	CHECK(mkdtemp(dir) != NULL);
	check_replace();
	check_limits();
	check_full();
	check_write_all();
	check_flush();
	check_killed();
	check_many();
	check_signals();
	check_pipe();
	check_place();
	check_dirs();
	check_taken();
	remove_dir();
	TEST_END();
}
