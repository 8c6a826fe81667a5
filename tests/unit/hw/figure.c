/* figure.c - what is kept of this machine: the best of all, for 30 days, whatever the file
 * holds. */
#include "common/hw/figure.h"

#include <stdlib.h>
#include <unistd.h>

#include "common/base/io.h"
#include "tests/unit/test.h"

static struct dev d = { .name = "cpu", .model = "Model", .isa = "isa", .is_host = true };
static char place[] = "/tmp/figureXXXXXX";

static struct figure figure(const char *test)
{
	struct figure f;

	figure_init(&f, &d, "suite", test, "1/s");
	return f;
}

static void write_file(const char *text)
{
	struct buf path = BUF_INIT;

	CHECK(figure_place(&path, "measured.jsonl") == 0);
	CHECK(io_replace(path.data, text, strlen(text), 0600) == 0);
	buf_release(&path);
}

static void kept(void)
{
	static const double rates[] = { 10, 30, 20 }, worse[] = { 5, 6 };
	struct figure f = figure("a"), other = figure("b");

	CHECK(!figure_kept(&f));
	figure_offer(&f, rates, 3);
	f = figure("a");
	CHECK(figure_kept(&f) && f.best == 30 && f.batches.median == 20 &&
		f.batches.n == 3);
	CHECK(!figure_kept(&other));
	figure_offer(&other, worse, 2);
	/* what is worse changes what is told of the last time, and not what is reached */
	f = figure("a");
	figure_offer(&f, worse, 2);
	f = figure("a");
	CHECK(figure_kept(&f) && f.best == 30 && f.batches.n == 2);
	other = figure("b");
	CHECK(figure_kept(&other) && other.best == 6);
	/* another device, or another number of threads, is another machine */
	f.threads++;
	CHECK(!figure_kept(&f));
	strcpy(d.model, "Other");
	f = figure("a");
	CHECK(!figure_kept(&f));
	strcpy(d.model, "Model");
	setenv("RNP_NOW", "2030-01-01T00:00:00Z", 1);
	f = figure("a");
	CHECK(!figure_kept(&f));
	unsetenv("RNP_NOW");
}

static void damaged(void)
{
	static const char *const files[] = {
		"", "\n\n", "{", "[]\n{}\n", "\xff\xfe\n",
		"{\"suite\":1,\"params\":[]}\n",
		"{\"kind\":\"rnp.bench\",\"v\":1,\"at\":\"x\",\"suite\":\"suite\",\"test\":\"a\"}\n"
	};
	static const double rates[] = { 7 };

	for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
		struct figure f = figure("a");

		write_file(files[i]);
		CHECK(!figure_kept(&f));
		figure_offer(&f, rates, 1);
		f = figure("a");
		CHECK(figure_kept(&f) && f.best == 7);
	}
}

static int batches;
static bool broken;

static int batch(void *ctx, double *rate)
{
	*rate = *(double *)ctx;
	batches++;
	return broken ? -1 : 0;
}

static void measured(void)
{
	struct figure f = figure("c");
	double rate = 40;

	/* one that warms up, and six that agree */
	CHECK(figure_measure(&f, batch, &rate, 1) == 0 && f.best == 40);
	CHECK(batches >= 2 && f.batches.n <= 6);
	/* it is as good without a place */
	unsetenv("XDG_CACHE_HOME");
	unsetenv("HOME");
	unsetenv("CACHE_DIRECTORY");
	f = figure("c");
	CHECK(!figure_kept(&f));
	CHECK(figure_measure(&f, batch, &rate, 1) == 0 && f.best == 40);
	broken = true;
	f = figure("d");
	CHECK(figure_measure(&f, batch, &rate, 1) < 0 && f.best == 0);
}

int main(void)
{
	struct buf path = BUF_INIT;

	CHECK(mkdtemp(place) != NULL);
	unsetenv("CACHE_DIRECTORY");
	setenv("XDG_CACHE_HOME", place, 1);
	kept();
	damaged();
	CHECK(figure_place(&path, "measured.jsonl") == 0);
	measured();
	unlink(path.data);
	buf_reset(&path);
	buf_addf(&path, "%s/rnp", place);
	rmdir(path.data);
	rmdir(place);
	buf_release(&path);
	TEST_END();
}
