/* httpd.c - benchmark: sends a file to a socket, in pairs with nginx, and measures what 10,000
 * idle connections cost. Prints records to standard output; exit 1 when the median of the
 * ratios is below OF_NGINX_MIN, or when idle connections take more memory or time than their
 * limits.
 *
 * Both servers have one thread, the same file in the page cache, and one client that discards
 * the bytes (MSG_TRUNC), so that the server is the bottleneck. RNP_BENCH_INSTALL=1 installs
 * nginx-light where nginx is missing; otherwise that part is skipped with a message. */
#include <arpa/inet.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/stats.h"
#include "common/json/json.h"
#include "common/httpd/httpd.h"
#include "common/record/bench.h"

#define PAIRS          11
#define OF_NGINX_MIN   900000 /* ppm */
#define FILE_BYTES     ((int64_t)256 << 20)
#define REPEATS        4 /* times that one sample sends the file */
#define IDLE           10000
#define IDLE_BYTES_MAX 4096 /* server memory per connection */
#define REQUESTS       2001
/* ppm: the median request beside idle ones, of that without */
#define IDLE_SLOWER 2000000

static char work[] = "/tmp/bench_httpd.XXXXXX";
static char path[100];

static void die(const char *what)
{
	fprintf(stderr, "httpd: cannot %s: %m\n", what);
	exit(EX_OSERR);
}

/* --- the servers ------------------------------------------------------------------------- */

static enum httpd_when get_file(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q;
	return httpd_reply_path(r, path);
}

static enum httpd_when get_text(void *ctx, struct httpd_request *q, struct httpd_reply *r)
{
	(void)ctx, (void)q;
	buf_adds(&r->body, "{\"status\":\"ok\"}\n");
	return HTTPD_NOW;
}

static const struct httpd_route routes[] = {
	HTTPD_GET("/file", get_file),
	HTTPD_GET("/text", get_text),
	{ 0 },
};

/* Starts our server in a child process and returns its port. */
static pid_t start_ours(int *port)
{
	struct httpd_config config = { .listen = "127.0.0.1:0",
		.log_off = true,
		.threads = 1,
		.connections_max = IDLE + 1000,
		.per_client_max = IDLE + 1000,
		.request_timeout_s = 3600,
		.routes = routes };
	int tell[2];
	pid_t pid;

	if (pipe(tell) < 0 || (pid = fork()) < 0)
		die("fork");
	if (pid == 0) {
		struct httpd *h;

		prctl(PR_SET_PDEATHSIG, SIGKILL);
		h = httpd_start(&config);
		*port = h ? httpd_port(h) : 0;
		if (write(tell[1], port, sizeof *port) != sizeof *port || !h)
			_exit(1);
		httpd_wait(h, NULL);
		httpd_stop(h);
		_exit(0);
	}
	if (read(tell[0], port, sizeof *port) != sizeof *port || !*port)
		die("start the server");
	close(tell[0]);
	close(tell[1]);
	return pid;
}

static void configure_nginx(int port)
{
	char name[120];
	FILE *f;

	snprintf(name, sizeof name, "%s/nginx.conf", work);
	f = fopen(name, "w");
	if (!f)
		die("write nginx.conf");
	fprintf(f,
		"daemon off; master_process off; pid %s/pid; error_log stderr crit;\n"
		"events { worker_connections 1024; }\n"
		"http { access_log off; sendfile on; tcp_nopush on; tcp_nodelay on;\n"
		"keepalive_timeout 3600; keepalive_requests 1000000;\n"
		"client_body_temp_path %s/b; proxy_temp_path %s/p; fastcgi_temp_path %s/f;\n"
		"uwsgi_temp_path %s/u; scgi_temp_path %s/s;\n"
		"server { listen 127.0.0.1:%d; root %s; } }\n",
		work, work, work, work, work, work, port, work);
	if (fclose(f) != 0)
		die("write nginx.conf");
}

static int dial(int port)
{
	struct sockaddr_in a = { .sin_family = AF_INET,
		.sin_port = htons((uint16_t)port),
		.sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0 && connect(fd, (struct sockaddr *)&a, sizeof a) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

/* Returns 0 if there is none. */
static pid_t start_nginx(int *port)
{
	char name[120];
	pid_t pid;
	int fd = -1;

	if (system("command -v nginx >/dev/null || "
		   "{ [ \"${RNP_BENCH_INSTALL:-}\" = 1 ] && DEBIAN_FRONTEND=noninteractive "
		   "apt-get install -y -qq --no-install-recommends nginx-light >&2; }") !=
		0)
		return 0;
	*port = 20000 + (int)(clock_mono_ns() / 1000 % 20000);
	configure_nginx(*port);
	snprintf(name, sizeof name, "%s/nginx.conf", work);
	pid = fork();
	if (pid < 0)
		die("fork");
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		execlp("nginx", "nginx", "-p", work, "-c", name, (char *)NULL);
		_exit(127);
	}
	for (int i = 0; i < 200 && (fd = dial(*port)) < 0; i++)
		usleep(50000);
	if (fd < 0)
		die("start nginx");
	close(fd);
	return pid;
}

static void stop(pid_t pid)
{
	kill(pid, SIGTERM);
	waitpid(pid, NULL, 0);
}

/* --- the client -------------------------------------------------------------------------- */

/* Sends one request on a persistent connection and discards the body. */
static void get(int fd, const char *name, int64_t body_bytes)
{
	static char data[1 << 16];
	size_t n = 0;
	char *end = NULL;
	int64_t left;

	n = (size_t)snprintf(data, sizeof data, "GET %s HTTP/1.1\r\nHost: x\r\n\r\n",
		name);
	if (send(fd, data, n, MSG_NOSIGNAL) != (ssize_t)n)
		die("send");
	for (n = 0; !end;) {
		ssize_t got = recv(fd, data + n, 4095 - n, 0);

		if (got <= 0) /* or the head does not end within 4 KiB */
			break;
		n += (size_t)got;
		data[n] = '\0';
		end = strstr(data, "\r\n\r\n");
	}
	if (!end || strncmp(data, "HTTP/1.1 200", 12) != 0) {
		fprintf(stderr, "httpd: the answer is '%.60s'\n", data);
		exit(EX_SOFTWARE);
	}
	left = body_bytes - (int64_t)(n - (size_t)(end + 4 - data));
	while (left > 0) {
		ssize_t got = recv(fd, NULL, 4 << 20, MSG_TRUNC);

		if (got <= 0)
			die("receive");
		left -= got;
	}
}

static double file_rate(int port)
{
	int64_t from;
	int fd = dial(port);

	get(fd, "/file", FILE_BYTES); /* lets the connection's window grow */
	from = clock_mono_ns();
	for (int i = 0; i < REPEATS; i++)
		get(fd, "/file", FILE_BYTES);
	from = clock_mono_ns() - from;
	close(fd);
	return (double)FILE_BYTES * REPEATS * 1e9 / (double)from;
}

/* Processor time of a process and its threads, ns. */
static double cpu_ns(pid_t pid)
{
	char name[60], line[200];
	double user, kernel;
	FILE *f;

	snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
	f = fopen(name, "r");
	if (!f || !fgets(line, sizeof line, f) ||
		sscanf(strrchr(line, ')') + 1,
			" %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %lf %lf", &user,
			&kernel) != 2)
		die("read /proc");
	fclose(f);
	return (user + kernel) * 1e9 / (double)sysconf(_SC_CLK_TCK);
}

static json_t *print(const char *test, const char *unit, const double *samples, int n)
{
	struct stats s;
	json_t *record;

	stats_of(samples, (size_t)n, &s);
	record = bench_record("httpd", test, NULL, unit, &s);
	return record;
}

static void put(json_t *record)
{
	struct buf b = BUF_INIT;

	json_write(&b, record);
	puts(buf_text(&b));
	fflush(stdout);
	buf_release(&b);
	json_decref(record);
}

/* Returns 0, or 1 if it is too slow. */
static int against_nginx(void)
{
	double ours[PAIRS], theirs[PAIRS], ratio[PAIRS], our_cpu, their_cpu, one;
	int port, nginx_port;
	pid_t server, nginx = start_nginx(&nginx_port);
	struct stats s;

	if (!nginx) {
		fprintf(stderr,
			"httpd: SKIP: no nginx here (RNP_BENCH_INSTALL=1 installs it)\n");
		return 0;
	}
	server = start_ours(&port);
	for (int i = 0; i < PAIRS; i++) {
		ours[i] = file_rate(port);
		theirs[i] = file_rate(nginx_port);
		ratio[i] = 1e6 * ours[i] / theirs[i];
	}
	our_cpu = cpu_ns(server);
	their_cpu = cpu_ns(nginx);
	stop(server);
	stop(nginx);
	put(print("file", "B/s", ours, PAIRS));
	put(print("file_nginx", "B/s", theirs, PAIRS));
	put(print("file_of_nginx", "ppm", ratio, PAIRS));
	one = their_cpu > 0 ? 1e6 * our_cpu / their_cpu : 0;
	put(print("file_cpu_of_nginx", "ppm", &one, 1));
	stats_of(ratio, PAIRS, &s);
	if (s.median >= OF_NGINX_MIN)
		return 0;
	fprintf(stderr, "httpd: %.3f of nginx's rate\n", s.median / 1e6);
	return 1;
}

/* --- idle connections -------------------------------------------------------------------- */

static int64_t resident_bytes(pid_t pid)
{
	char name[60], line[200];
	long long kb = 0;
	FILE *f;

	snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
	f = fopen(name, "r");
	while (f && fgets(line, sizeof line, f))
		if (sscanf(line, "VmRSS: %lld", &kb) == 1)
			break;
	if (f)
		fclose(f);
	return kb * 1024;
}

static void latencies(int port, double *samples)
{
	int fd = dial(port);

	for (int i = 0; i < REQUESTS; i++) {
		int64_t from = clock_mono_ns();

		get(fd, "/text", 16);
		samples[i] = (double)(clock_mono_ns() - from);
	}
	close(fd);
}

static int compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static int idle_connections(void)
{
	static double alone[REQUESTS], beside[REQUESTS];
	static int fds[IDLE];
	struct rlimit limit;
	double bytes, before_cpu, cpu;
	int64_t before;
	json_t *record;
	int port;
	pid_t server;

	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
	server = start_ours(&port);
	if (limit.rlim_cur < IDLE + 1100) {
		fprintf(stderr, "httpd: SKIP: no %d descriptors for a process here\n",
			IDLE + 1100);
		stop(server);
		return 0;
	}
	latencies(port, alone);
	before = resident_bytes(server);
	for (int i = 0; i < IDLE; i++) {
		fds[i] = dial(port);
		if (fds[i] < 0)
			die("connect");
		get(fds[i], "/text", 16); /* idle between two requests, as clients are */
	}
	bytes = (double)(resident_bytes(server) - before) / IDLE;
	before_cpu = cpu_ns(server);
	sleep(5);
	cpu = (cpu_ns(server) - before_cpu) / 5;
	latencies(port, beside);
	get(fds[0], "/text", 16); /* the first connection is still open */
	for (int i = 0; i < IDLE; i++)
		close(fds[i]);
	stop(server);
	record = print("idle_memory", "B", &bytes, 1);
	json_set_i64(bench_params(record), "connections", IDLE);
	put(record);
	cpu /= 1e3; /* in millionths of a second */
	put(print("idle_cpu", "ppm", &cpu, 1));
	put(print("request_alone", "ns", alone, REQUESTS));
	put(print("request_beside_idle", "ns", beside, REQUESTS));
	qsort(alone, REQUESTS, sizeof *alone, compare);
	qsort(beside, REQUESTS, sizeof *beside, compare);
	fprintf(stderr,
		"httpd: %d idle: %.0f B each; p50 %.0f us (alone %.0f), p99 %.0f us (alone %.0f)\n",
		IDLE, bytes, beside[REQUESTS / 2] / 1e3, alone[REQUESTS / 2] / 1e3,
		beside[REQUESTS * 99 / 100] / 1e3, alone[REQUESTS * 99 / 100] / 1e3);
	return bytes > IDLE_BYTES_MAX ||
		beside[REQUESTS / 2] * 1e6 > alone[REQUESTS / 2] * IDLE_SLOWER;
}

int main(void)
{
	char text[120];
	int fd, rc;

	if (!mkdtemp(work))
		die("make a folder");
	snprintf(path, sizeof path, "%s/file", work);
	fd = open(path, O_RDWR | O_CREAT, 0600);
	if (fd < 0 || chmod(work, 0755) < 0 || fchmod(fd, 0644) < 0)
		die("make a file");
	for (int64_t at = 0; at < FILE_BYTES; at += 1 << 16) {
		static char bytes[1 << 16];

		memset(bytes, (int)(at >> 16), sizeof bytes);
		if (write(fd, bytes, sizeof bytes) != sizeof bytes)
			die("write a file");
	}
	close(fd);
	rc = against_nginx();
	rc |= idle_connections();
	snprintf(text, sizeof text, "rm -r %s", work);
	return system(text) != 0 || rc;
}
