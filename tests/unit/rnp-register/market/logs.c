/* logs.c - a registry keeps what ranks print: in order, once, the first MiB and the last 15, and
 * passes it on while they run. */
/* uses: cmd/rnp-register */
#include "cmd/rnp-register/market/logs.h"

#include <pthread.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "cmd/rnp-register/customer/follow.h"
#include "cmd/rnp-register/market/log_files.h"
#include "common/base/clock.h"
#include "common/base/io.h"
#include "tests/unit/rnp-register/market/serve.h"

/* --- the files -------------------------------------------------------------------------------- */

/* Byte i of the log of a test. */
static char byte_at(int64_t i)
{
	return (char)('a' + i % 23 + (i >> 16) % 3);
}

/* Appends len bytes from `from` on in pieces. */
static void print(struct log_files *f, int turn, int64_t from, int64_t len, int64_t start)
{
	static char piece[65536];
	int64_t have = 0;

	while (len > 0) {
		int64_t n = len < (int64_t)sizeof piece ? len : (int64_t)sizeof piece;

		for (int64_t i = 0; i < n; i++)
			piece[i] = byte_at(start + from + i);
		CHECK(log_append(f, CLUSTER, 3, turn, from, piece, (size_t)n, &have) ==
			0);
		CHECK_I64(from + n, have);
		from += n;
		len -= n;
	}
}

/* Reads all from `at` on: each byte is right, and gaps are counted. Returns the bytes read. */
static int64_t read_log(struct log_files *f, int64_t at, int64_t *gap, int64_t *end)
{
	static char piece[40000];
	int64_t sum = 0, expected = at;
	bool right = true;
	long n;

	*gap = 0;
	while ((n = log_read(f, CLUSTER, 3, &at, piece, sizeof piece)) > 0) {
		*gap += at - expected;
		for (long i = 0; i < n; i++)
			right = right && piece[i] == byte_at(at + i);
		at += n;
		expected = at;
		sum += n;
	}
	CHECK(n == 0 && right);
	*end = at;
	return sum;
}

/* The registry's machine has lost the end of a log; the node goes on where it is. */
static void lost(struct log_files *f)
{
	char text[200];
	int64_t at = 0, have = 0;
	long n;

	CHECK(log_append(f, CLUSTER, 5, 0, 0, "some", 4, &have) == 0);
	CHECK(log_append(f, CLUSTER, 5, 0, 1000, "more\n", 5, &have) == 0);
	CHECK_I64(1005, have);
	CHECK(log_append(f, CLUSTER, 5, 0, 1003, "e\nend", 5, &have) == 0);
	CHECK_I64(1008, have);
	/* the next node of the rank begins behind all of it */
	CHECK(log_append(f, CLUSTER, 5, 1, 0, ".", 1, &have) == 0);
	CHECK_I64(1, have);
	n = log_read(f, CLUSTER, 5, &at, text, sizeof text - 1);
	CHECK(n > 0);
	text[n < 0 ? 0 : n] = '\0';
	CHECK_TEXT("some\n[996 bytes of this log are lost]\nmore\nend.", text);
}

static void files(void)
{
	struct log_files f;
	int64_t have = 0, gap, end;
	int ranks[8];

	CHECK(log_files_open(&f, in_place("logs")) == 0);
	CHECK_I64(0, log_bytes(&f, CLUSTER, 3));
	print(&f, 0, 0, 100000, 0);
	CHECK_I64(100000, log_bytes(&f, CLUSTER, 3));
	/* again, and from somewhere before the end */
	CHECK(log_append(&f, CLUSTER, 3, 0, 0, "passed over", 11, &have) == 0);
	CHECK_I64(100000, have);
	CHECK_I64(100000, read_log(&f, 0, &gap, &end));
	CHECK_I64(99990, read_log(&f, 10, &gap, &end));
	/* 40 MiB: the first, and the last 15 and a bit */
	print(&f, 0, 100000, (40 << 20) - 100000, 0);
	CHECK_I64(40 << 20, log_bytes(&f, CLUSTER, 3));
	CHECK_I64((1 << 20) + ((LOG_PIECES_LAST + 1) << 20), read_log(&f, 0, &gap, &end));
	CHECK_I64((40 - 1 - LOG_PIECES_LAST - 1) << 20, gap);
	CHECK_I64(40 << 20, end);
	/* another node takes the rank: it counts from 0 */
	print(&f, 1, 0, 1000, 40 << 20);
	CHECK_I64((40 << 20) + 1000, log_bytes(&f, CLUSTER, 3));
	CHECK_I64(1000, read_log(&f, 40 << 20, &gap, &end));
	/* the former is late: what it has still to say is known already */
	CHECK_I64(1, (int64_t)log_ranks(&f, CLUSTER, ranks, 8));
	CHECK_I64(3, ranks[0]);
	lost(&f);
	CHECK(log_remove(&f, CLUSTER) == 0 && log_remove(&f, CLUSTER) == 0);
	CHECK_I64(0, log_bytes(&f, CLUSTER, 3));
	log_files_close(&f);
}

/* --- over HTTP -------------------------------------------------------------------------------- */

#define LOG "/v1/logs/" CLUSTER

/* A disk that is full: nothing half done stays, and the node goes on where it was. */
static void full_disk(void)
{
	static char piece[65536];
	struct log_files f;
	int64_t have = 0, gap, end;
	int n = 0, rc;

	if (unshare(CLONE_NEWNS) < 0 ||
		mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0 ||
		mkdir(in_place("full"), 0755) < 0 ||
		mount("tmpfs", in_place("full"), "tmpfs", 0, "size=512k") < 0) {
		fprintf(stderr, "SKIPPED: a full disk needs root\n");
		return;
	}
	CHECK(io_create(in_place("full/ballast"), piece, sizeof piece, 0600) == 0);
	CHECK(log_files_open(&f, in_place("full/logs")) == 0);
	do {
		for (int64_t i = 0; i < (int64_t)sizeof piece; i++)
			piece[i] = byte_at(have + i);
		rc = log_append(&f, CLUSTER, 3, 0, n * (int64_t)sizeof piece, piece,
			sizeof piece, &have);
	} while (rc == 0 && ++n < 8);
	CHECK_FAILS(EX_TEMPFAIL, rc);
	CHECK_I64(n * (int64_t)sizeof piece, log_bytes(&f, CLUSTER, 3));
	CHECK(unlink(in_place("full/ballast")) == 0);
	CHECK(log_append(&f, CLUSTER, 3, 0, n * (int64_t)sizeof piece, piece,
		      sizeof piece, &have) == 0);
	n++;
	CHECK_I64(n * (int64_t)sizeof piece, read_log(&f, 0, &gap, &end));
	CHECK_I64(0, gap);
	log_files_close(&f);
	CHECK(umount(in_place("full")) == 0);
}

static void posts(void)
{
	struct buf body = BUF_INIT;

	CHECK_I64(200, ask("POST", LOG "/0?offset=0", &node, "hello\n", 6, &body));
	CHECK_TEXT("{\"have\":6}\n", buf_text(&body));
	CHECK_I64(200, ask("POST", LOG "/0?offset=0", &node, "hello\nwor", 9, &body));
	CHECK_TEXT("{\"have\":9}\n", buf_text(&body));
	CHECK_I64(404, ask("POST", LOG "/1?offset=0", &node, "x", 1, NULL));
	CHECK_I64(404, ask("POST", LOG "/0?offset=9", &customer, "x", 1, NULL));
	CHECK_I64(404, ask("POST", LOG "/0?offset=9", &stranger, "x", 1, NULL));
	CHECK_I64(401, ask("POST", LOG "/0?offset=9", NULL, "x", 1, NULL));
	CHECK_I64(404,
		ask("POST", "/v1/logs/..%2f..%2fx/0?offset=9", &node, "x", 1, NULL));
	CHECK_I64(400, ask("POST", LOG "/0?offset=-1", &node, "x", 1, NULL));
	CHECK_I64(404, ask("POST", LOG "/64?offset=0", &node, "x", 1, NULL));
	buf_release(&body);
}

static void gets(void)
{
	struct buf body = BUF_INIT;

	CHECK_I64(200, ask("GET", LOG "/0", &customer, NULL, 0, &body));
	CHECK_TEXT("0 0 9\nhello\nworend\n", buf_text(&body));
	CHECK_I64(200, ask("GET", LOG "/0?from=6", &customer, NULL, 0, &body));
	CHECK_TEXT("0 6 3\nworend\n", buf_text(&body));
	CHECK_I64(200, ask("GET", LOG "?at=0:7", &customer, NULL, 0, &body));
	CHECK_TEXT("0 7 2\norend\n", buf_text(&body));
	CHECK_I64(400, ask("GET", LOG "?at=0:7;", &customer, NULL, 0, NULL));
	CHECK_I64(404, ask("GET", LOG "/0", &other, NULL, 0, NULL));
	CHECK_I64(404, ask("GET", LOG "/0", &node, NULL, 0, NULL));
	CHECK_I64(401, ask("GET", LOG "/0", NULL, NULL, 0, NULL));
	buf_release(&body);
}

/* Somebody follows while others print; the answer ends with the cluster. */
static void *follow(void *arg)
{
	struct http own = HTTP_INIT;
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf url = BUF_INIT;

	buf_addf(&url, "%s" LOG "?follow=1", base);
	{
		const struct http_request q = { .url = url.data,
			.signer = &customer,
			.timeout_ms = 120000,
			.tries = 1 };

		CHECK(http_fetch(&own, &q, &r) == 0);
	}
	buf_add(arg, r.body.data, r.body.len);
	http_response_release(&r);
	http_release(&own);
	buf_release(&url);
	return NULL;
}

/* Takes the frames away. */
static void unframe(const struct buf *in, struct buf *out)
{
	const char *p = in->data, *end = in->data + in->len;

	while (p < end && strncmp(p, "end\n", 4) != 0) {
		long rank, n;
		long long at;
		int head;

		if (sscanf(p, "%ld %lld %ld\n%n", &rank, &at, &n, &head) != 3)
			break;
		/* the newline behind the numbers is one, and not white space in the text */
		head = (int)(strchr(p, '\n') + 1 - p);
		buf_add(out, p + head, (size_t)n);
		p += head + n;
	}
	CHECK(p + 4 == end);
}

static void follows(void)
{
	struct buf got = BUF_INIT, text = BUF_INIT, want = BUF_INIT;
	pthread_t thread;
	int64_t have = 9;

	sql("UPDATE clusters SET live = 1");
	buf_adds(&want, "hello\nwor");
	CHECK(pthread_create(&thread, NULL, follow, &got) == 0);
	for (int i = 0; i < 50; i++) {
		char line[64], path[200];
		int n = snprintf(line, sizeof line, "line %d\n", i);

		snprintf(path, sizeof path, LOG "/0?offset=%lld", (long long)have);
		CHECK_I64(200, ask("POST", path, &node, line, (size_t)n, NULL));
		buf_adds(&want, line);
		have += n;
		logs_tick(&registry);
		usleep(2000);
	}
	sql("UPDATE clusters SET live = 0");
	for (int i = 0; i < 20000 && pthread_tryjoin_np(thread, NULL) != 0; i++) {
		logs_tick(&registry);
		usleep(5000);
		if (i == 19999)
			CHECK(!"the answer ends");
	}
	unframe(&got, &text);
	CHECK_TEXT(want.data, buf_text(&text));
	buf_release(&got);
	buf_release(&text);
	buf_release(&want);
}

/* --- the customer's side ---------------------------------------------------------------------- */

static int add_lines(void *ctx, int rank, const char *text, size_t len)
{
	buf_addf(ctx, "%d:%.*s", rank, (int)len, text);
	return 0;
}

static void add_dropped(void *ctx, int rank, int64_t bytes)
{
	buf_addf(ctx, "%d lacks %lld\n", rank, (long long)bytes);
}

/* Of a cluster that is over; then again, from where each rank is. */
static void reads(void)
{
	struct buf seen = BUF_INIT;
	struct follow f = { .base = base,
		.key = &customer,
		.cluster = CLUSTER,
		.rank = -1,
		.lines = add_lines,
		.dropped = add_dropped,
		.ctx = &seen };
	int64_t have;

	CHECK(follow_run(&f, &http) == 0);
	CHECK(strncmp(buf_text(&seen), "0:hello\n", 8) == 0);
	CHECK(f.ranks[0].at > 300);
	/* 20 MiB later the middle is gone */
	buf_reset(&seen);
	have = f.ranks[0].at;
	CHECK(have < LOG_PIECE_BYTES);
	for (int64_t at = have; at < have + (20 << 20); at += 65536) {
		static char data[65536];
		char path[200];

		memset(data, '\n', sizeof data);
		snprintf(path, sizeof path, LOG "/0?offset=%lld", (long long)at);
		CHECK_I64(200, ask("POST", path, &node, data, sizeof data, NULL));
	}
	CHECK(follow_run(&f, &http) == 0);
	CHECK(strstr(buf_text(&seen), "0 lacks 4194304\n") != NULL);
	CHECK_I64(have + (20 << 20), f.ranks[0].at);
	follow_release(&f);
	f = (struct follow){ .base = base,
		.key = &other,
		.cluster = CLUSTER,
		.rank = 0,
		.lines = add_lines,
		.ctx = &seen };
	CHECK_FAILS(1, follow_run(&f, &http));
	follow_release(&f);
	buf_release(&seen);
}

int main(void)
{
	const struct registry_config config = { 0 };

	make_keys();
	files();
	full_disk();
	start_with(&config);
	make_market();
	posts();
	gets();
	follows();
	reads();
	stop();
	clean_up();
	TEST_END();
}
