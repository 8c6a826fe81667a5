/* train_waiting.c - benchmark: what 1,000 workers cost a coordinator that wait for work. Prints a record to
 * standard output; exit 1 when they take more memory than WAITING_BYTES_MAX.
 *
 * uses: cmd/rnp-train
 *
 * A coordinator whose quorum is never reached; each worker has a key of its own, joins, and keeps a signed
 * request for work open, from one of ten addresses: 512 connections of one are the most. Memory is the growth of
 * the coordinator's resident set from the first worker to the last. */
#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/rnp-train/join_client.h"
#include "cmd/rnp-train/protocol_sign.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/stats.h"
#include "common/json/json.h"
#include "common/record/bench.h"
#include "tests/bench/coordinator.h"

#define WORKERS           1000
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

/* A connection of its own, with a request that is not answered yet. */
static int ask(const char *url, const char *run, const struct key *k, int i)
{
	struct buf lines[PROTOCOL_LINES] = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };
	struct buf q = BUF_INIT;
	struct sockaddr_in from = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(0x7f000002u + (uint32_t)(i % 10)) };
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1)) };
	char whole[256];
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), n;

	snprintf(whole, sizeof whole, "%s/v1/work?member=%s", url, k->address);
	n = protocol_sign(lines, "GET", whole, NULL, 0, run, k, clock_now_ms() / 1000);
	if (n < 0)
		die("signing");
	buf_addf(&q, "GET /v1/work?member=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n",
		k->address);
	for (int l = 0; l < n; l++)
		buf_addf(&q, "%s\r\n", lines[l].data);
	buf_adds(&q, "\r\n");
	if (fd < 0 || bind(fd, (struct sockaddr *)&from, sizeof from) < 0 ||
		connect(fd, (struct sockaddr *)&to, sizeof to) < 0 ||
		write(fd, q.data, q.len) != (ssize_t)q.len)
		die("asking for work");
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
	struct rlimit files = { 4096, 4096 };
	struct client c = { .http = HTTP_INIT, .give_up_ms = 30000 };
	struct buf text = BUF_INIT;
	struct stats s;
	json_t *run, *record;
	struct training t;
	char url[64];
	static int fds[WORKERS];
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
		key_release(&k);
	}
	/* the last one's request is after that of somebody who is answered */
	json_decref(run);
	run = client_run(&c);
	check_waiting(fds, WORKERS);
	bytes = memory_bytes(pid, "VmRSS:") - before;
	fprintf(stderr, "train_waiting: %d joined in %.1f s\n", WORKERS,
		(double)(clock_mono_ns() - from_ns) / 1e9);
	sample = (double)bytes;
	stats_of(&sample, 1, &s);
	record = bench_record("train", "waiting", "cpu", "B", &s);
	json_set_i64(bench_params(record), "workers", WORKERS);
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
