/* out.c - records as lines or as a table, and whether they arrived. Standard output is a file
 * while a piece is looked at. */
#include "common/cli/out.h"

#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "common/base/io.h"
#include "common/json/json.h"
#include "tests/unit/test.h"

static char path[] = "/tmp/rnp-out-XXXXXX";

static void to(const char *file, int flags)
{
	int fd = open(file, flags | O_CLOEXEC, 0600);

	CHECK(fd >= 0 && dup2(fd, STDOUT_FILENO) == STDOUT_FILENO);
	if (fd != STDOUT_FILENO) /* out_close() closed it */
		close(fd);
	clearerr(stdout);
}

static void use(bool people, const char *columns)
{
	out_use(&(struct out_form){ .people = people, .columns = columns });
}

static void put(const char *text)
{
	json_t *v = json_parse(text, strlen(text), JSON_DEPTH_MAX, "test");

	CHECK(v && out_record(v) == 0);
	json_decref(v);
}

static void expect(const char *text)
{
	struct buf got = BUF_INIT;

	CHECK(out_close() == 0);
	CHECK(io_read(&got, path, 1 << 20) == 0);
	CHECK_TEXT(text, buf_text(&got));
	buf_release(&got);
}

static void check_lines(void)
{
	to(path, O_WRONLY | O_TRUNC);
	use(false, NULL);
	put("{\"b\":1, \"a\":\"x\\ny\"}");
	CHECK(out_lines(NULL, "{}\n", 3) == 0);
	CHECK(out_text("plain\n", 6) == 0);
	expect("{\"b\":1,\"a\":\"x\\ny\"}\n{}\nplain\n");
}

static void check_table(void)
{
	to(path, O_WRONLY | O_TRUNC);
	use(true, NULL);
	put("{\"kind\":\"rnp.x\",\"v\":1,\"name\":\"é\",\"n\":5,\"list\":[]}");
	put("{\"name\":\"a\\tlonger one\",\"n\":12345}");
	CHECK(out_lines(NULL, "{\"n\":true}\n{\"name\":7}", 21) == 0);
	expect("name          n\n"
	       "é             5\n"
	       "a longer one  12,345\n"
	       "-             yes\n"
	       "7             -\n");
	to(path, O_WRONLY | O_TRUNC);
	use(true, "name,gpus.0.model,gpus.1.model,n");
	put("{\"name\":\"a\",\"gpus\":[{\"model\":\"X\"}],\"n\":5}");
	put("{\"name\":\"b\",\"gpus\":[],\"n\":12345}");
	/* a column of nothing is left out */
	expect("name  gpu model       n\n"
	       "a     X               5\n"
	       "b     -          12,345\n");
	to(path, O_WRONLY | O_TRUNC);
	use(true, NULL);
	expect("");
}

/* Each kind has a table of its own, that of a kind without columns a card a record. */
static void check_kinds(void)
{
	const char *beat = "{\"kind\":\"rnp.beat\",\"state\":\"idle\",\"n\":5}";

	to(path, O_WRONLY | O_TRUNC);
	use(true, "state,n;rnp.call:node=call to,deadline_ms=within;rnp.sum:");
	put(beat);
	put(beat);
	put("{\"kind\":\"rnp.call\",\"node\":\"2D8jUbvrABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkw7Qp\","
	    "\"deadline_ms\":3000}");
	put(beat);
	put("{\"kind\":\"rnp.sum\",\"total\":7}");
	put("{\"kind\":\"rnp.other\",\"left\":1}");
	expect("state  n\n"
	       "idle   5\n"
	       "idle   5\n"
	       "\n"
	       "call to                                          within\n"
	       "2D8jUbvrABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkw7Qp     3 s\n"
	       "\n"
	       "state  n\n"
	       "idle   5\n"
	       "\n"
	       "total  7\n"
	       "\n"
	       "left  1\n");
	/* the table without a name is not of a kind that has one, though it comes first */
	to(path, O_WRONLY | O_TRUNC);
	use(true, "state,n;rnp.sum:");
	put("{\"kind\":\"rnp.sum\",\"total\":7}");
	put(beat);
	expect("total  7\n"
	       "\n"
	       "state  n\n"
	       "idle   5\n");
}

/* A table for each value of a column, with the columns that its rows have values for. */
static void check_groups(void)
{
	to(path, O_WRONLY | O_TRUNC);
	use(true, "+suite,test,median|low|high=median,params.bytes,why");
	put("{\"kind\":\"rnp.x\",\"suite\":\"a\",\"test\":\"one\",\"unit\":\"B/s\","
	    "\"median\":5,\"low\":4,\"high\":6000,\"why\":\"\"}");
	put("{\"kind\":\"rnp.x\",\"suite\":\"a\",\"test\":\"two\",\"unit\":\"ns\","
	    "\"median\":5,\"low\":4,\"high\":6}");
	put("{\"kind\":\"rnp.x\",\"suite\":\"longer\",\"test\":\"three\",\"unit\":\"ns\","
	    "\"median\":5,\"low\":4,\"high\":6,\"params\":{\"bytes\":7}}");
	expect("suite  test  median\n"
	       "a      one   5 B/s (4 to 6 kB/s)\n"
	       "a      two   5 ns (4 to 6)\n"
	       "\n"
	       "suite   test   median         bytes\n"
	       "longer  three  5 ns (4 to 6)    7 B\n");
}

static void check_full(void)
{
	json_t *v = json_record("rnp.x");

	use(false, NULL);
	to("/dev/full", O_WRONLY);
	CHECK_FAILS(EX_IOERR, out_record(v));
	CHECK_FAILS(EX_IOERR, out_close());
	use(true, NULL);
	to("/dev/full", O_WRONLY);
	json_set_text(v, "a", "b");
	CHECK(out_record(v) == 0);
	CHECK_FAILS(EX_IOERR, out_close());
	/* opened for reading, as prog_main leaves a closed one */
	to("/dev/null", O_RDONLY);
	CHECK_FAILS(EX_IOERR, out_record(v));
	to("/dev/null", O_RDONLY);
	use(false, NULL);
	CHECK_FAILS(EX_IOERR, out_record(v));
	json_decref(v);
}

int main(void)
{
	int fd = mkstemp(path);

	CHECK(fd >= 0);
	check_lines();
	check_table();
	check_kinds();
	check_groups();
	check_full();
	close(fd);
	unlink(path);
	TEST_END();
}
