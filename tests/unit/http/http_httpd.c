/* http_httpd.c - http and httpd together, as our programs use them: files down with ranges and
 * resume, streams up, refusals before a body is sent, signed requests.
 * long because it is one server and all that is asked of it. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/httpsig/content_digest.h"
#include "common/http/parts.h"
#include "common/http/sign.h"
#include "common/httpd/httpd.h"
#include "common/httpd/sign.h"
#include "common/net/bytes.h"
#include "tests/unit/test.h"

#define SIZE    ((size_t)24 << 20)
#define WAIT_MS 20000

static char dir[] = "/tmp/rnp-http-XXXXXX", file[60], *bytes;
static struct key key = KEY_INIT;

/* --- the server's program ------------------------------------------------------------------ */

static enum httpd_when get_file(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q;
	return httpd_reply_path(r, file);
}

/* A file that is not in ranges and has no tag. */
static enum httpd_when get_whole(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx, (void)q;
	return httpd_reply_memory(r, bytes, SIZE);
}

/* The beginning of it, in ranges; counts the requests. */
#define SMALL ((size_t)500 << 10)
static _Atomic int small_asked;

static enum httpd_when get_small(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx, (void)q;
	small_asked++;
	strcpy(r->etag, "\"s\"");
	r->ranges = true;
	return httpd_reply_memory(r, bytes, SMALL);
}

/* Ranges of the file. The first is right; those after it are what `kind` says: of another total,
 * tag or place, shorter than was asked for, gone, or twice refused for the moment. */
static _Atomic int lies;

static enum httpd_when get_lie(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	const char *kind = httpd_query(q, "kind"), *range = httpd_header(q, "Range");
	long long first = 0, last = 0;
	long long total = (long long)SIZE;

	(void)ctx;
	if (!range || sscanf(range, "bytes=%lld-%lld", &first, &last) != 2)
		return httpd_reply_memory(r, bytes, SIZE);
	snprintf(r->etag, sizeof r->etag, "\"%s\"", first && *kind == 'e' ? "b" : "a");
	if (first && *kind == 'g')
		return httpd_error(r, 404, "gone");
	if (first && *kind == 'b' && lies++ < 2)
		return httpd_error(r, 503, "busy");
	if (first && *kind == 't')
		total--;
	if (first && *kind == 's')
		last = first + (last - first) / 2;
	if (first && *kind == 'p')
		first++;
	r->status = 206;
	httpd_add_header(r, "Content-Range", "bytes %lld-%lld/%lld", first, last, total);
	buf_add(&r->body, bytes + first, (size_t)(last - first + 1));
	return HTTPD_NOW;
}

/* A body in pieces: what came is compared on the way. */
static _Atomic int64_t took;

static enum httpd_when begin_upload(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx;
	took = 0;
	if (httpd_query(q, "no"))
		return httpd_error(r, 403, "not for you");
	return HTTPD_GO_ON;
}

static long take_upload(void *ctx, struct httpd_request *q, struct httpd_reply *r,
	const void *data, size_t len)
{
	(void)ctx, (void)q;
	if ((size_t)took + len > SIZE || memcmp(bytes + took, data, len) != 0) {
		httpd_error(r, 400, "other bytes");
		return HTTPD_REFUSE;
	}
	took += (int64_t)len;
	return (long)len;
}

static enum httpd_when end_upload(void *ctx, struct httpd_request *q,
	struct httpd_reply *r)
{
	(void)ctx, (void)q;
	buf_addf(&r->body, "%lld", (long long)took);
	return HTTPD_NOW;
}

/* Prints the signer, or why there is none. */
static enum httpd_when whoami(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	struct httpsig_policy p = { .required = HTTP_SIGN_COMPONENTS,
		.tag = HTTP_SIGN_TAG,
		.now_s = clock_now_ms() / 1000,
		.max_age_s = 60 };
	struct httpsig_result result;

	(void)ctx;
	if (httpd_verify(q, true, &p, &result) != HTTPSIG_GOOD)
		return httpd_ask_signature(r, result.reason);
	buf_adds(&r->body, result.address);
	return HTTPD_NOW;
}

static const struct httpd_route routes[] = {
	HTTPD_GET("/file", get_file),
	HTTPD_GET("/whole", get_whole),
	HTTPD_GET("/small", get_small),
	HTTPD_GET("/lie", get_lie),
	HTTPD_GET("/who", whoami),
	HTTPD_POST("/who", whoami, 1000),
	HTTPD_PUT("/upload", end_upload, SIZE, .begin = begin_upload,
		.take = take_upload),
	{ 0 },
};

static char *url_of(const struct httpd *h, const char *path)
{
	static char url[100];

	snprintf(url, sizeof url, "http://127.0.0.1:%d%s", httpd_port(h), path);
	return url;
}

/* --- the cases ----------------------------------------------------------------------------- */

struct stopping {
	struct http_abort a;
	char part[80];
};

/* Aborts when a part of the file is there. */
static void *stop_soon(void *arg)
{
	struct stopping *s = arg;
	struct stat st;

	for (int i = 0; i < WAIT_MS; i++) {
		if (stat(s->part, &st) == 0 && st.st_size > 2 << 20)
			break;
		usleep(1000);
	}
	http_abort(&s->a);
	return NULL;
}

static void check_download(struct http *h, const struct httpd *server)
{
	struct stopping s;
	struct http_request q = { .url = url_of(server, "/file"),
		.rate_down_max = 16 << 20,
		.abort = &s.a };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct buf text = BUF_INIT;
	pthread_t thread;
	struct stat st;
	char path[60];

	snprintf(path, sizeof path, "%s/copy", dir);
	snprintf(s.part, sizeof s.part, "%s.part", path);
	CHECK(http_abort_open(&s.a) == 0);
	pthread_create(&thread, NULL, stop_soon, &s);
	CHECK_FAILS(EX_TEMPFAIL, http_download(h, &q, path, &r));
	pthread_join(thread, NULL);
	CHECK(access(path, F_OK) < 0);
	CHECK(stat(s.part, &st) == 0 && st.st_size > 2 << 20 && st.st_size < (off_t)SIZE);

	/* the rest, and only that */
	http_abort_reset(&s.a);
	q.rate_down_max = 0;
	CHECK(http_download(h, &q, path, &r) == 0);
	CHECK_I64(206, r.status);
	CHECK_I64((int64_t)SIZE - st.st_size, r.sunk_bytes);
	CHECK(io_read(&text, path, SIZE) == 0);
	CHECK(text.len == SIZE && memcmp(text.data, bytes, SIZE) == 0);
	buf_release(&text);

	/* another file of that name by then: the part is worth nothing */
	CHECK(rename(path, s.part) == 0 && truncate(s.part, 5) == 0);
	snprintf(path, sizeof path, "%s/copy.part.etag", dir);
	CHECK(io_replace(path, "\"another\"", 9, 0644) == 0);
	snprintf(path, sizeof path, "%s/copy", dir);
	CHECK(http_download(h, &q, path, &r) == 0);
	CHECK_I64(200, r.status);
	CHECK_I64((int64_t)SIZE, r.sunk_bytes);
	unlink(path);
	http_abort_close(&s.a);
	http_response_release(&r);
}

/* --- several connections ------------------------------------------------------------------- */

/* What notes say, and what they become when they are written and read again. */
static void check_notes(void)
{
	struct http_notes n, again;
	struct buf text = BUF_INIT;

	CHECK(http_notes_parse(&n, "\"a\"\n100\n40 10\n0 10\n5 15\n90 1") == 0);
	CHECK_TEXT("\"a\"", n.tag);
	CHECK_I64(100, n.total);
	CHECK_I64(2, (int64_t)n.n);
	CHECK(n.missing[0].from == 50 && n.missing[0].bytes == 50);
	CHECK(n.missing[1].from == 20 && n.missing[1].bytes == 20);
	http_notes_write(&text, &n);
	CHECK_TEXT("\"a\"\n100\n0 20\n40 10\n", buf_text(&text));
	CHECK(http_notes_parse(&again, buf_text(&text)) == 0 && again.n == 2);
	http_notes_release(&again);
	http_notes_release(&n);
	CHECK(http_notes_parse(&n, "\"a\"\n100\n90 10\n0 90\n") == 0 && n.n == 0);
	http_notes_release(&n);
	static const char *const bad[] = { "", "\"a\"", "\"a\"\n", "\"a\"\n100", "a\n1\n",
		"W/\"a\"\n1\n", "\"a\"\n-1\n", "\"a\"\n9\n0 10\n", "\"a\"\n9\n5 0\n",
		"\"a\"\n9\n10 1\n", "\"a\"\n9\n1 2 3\n", "\"a\"\n9\n1\n",
		"\"a\"\n9\n1 9999999999999999999\n" };
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
		CHECK(http_notes_parse(&n, bad[i]) < 0);
		http_notes_release(&n);
	}
	buf_release(&text);
}

static void read_copy(const char *path)
{
	struct buf text = BUF_INIT;

	CHECK(io_read(&text, path, SIZE) == 0);
	CHECK(text.len == SIZE && memcmp(text.data, bytes, SIZE) == 0);
	buf_release(&text);
	unlink(path);
}

struct watching {
	struct http_abort a;
	char notes[80], metrics[100];
	long connections; /* that the server had, one of them the watcher's */
};

/* Aborts when several ranges are there, and before that counts the server's connections. */
static void *stop_at_notes(void *arg)
{
	struct watching *w = arg;
	struct http_request q = { .url = w->metrics };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http own = HTTP_INIT;
	const char *line;
	struct stat st;

	for (int i = 0; i < WAIT_MS; i++) {
		if (stat(w->notes, &st) == 0 && st.st_size > 200)
			break;
		usleep(1000);
	}
	if (http_fetch(&own, &q, &r) == 0 &&
		(line = strstr(buf_text(&r.body), "\nrnp_http_connections ")))
		w->connections = strtol(line + 22, NULL, 10);
	http_abort(&w->a);
	http_release(&own);
	http_response_release(&r);
	return NULL;
}

/* What the notes in a file say that is there. */
static int64_t noted_bytes(const char *path)
{
	struct buf text = BUF_INIT;
	struct http_notes n;
	int64_t there;

	CHECK(io_read(&text, path, 1 << 20) == 0);
	CHECK(http_notes_parse(&n, buf_text(&text)) == 0);
	there = n.total;
	for (size_t i = 0; i < n.n; i++)
		there -= n.missing[i].bytes;
	http_notes_release(&n);
	buf_release(&text);
	return there;
}

static void check_ranges(struct http *h, const struct httpd *server)
{
	struct watching w = { .connections = 0 };
	char path[60], url[100];
	struct http_request q = { .url = url,
		.rate_down_max = 4 << 20,
		.connections = 4,
		.abort = &w.a };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct net_bytes before, after;
	int64_t there, began_ns;
	pthread_t thread;

	snprintf(path, sizeof path, "%s/copy", dir);
	snprintf(w.notes, sizeof w.notes, "%s.part.etag", path);
	snprintf(w.metrics, sizeof w.metrics, "%s", url_of(server, "/metrics"));
	snprintf(url, sizeof url, "%s", url_of(server, "/file"));
	CHECK(http_abort_open(&w.a) == 0);
	pthread_create(&thread, NULL, stop_at_notes, &w);
	began_ns = clock_mono_ns();
	CHECK_FAILS(EX_TEMPFAIL, http_download(h, &q, path, &r));
	/* one limit for all of them */
	CHECK(r.sunk_bytes <
		((clock_mono_ns() - began_ns) >> 10) * 4300 / 1000 + (1 << 20));
	pthread_join(thread, NULL);
	CHECK(r.aborted && access(path, F_OK) < 0);
	CHECK(w.connections >= 5);
	there = noted_bytes(w.notes);
	CHECK(there > 0 && there < (int64_t)SIZE && there <= r.sunk_bytes);

	/* the rest, and only that */
	http_abort_reset(&w.a);
	q.rate_down_max = 0;
	http_bytes(h, &before);
	CHECK(http_download(h, &q, path, &r) == 0);
	http_bytes(h, &after);
	CHECK_I64(206, r.status);
	CHECK_I64((int64_t)SIZE - there, r.sunk_bytes);
	CHECK(after.received - before.received > SIZE - (uint64_t)there);
	CHECK(access(w.notes, F_OK) < 0);
	read_copy(path);

	/* notes of another entity, or of a part that has another length */
	CHECK(io_replace(w.notes, "\"a\"\n5\n0 5\n", 10, 0644) == 0);
	CHECK(http_download(h, &q, path, &r) == 0);
	CHECK_I64((int64_t)SIZE, r.sunk_bytes);
	read_copy(path);

	/* all connections at once, where about the size is known, well or badly */
	static const int64_t guesses[] = { SIZE, SIZE / 100, 30 * (int64_t)SIZE,
		INT64_C(1) << 60 };

	for (size_t i = 0; i < sizeof guesses / sizeof *guesses; i++) {
		q.bytes_guess = guesses[i];
		CHECK(http_download(h, &q, path, &r) == 0);
		CHECK_I64(206, r.status);
		CHECK_I64((int64_t)SIZE, r.sunk_bytes);
		CHECK_I64((int64_t)SIZE, r.total_bytes);
		read_copy(path);
	}

	/* a small one is asked for at once, whole: a range more would be a round trip more */
	snprintf(url, sizeof url, "%s", url_of(server, "/small"));
	for (size_t guess = SMALL - 5000; guess < SMALL + 10000; guess += 5000) {
		struct buf text = BUF_INIT;

		q.bytes_guess = (int64_t)guess;
		small_asked = 0;
		CHECK(http_download(h, &q, path, &r) == 0);
		CHECK_I64(2, small_asked);
		CHECK_I64((int64_t)SMALL, r.sunk_bytes);
		CHECK(io_read(&text, path, SIZE) == 0 && text.len == SMALL &&
			memcmp(text.data, bytes, SMALL) == 0);
		buf_release(&text);
		unlink(path);
	}

	/* no ranges: one connection gets the whole */
	snprintf(url, sizeof url, "%s", url_of(server, "/whole"));
	CHECK(http_download(h, &q, path, &r) == 0);
	CHECK_I64(200, r.status);
	read_copy(path);
	q.response_bytes_max = SIZE - 1;
	CHECK_FAILS(EX_DATAERR, http_download(h, &q, path, &r));
	snprintf(url, sizeof url, "%s", url_of(server, "/file"));
	CHECK_FAILS(EX_DATAERR, http_download(h, &q, path, &r));
	CHECK(access(path, F_OK) < 0);
	http_abort_close(&w.a);
	http_response_release(&r);
}

/* Servers whose ranges do not go together. */
static void check_lies(struct http *h, const struct httpd *server)
{
	static const struct {
		const char *kind;
		int code, status;
	} cases[] = {
		{ "total", EX_DATAERR, 206 },
		{ "etag", EX_DATAERR, 206 },
		{ "place", EX_DATAERR, 206 },
		{ "gone", EXIT_NO, 404 },
		{ "short", 0, 200 },
		{ "busy", 0, 206 },
	};
	char path[60], url[120];
	struct http_request q = { .url = url, .connections = 4, .tries = 1 };
	struct http_response r = HTTP_RESPONSE_INIT;

	snprintf(path, sizeof path, "%s/copy", dir);
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char part[80];

		lies = 0;
		snprintf(url, sizeof url, "%s?kind=%s", url_of(server, "/lie"),
			cases[i].kind);
		if (cases[i].code) {
			CHECK_FAILS(cases[i].code, http_download(h, &q, path, &r));
		} else {
			CHECK(http_download(h, &q, path, &r) == 0);
			read_copy(path);
		}
		CHECK_I64(cases[i].status, r.status);
		snprintf(part, sizeof part, "%s.part", path);
		unlink(part);
		snprintf(part, sizeof part, "%s.part.etag", path);
		unlink(part);

		/* a guess makes them no better: what comes is right, or it fails */
		lies = 0;
		q.bytes_guess = SIZE;
		if (http_download(h, &q, path, &r) == 0)
			read_copy(path);
		else
			CHECK(access(path, F_OK) < 0);
		q.bytes_guess = 0;
		unlink(part);
		snprintf(part, sizeof part, "%s.part", path);
		unlink(part);
	}
	http_response_release(&r);
}

static void check_upload(struct http *h, const struct httpd *server)
{
	int fd = open(file, O_RDONLY | O_CLOEXEC);
	struct http_source source = { .fd = fd, .bytes = (int64_t)SIZE };
	struct http_request q = { .url = url_of(server, "/upload"),
		.method = "PUT",
		.source = &source,
		.content_type = "application/octet-stream" };
	struct http_response r = HTTP_RESPONSE_INIT;
	char want[20];

	snprintf(want, sizeof want, "%zu", SIZE);
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_TEXT(want, buf_text(&r.body));
	source.bytes = -1; /* in chunks */
	q.expect = true;
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_TEXT(want, buf_text(&r.body));
	/* the headers are refused, so that no byte is sent; then one in the middle */
	q.url = url_of(server, "/upload?no=1");
	CHECK_FAILS(EX_NOPERM, http_fetch(h, &q, &r));
	CHECK_I64(0, took);
	q.url = url_of(server, "/upload");
	source.offset = 1;
	q.tries = 1;
	CHECK(http_fetch(h, &q, &r) == -1);
	err_clear();
	close(fd);
	http_response_release(&r);
}

static void check_signed(struct http *h, const struct httpd *server)
{
	struct http_request q = { .url = url_of(server, "/who?a=b%20c") };
	struct http_response r = HTTP_RESPONSE_INIT;

	CHECK_FAILS(EX_NOPERM, http_fetch(h, &q, &r));
	CHECK_I64(401, r.status);
	q.signer = &key;
	CHECK(http_fetch(h, &q, &r) == 0);
	CHECK_TEXT(key.address, buf_text(&r.body));
	http_response_release(&r);
}

/* A body that the signature covers by its Content-Digest. */
static void check_digest(struct http *h, const struct httpd *server, const char *body,
	int status)
{
	struct httpsig_params params = { .label = "a",
		.components = HTTP_SIGN_COMPONENTS " \"content-digest\"",
		.created_s = clock_now_ms() / 1000,
		.tag = HTTP_SIGN_TAG };
	struct buf digest = BUF_INIT, input = BUF_INIT, signature = BUF_INIT;
	struct httpsig_message m = { .method = "POST" };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http_request q = { .url = url_of(server, "/who"),
		.body = body,
		.body_bytes = strlen(body) };
	struct arena arena = ARENA_INIT;
	struct content_digest d;
	const char *headers[4] = { NULL };
	struct httpsig_field field;

	content_digest_of(&d, "right", 5);
	buf_adds(&digest, "Content-Digest: ");
	content_digest_write(&digest, &d);
	field = (struct httpsig_field){ "content-digest", digest.data + 16 };
	m.fields = &field;
	m.nfields = 1;
	CHECK(http_sign_split(&arena, q.url, &m) == 0);
	CHECK(httpsig_sign(&input, &signature, &m, &params, &key) == 0);
	headers[0] = digest.data;
	headers[1] = xmalloc(input.len + signature.len + 100);
	snprintf((char *)headers[1], input.len + 100, "Signature-Input: %s", input.data);
	headers[2] = xmalloc(signature.len + 100);
	snprintf((char *)headers[2], signature.len + 100, "Signature: %s",
		signature.data);
	q.headers = headers;
	CHECK(http_fetch(h, &q, &r) == (status == 200 ? 0 : -1));
	CHECK_I64(status, r.status);
	err_clear();
	free((char *)headers[1]);
	free((char *)headers[2]);
	buf_release(&digest);
	buf_release(&input);
	buf_release(&signature);
	arena_release(&arena);
	http_response_release(&r);
}

/* A connection whose answer is under way: its client has only begun to read. Returns its socket. */
static int begin_to_read(struct httpd *server, const char *path)
{
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)httpd_port(server)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	char text[100];

	snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
	CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&to, sizeof to) == 0);
	CHECK(write(fd, text, strlen(text)) == (ssize_t)strlen(text));
	CHECK(recv(fd, text, sizeof text, MSG_WAITALL) == sizeof text);
	return fd;
}

/* What its socket has carried so far counts already, and is told apart where that was asked for. */
static void check_bytes_under_way(struct httpd *server)
{
	struct httpd_bytes before, all;
	struct net_bytes mine;
	int fd;

	httpd_bytes(server, &before);
	fd = begin_to_read(server, "/file");
	net_bytes(fd, &mine);
	httpd_bytes(server, &all);
	CHECK(mine.received >= 100 && all.sent >= before.sent + mine.received);
	CHECK_I64((int64_t)(before.received + mine.sent), (int64_t)all.received);
	close(fd);
}

/* Both ends count the same bytes, including those of broken transfers: a body of 24 MiB whole,
 * and its heads. */
static void check_bytes(void)
{
	struct httpd_config config = { .listen = "127.0.0.1:0",
		.log_off = true,
		.routes = routes };
	struct httpd *server = httpd_start(&config);
	struct http_request q = { .response_bytes_max = (int64_t)SIZE };
	struct http_response r = HTTP_RESPONSE_INIT;
	struct http h = HTTP_INIT;
	struct httpd_bytes all = { 0 };
	struct net_bytes mine;

	CHECK(server != NULL);
	if (!server)
		return;
	q.url = url_of(server, "/file");
	CHECK(http_fetch(&h, &q, &r) == 0);
	http_bytes(&h, &mine);
	CHECK(mine.received > SIZE && mine.received < SIZE + 4096);
	CHECK(mine.sent > 50 && mine.sent < 4096);
	httpd_bytes(server, &all);
	/* what had to be sent twice is in `sent` alone */
	CHECK(all.sent >= mine.received && all.sent < mine.received + SIZE / 10);
	CHECK_I64((int64_t)mine.sent, (int64_t)all.received);
	check_bytes_under_way(server);
	http_release(&h);
	http_response_release(&r);
	httpd_stop(server);
}

int main(void)
{
	struct httpd_config config = { .listen = "127.0.0.1:0",
		.log_off = true,
		.routes = routes };
	struct http h = HTTP_INIT;
	struct httpd *server;

	if (sodium_init() < 0 || !mkdtemp(dir) || key_generate(&key) < 0)
		return 1;
	unsetenv("http_proxy");
	unsetenv("all_proxy");
	check_notes();
	bytes = xmalloc(SIZE);
	randombytes_buf_deterministic(bytes, SIZE,
		(const unsigned char[randombytes_SEEDBYTES]){ 7 });
	snprintf(file, sizeof file, "%s/file", dir);
	CHECK(io_replace(file, bytes, SIZE, 0644) == 0);
	server = httpd_start(&config);
	CHECK(server != NULL);
	if (server) {
		check_download(&h, server);
		check_ranges(&h, server);
		check_lies(&h, server);
		check_upload(&h, server);
		check_signed(&h, server);
		check_digest(&h, server, "right", 200);
		check_digest(&h, server, "wrong", 401);
		http_release(&h);
		httpd_stop(server);
	}
	check_bytes();
	key_release(&key);
	unlink(file);
	rmdir(dir);
	free(bytes);
	TEST_END();
}
