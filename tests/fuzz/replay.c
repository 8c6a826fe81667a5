/* replay.c - replay FILE|DIRECTORY ... - passes each file once to a fuzz target: the corpus as
 * a test.
 *
 * Every input is copied into memory of exactly its size, so that the address sanitizer sees a
 * read beyond it. Prints the number of inputs; a crash names the input. */
#include <dirent.h>
#include <signal.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"

#define INPUT_BYTES_MAX ((size_t)1 << 20)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char now[4096];

/* A failed check aborts, and so do the sanitizers (see main): prints which input caused it. */
static void on_abort(int signal_number)
{
	static const char says[] = "replay: aborted by ";

	(void)signal_number;
	io_write_all(STDERR_FILENO, says, sizeof says - 1);
	io_write_all(STDERR_FILENO, now, strlen(now));
	io_write_all(STDERR_FILENO, "\n", 1);
}

/* the sanitizers call these functions by these names */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "abort_on_error=1";
}

static int replay_file(const char *path)
{
	struct buf text = BUF_INIT;
	uint8_t *copy;

	if (io_read(&text, path, INPUT_BYTES_MAX) < 0) {
		fprintf(stderr, "replay: %s\n", err_get()->text);
		return -1;
	}
	snprintf(now, sizeof now, "%s", path);
	copy = xmalloc(text.len);
	if (text.len)
		memcpy(copy, text.data, text.len);
	LLVMFuzzerTestOneInput(copy, text.len);
	free(copy);
	buf_release(&text);
	return 1;
}

/* Returns the number of inputs, or -1. */
static int replay(const char *path)
{
	DIR *dir = opendir(path);
	struct dirent *e;
	int n = 0, one;

	if (!dir)
		return replay_file(path);
	while (n >= 0 && (e = readdir(dir))) {
		struct buf file = BUF_INIT;

		if (e->d_name[0] == '.')
			continue;
		buf_addf(&file, "%s/%s", path, e->d_name);
		one = replay(file.data);
		n = one < 0 ? -1 : n + one;
		buf_release(&file);
	}
	closedir(dir);
	return n;
}

int main(int argc, char **argv)
{
	int n = 0;

	signal(SIGABRT, on_abort);
	for (int i = 1; i < argc; i++) {
		int one = replay(argv[i]);

		if (one < 0)
			return 1;
		n += one;
	}
	printf("%d inputs\n", n);
	return n == 0;
}
