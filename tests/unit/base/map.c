/* map.c - a mapped file that gets shorter while it is used ends the program with its name and
 * 74, and not with a signal. */
#include "common/base/map.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/test.h"

#define BYTES (3 * 65536)

static char path[] = "/tmp/rnp-map-XXXXXX";

static void make_file(void)
{
	static char bytes[BYTES];
	int fd = open(path, O_RDWR);

	memset(bytes, 'x', sizeof bytes);
	CHECK(fd >= 0 && write(fd, bytes, sizeof bytes) == BYTES);
	close(fd);
}

/* Runs a program that reads the end of a file after it was truncated: its exit status and
 * message. */
static int read_cut(char *said, size_t size, int others)
{
	int ends[2], status = -1;
	pid_t child;
	ssize_t n;

	make_file();
	CHECK(pipe(ends) == 0);
	child = fork();
	if (child == 0) {
		struct lm_map maps[3];

		dup2(ends[1], STDERR_FILENO);
		for (int i = 0; i < 3; i++)
			if (lm_map_open(&maps[i], i == 1 ? path : "/proc/self/exe") < 0)
				_exit(1);
		if (others)
			lm_map_close(&maps[0]);
		if (maps[1].data[BYTES - 1] != 'x' || truncate(path, 10) < 0)
			_exit(2);
		_exit(maps[1].data[BYTES - 1] == 'x' ? 3 : 4);
	}
	close(ends[1]);
	n = read(ends[0], said, size - 1);
	said[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	waitpid(child, &status, 0);
	return status;
}

int main(void)
{
	char said[512], want[512];
	struct lm_map m;
	int status;

	CHECK(mkstemp(path) >= 0);
	snprintf(want, sizeof want,
		"map: cannot read '%s': it became shorter, or its disk failed, while it was in use\n",
		path);
	for (int others = 0; others < 2; others++) {
		status = read_cut(said, sizeof said, others);
		CHECK(WIFEXITED(status));
		CHECK_I64(74, WEXITSTATUS(status));
		CHECK_TEXT(want, said);
	}
	/* an empty file can be mapped, and closing twice is harmless */
	CHECK(truncate(path, 0) == 0 && lm_map_open(&m, path) == 0 && !m.data);
	lm_map_close(&m);
	lm_map_close(&m);
	unlink(path);
	TEST_END();
}
