/* registry_load.c - load generator for `rnp-register serve`: heartbeats per second, latency of
 * lists and memory with 100,000 nodes, client and server on the same cores; and whether
 * acknowledged records survive kill -9. Prints records to standard output; exit 1 when a limit
 * is broken.
 *
 *   registry_load                 everything, 200 kills
 *   registry_load --kill N        only the kills
 *   registry_load --quick         everything, smaller
 *   registry_load --port P S      only load on the server at port P, for S seconds
 *
 * long because: it is a whole load generator in one program without parts that others share.
 *
 * Signatures are computed before the clock starts. The client has one thread, epoll and 32
 * connections, with one request at a time on each.
 *
 * (long because client, load and report share one event loop's state) */
#include <arpa/inet.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/record/bench.h"
#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/json/json.h"
#include "common/record/key.h"
#include "common/base/mem.h"
#include "common/record/signature.h"

#define CONNECTIONS   32
#define BEAT_LIMIT    5000.0
#define LIST_LIMIT_NS 20e6
#define MEMORY_LIMIT  200e6
#define LIST_EVERY_NS 20000000

static int nodes = 100000, samples = 10, kills = 200;
static char dir[256], program[512];

static void die(const char *what)
{
	fprintf(stderr, "registry_load: %s: %s\n", what,
		errno ? strerror(errno) : err_get()->text);
	exit(1);
}

/* --- records that are signed beforehand ------------------------------------------------ */

enum kind { NODE, BEAT, BENCH };

struct request {
	char *text; /* the whole HTTP request */
	size_t len;
	int64_t at_ms;
	int node;
	enum kind kind;
	bool acknowledged;
};

struct requests {
	struct request *items;
	size_t n, cap, next;
};

static void node_key(int i, struct key *k)
{
	unsigned char seed[crypto_sign_SEEDBYTES] = { 0 }, secret[KEY_SECRET_BYTES];
	unsigned char public_key[KEY_PUBLIC_BYTES];

	memcpy(seed, &i, sizeof i);
	crypto_sign_seed_keypair(public_key, secret, seed);
	if (key_from_secret(k, secret) < 0)
		die("key");
}

static void add_facts(json_t *record, int i)
{
	static const char *const models[] = { "NVIDIA GeForce RTX 4090",
		"NVIDIA GeForce RTX 3090", "NVIDIA H100 80GB HBM3", "NVIDIA L4",
		"NVIDIA A100-SXM4-80GB", "NVIDIA GeForce RTX 3060", "NVIDIA L40S",
		"NVIDIA GeForce RTX 3080" };
	static const int64_t gib[] = { 24, 24, 80, 24, 80, 12, 48, 10 };
	static const char *const countries[] = { "US", "DE", "FR", "SE", "JP", "IN", "BR",
		"CA", "GB", "PL" };
	uint32_t h = (uint32_t)i * 2654435761u >> 7;
	int m = (int)(h % 8);

	json_set_text(record, "name", "load");
	json_set(record, "gpus",
		json_pack("[{s:s, s:s, s:I, s:i, s:s}]", "vendor", "NVIDIA", "model",
			models[m], "memory_bytes", (json_int_t)(gib[m] << 30),
			"clock_max_mhz", 2520, "driver", "580.95.05"));
	json_set(record, "cpu",
		json_pack("{s:s, s:i, s:i}", "model", "AMD EPYC 7313 16-Core Processor",
			"cores", 16, "threads", 32));
	json_set_i64(record, "memory_bytes", INT64_C(137438953472));
	json_set(record, "network",
		json_pack("{s:I, s:I, s:i}", "down_bps",
			(json_int_t)(h / 8 % 20) * 500000000, "up_bps",
			(json_int_t)8000000000, "ping_us", 9000));
	json_set(record, "labels",
		json_pack("{s:s, s:s}", "country", countries[h / 160 % 10], "host_type",
			"miner"));
}

static json_t *make_record(enum kind kind, int i, int64_t at_ms, const struct key *k)
{
	static const char *const kinds[] = { "rnp.node", "rnp.heartbeat", "rnp.bench" };
	json_t *record = json_record(kinds[kind]);

	json_set_text(record, "node", k->address);
	json_set_time(record, "at", at_ms);
	if (kind == NODE) {
		add_facts(record, i);
	} else if (kind == BEAT) {
		json_set_i64(record, "interval_s", 60);
		json_set_text(record, "state", "idle");
	} else {
		json_set_text(record, "suite", "load");
		json_set_text(record, "test", "kill");
		json_set_text(record, "unit", "ns");
		json_set_i64(record, "median", at_ms);
		json_set_i64(record, "low", at_ms);
		json_set_i64(record, "high", at_ms);
		json_set_i64(record, "samples", 1);
	}
	if (signature_add(record, k, at_ms) < 0)
		die("sign");
	return record;
}

static void add_request(struct requests *r, enum kind kind, int i, int64_t at_ms)
{
	static const char *const paths[] = { "/v1/nodes", "/v1/heartbeats",
		"/v1/records" };
	struct buf body = BUF_INIT, text = BUF_INIT;
	struct key k = KEY_INIT;
	struct request *q;
	json_t *record;

	node_key(i, &k);
	record = make_record(kind, i, at_ms, &k);
	json_write(&body, record);
	buf_addf(&text,
		"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\n\r\n%s",
		paths[kind], body.len, body.data);
	r->items = xgrow(r->items, &r->cap, r->n + 1, sizeof *r->items);
	q = &r->items[r->n++];
	*q = (struct request){ .len = text.len, .at_ms = at_ms, .node = i, .kind = kind };
	q->text = buf_take(&text);
	buf_release(&body);
	json_decref(record);
	key_release(&k);
}

static void requests_release(struct requests *r)
{
	for (size_t i = 0; i < r->n; i++)
		free(r->items[i].text);
	free(r->items);
	memset(r, 0, sizeof *r);
}

/* --- connections, plain or TLS (OpenSSL by dlopen: only this program needs it) ---------- */

static struct {
	void *(*method)(void), *(*ctx_new)(void *), *(*ssl_new)(void *);
	int (*set_fd)(void *, int), (*connect)(void *), (*read)(void *, void *, int);
	int (*write)(void *, const void *, int);
	void (*ssl_free)(void *);
	void *ctx;
} tls;

static void tls_load(void)
{
	void *so = dlopen("libssl.so.3", RTLD_NOW);

	if (!so)
		die("libssl");
	*(void **)&tls.method = dlsym(so, "TLS_client_method");
	*(void **)&tls.ctx_new = dlsym(so, "SSL_CTX_new");
	*(void **)&tls.ssl_new = dlsym(so, "SSL_new");
	*(void **)&tls.set_fd = dlsym(so, "SSL_set_fd");
	*(void **)&tls.connect = dlsym(so, "SSL_connect");
	*(void **)&tls.read = dlsym(so, "SSL_read");
	*(void **)&tls.write = dlsym(so, "SSL_write");
	*(void **)&tls.ssl_free = dlsym(so, "SSL_free");
	tls.ctx = tls.ctx_new(tls.method());
}

struct peer {
	int fd;
	void *ssl;
	struct request *request; /* NULL: a list */
	struct buf answer;
	int64_t sent_ns;
	bool busy;
};

static void peer_open(struct peer *p, int port, bool use_tls, int epoll)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	struct epoll_event e = { .events = EPOLLIN, .data.ptr = p };
	int on = 1;

	memset(p, 0, sizeof *p);
	p->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (p->fd < 0 || connect(p->fd, (struct sockaddr *)&a, sizeof a) < 0)
		die("connect");
	/* as HTTP clients do; otherwise the first request waits for the delayed acknowledgement
	 * of the TLS handshake */
	setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	if (use_tls) {
		p->ssl = tls.ssl_new(tls.ctx);
		tls.set_fd(p->ssl, p->fd);
		if (tls.connect(p->ssl) != 1)
			die("TLS handshake");
	}
	fcntl(p->fd, F_SETFL, O_NONBLOCK);
	epoll_ctl(epoll, EPOLL_CTL_ADD, p->fd, &e);
}

static void peer_close(struct peer *p)
{
	if (p->ssl)
		tls.ssl_free(p->ssl);
	close(p->fd);
	buf_release(&p->answer);
}

static bool peer_send(struct peer *p, const char *text, size_t len)
{
	ssize_t n = p->ssl ? tls.write(p->ssl, text, (int)len) :
			     send(p->fd, text, len, MSG_NOSIGNAL);

	p->busy = n == (ssize_t)len; /* small: one send is enough */
	p->sent_ns = clock_mono_ns();
	buf_reset(&p->answer);
	return p->busy;
}

/* Returns the status once the answer is complete, 0 before that, -1 when the server is gone. */
static int peer_receive(struct peer *p)
{
	const char *head_end, *length;

	for (;;) {
		char *to = buf_reserve(&p->answer, 65536);
		ssize_t n = p->ssl ? tls.read(p->ssl, to, 65536) :
				     recv(p->fd, to, 65536, 0);

		if (n == 0 || (n < 0 && !p->ssl && errno != EAGAIN))
			return -1;
		if (n < 0)
			break;
		p->answer.len += (size_t)n;
		to[n] = '\0';
		if (n < 65536 && !p->ssl)
			break;
	}
	head_end = p->answer.len ? strstr(p->answer.data, "\r\n\r\n") : NULL;
	length = head_end ? strcasestr(p->answer.data, "\r\nContent-Length:") : NULL;
	if (!length ||
		(size_t)(head_end + 4 - p->answer.data) + strtoul(length + 17, NULL, 10) >
			p->answer.len)
		return 0;
	p->busy = false;
	return atoi(p->answer.data + 9);
}

/* --- the load -------------------------------------------------------------------------- */

struct load {
	int port;
	bool use_tls;
	int64_t duration_ns; /* 0: until the requests are used up */
	double per_second;   /* 0: as many as possible */
	bool lists;     /* also request filtered pages, one at a time, 50 per second */
	pid_t kill_pid; /* killed when the time is up, which begins with the first answer */
	/* results */
	int64_t done, refused, took_ns;
	double *list_ns;
	size_t nlists, cap;
};

static bool send_list(struct peer *p, size_t n)
{
	static const char *const filters[] = { "gpu_model=RTX%204090&country=US",
		"min_memory=25769803776&tier=med", "tier=ultra-high&device=gpu",
		"country=JP&min_memory=85899345920", "gpu_model=l4&tier=low&country=PL",
		"maker=NVIDIA&min_gpus=1" };
	char text[256];
	int len = snprintf(text, sizeof text,
		"GET /v1/nodes?limit=100&cursor=%zu&%s HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n",
		n * 7919 % (size_t)(nodes / 2), filters[n % 6]);

	return peer_send(p, text, (size_t)len);
}

static bool next_request(struct load *l, struct requests *r, struct peer *p,
	int64_t elapsed_ns)
{
	if (r->next == r->n)
		return false;
	if (l->per_second && (double)l->done >= l->per_second * (double)elapsed_ns / 1e9)
		return false;
	p->request = &r->items[r->next++];
	return peer_send(p, p->request->text, p->request->len);
}

static void take_answer(struct load *l, struct peer *p, int status)
{
	if (!p->request) {
		l->list_ns = xgrow(l->list_ns, &l->cap, l->nlists + 1,
			sizeof *l->list_ns);
		l->list_ns[l->nlists++] = (double)(clock_mono_ns() - p->sent_ns);
		if (status != 200)
			l->refused++;
		return;
	}
	l->done++;
	if (status == 200 || status == 201) {
		p->request->acknowledged = true;
		return;
	}
	if (!l->refused++)
		fprintf(stderr, "registry_load: %.*s\n", (int)p->answer.len,
			p->answer.data);
}

static void run(struct load *l, struct requests *r)
{
	static struct peer peers[CONNECTIONS + 1];
	struct epoll_event events[64];
	int epoll = epoll_create1(EPOLL_CLOEXEC), open = CONNECTIONS + l->lists,
	    alive = open;
	int64_t start, now, next_list = 0;

	for (int i = 0; i < open; i++)
		peer_open(&peers[i], l->port, l->use_tls, epoll);
	start = clock_mono_ns();
	for (;;) {
		bool any = false;
		int n;

		now = clock_mono_ns();
		if (l->kill_pid && !l->done)
			start = now;
		if (l->duration_ns && now - start >= l->duration_ns)
			break;
		for (int i = 0; i < CONNECTIONS; i++)
			any |= peers[i].busy ||
				next_request(l, r, &peers[i], now - start);
		if (l->lists && !peers[CONNECTIONS].busy && now >= next_list) {
			send_list(&peers[CONNECTIONS], l->nlists);
			next_list = now + LIST_EVERY_NS;
		}
		if (!any && r->next == r->n)
			break;
		n = epoll_wait(epoll, events, 64, l->per_second ? 1 : 10);
		for (int i = 0; i < n; i++) {
			struct peer *p = events[i].data.ptr;
			int status = peer_receive(p);

			if (status > 0) {
				take_answer(l, p, status);
			} else if (status < 0) {
				epoll_ctl(epoll, EPOLL_CTL_DEL, p->fd, NULL);
				p->busy = true; /* never used again */
				alive--;
			}
		}
		if (!alive)
			break;
	}
	l->took_ns = clock_mono_ns() - start;
	if (l->kill_pid)
		kill(l->kill_pid, SIGKILL);
	/* answers that the server sent before it died count as acknowledged, too */
	for (int i = 0; i < open; i++) {
		int status = peers[i].busy && l->kill_pid ?
			(usleep(1000), peer_receive(&peers[i])) :
			0;

		if (status > 0)
			take_answer(l, &peers[i], status);
		peer_close(&peers[i]);
	}
	close(epoll);
}

/* --- the server ------------------------------------------------------------------------ */

static pid_t server_start(int *port, bool use_tls)
{
	char db[300], port_file[300], cert[300], key[300], log[300], text[16] = "";
	pid_t pid;

	snprintf(db, sizeof db, "%s/r.db", dir);
	snprintf(port_file, sizeof port_file, "%s/port", dir);
	snprintf(cert, sizeof cert, "%s/cert.pem", dir);
	snprintf(key, sizeof key, "%s/cert-key.pem", dir);
	snprintf(log, sizeof log, "%s/requests.log", dir);
	unlink(port_file);
	pid = fork();
	if (pid == 0) {
		execl(program, program, "serve", "--db", db, "--listen", "127.0.0.1:0",
			"--port-file", port_file, "--log-file", log, "-q",
			use_tls ? "--cert" : NULL, cert, "--cert-key", key, NULL);
		_exit(127);
	}
	for (int i = 0; i < 2000; i++) {
		int fd = open(port_file, O_RDONLY);

		usleep(5000);
		if (fd < 0)
			continue;
		if (read(fd, text, sizeof text - 1) > 0) {
			close(fd);
			*port = atoi(text);
			return pid;
		}
		close(fd);
	}
	die("the server does not start");
	return -1;
}

static void server_stop(pid_t pid, int how)
{
	int status;

	kill(pid, how);
	waitpid(pid, &status, 0);
	if (how == SIGTERM && status)
		fprintf(stderr, "registry_load: the server ended with %x\n", status);
}

static double peak_memory(pid_t pid)
{
	char path[64], line[256];
	double kib = 0;
	FILE *f;

	snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof line, f))
		sscanf(line, "VmHWM: %lf", &kib);
	if (f)
		fclose(f);
	return kib * 1024;
}

/* --- what is measured ------------------------------------------------------------------ */

static void print(const char *test, const char *unit, const double *values, size_t n,
	const char *transport, double limit)
{
	struct buf line = BUF_INIT;
	struct stats s;
	json_t *record;

	stats_of(values, n, &s);
	record = bench_record("registry", test, NULL, unit, &s);
	json_set_i64(bench_params(record), "nodes", nodes);
	json_set_i64(bench_params(record), "connections", CONNECTIONS);
	json_set_text(bench_params(record), "transport", transport);
	if (limit > 0)
		json_set_i64(bench_params(record), "limit", (int64_t)limit);
	json_write(&line, record);
	puts(line.data);
	fflush(stdout);
	buf_release(&line);
	json_decref(record);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double p99(double *values, size_t n)
{
	qsort(values, n, sizeof *values, by_value);
	return n ? values[(n * 99 + 99) / 100 - 1] : 0;
}

static int64_t beat_at_ms; /* every heartbeat is newer than all earlier ones */

static void make_beats(struct requests *r, size_t n)
{
	requests_release(r);
	if (beat_at_ms < clock_now_ms() - 200000)
		beat_at_ms = clock_now_ms() - 200000;
	for (size_t i = 0; i < n; i++) {
		if (i % 100 == 0)
			beat_at_ms++;
		add_request(r, BEAT, (int)((i * 7919) % (size_t)nodes), beat_at_ms);
	}
	beat_at_ms++;
}

static void seed(int port)
{
	struct requests r = { 0 };
	struct load l = { .port = port };

	for (int i = 0; i < nodes; i++)
		add_request(&r, NODE, i, clock_now_ms());
	run(&l, &r);
	if (l.refused || l.done != nodes)
		die("seeding");
	fprintf(stderr, "registry_load: %d nodes registered, %.0f a second\n", nodes,
		nodes / ((double)l.took_ns / 1e9));
	requests_release(&r);
}

static double throughput(int port, bool use_tls, const char *transport)
{
	double rates[32];
	struct stats s;

	for (int i = 0; i < samples; i++) {
		struct requests r = { 0 };
		struct load l = { .port = port, .use_tls = use_tls };

		make_beats(&r, nodes < 10000 ? 2000 : 10000);
		run(&l, &r);
		if (l.refused)
			die("heartbeats were refused");
		rates[i] = (double)l.done / ((double)l.took_ns / 1e9);
		requests_release(&r);
	}
	print("heartbeats", "1/s", rates, (size_t)samples, transport, BEAT_LIMIT);
	stats_of(rates, (size_t)samples, &s);
	return s.median;
}

/* p99 of filtered pages while heartbeats arrive at the promised rate */
static double lists(int port, bool use_tls, const char *transport)
{
	double worst[32];
	struct stats s;

	for (int i = 0; i < samples; i++) {
		struct requests r = { 0 };
		struct load l = { .port = port,
			.use_tls = use_tls,
			.lists = true,
			.per_second = BEAT_LIMIT };

		make_beats(&r, nodes < 10000 ? 2000 : 15000);
		run(&l, &r);
		if (l.refused)
			die("requests were refused");
		worst[i] = p99(l.list_ns, l.nlists);
		free(l.list_ns);
		requests_release(&r);
	}
	print("p99 of a filtered page under 5000 heartbeats/s", "ns", worst,
		(size_t)samples, transport, LIST_LIMIT_NS);
	stats_of(worst, (size_t)samples, &s);
	return s.median;
}

/* --- kill -9 --------------------------------------------------------------------------- */

static long count_missing(struct requests *r)
{
	static const char *const queries[] = {
		"SELECT 1 FROM records WHERE node = ?1 AND kind = 'rnp.node' AND at_ms = ?2",
		"SELECT 1 FROM heartbeats WHERE node = (SELECT id FROM nodes WHERE address = ?1) "
		"AND at_ms = ?2",
		"SELECT 1 FROM records WHERE node = ?1 AND kind = 'rnp.bench' AND at_ms = ?2",
	};
	sqlite3_stmt *q[3];
	char path[300];
	sqlite3 *db;
	long missing = 0;

	snprintf(path, sizeof path, "%s/r.db", dir);
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READWRITE, NULL))
		die("database");
	for (int i = 0; i < 3; i++)
		if (sqlite3_prepare_v2(db, queries[i], -1, &q[i], NULL))
			die(sqlite3_errmsg(db));
	for (size_t i = 0; i < r->n; i++) {
		struct request *p = &r->items[i];
		struct key k = KEY_INIT;

		if (!p->acknowledged)
			continue;
		node_key(p->node, &k);
		sqlite3_bind_text(q[p->kind], 1, k.address, -1, SQLITE_TRANSIENT);
		sqlite3_bind_int64(q[p->kind], 2, p->at_ms);
		missing += sqlite3_step(q[p->kind]) != SQLITE_ROW;
		sqlite3_reset(q[p->kind]);
		key_release(&k);
	}
	for (int i = 0; i < 3; i++)
		sqlite3_finalize(q[i]);
	sqlite3_close(db);
	return missing;
}

/* Starts a server, kills it under mixed load, and compares its records with the acknowledged
 * ones. */
static long one_kill(int round, long *acknowledged)
{
	struct requests r = { 0 };
	struct load l = { .duration_ns = (20 + round * 37 % 150) * INT64_C(1000000) };
	long missing, status_pid;

	make_beats(&r, 1000);
	for (size_t i = 0; i < 1000; i += 4)
		add_request(&r, i % 8 ? NODE : BENCH, (int)(i * 7919 % (size_t)nodes),
			clock_now_ms());
	/* mixed: every fifth request is not a heartbeat */
	for (size_t i = 0; i < 250; i++) {
		struct request t = r.items[i * 4];

		r.items[i * 4] = r.items[1000 + i];
		r.items[1000 + i] = t;
	}
	l.kill_pid = server_start(&l.port, false);
	run(&l, &r);
	status_pid = l.kill_pid;
	server_stop((pid_t)status_pid, SIGKILL);
	for (size_t i = 0; i < r.n; i++)
		*acknowledged += r.items[i].acknowledged;
	missing = count_missing(&r);
	if (missing)
		fprintf(stderr,
			"registry_load: round %d: %ld acknowledged records are lost\n",
			round, missing);
	requests_release(&r);
	return missing;
}

static bool kill_rounds(void)
{
	long missing = 0, acknowledged = 0;
	double lost;

	for (int i = 0; i < kills; i++)
		missing += one_kill(i, &acknowledged);
	fprintf(stderr, "registry_load: %d kills, %ld records acknowledged, %ld lost\n",
		kills, acknowledged, missing);
	lost = (double)missing;
	print("acknowledged records lost by kill -9", "1", &lost, 1, "http", 0);
	return missing == 0 && acknowledged > kills;
}

static void make_certificate(void)
{
	char command[1024];

	snprintf(command, sizeof command,
		"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes "
		"-subj /CN=localhost -days 2 -keyout %s/cert-key.pem -out %s/cert.pem 2>/dev/null",
		dir, dir);
	if (system(command))
		die("openssl");
	tls_load();
}

static bool measure(void)
{
	bool good = true;
	double memory;
	int port;
	pid_t pid = server_start(&port, false);

	seed(port);
	good &= throughput(port, false, "http") >= BEAT_LIMIT;
	good &= lists(port, false, "http") < LIST_LIMIT_NS;
	memory = peak_memory(pid);
	print("peak memory", "B", &memory, 1, "http", MEMORY_LIMIT);
	good &= memory < MEMORY_LIMIT;
	server_stop(pid, SIGTERM);
	make_certificate();
	pid = server_start(&port, true);
	throughput(port, true, "https");
	lists(port, true, "https");
	memory = peak_memory(pid);
	print("peak memory", "B", &memory, 1, "https", 0);
	server_stop(pid, SIGTERM);
	return good;
}

/* Loads a server that was started elsewhere, under a profiler or sanitizer. */
static bool only_load(int port, int seconds)
{
	int64_t end = clock_mono_ns() + seconds * INT64_C(1000000000);

	nodes = 500;
	seed(port);
	while (clock_mono_ns() < end) {
		struct requests r = { 0 };
		struct load l = { .port = port, .lists = true };

		make_beats(&r, 500);
		run(&l, &r);
		requests_release(&r);
		free(l.list_ns);
		if (l.refused)
			return false;
	}
	return true;
}

int main(int argc, char **argv)
{
	const char *build = getenv("RNP_BUILD"), *tmp = getenv("TMPDIR");
	bool good;
	char command[300];

	if (sodium_init() < 0)
		return 71;
	if (argc == 4 && strcmp(argv[1], "--port") == 0)
		return !only_load(atoi(argv[2]), atoi(argv[3]));
	snprintf(program, sizeof program, "%s/bin/rnp-register", build ? build : "build");
	snprintf(dir, sizeof dir, "%s/registry.XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		die("temporary directory");
	if (argc == 3 && strcmp(argv[1], "--kill") == 0) {
		int port;
		pid_t pid;

		kills = atoi(argv[2]);
		nodes = 1000;
		pid = server_start(&port, false);
		seed(port);
		server_stop(pid, SIGTERM);
		good = kill_rounds();
	} else {
		if (argc == 2 && strcmp(argv[1], "--quick") == 0)
			nodes = 2000, samples = 3, kills = 5;
		good = measure();
		good &= kill_rounds();
	}
	snprintf(command, sizeof command, "rm -rf '%s'", dir);
	if (system(command))
		return 1;
	return !good;
}
