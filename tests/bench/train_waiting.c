/* train_waiting.c - benchmark: what 1,000 workers cost a coordinator that wait for work. Prints a
 * record to standard output; exit 1 when they take more memory than WAITING_BYTES_MAX.
 *
 * uses: cmd/rnp-train
 *
 * A coordinator whose quorum is never reached; each worker has a key of its own, joins, keeps a
 * signed request for work open, and has the connections that stay behind an upload: more than a
 * coordinator has at once, which closes idle ones then. From twenty addresses: 512 connections of
 * one are the most. Memory is the growth of the coordinator's resident set from the first worker to
 * the last. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/rnp-train/worker/client.h"
#include "cmd/rnp-train/wire/sign.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/stats.h"
#include "common/json/json.h"
#include "common/record/bench.h"
#include "tests/bench/coordinator.h"

#define WORKERS           1000
#define STAYING           4 /* connections of a worker: UPLINKS_KEPT */
#define WAITING_BYTES_MAX ((int64_t)100000000)

static pid_t start(char url[64])
{
	command("seq 20000 >text && rnp-train tokenize --vocab 300 --out tok text >/dev/null"
		" && rnp-train init --preset nano --tokenizer tok --out m");
	return coordinator_start(url,
		(const char *const[]){ "rnp-train", "coordinate", "-q", "--model", "m",
			"--data", "tok", "--listen", "0.0.0.0:0", "--port-file", "port",
			"--workers", "2000", "--workers-max", "2000", "--device", "cpu",
			NULL });
}

static void join(struct client *c, const struct key *k)
{
	struct http_response r = HTTP_RESPONSE_INIT;
	json_t *record = json_record("rnp.join");

	c->key = k;
	json_set_text(record, "node", k->address);
	json_set_text(record, "run", c->run);
	if (client_post(c, "/v1/join", record, &r) < 0 || r.status != 200)
		die("joining");
	json_decref(record);
	http_response_release(&r);
}

/* A connection of its own, of worker i, with a request. */
static int send_on_new(const char *url, int i, const struct buf *q)
{
	struct sockaddr_in from = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f000002u + (uint32_t)(i % 20)) };
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1)) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof from) < 0 ||
		connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ||
		write(fd, q->data, q->len) != (ssize_t)q->len)
		die("asking");
	return fd;
}

/* A connection that a worker keeps: its pieces were answered. */
static int stay(const char *url, int i)
{
	struct buf q = BUF_INIT;
	char answer[4096];
	int fd;

	buf_adds(&q,
		"PUT /v1/delta/nobody/1/0 HTTP/1.1\r\nHost: 127.0.0.1\r\n"
		"Content-Length: 65536\r\n\r\n");
	memset(buf_reserve(&q, 65536), 'x', 65536);
	q.len += 65536;
	fd = send_on_new(url, i, &q);
	if (recv(fd, answer, sizeof answer, 0) < 12 || memcmp(answer + 9, "401", 3) != 0)
		die("a piece");
	buf_release(&q);
	return fd;
}

/* A connection with a request that is not answered yet. */
static int ask(const char *url, const char *run, const struct key *k, int i)
{
	struct buf lines[PROTOCOL_LINES] = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };
	struct buf q = BUF_INIT;
	char whole[256];
	int fd, n;

	snprintf(whole, sizeof whole, "%s/v1/work?member=%s", url, k->address);
	n = protocol_sign(lines, "GET", whole, NULL, run, k, clock_now_ms() / 1000);
	if (n < 0)
		die("signing");
	buf_addf(&q, "GET /v1/work?member=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n",
		k->address);
	for (int l = 0; l < n; l++)
		buf_addf(&q, "%s\r\n", lines[l].data);
	buf_adds(&q, "\r\n");
	fd = send_on_new(url, i, &q);
	for (int l = 0; l < PROTOCOL_LINES; l++)
		buf_release(&lines[l]);
	buf_release(&q);
	return fd;
}

/* Nobody was answered: a closed or readable connection would not be one that waits. */
static void check_waiting(const int *fds, int n)
{
	char byte;

	for (int i = 0; i < n; i++)
		if (recv(fds[i], &byte, 1, MSG_DONTWAIT | MSG_PEEK) >= 0)
			die("a worker does not wait");
}

int main(void)
{
	const char *place = getenv("TMPDIR");
	struct rlimit files = { 8192, 8192 };
	struct client c = { .http = HTTP_INIT, .give_up_ms = 30000 };
	struct buf text = BUF_INIT;
	struct stats s;
	json_t *run, *record;
	struct training t;
	char url[64];
	static int fds[WORKERS], stays[WORKERS][STAYING];
	int open = 0;
	int64_t before, bytes, from_ns;
	double sample;
	pid_t pid;

	bench_name = "train_waiting";
	snprintf(work, sizeof work, "%s/waiting.XXXXXX", place ? place : "/tmp");
	if (!mkdtemp(work) || setrlimit(RLIMIT_NOFILE, &files) < 0)
		die("beginning");
	pid = start(url);
	c.url = url;
	run = client_run(&c);
	if (!run || training_read(&t, run, "the run") < 0)
		die("reading the run");
	memcpy(c.run, t.name, sizeof c.run);
	before = memory_bytes(pid, "VmRSS:");
	from_ns = clock_mono_ns();
	for (int i = 0; i < WORKERS; i++) {
		struct key k = KEY_INIT;

		if (key_generate(&k) < 0)
			die("making a key");
		join(&c, &k);
		fds[i] = ask(url, t.name, &k, i);
		for (int n = 0; n < STAYING; n++)
			stays[i][n] = stay(url, i);
		key_release(&k);
	}
	/* the last one's request is after that of somebody who is answered */
	json_decref(run);
	run = client_run(&c);
	check_waiting(fds, WORKERS);
	for (int i = 0; i < WORKERS * STAYING; i++) {
		char byte;

		open += recv(stays[i / STAYING][i % STAYING], &byte, 1,
				MSG_DONTWAIT | MSG_PEEK) < 0;
	}
	bytes = memory_bytes(pid, "VmRSS:") - before;
	fprintf(stderr, "train_waiting: %d joined in %.1f s\n", WORKERS,
		(double)(clock_mono_ns() - from_ns) / 1e9);
	sample = (double)bytes;
	stats_of(&sample, 1, &s);
	record = bench_record("train", "waiting", "cpu", "B", &s);
	json_set_i64(bench_params(record), "workers", WORKERS);
	json_set_i64(bench_params(record), "staying", open);
	json_write(&text, record);
	puts(buf_text(&text));
	buf_release(&text);
	json_decref(record);
	json_decref(run);
	http_release(&c.http);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	command("rm -rf ../\"${PWD##*/}\"");
	return bytes > WAITING_BYTES_MAX;
}
