/* train_close.c - benchmark: what a round of many workers of a large model costs a coordinator,
 * from the last delta to the next assignment: train_close [PRESET [WORKERS [METHOD]]]; small (124M
 * parameters), 64, q4.
 *
 * uses: cmd/rnp-train
 *
 * The coordinator is the program itself; the workers are keys, which join, ask, and send real
 * containers of random changes (four different ones among them) in signed pieces over the loopback,
 * one after the other. Three records on standard output: the time from the answer to the last delta
 * until all have their next turn, the coordinator's processor time in it (of two cores; what counts
 * on a machine that is shared), and the most memory that the coordinator had of its own meanwhile
 * (RssAnon: mapped files of parameters are not in it). Needs 12 bytes a parameter and a container a
 * worker on $TMPDIR's disk. Exit 1 above 20 seconds. */
#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cmd/rnp-train/wire/container.h"
#include "cmd/rnp-train/worker/client.h"
#include "cmd/rnp-train/wire/sign.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/mem.h"
#include "common/base/rng.h"
#include "common/base/stats.h"
#include "common/hw/device.h"
#include "common/json/json.h"
#include "common/record/bench.h"
#include "tests/bench/coordinator.h"

#define WORKERS_MAX 256
#define VARIANTS    4
#define CLOSE_MAX_S 20
#define ANSWER_MAX  65536

struct worker_key {
	struct key key;
	struct assignment a;
	int fd; /* of the request for work that waits */
};

static struct worker_key all[WORKERS_MAX];
static struct buf containers[VARIANTS];
static struct container_facts facts[VARIANTS];

static pid_t start(char url[64], const char *preset, const char *workers,
	const char *method)
{
	struct buf make = BUF_INIT;

	buf_addf(&make,
		"seq 200000 >text && rnp-train tokenize --vocab 300 --out tok text >/dev/null"
		" && rnp-train init --preset %s --tokenizer tok --out m",
		preset);
	command(buf_text(&make));
	buf_release(&make);
	return coordinator_start(url,
		(const char *const[]){ "rnp-train", "coordinate", "-q", "--model", "m",
			"--data", "tok", "--listen", "127.0.0.1:0", "--port-file", "port",
			"--workers", workers, "--rounds", "3", "--inner-steps", "1",
			"--batch", "1", "--length", "16", "--method", method, "--device",
			"cpu", NULL });
}

/* Processor time so far. */
static double processor_s(pid_t pid)
{
	struct buf text = BUF_INIT;
	unsigned long long user = 0, system = 0;
	char path[64];
	const char *end;

	snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
	if (io_read(&text, path, 1 << 16) < 0)
		die("reading the coordinator's processor time");
	end = strrchr(buf_text(&text), ')');
	if (!end ||
		sscanf(end + 1, " %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu",
			&user, &system) != 2)
		die("reading the coordinator's processor time");
	buf_release(&text);
	return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static void make_containers(const char *method, uint64_t n)
{
	struct dev d = DEV_INIT;
	float *x = xmalloc(n * sizeof *x);
	struct rng rng;

	if (device_open(&d, "cpu") < 0)
		die("opening the CPU");
	for (int v = 0; v < VARIANTS; v++) {
		char path[300];

		rng_seed(&rng, (uint64_t)v + 1, 0);
		for (uint64_t i = 0; i < n; i++)
			x[i] = 1e-3f * (float)(rng_f64(&rng) + rng_f64(&rng) - 1);
		snprintf(path, sizeof path, "%s/container", work);
		if (container_write(&d, method, x, NULL, n, path, &facts[v]) < 0 ||
			io_read(&containers[v], path, facts[v].bytes) < 0)
			die("making a container");
		unlink(path);
	}
	free(x);
	dev_close(&d);
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

/* Asks for work on a connection of its own; the answer is read later. */
static void ask(const char *url, const char *run, struct worker_key *k)
{
	struct buf lines[PROTOCOL_LINES] = { BUF_INIT, BUF_INIT, BUF_INIT, BUF_INIT };
	struct buf q = BUF_INIT;
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK),
		.sin_port = htons((uint16_t)atoi(strrchr(url, ':') + 1)) };
	char whole[256];
	int n;

	k->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	snprintf(whole, sizeof whole, "%s/v1/work?member=%s", url, k->key.address);
	n = protocol_sign(lines, "GET", whole, NULL, run, &k->key, clock_now_ms() / 1000);
	if (n < 0)
		die("signing");
	buf_addf(&q,
		"GET /v1/work?member=%s HTTP/1.1\r\nHost: 127.0.0.1\r\n"
		"Connection: close\r\n",
		k->key.address);
	for (int l = 0; l < n; l++)
		buf_addf(&q, "%s\r\n", lines[l].data);
	buf_adds(&q, "\r\n");
	if (k->fd < 0 || connect(k->fd, (struct sockaddr *)&to, sizeof to) < 0 ||
		write(k->fd, q.data, q.len) != (ssize_t)q.len)
		die("asking for work");
	for (int l = 0; l < PROTOCOL_LINES; l++)
		buf_release(&lines[l]);
	buf_release(&q);
}

/* Reads the answer. Returns whether it is a turn; false: there was none within the time of a
 * poll. */
static bool take(const struct training *t, struct worker_key *k)
{
	char text[ANSWER_MAX];
	size_t len = 0;
	ssize_t n;
	const char *body;
	json_t *record;

	while (len < sizeof text - 1 &&
		(n = read(k->fd, text + len, sizeof text - 1 - len)) > 0)
		len += (size_t)n;
	close(k->fd);
	text[len] = '\0';
	body = strstr(text, "\r\n\r\n");
	if (!body || len < 12)
		die("no answer");
	if (memcmp(text + 9, "204", 3) == 0)
		return false;
	if (memcmp(text + 9, "200", 3) != 0)
		die(text);
	record = json_parse_object(body + 4, strlen(body + 4), "assignment");
	if (!record ||
		assignment_read(&k->a, record, t, k->key.address, "assignment") < 0)
		die("reading an assignment");
	json_decref(record);
	return true;
}

/* Until all have a turn. */
static void take_all(const char *url, const struct training *t, int n, pid_t pid,
	int64_t *most)
{
	for (int i = 0; i < n;) {
		struct pollfd p = { .fd = all[i].fd, .events = POLLIN };
		bool taken;

		do {
			int64_t bytes = memory_bytes(pid, "RssAnon:");

			if (bytes > *most)
				*most = bytes;
		} while (poll(&p, 1, 100) == 0);
		taken = take(t, &all[i]);
		if (taken)
			i++;
		else
			ask(url, t->name, &all[i]);
	}
}

static void deliver(struct client *c, const struct training *t, struct worker_key *k,
	int v)
{
	uint64_t pieces = protocol_pieces(facts[v].bytes, t->piece_bytes);
	struct http_response r = HTTP_RESPONSE_INIT;
	struct delta d = { .turn = k->a.turn,
		.bytes = facts[v].bytes,
		.steps = k->a.steps,
		.tokens = k->a.sequences * t->length,
		.loss_first_micronats = 5000000,
		.loss_last_micronats = 4000000,
		.seconds = 1 };
	json_t *record;
	char path[256];

	c->key = &k->key;
	for (uint64_t i = 0; i < pieces; i++) {
		uint64_t left = facts[v].bytes - i * t->piece_bytes;
		struct client_request q = { .method = "PUT",
			.path = path,
			.content_type = "application/octet-stream",
			.body = containers[v].data + i * t->piece_bytes,
			.body_bytes = left < t->piece_bytes ? left : t->piece_bytes,
			.sign = true };

		snprintf(path, sizeof path, "/v1/delta/%s/%llu/%llu", k->key.address,
			(unsigned long long)k->a.turn, (unsigned long long)i);
		if (client_send(c, &q, &r) < 0 || r.status != 201)
			die("sending a piece");
		http_response_release(&r);
		r = (struct http_response)HTTP_RESPONSE_INIT;
	}
	memcpy(d.node, k->key.address, sizeof d.node);
	memcpy(d.base, k->a.base, sizeof d.base);
	protocol_hex(d.sha256, facts[v].sha256);
	protocol_hex(d.root, facts[v].root);
	record = delta_write(&d, t, client_now_ms(c));
	snprintf(path, sizeof path, "/v1/delta/%s/%llu", k->key.address,
		(unsigned long long)k->a.turn);
	if (client_post(c, path, record, &r) < 0 || r.status != 200)
		die(buf_text(&r.body));
	json_decref(record);
	http_response_release(&r);
}

static void report(const char *test, const char *unit, double value,
	const struct training *t, int workers)
{
	struct buf text = BUF_INIT;
	struct stats s;
	json_t *record;

	stats_of(&value, 1, &s);
	record = bench_record("train", test, "cpu", unit, &s);
	json_set_i64(bench_params(record), "workers", workers);
	json_set_i64(bench_params(record), "parameters", (int64_t)t->parameters);
	json_set_text(bench_params(record), "method", t->method);
	json_write(&text, record);
	puts(buf_text(&text));
	buf_release(&text);
	json_decref(record);
}

int main(int argc, char **argv)
{
	const char *place = getenv("TMPDIR");
	const char *preset = argc > 1 ? argv[1] : "small",
		   *count = argc > 2 ? argv[2] : "64",
		   *method = argc > 3 ? argv[3] : "q4";
	int n = atoi(count);
	struct client c = { .http = HTTP_INIT, .give_up_ms = 120000 };
	struct buf remove = BUF_INIT;
	int64_t most = 0, from_ns;
	struct training t;
	double seconds, busy;
	char url[64];
	json_t *run;
	pid_t pid;

	bench_name = "train_close";
	if (n < 1 || n > WORKERS_MAX)
		die("from 1 to 256 workers");
	snprintf(work, sizeof work, "%s/close.XXXXXX", place ? place : "/tmp");
	if (!mkdtemp(work))
		die("beginning");
	pid = start(url, preset, count, method);
	c.url = url;
	run = client_run(&c);
	if (!run || training_read(&t, run, "the run") < 0)
		die("reading the run");
	memcpy(c.run, t.name, sizeof c.run);
	make_containers(method, t.parameters);
	for (int i = 0; i < n; i++) {
		if (key_generate(&all[i].key) < 0)
			die("making a key");
		join(&c, &all[i].key);
	}
	for (int i = 0; i < n; i++)
		ask(url, t.name, &all[i]);
	take_all(url, &t, n, pid, &most);
	from_ns = clock_mono_ns();
	for (int i = 0; i < n; i++) {
		if (i == n - 1)
			fprintf(stderr, "train_close: %d deltas in %.1f s\n", i,
				(double)(clock_mono_ns() - from_ns) / 1e9);
		deliver(&c, &t, &all[i], i % VARIANTS);
		if (i < n - 1)
			ask(url, t.name, &all[i]);
	}
	from_ns = clock_mono_ns();
	busy = processor_s(pid);
	ask(url, t.name, &all[n - 1]);
	most = 0;
	take_all(url, &t, n, pid, &most);
	seconds = (double)(clock_mono_ns() - from_ns) / 1e9;
	busy = processor_s(pid) - busy;
	report("close", "ns", seconds * 1e9, &t, n);
	report("close processor", "ns", busy * 1e9, &t, n);
	report("close memory", "B", (double)most, &t, n);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	for (int i = 0; i < n; i++)
		key_release(&all[i].key);
	for (int v = 0; v < VARIANTS; v++)
		buf_release(&containers[v]);
	json_decref(run);
	http_release(&c.http);
	buf_addf(&remove, "rm -r '%s'", work);
	if (system(buf_text(&remove)) != 0)
		die("removing");
	buf_release(&remove);
	return seconds > CLOSE_MAX_S;
}
