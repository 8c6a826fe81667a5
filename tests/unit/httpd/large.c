/* large.c - httpd with bodies larger than memory, up and down, plain and by TLS: what
 * arrives is what was sent, and the server stays small.
 *
 * RNP_LARGE_BYTES: how large (256 MiB); make soak uses 8 GiB. The client is another process.
 * The file is sparse but for a number at each MiB. */
#include "common/httpd/httpd.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/num.h"
#include "tests/unit/test.h"

#define MEMORY_MAX ((int64_t)32 << 20)
#define MIB        ((uint64_t)1 << 20)

static char dir[] = "/tmp/httpd_large.XXXXXX";
static char path[100];
static int64_t size = (int64_t)256 << 20;

/* --- the file, and whether a stream of bytes is the file's ------------------------------- */

static uint64_t number_at(uint64_t at)
{
	return (at / MIB + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

struct check {
	uint64_t at, wrong;
};

static void check_bytes(struct check *c, const unsigned char *data, size_t len)
{
	for (size_t i = 0; i < len;) {
		uint64_t at = c->at + i, in = at % MIB, n;

		if (in < 8) {
			c->wrong += data[i] != (unsigned char)(number_at(at) >> (8 * in));
			i++;
			continue;
		}
		n = MIB - in < len - i ? MIB - in : len - i;
		/* zeros: the first is, and each is as the one before */
		c->wrong += data[i] != 0 || memcmp(data + i, data + i + 1, n - 1) != 0;
		i += n;
	}
	c->at += len;
}

static void make_file(void)
{
	int fd;

	snprintf(path, sizeof path, "%s/file", dir);
	fd = open(path, O_RDWR | O_CREAT | O_TRUNC, 0600);
	CHECK(fd >= 0 && ftruncate(fd, size) == 0);
	for (uint64_t at = 0; at + 8 <= (uint64_t)size; at += MIB) {
		unsigned char bytes[8];

		for (int i = 0; i < 8; i++)
			bytes[i] = (unsigned char)(number_at(at) >> (8 * i));
		CHECK(pwrite(fd, bytes, 8, (off_t)at) == 8);
	}
	close(fd);
}

/* --- server ------------------------------------------------------------------------------ */

static enum httpd_when begin(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)r;
	q->state = calloc(1, sizeof(struct check));
	return HTTPD_GO_ON;
}

static long take(void *ctx, struct httpd_request *q, struct httpd_reply *r,
	const void *data, size_t len)
{
	(void)ctx, (void)r;
	check_bytes(q->state, data, len);
	return (long)len;
}

static enum httpd_when taken(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	const struct check *c = q->state;

	(void)ctx;
	buf_addf(&r->body, "%llu %llu\n", (unsigned long long)c->at,
		(unsigned long long)c->wrong);
	return HTTPD_NOW;
}

static void done(void *ctx, struct httpd_request *q)
{
	(void)ctx;
	free(q->state);
}

static enum httpd_when get_file(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q;
	return httpd_reply_path(r, path);
}

static const struct httpd_route routes[] = {
	HTTPD_GET("/file", get_file),
	HTTPD_PUT("/file", taken, (size_t)1 << 50, .begin = begin, .take = take,
		.done = done),
	{ 0 },
};

/* --- client: another process, so that the server's memory is seen alone ------------------ */

static int dial(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	return connect(fd, (struct sockaddr *)&a, sizeof a) == 0 ? fd : -1;
}

/* The head of the answer; what came of the body follows it in text. */
static size_t read_head(int fd, char *text, size_t cap, size_t *head)
{
	size_t n = 0;

	while (n + 1 < cap) {
		ssize_t got = recv(fd, text + n, cap - 1 - n, 0);
		char *end;

		if (got <= 0)
			exit(2);
		n += (size_t)got;
		text[n] = '\0';
		end = strstr(text, "\r\n\r\n");
		if (end) {
			*head = (size_t)(end + 4 - text);
			return n;
		}
	}
	exit(3);
}

/* From a byte on. Returns 0 when it is all there. */
static int download(int port, uint64_t from)
{
	static unsigned char data[1 << 18];
	struct check c = { .at = from };
	int fd = dial(port);
	char text[4096];
	size_t n, head;
	ssize_t got;

	snprintf(text, sizeof text,
		"GET /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\nRange: bytes=%llu-\r\n\r\n",
		(unsigned long long)from);
	if (fd < 0 || send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		return 4;
	n = read_head(fd, text, sizeof text, &head);
	if (strncmp(text, "HTTP/1.1 206 ", 13) != 0)
		return 5;
	check_bytes(&c, (unsigned char *)text + head, n - head);
	while ((got = recv(fd, data, sizeof data, 0)) > 0)
		check_bytes(&c, data, (size_t)got);
	close(fd);
	return c.wrong ? 6 : c.at != (uint64_t)size ? 7 : 0;
}

static int upload(int port)
{
	int fd = dial(port), file = open(path, O_RDONLY);
	char text[4096], want[100];
	off_t at = 0;
	size_t head;

	snprintf(text, sizeof text,
		"PUT /file HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: %lld\r\n\r\n",
		(long long)size);
	if (fd < 0 || send(fd, text, strlen(text), MSG_NOSIGNAL) < 0)
		return 8;
	while (at < size)
		if (sendfile(fd, file, &at, 1 << 20) <= 0)
			return 9;
	read_head(fd, text, sizeof text, &head);
	snprintf(want, sizeof want, "%lld 0\n", (long long)size);
	return strcmp(text + head, want) ? 10 : 0;
}

static int client(int port)
{
	int rc = download(port, 0);

	if (!rc)
		rc = download(port, (uint64_t)size / 2 + 12345);
	return rc ? rc : upload(port);
}

#if !defined __SANITIZE_ADDRESS__ && !defined __SANITIZE_THREAD__
static int64_t peak_bytes(void)
{
	char line[200];
	long long kb = 0;
	FILE *f = fopen("/proc/self/status", "r");

	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmHWM: %lld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb * 1024;
}
#endif

static void check_memory(void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
	fprintf(stderr, "# memory is not checked under a sanitizer\n");
#else
	int64_t bytes = peak_bytes();

	fprintf(stderr, "# %lld bytes up and down in %.1f MiB\n", (long long)size,
		(double)bytes / 1048576);
	CHECK(bytes > 0 && bytes < MEMORY_MAX);
#endif
}

static int child_status(pid_t pid)
{
	int status;

	CHECK(waitpid(pid, &status, 0) == pid);
	return WIFEXITED(status) ? WEXITSTATUS(status) : 1000 + WTERMSIG(status);
}

static void plain(void)
{
	struct httpd_config config = { .listen = "127.0.0.1:0",
		.log_off = true,
		.routes = routes };
	int port = 0, tell[2];
	struct httpd *h;
	pid_t pid;

	CHECK(pipe(tell) == 0);
	pid = fork(); /* before there are threads */
	if (pid == 0) {
		if (read(tell[0], &port, sizeof port) != sizeof port)
			_exit(1);
		_exit(client(port));
	}
	h = httpd_start(&config);
	CHECK(h != NULL);
	port = httpd_port(h);
	CHECK(write(tell[1], &port, sizeof port) == sizeof port);
	CHECK_I64(0, child_status(pid));
	httpd_stop(h);
	close(tell[0]);
	close(tell[1]);
}

/* curl speaks TLS to us: a range down, and the file up. */
static void tls(void)
{
	struct httpd_config config = { .listen = "127.0.0.1:0",
		.log_off = true,
		.routes = routes };
	char text[900], cert[120], key[120];
	struct httpd *h;

	snprintf(cert, sizeof cert, "%s/c.pem", dir);
	snprintf(key, sizeof key, "%s/k.pem", dir);
	snprintf(text, sizeof text,
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2 "
		"-subj /CN=localhost -addext subjectAltName=IP:127.0.0.1 -keyout %s -out %s 2>%s/log",
		key, cert, dir);
	CHECK_I64(0, system(text));
	config.cert_file = cert;
	config.key_file = key;
	h = httpd_start(&config);
	CHECK(h != NULL);
	if (!h)
		return;
	snprintf(text, sizeof text,
		"cd %s && u=https://127.0.0.1:%d/file && curl -sS --cacert c.pem -r 1000000-34000000 $u |"
		" cmp -n 33000001 -i 0:1000000 - file >&2 && "
		"[ $(curl -sS --cacert c.pem --tls-max 1.2 $u 2>/dev/null | head -c 50000000 | cmp -n 50000000 - file "
		"&& echo same) = same ] && "
		"head -c 40000000 file | curl -sS --cacert c.pem -T - $u | grep -qx '40000000 0' && "
		"head -c 40000000 file >part && curl -sS --cacert c.pem -T part $u | grep -qx '40000000 0'",
		dir, httpd_port(h));
	CHECK_I64(0, system(text));
	httpd_stop(h);
}

int main(void)
{
	const char *want = getenv("RNP_LARGE_BYTES");
	char text[200];

	if (want &&
		num_i64(want, "RNP_LARGE_BYTES", 64 << 20, INT64_C(1) << 50, &size) < 0) {
		fprintf(stderr, "%s\n", err_get()->text);
		return 64;
	}
	CHECK(mkdtemp(dir) != NULL);
	make_file();
	plain();
	check_memory();
	tls();
	snprintf(text, sizeof text, "rm -r %s", dir);
	CHECK_I64(0, system(text));
	TEST_END();
}
