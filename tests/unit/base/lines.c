/* lines.c - one by one and mapped - order, limits, files and pipes, and the first bad
 * line. */
#include "common/base/lines.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/ahead.h"
#include "common/base/mem.h"
#include "tests/unit/test.h"

static char dir[] = "/tmp/rnp-lines-XXXXXX";
static int nmade;  /* files, which are named by number */
static bool ahead; /* files are read past the page cache, where their file system can */

static void open_lines(struct lines *l, char **files, int n, size_t max_bytes)
{
	lines_open(l, files, n, max_bytes);
	l->ahead_min = ahead ? 0 : INT64_MAX;
}

/* A file with this content; the path lives until the test ends. */
static char *file_of(const char *content, size_t len)
{
	static struct arena paths = ARENA_INIT;
	struct buf path = BUF_INIT;
	char *copy;
	FILE *f;

	buf_addf(&path, "%s/%d", dir, nmade++);
	f = fopen(path.data, "w");
	CHECK(f && fwrite(content, 1, len, f) == len && fclose(f) == 0);
	copy = arena_strdup(&paths, path.data);
	buf_release(&path);
	return copy;
}

static char *text_file(const char *content)
{
	return file_of(content, strlen(content));
}

/* All lines of these files as "where=text;", the pending error left where it is. */
static int read_all(char **files, int n, size_t max_bytes, struct buf *out)
{
	struct lines l;
	char *line;
	size_t len;
	int rc;

	buf_reset(out);
	open_lines(&l, files, n, max_bytes);
	while ((rc = lines_next(&l, &line, &len)) == 1) {
		const char *where = lines_where(&l);

		CHECK(line[len] == '\0');
		buf_addf(out,
			"%s=", strrchr(where, '/') ? strrchr(where, '/') + 1 : where);
		buf_add(out, line, len);
		buf_addc(out, ';');
	}
	lines_close(&l);
	return rc;
}

static void check_forms(void)
{
	char *files[] = { text_file("a\nb\r\n\n  \t\r\nc"), text_file(""),
		text_file("\n"), text_file("d\n") };
	char *nul = file_of("x\0y\n\0\n", 6);
	char *missing = (char *)"tests/none/file";
	struct buf got = BUF_INIT;

	CHECK_I64(0, read_all(files, 4, 100, &got));
	CHECK_I64(0, read_all(files, 1, 100, &got));
	CHECK_TEXT("0:1=a;0:2=b\r;0:5=c;", got.data);
	CHECK_I64(0, read_all(files, 4, 100, &got));
	CHECK_TEXT("0:1=a;0:2=b\r;0:5=c;3:1=d;", got.data);
	CHECK_I64(0, read_all(&nul, 1, 100, &got));
	CHECK(got.len == 14 && memcmp(got.data, "4:1=x\0y;4:2=\0;", 14) == 0);
	CHECK_FAILS(EX_NOINPUT, read_all(&missing, 1, 100, &got));
	missing = dir;
	CHECK_FAILS(EX_NOINPUT, read_all(&missing, 1, 100, &got));
	buf_release(&got);
}

/* lines of every length around the size of a block, so that they cross its border */
static void check_borders(void)
{
	struct buf text = BUF_INIT, got = BUF_INIT;
	size_t lengths[] = { 1, (256 << 10) - 3, 1, 1, 2, (256 << 10) - 1, 256 << 10,
		(256 << 10) + 1, 600000, 3 };
	struct lines l;
	char *file, *line;
	size_t len, n = sizeof lengths / sizeof *lengths;

	for (size_t i = 0; i < n; i++) {
		memset(buf_reserve(&text, lengths[i]), (int)('a' + i), lengths[i]);
		text.len += lengths[i];
		if (i + 1 < n) /* and the last has no newline */
			buf_addc(&text, '\n');
	}
	file = file_of(text.data, text.len);
	open_lines(&l, &file, 1, 600000);
	for (size_t i = 0; i < n; i++) {
		CHECK_I64(1, lines_next(&l, &line, &len));
		CHECK_I64((int64_t)lengths[i], (int64_t)len);
		CHECK(line[0] == (char)('a' + i) && line[len - 1] == (char)('a' + i));
	}
	CHECK_I64(0, lines_next(&l, &line, &len));
	lines_close(&l);
	CHECK_I64(-1, read_all(&file, 1, 599999, &got));
	CHECK(strstr(err_get()->text, ":9: longer than 599999 bytes") != NULL);
	CHECK_I64(EX_DATAERR, err_get()->code);
	err_clear();
	/* or it is cut, and the next one is whole */
	open_lines(&l, &file, 1, 300000);
	l.cuts = true;
	for (size_t i = 0; i < n; i++) {
		CHECK_I64(1, lines_next(&l, &line, &len));
		CHECK(l.is_cut == (lengths[i] > 300000));
		CHECK_I64(l.is_cut ? 300000 : (int64_t)lengths[i], (int64_t)len);
		CHECK(line[0] == (char)('a' + i) && line[len - 1] == (char)('a' + i));
		CHECK(line[len] == '\0' && l.number == (long)i + 1);
	}
	CHECK_I64(0, lines_next(&l, &line, &len));
	lines_close(&l);
	/* without end: what arrives is refused before it is all in memory */
	file = (char *)"/dev/zero";
	CHECK_FAILS(EX_DATAERR, read_all(&file, 1, 1000, &got));
	buf_release(&text);
	buf_release(&got);
}

static int sink(void *ctx, const char *data, size_t len)
{
	struct buf *out = ctx;

	buf_add(out, data, len);
	return out->len > 4000000 ? err_set(EX_IOERR, "sink is full") : 0;
}

/* Line "n" gives "n,"; "bad" fails after it has written something; "quiet" gives nothing. */
static int echo(void *ctx, char *line, size_t len, const char *where, struct buf *out)
{
	(void)ctx;
	if (strcmp(line, "quiet") == 0)
		return 0;
	buf_add(out, line, len);
	buf_addc(out, ',');
	if (strcmp(line, "bad") == 0)
		return err_set(EX_DATAERR, "%s: bad", where);
	return 0;
}

static int map(char **files, int n, struct buf *out)
{
	struct lines l;
	int rc;

	buf_reset(out);
	open_lines(&l, files, n, 1 << 20);
	rc = lines_map(&l, echo, sink, out);
	lines_close(&l);
	return rc;
}

static void check_map(void)
{
	struct buf text = BUF_INIT, got = BUF_INIT, expected = BUF_INIT;
	char *files[3];

	for (int i = 0; i < 100000; i++) {
		buf_addf(&text, i % 7 ? "%d\n" : "quiet\n", i);
		if (i % 7)
			buf_addf(&expected, "%d,", i);
	}
	files[0] = file_of(text.data, text.len);
	CHECK_I64(0, map(files, 1, &got));
	CHECK_TEXT(expected.data, got.data);
	/* several files; the bad line of the second ends it, after all good ones before */
	files[1] = text_file("x\ny\nbad\nz\nbad\n");
	files[2] = text_file("never\n");
	buf_adds(&expected, "x,y,");
	CHECK_I64(-1, map(files, 3, &got));
	CHECK_TEXT(expected.data, got.data);
	CHECK_I64(EX_DATAERR, err_get()->code);
	CHECK(strstr(err_get()->text, "/") && strstr(err_get()->text, ":3: bad"));
	err_clear();
	/* the same in the middle of a file, while the lines after it are being read */
	buf_reset(&text);
	buf_reset(&expected);
	for (int i = 0; i < 20000; i++) {
		buf_addf(&text, i == 9000 ? "bad\n" : "%d\n", i);
		if (i < 9000)
			buf_addf(&expected, "%d,", i);
	}
	files[0] = file_of(text.data, text.len);
	CHECK_FAILS(EX_DATAERR, map(files, 3, &got));
	CHECK_TEXT(expected.data, got.data);
	/* a line that cannot be read ends it after the good ones of its batch */
	files[0] = text_file("a\nb\n");
	files[1] = (char *)"tests/none/file";
	CHECK_FAILS(EX_NOINPUT, map(files, 2, &got));
	CHECK_TEXT("a,b,", got.data);
	buf_release(&text);
	buf_release(&got);
	buf_release(&expected);
}

static void check_map_limits(void)
{
	struct buf text = BUF_INIT, got = BUF_INIT;
	char *file;

	buf_adds(&text, "a\nb\n");
	memset(buf_reserve(&text, (1 << 20) + 1), 'c', (1 << 20) + 1);
	text.len += (1 << 20) + 1;
	buf_adds(&text, "\nd\n");
	file = file_of(text.data, text.len);
	CHECK_FAILS(EX_DATAERR, map(&file, 1, &got));
	CHECK_TEXT("a,b,", got.data);
	/* a sink that fails ends it */
	buf_reset(&text);
	for (int i = 0; i < 5; i++) {
		memset(buf_reserve(&text, 1 << 20), 'e', 1 << 20);
		text.len += 1 << 20;
		buf_addc(&text, '\n');
	}
	file = file_of(text.data, text.len);
	CHECK_FAILS(EX_IOERR, map(&file, 1, &got));
	buf_release(&text);
	buf_release(&got);
}

/* A file of several buffers, whose end is at no block's; what is appended while it is read is
 * read. */
static void check_large(void)
{
	struct buf text = BUF_INIT;
	struct lines l;
	char *file, *line;
	size_t len;
	FILE *more;
	int n = 0;

	while (text.len < 13 << 20)
		buf_addf(&text, "%d %*d\n", n, n % 997, n), n++;
	file = file_of(text.data, text.len);
	open_lines(&l, &file, 1, 2000);
	for (int i = 0; i < n; i++) {
		int got = -1;

		CHECK_I64(1, lines_next(&l, &line, &len));
		sscanf(line, "%d", &got);
		if (got != i)
			CHECK_I64(i, got);
	}
	/* the end may have been seen by now, or not */
	more = fopen(file, "a");
	CHECK(more && fputs("more\n", more) >= 0 && fclose(more) == 0);
	for (n = 0; lines_next(&l, &line, &len) == 1; n++)
		CHECK_TEXT("more", line);
	CHECK(n <= 1);
	lines_close(&l);
	open_lines(&l, &file, 1, 2000); /* and left in the middle */
	CHECK_I64(1, lines_next(&l, &line, &len));
	lines_close(&l);
	buf_release(&text);
}

/* Lines from a slow writer are returned before the next arrive: the writer waits for the answer
 * to each line before it sends the next, half a line at a time. */
static int answer(void *ctx, const char *data, size_t len)
{
	return write(*(int *)ctx, data, len) == (ssize_t)len ? 0 : -1;
}

static void check_trickle(void)
{
	int to[2], from[2], keep = dup(STDIN_FILENO), asked = 0;
	struct lines l;
	pid_t child;

	CHECK(pipe2(to, O_CLOEXEC) == 0 && pipe2(from, O_CLOEXEC) == 0);
	child = fork();
	if (child == 0) {
		char got[16];

		alarm(20);
		for (int i = 0; i < 20; i++) {
			if (write(to[1], "li", 2) != 2 || usleep(200) ||
				write(to[1], "ne\n", 3) != 3 ||
				read(from[0], got, 16) != 5)
				_exit(1);
		}
		_exit(0);
	}
	close(to[1]);
	dup2(to[0], STDIN_FILENO);
	lines_open(&l, NULL, 0, 100);
	CHECK_I64(0, lines_map(&l, echo, answer, &from[1]));
	lines_close(&l);
	dup2(keep, STDIN_FILENO);
	CHECK(waitpid(child, &asked, 0) == child && asked == 0);
	close(keep);
	close(to[0]);
	close(from[0]);
	close(from[1]);
}

/* Two files that do not fit the memory together, each of which would: both are read past the page
 * cache. */
static void check_many(void)
{
	char *files[] = { file_of("", 0), file_of("", 0) };
	struct lines l;

	for (int i = 0; i < 2; i++)
		CHECK(truncate(files[i], (off_t)(ahead_bytes_min() / 2 + 1)) == 0);
	lines_open(&l, files, 2, 100);
	CHECK_I64(LINES_AHEAD_MIN, l.ahead_min);
	lines_close(&l);
	lines_open(&l, files, 1, 100);
	CHECK_I64(INT64_MAX, l.ahead_min);
	lines_close(&l);
}

int main(void)
{
	struct buf command = BUF_INIT;

	CHECK(mkdtemp(dir) != NULL);
	for (int i = 0; i < 2; i++) {
		ahead = i;
		nmade = 0;
		check_forms();
		check_borders();
		check_map();
		check_map_limits();
		check_large();
	}
	check_trickle();
	check_many();
	buf_addf(&command, "rm -rf %s", dir);
	CHECK(system(command.data) == 0);
	buf_release(&command);
	TEST_END();
}
