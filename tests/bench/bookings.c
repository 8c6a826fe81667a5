/* bookings.c - benchmark: a market under customers who race, and under those who wait. Prints
 * rnp.bench records; exit 1 when a device is let twice.
 *
 *   bookings [GPUS] [CLIENTS] [WAITING] [BEATS] [RACES]     default 20000, 64, 1000, 1000, 0
 *
 * With RACES there are as many bookings of all GPUs by CLIENTS in turn, released again, instead.
 * Meanwhile the nodes send BEATS heartbeats a second.
 * Bookings: nodes of 8 GPUs, sold one at a time; of a half of the GPUs each is booked by a
 * customer, of the other half by two, who send at the same time over CLIENTS connections.
 * Signatures are made before the clock starts, also those of the proposals: the registry's key is
 * ours. A booking counts when it is answered, which is after its commit is on disk.
 * Long polls: WAITING requests wait for news of other clusters while events of one arrive; measured
 * is the time from sending the event to the answer of whoever waits for it.
 *
 * It is long because all clients, and their signatures, stand in one program with the server. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/base/buf.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/base/stats.h"
#include "common/http/sign.h"
#include "common/json/json.h"
#include "common/record/bench.h"
#include "common/record/signature.h"

#define NODE_GPUS 8
#define EVENTS    200
/* A customer has 1,024 clusters open at most: two race for so many GPUs. */
#define RACE_GPUS 1000
#define IMAGE                                                                        \
	"debian@sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852" \
	"b855"

static char dir[256], program[512];
static int port, gpus = 20000, clients = 64, waiting = 1000, beats = 1000, races;
static struct key registry_key = KEY_INIT, *customers;
static pid_t server;

/* Also when we are killed by a signal that can be caught; by another, the server goes with us. */
static void clean_up(void)
{
	char command[300];
	int status;

	if (server > 0 && kill(server, SIGTERM) == 0)
		waitpid(server, &status, 0);
	server = 0;
	snprintf(command, sizeof command, "rm -rf '%s'", dir);
	if (dir[0] && system(command) != 0)
		_exit(1);
	dir[0] = '\0';
}

static void on_signal(int number)
{
	clean_up();
	_exit(128 + number);
}

static void die(const char *what)
{
	static atomic_flag dying = ATOMIC_FLAG_INIT;

	while (atomic_flag_test_and_set(&dying))
		pause(); /* another thread ends us */
	fprintf(stderr, "bookings: %s: %s\n", what,
		errno ? strerror(errno) : err_get()->text);
	exit(1);
}

/* --- connections ------------------------------------------------------------------------------ */

/* From an address of loopback for each 256: a server takes 512 connections of one. */
#define OF_ADDRESS 256

static int open_connection(void)
{
	static atomic_int opened;
	struct sockaddr_in from = { .sin_family = AF_INET,
		.sin_addr.s_addr = htonl(
			INADDR_LOOPBACK + 256 * (uint32_t)(opened++ / OF_ADDRESS)) };
	struct sockaddr_in to = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;

	if (fd < 0 ||
		setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) < 0 ||
		bind(fd, (struct sockaddr *)&from, sizeof from) < 0 ||
		connect(fd, (struct sockaddr *)&to, sizeof to) < 0)
		die("cannot connect");
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	return fd;
}

static void send_all(int fd, const char *text, size_t len)
{
	while (len) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			die("cannot send");
		text += n;
		len -= (size_t)n;
	}
}

/* Receives one answer. Returns its status; body (may be NULL) gets what follows the headers. */
static int receive(int fd, struct buf *body)
{
	struct buf in = BUF_INIT;
	const char *end = NULL, *length;
	size_t whole = 0;
	int status;

	while (!end || in.len < whole) {
		ssize_t n = recv(fd, buf_reserve(&in, 16384), 16384, 0);

		if (n <= 0)
			die("the server has closed");
		in.len += (size_t)n;
		in.data[in.len] = '\0';
		end = strstr(in.data, "\r\n\r\n");
		length = end ? strcasestr(in.data, "content-length:") : NULL;
		if (end)
			whole = (size_t)(end + 4 - in.data) +
				(length ? strtoul(length + 15, NULL, 10) : 0);
	}
	status = atoi(in.data + 9);
	if (body)
		buf_adds(body, end + 4);
	buf_release(&in);
	return status;
}

static void add_post(struct buf *out, const char *path, json_t *record)
{
	struct buf body = BUF_INIT;

	json_write(&body, record);
	json_decref(record);
	buf_addf(out,
		"POST %s HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
		"Content-Length: %zu\r\n\r\n",
		path, body.len);
	buf_add(out, body.data, body.len);
	buf_release(&body);
}

/* Sends a record (taken) and expects success. */
static void post(int fd, const char *path, json_t *record)
{
	struct buf request = BUF_INIT, body = BUF_INIT;

	add_post(&request, path, record);
	send_all(fd, request.data, request.len);
	errno = 0;
	if (receive(fd, &body) >= 300) {
		err_set(1, "%s", buf_text(&body));
		die(path);
	}
	buf_release(&request);
	buf_release(&body);
}

/* --- records ---------------------------------------------------------------------------------- */

static void make_key(struct key *k, int i)
{
	unsigned char seed[crypto_sign_SEEDBYTES] = { 9 }, secret[KEY_SECRET_BYTES];
	unsigned char public_key[KEY_PUBLIC_BYTES];

	memcpy(seed + 1, &i, sizeof i);
	crypto_sign_seed_keypair(public_key, secret, seed);
	if (key_from_secret(k, secret) < 0)
		die("key");
}

static json_t *signed_by(json_t *record, const struct key *k)
{
	if (!json_object_get(record, "at"))
		json_set_time(record, "at", clock_now_ms());
	if (signature_add(record, k, clock_now_ms()) < 0)
		die("cannot sign");
	return record;
}

static json_t *of_node(const char *kind, const struct key *k)
{
	json_t *record = json_record(kind);

	json_set_text(record, "node", k->address);
	return record;
}

static void gpu_name(char out[32], int gpu)
{
	snprintf(out, 32, "gpu-%07d", gpu);
}

/* A node of 8 GPUs, the first of which has that number. */
static void sell(int fd, const struct key *k, int first)
{
	json_t *node = of_node("rnp.node", k), *list = json_array(), *r;

	for (int i = 0; i < NODE_GPUS; i++) {
		char uuid[32];

		gpu_name(uuid, first + i);
		json_push(list,
			json_pack("{s:s,s:s,s:s}", "vendor", "NVIDIA", "model",
				"NVIDIA GeForce RTX 4090", "uuid", uuid));
	}
	json_set(node, "gpus", list);
	post(fd, "/v1/nodes", signed_by(node, k));
	r = of_node("rnp.quote", k);
	json_object_update_new(r,
		json_pack("{s:i,s:i,s:i,s:[]}", "ask_uusd", 7600, "customer_uusd", 8000,
			"floor_uusd", 0, "why"));
	post(fd, "/v1/records", signed_by(r, k));
	r = of_node("rnp.heartbeat", k);
	json_object_update_new(r,
		json_pack("{s:i,s:s}", "interval_s", 3600, "state", "idle"));
	post(fd, "/v1/heartbeats", signed_by(r, k));
	r = of_node("rnp.listing", k);
	json_set_time(r, "until", clock_now_ms() + 86400000);
	json_set_i64(r, "part_gpus", 1);
	post(fd, "/v1/listings", signed_by(r, k));
}

/* What the registry would offer for one GPU. */
static json_t *proposal_for(const struct key *node, int gpu)
{
	static const char quote[] =
		"e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
	json_t *p = json_record("rnp.proposal");
	char uuid[32];

	gpu_name(uuid, gpu);
	json_set_text(p, "signer", registry_key.address);
	json_set_text(p, "job", quote);
	json_set(p, "request",
		json_pack("{s:s,s:i,s:s}", "kind", "rnp.job", "v", 1, "job", "j"));
	json_set_text(p, "image", IMAGE);
	json_set_time(p, "valid_until", clock_now_ms() + 600000);
	json_set(p, "offers",
		json_pack("[{s:[{s:s,s:[s],s:s,s:i,s:i}],s:i,s:i}]", "nodes", "node",
			node->address, "gpus", uuid, "quote", quote, "uusd_per_hour",
			1000, "node_uusd_per_hour", 950, "uusd_per_hour", 1000,
			"up_to_uusd", 1000));
	return signed_by(p, &registry_key);
}

static json_t *booking_of(const struct key *customer, json_t *proposal)
{
	json_t *b = json_record("rnp.booking");

	json_set_text(b, "signer", customer->address);
	json_set(b, "proposal", proposal);
	json_set_i64(b, "offer", 0);
	json_set_i64(b, "hours", 1);
	return signed_by(b, customer);
}

/* --- the server ------------------------------------------------------------------------------- */

static pid_t server_start(void)
{
	char db[300], port_file[300], key[300], log[300], text[16] = "";
	pid_t pid;

	snprintf(db, sizeof db, "%s/r.db", dir);
	snprintf(port_file, sizeof port_file, "%s/port", dir);
	snprintf(key, sizeof key, "%s/key.json", dir);
	snprintf(log, sizeof log, "%s/requests.log", dir);
	if (key_save(&registry_key, key, NULL) < 0)
		die("cannot write the key");
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execl(program, program, "serve", "--db", db, "--listen", "127.0.0.1:0",
			"--port-file", port_file, "--log-file", log, "-q", "--market",
			"--key", key, "--trust", registry_key.address, NULL);
		_exit(127);
	}
	for (int i = 0; i < 2000 && !port; i++) {
		int fd = open(port_file, O_RDONLY);

		usleep(5000);
		if (fd >= 0 && read(fd, text, sizeof text - 1) > 0)
			port = atoi(text);
		if (fd >= 0)
			close(fd);
	}
	if (!port)
		die("the server does not start");
	return pid;
}

static int64_t count(const char *sql)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *q = NULL;
	char path[300];
	int64_t n = -1;

	snprintf(path, sizeof path, "%s/r.db", dir);
	if (sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL) == SQLITE_OK &&
		sqlite3_prepare_v2(db, sql, -1, &q, NULL) == SQLITE_OK &&
		sqlite3_step(q) == SQLITE_ROW)
		n = sqlite3_column_int64(q, 0);
	sqlite3_finalize(q);
	sqlite3_close(db);
	return n;
}

/* --- racing bookings -------------------------------------------------------------------------- */

struct racer {
	pthread_t thread;
	struct buf *requests; /* of all; each takes every clients-th */
	int first, n;
	double *took_ns;
	int booked, taken, other;
};

static void *race(void *arg)
{
	struct racer *r = arg;
	int fd = open_connection();

	for (int i = r->first; i < r->n; i += clients) {
		int64_t start = clock_mono_ns();
		int status;

		send_all(fd, r->requests[i].data, r->requests[i].len);
		status = receive(fd, NULL);
		r->took_ns[i] = (double)(clock_mono_ns() - start);
		r->booked += status == 201;
		r->taken += status == 409;
		r->other += status != 201 && status != 409;
	}
	close(fd);
	return NULL;
}

static void report(const char *test, const char *unit, double *values, int n,
	int64_t extra)
{
	struct stats s;
	json_t *record;

	stats_of(values, (size_t)n, &s);
	record = bench_record("market", test, "cpu", unit, &s);
	json_set_i64(bench_params(record), "gpus", gpus);
	json_set_i64(bench_params(record), "clients", clients);
	json_set_i64(bench_params(record), "waiting", waiting);
	if (extra >= 0)
		json_set_i64(bench_params(record), "refused", extra);
	json_dumpf(record, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(record);
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* Processor time of the server so far. */
static int64_t server_ns(void)
{
	struct timespec t = { 0 };
	clockid_t clock;

	if (clock_getcpuclockid(server, &clock) == 0)
		clock_gettime(clock, &t);
	return t.tv_sec * INT64_C(1000000000) + t.tv_nsec;
}

/* The customer who races for a GPU on that side, 0 or 1. */
static const struct key *racer_of(int gpu, int side)
{
	return &customers[2 * (gpu / RACE_GPUS) + side];
}

/* Makes the requests for GPUs from first on: of each one, or two that stand side by side and go to
 * two connections. */
static void make_requests(struct buf *out, int n, int first, int sides)
{
	for (int i = 0; i < n; i++) {
		int gpu = first + i / sides;
		struct key k = KEY_INIT;

		make_key(&k, 100 + gpu / NODE_GPUS);
		add_post(&out[i], "/v1/bookings",
			booking_of(racer_of(gpu, i % sides), proposal_for(&k, gpu)));
		key_release(&k);
	}
}

static void report_race(const char *name, double rate, double *took_ns, int n,
	double cpu_ns, int taken)
{
	char test[64];
	double p99;

	report(name, "1/s", &rate, 1, taken);
	cpu_ns /= n;
	snprintf(test, sizeof test, "%s_cpu", name);
	report(test, "ns", &cpu_ns, 1, -1);
	qsort(took_ns, (size_t)n, sizeof *took_ns, by_value);
	p99 = took_ns[n * 99 / 100];
	snprintf(test, sizeof test, "%s_took", name);
	report(test, "ns", took_ns, n, -1);
	snprintf(test, sizeof test, "%s_p99", name);
	report(test, "ns", &p99, 1, -1);
}

/* So many GPUs from first on are booked by one customer each, or by two who race. */
static void run_race(const char *name, int first, int many, int sides)
{
	int n = sides * many, booked = 0, taken = 0, other = 0;
	struct buf *requests = xcalloc((size_t)n, sizeof *requests);
	double *took_ns = xcalloc((size_t)n, sizeof *took_ns), cpu_ns, rate;
	struct racer *racers = xcalloc((size_t)clients, sizeof *racers);
	int64_t start;

	make_requests(requests, n, first, sides);
	cpu_ns = (double)server_ns();
	start = clock_mono_ns();
	for (int i = 0; i < clients; i++) {
		racers[i] = (struct racer){ .requests = requests,
			.first = i,
			.n = n,
			.took_ns = took_ns };
		pthread_create(&racers[i].thread, NULL, race, &racers[i]);
	}
	for (int i = 0; i < clients; i++) {
		pthread_join(racers[i].thread, NULL);
		booked += racers[i].booked;
		taken += racers[i].taken;
		other += racers[i].other;
	}
	rate = booked / ((double)(clock_mono_ns() - start) / 1e9);
	report_race(name, rate, took_ns, n, (double)server_ns() - cpu_ns, taken);
	if (booked != many || other ||
		count("SELECT count(*) FROM leases WHERE to_ms IS NULL") !=
			first + many ||
		count("SELECT count(DISTINCT device) FROM leases") != first + many) {
		fprintf(stderr,
			"bookings: %d booked, %d taken, %d other: not each GPU once\n",
			booked, taken, other);
		exit(1);
	}
	for (int i = 0; i < n; i++)
		buf_release(&requests[i]);
	free(requests);
	free(took_ns);
	free(racers);
}

/* --- bookings that are released again --------------------------------------------------------- */

/* Who has a GPU by the answers that came: nobody may be told that he has one of another's. */
static atomic_int *holders;
static atomic_llong tries, let, twice;

static void release(int fd, const struct key *customer, const char *body)
{
	const char *cluster = strstr(body, "\"cluster\":\"");
	json_t *action = json_record("rnp.action");
	char name[33] = "";

	if (cluster)
		snprintf(name, sizeof name, "%.32s", cluster + 11);
	json_set_text(action, "signer", customer->address);
	json_set_text(action, "cluster", name);
	json_set_text(action, "action", "release");
	post(fd, "/v1/actions", signed_by(action, customer));
}

/* Books one GPU after the other, of a few at a time so that most are somebody's, and releases. */
static void *grab(void *arg)
{
	int me = (int)(intptr_t)arg, fd = open_connection(), held[8] = { 0 }, n = 0;
	const struct key *customer = &customers[me];
	struct buf bodies[8] = { 0 };
	unsigned random = (unsigned)me + 1;

	while (tries++ < races) {
		int gpu = rand_r(&random) % gpus;
		struct buf request = BUF_INIT, body = BUF_INIT;
		struct key node = KEY_INIT;
		int status, nobody = 0;

		make_key(&node, 100 + gpu / NODE_GPUS);
		add_post(&request, "/v1/bookings",
			booking_of(customer, proposal_for(&node, gpu)));
		send_all(fd, request.data, request.len);
		status = receive(fd, &body);
		if (status != 201 && status != 409) {
			err_set(1, "%d %s", status, buf_text(&body));
			errno = 0;
			die("a booking");
		}
		if (status == 201) {
			let++;
			if (!atomic_compare_exchange_strong(&holders[gpu], &nobody,
				    me + 1))
				twice++;
			held[n] = gpu;
			bodies[n++] = body;
			body = (struct buf)BUF_INIT;
		}
		/* all of them, or the first would be taken from him after 45 s */
		for (bool full = n == 8 || tries >= races; full && n; n--) {
			holders[held[n - 1]] = 0;
			release(fd, customer, buf_text(&bodies[n - 1]));
			buf_release(&bodies[n - 1]);
		}
		key_release(&node);
		buf_release(&request);
		buf_release(&body);
	}
	close(fd);
	return NULL;
}

/* So many bookings of few GPUs, by all clients at once. */
static void run_grab(void)
{
	pthread_t *threads = xcalloc((size_t)clients, sizeof *threads);
	int64_t start = clock_mono_ns();
	double rate;

	holders = xcalloc((size_t)gpus, sizeof *holders);
	for (intptr_t i = 0; i < clients; i++)
		pthread_create(&threads[i], NULL, grab, (void *)i);
	for (int i = 0; i < clients; i++)
		pthread_join(threads[i], NULL);
	rate = (double)races / ((double)(clock_mono_ns() - start) / 1e9);
	report("released", "1/s", &rate, 1, races - let);
	if (twice ||
		count("SELECT count(*) - count(DISTINCT device) FROM leases "
		      "WHERE to_ms IS NULL") != 0) {
		fprintf(stderr, "bookings: %lld devices were let twice\n",
			(long long)twice);
		exit(1);
	}
	free(threads);
	free(holders);
}

/* --- heartbeats ------------------------------------------------------------------------------- */

#define BEATERS 16

static atomic_bool beating_over;
static atomic_llong beaten;

/* Sends its share of the heartbeats, from nodes in turn. */
static void *keep_beating(void *arg)
{
	/* its own nodes, so that each one's come in order */
	int first = (int)(intptr_t)arg, nodes = gpus / NODE_GPUS / BEATERS * BEATERS,
	    fd = open_connection();
	int64_t next_ns = clock_mono_ns();

	for (int i = first; !beating_over; i += BEATERS) {
		struct key k = KEY_INIT;
		json_t *r;
		int64_t now_ns = clock_mono_ns();

		if (next_ns > now_ns)
			usleep((useconds_t)((next_ns - now_ns) / 1000));
		next_ns += INT64_C(1000000000) * BEATERS / beats;
		make_key(&k, 100 + i % nodes);
		r = of_node("rnp.heartbeat", &k);
		json_object_update_new(r,
			json_pack("{s:i,s:s}", "interval_s", 3600, "state", "idle"));
		post(fd, "/v1/heartbeats", signed_by(r, &k));
		key_release(&k);
		beaten++;
	}
	close(fd);
	return NULL;
}

/* --- long polls ------------------------------------------------------------------------------- */

static void send_poll(int fd, const char *path, const struct key *k)
{
	struct buf url = BUF_INIT, input = BUF_INIT, signature = BUF_INIT,
		   text = BUF_INIT;

	buf_addf(&url, "http://127.0.0.1:%d%s", port, path);
	if (http_sign(&input, &signature, "GET", url.data, k) < 0)
		die("cannot sign");
	buf_addf(&text, "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\n%s\r\n%s\r\n\r\n", path,
		port, input.data, signature.data);
	send_all(fd, text.data, text.len);
	buf_release(&url);
	buf_release(&input);
	buf_release(&signature);
	buf_release(&text);
}

/* A cluster that somebody waits for. */
struct awaited {
	char name[33];
	const struct key *customer;
	int gpu, fd;
};

/* Fills in n clusters that were booked. */
static void read_clusters(struct awaited *out, int n)
{
	sqlite3 *db = NULL;
	sqlite3_stmt *q = NULL;
	char path[300];

	snprintf(path, sizeof path, "%s/r.db", dir);
	sqlite3_open_v2(path, &db, SQLITE_OPEN_READONLY, NULL);
	sqlite3_prepare_v2(db,
		"SELECT c.cluster, l.device, c.customer FROM clusters c JOIN members m "
		"ON m.cluster = c.id JOIN leases l ON l.member = m.id LIMIT ?",
		-1, &q, NULL);
	sqlite3_bind_int(q, 1, n);
	for (int i = 0; i < n; i++) {
		if (sqlite3_step(q) != SQLITE_ROW)
			die("too few clusters");
		snprintf(out[i].name, sizeof out[i].name, "%s",
			(const char *)sqlite3_column_text(q, 0));
		out[i].gpu = atoi((const char *)sqlite3_column_text(q, 1) + 4);
		for (int side = 0; side < 2; side++)
			if (strcmp(racer_of(out[i].gpu, side)->address,
				    (const char *)sqlite3_column_text(q, 2)) == 0)
				out[i].customer = racer_of(out[i].gpu, side);
	}
	sqlite3_finalize(q);
	sqlite3_close(db);
}

static json_t *next_event(const struct key *node, const char *cluster, int seq)
{
	json_t *event = of_node("rnp.event", node);

	json_set_text(event, "cluster", cluster);
	json_set_i64(event, "rank", 0);
	json_set_i64(event, "seq", seq);
	/* a reading of the meter is always told; how far something is, once a second */
	json_set_text(event, "to",
		seq == 1         ? "proving" :
			seq == 2 ? "starting" :
				   "ready");
	if (seq > 3)
		json_set_i64(event, "ready_ms", seq);
	return signed_by(event, node);
}

static void ask_again(const struct awaited *a, long long after)
{
	char path[128];

	snprintf(path, sizeof path, "/v1/clusters/%s?wait=25&after=%lld", a->name, after);
	send_poll(a->fd, path, a->customer);
}

/* Those who wait meanwhile: whoever is answered, as his time is over, asks again. */
struct crowd {
	pthread_t thread;
	struct awaited *all;
	int epoll;
	atomic_bool over;
};

static void *keep_waiting(void *arg)
{
	struct crowd *c = arg;
	struct epoll_event ready[64];

	while (!c->over) {
		int n = epoll_wait(c->epoll, ready, 64, 100);

		for (int i = 0; i < n; i++) {
			struct awaited *a = ready[i].data.ptr;

			if (receive(a->fd, NULL) != 200)
				die("one who waits");
			ask_again(a, 1000000);
		}
	}
	return NULL;
}

static void crowd_start(struct crowd *c)
{
	c->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (int i = 0; i < waiting; i++) {
		struct epoll_event e = { .events = EPOLLIN, .data.ptr = &c->all[i] };

		c->all[i].fd = open_connection();
		ask_again(&c->all[i], 1000000);
		epoll_ctl(c->epoll, EPOLL_CTL_ADD, c->all[i].fd, &e);
	}
	pthread_create(&c->thread, NULL, keep_waiting, c);
}

static void crowd_stop(struct crowd *c)
{
	c->over = true;
	pthread_join(c->thread, NULL);
	for (int i = 0; i < waiting; i++)
		close(c->all[i].fd);
	close(c->epoll);
}

static void run_polls(void)
{
	struct awaited *all = xcalloc((size_t)waiting + 1, sizeof *all), *one;
	struct crowd crowd = { .all = all };
	int poster = open_connection();
	double took_ns[EVENTS], p99;
	struct key node = KEY_INIT;
	long long after = 1;

	read_clusters(all, waiting + 1);
	one = &all[waiting];
	one->fd = open_connection();
	make_key(&node, 100 + one->gpu / NODE_GPUS);
	crowd_start(&crowd);
	for (int i = 0; i < EVENTS; i++) {
		struct buf request = BUF_INIT, body = BUF_INIT;
		int64_t start;
		const char *seq;

		ask_again(one, after);
		usleep(5000); /* it waits by then */
		add_post(&request, "/v1/events", next_event(&node, one->name, i + 1));
		start = clock_mono_ns();
		send_all(poster, request.data, request.len);
		errno = 0;
		if (receive(one->fd, &body) != 200)
			die("a poll");
		took_ns[i] = (double)(clock_mono_ns() - start);
		if (receive(poster, NULL) != 201)
			die("an event");
		seq = strstr(buf_text(&body), "\"seq\":");
		after = seq ? atoll(seq + 6) : after;
		buf_release(&request);
		buf_release(&body);
	}
	qsort(took_ns, EVENTS, sizeof *took_ns, by_value);
	p99 = took_ns[EVENTS * 99 / 100];
	report("long_poll", "ns", took_ns, EVENTS, -1);
	report("long_poll_p99", "ns", &p99, 1, -1);
	crowd_stop(&crowd);
	close(one->fd);
	close(poster);
	key_release(&node);
	free(all);
}

static void fill(void)
{
	int fd = open_connection(), ncustomers = 2 * (gpus / RACE_GPUS + 1);
	json_t *d;

	for (int i = 0; i < (gpus + NODE_GPUS - 1) / NODE_GPUS; i++) {
		struct key k = KEY_INIT;

		make_key(&k, 100 + i);
		sell(fd, &k, i * NODE_GPUS);
		key_release(&k);
	}
	ncustomers = ncustomers < clients ? clients : ncustomers;
	customers = xcalloc((size_t)ncustomers, sizeof *customers);
	for (int i = 0; i < ncustomers; i++) {
		make_key(&customers[i], INT_MAX - i);
		d = json_record("rnp.deposit");
		json_set_text(d, "signer", registry_key.address);
		json_set_text(d, "customer", customers[i].address);
		json_set_i64(d, "uusd", INT64_C(1000000000000));
		json_set_text(d, "source", "grant");
		json_set_text(d, "id", customers[i].address);
		post(fd, "/v1/deposits", signed_by(d, &registry_key));
	}
	close(fd);
}

int main(int argc, char **argv)
{
	const char *tmp = getenv("TMPDIR"), *build = getenv("RNP_BUILD");
	struct rlimit files = { 0 };
	pthread_t beaters[BEATERS];
	int64_t start;
	double rate;
	int status;

	if (argc > 1)
		gpus = atoi(argv[1]);
	if (argc > 2)
		clients = atoi(argv[2]);
	if (argc > 3)
		waiting = atoi(argv[3]);
	if (argc > 4)
		beats = atoi(argv[4]);
	if (argc > 5)
		races = atoi(argv[5]);
	if (waiting >= gpus)
		waiting = gpus - 1;
	getrlimit(RLIMIT_NOFILE, &files);
	files.rlim_cur = files.rlim_max;
	setrlimit(RLIMIT_NOFILE, &files);
	snprintf(program, sizeof program, "%s/bin/rnp-register", build ? build : "build");
	snprintf(dir, sizeof dir, "%s/rnp-bookings.XXXXXX", tmp ? tmp : "/tmp");
	if (sodium_init() < 0 || !mkdtemp(dir))
		die("cannot begin");
	make_key(&registry_key, 0);
	atexit(clean_up);
	for (int i = 0; i < 3; i++)
		signal((int[]){ SIGINT, SIGTERM, SIGHUP }[i], on_signal);
	server = server_start();
	fill();
	start = clock_mono_ns();
	for (intptr_t i = 0; i < BEATERS && beats; i++)
		pthread_create(&beaters[i], NULL, keep_beating, (void *)i);
	if (races) {
		run_grab();
	} else {
		run_race("bookings", 0, gpus / 2, 1);
		run_race("racing", gpus / 2, gpus - gpus / 2, 2);
		run_polls();
	}
	beating_over = true;
	for (int i = 0; i < BEATERS && beats; i++)
		pthread_join(beaters[i], NULL);
	rate = (double)beaten / ((double)(clock_mono_ns() - start) / 1e9);
	report("heartbeats", "1/s", &rate, 1, -1);
	kill(server, SIGTERM);
	waitpid(server, &status, 0);
	server = 0;
	return status != 0;
}
