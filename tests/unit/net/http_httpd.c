/* http_httpd.c - http and httpd together, as our programs use them: files down with ranges and
 * resume, streams up, refusals before a body is sent, signed requests. */
#include <fcntl.h>
#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/net/content_digest.h"
#include "common/net/http.h"
#include "common/net/http_sign.h"
#include "common/net/httpd.h"
#include "common/net/httpd_sign.h"
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
	uint64_t sent = 0, received = 0;
	struct net_bytes mine;

	CHECK(server != NULL);
	if (!server)
		return;
	q.url = url_of(server, "/file");
	CHECK(http_fetch(&h, &q, &r) == 0);
	http_bytes(&h, &mine);
	CHECK(mine.received > SIZE && mine.received < SIZE + 4096);
	CHECK(mine.sent > 50 && mine.sent < 4096);
	for (int i = 0; i < WAIT_MS && sent < mine.received; i++) {
		usleep(1000);
		httpd_bytes(server, &sent, &received);
	}
	/* what had to be sent twice is in `sent` alone */
	CHECK(sent >= mine.received && sent < mine.received + SIZE / 10);
	CHECK_I64((int64_t)mine.sent, (int64_t)received);
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
	bytes = xmalloc(SIZE);
	randombytes_buf_deterministic(bytes, SIZE,
		(const unsigned char[randombytes_SEEDBYTES]){ 7 });
	snprintf(file, sizeof file, "%s/file", dir);
	CHECK(io_replace(file, bytes, SIZE, 0644) == 0);
	server = httpd_start(&config);
	CHECK(server != NULL);
	if (server) {
		check_download(&h, server);
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
