/* A container goes from its file to the coordinator, a request at a time: what a worker needs for
 * that does not grow with it, and what is there already is not sent again. The coordinator is a
 * process of its own that looks at each piece and keeps none.
 *
 * usage: upload [BYTES]      of the container
 *
 * uses: cmd/rnp-train */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include "cmd/rnp-train/worker/worker.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/httpd/httpd.h"
#include "tests/bench/coordinator.h"
#include "tests/unit/test.h"

#define PIECE_BYTES PROTOCOL_PIECE_BYTES
#define MEMORY_MAX  ((int64_t)64 << 20)

/* In memory of both processes. */
struct seen {
	_Atomic uint64_t pieces, wrong, records;
};
static struct seen *seen;
static uint64_t pieces =
	64; /* of the container; the first half of them is there already */

/* The coordinator: each piece begins with its number. */
static enum httpd_when put_piece(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	uint64_t first = strtoull(q->args[2], NULL, 10), is = 0;

	(void)ctx;
	for (size_t at = 0; at < q->body.len; at += PIECE_BYTES, first++) {
		memcpy(&is, q->body.data + at, sizeof is);
		seen->wrong += is != first || first < pieces / 2;
		seen->pieces++;
	}
	r->status = 201;
	buf_adds(&r->body, "{\"taken\":true}\n");
	return HTTPD_NOW;
}

static enum httpd_when get_pieces(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx;
	(void)q;
	buf_addf(&r->body,
		"{\"turn\":1,\"state\":\"open\",\"bytes_max\":%llu,\"pieces\":[0",
		(unsigned long long)PROTOCOL_BODY_BYTES);
	for (uint64_t i = 1; i < pieces / 2; i++)
		buf_addf(&r->body, ",%llu", (unsigned long long)i);
	buf_adds(&r->body, "]}\n");
	return HTTPD_NOW;
}

static enum httpd_when post_delta(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx;
	(void)q;
	seen->records++;
	buf_adds(&r->body, "{\"turn\":1}\n");
	return HTTPD_NOW;
}

static int run_coordinator(int argc, char **argv)
{
	static const struct httpd_route routes[] = {
		HTTPD_PUT("/v1/delta/{member}/{turn}/{piece}", put_piece,
			PROTOCOL_BODY_BYTES, .class = HTTPD_LARGE),
		HTTPD_GET("/v1/delta/{member}/{turn}", get_pieces),
		HTTPD_POST("/v1/delta/{member}/{turn}", post_delta,
			PROTOCOL_RECORD_BYTES),
		{ 0 },
	};
	const struct httpd_config config = { .listen = "127.0.0.1:0",
		.port_file = "port",
		.log_off = true,
		.routes = routes };
	struct httpd *server = httpd_start(&config);

	(void)argc;
	(void)argv;
	if (!server)
		die("the coordinator");
	httpd_wait(server, NULL);
	httpd_stop(server);
	return 0;
}

/* A file with holes: only the numbers of its pieces are there. */
static void make_container(uint64_t bytes)
{
	char path[300];
	int fd;

	snprintf(path, sizeof path, "%s/delta-1.rnpg", work);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd < 0 || ftruncate(fd, (off_t)bytes) < 0)
		die("a container");
	for (uint64_t i = 0; i < pieces; i++)
		if (io_write_all_at(fd, &i, sizeof i, (int64_t)(i * PIECE_BYTES)) < 0)
			die("a container");
	close(fd);
}

static int64_t most_memory(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return u.ru_maxrss * INT64_C(1024);
}

int main(int argc, char **argv)
{
	static _Atomic int stopped;
	struct worker w = WORKER_INIT;
	uint64_t bytes = argc > 1 ? strtoull(argv[1], NULL, 10) : pieces * PIECE_BYTES;
	char url[64], remove[300];
	int64_t before, more;
	pid_t pid;

	bench_name = "upload";
	bytes -= bytes % PIECE_BYTES;
	pieces = bytes / PIECE_BYTES;
	snprintf(work, sizeof work, "%s/upload.XXXXXX",
		getenv("TMPDIR") ? getenv("TMPDIR") : "/tmp");
	seen = mmap(NULL, sizeof *seen, PROT_READ | PROT_WRITE,
		MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (seen == MAP_FAILED || !mkdtemp(work) || key_generate(&w.key) < 0)
		die("beginning");
	make_container(bytes);
	coordinator_main = run_coordinator;
	pid = coordinator_start(url, (const char *const[]){ "coordinator", NULL });
	w.stopped = &stopped;
	w.client.url = url;
	w.client.key = &w.key;
	w.client.give_up_ms = 60000;
	w.run.piece_bytes = PIECE_BYTES;
	w.state = (struct join_state){ .dir = xstrdup(work), .lock_fd = -1 };
	w.state.pending = true;
	w.state.delta =
		(struct delta){ .turn = 1, .bytes = bytes, .steps = 1, .tokens = 1 };
	before = most_memory();
	CHECK(worker_deliver(&w) == 0);
	CHECK(worker_persisted(&w) == 0);
	more = most_memory() - before;
	if (argc > 1)
		printf("%lld bytes of memory for %llu of a container\n", (long long)more,
			(unsigned long long)bytes);
	CHECK(more < MEMORY_MAX);
	CHECK(!w.state.pending);
	CHECK_I64((int64_t)(pieces - pieces / 2), (int64_t)seen->pieces);
	CHECK_I64(0, (int64_t)seen->wrong);
	CHECK_I64(1, (int64_t)seen->records);
	worker_close(&w);
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
	snprintf(remove, sizeof remove, "rm -rf '%s'", work);
	if (system(remove) != 0)
		die(remove);
	TEST_END();
}
