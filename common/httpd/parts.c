/* parts.c - the counters of httpd, as metrics, and its request log. */
#include "common/httpd/parts.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "common/json/canon.h"
#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/io.h"
#include "common/base/utf8.h"

#define LOG_BYTES_MAX ((size_t)4 << 20)

static const int64_t bucket_us[HTTPD_BUCKETS] = { 500, 1000, 2000, 5000, 10000, 20000,
	50000, 100000, 500000, 2000000 };

void httpd_count(struct httpd_counters *c, int route, int status, int64_t ns)
{
	int row = route < 0 ? HTTPD_ROUTES_MAX : route, i = 0;

	while (i < HTTPD_BUCKETS && ns > bucket_us[i] * 1000)
		i++;
	c->requests[row][status / 100 % 6]++;
	c->took[row][i]++;
	c->took_ns[row] += (uint64_t)ns;
}

static void write_route(struct buf *out, const struct httpd_counters *c, int row,
	const char *method, const char *path)
{
	uint64_t sum = 0;

	for (int status = 1; status < 6; status++)
		if (c->requests[row][status])
			buf_addf(out,
				"rnp_http_requests_total{method=\"%s\",route=\"%s\","
				"status=\"%dxx\"} %" PRIu64 "\n",
				method, path, status, c->requests[row][status]);
	for (int i = 0; i <= HTTPD_BUCKETS; i++) {
		sum += c->took[row][i];
		buf_addf(out,
			"rnp_http_request_seconds_bucket{method=\"%s\",route=\"%s\",le=\"",
			method, path);
		if (i < HTTPD_BUCKETS)
			buf_addf(out, "%g\"} %" PRIu64 "\n", (double)bucket_us[i] / 1e6,
				sum);
		else
			buf_addf(out, "+Inf\"} %" PRIu64 "\n", sum);
	}
	buf_addf(out, "rnp_http_request_seconds_sum{method=\"%s\",route=\"%s\"} %.6f\n",
		method, path, (double)c->took_ns[row] / 1e9);
	buf_addf(out,
		"rnp_http_request_seconds_count{method=\"%s\",route=\"%s\"} %" PRIu64
		"\n",
		method, path, sum);
}

/* One metric's lines must stand together, so the two families go through buffers. */
static void sort_families(struct buf *out, const struct buf *lines)
{
	static const struct {
		const char *prefix, *head;
	} families[] = {
		{ "rnp_http_requests_total",
			"# HELP rnp_http_requests_total Requests by route and status.\n"
			"# TYPE rnp_http_requests_total counter\n" },
		{ "rnp_http_request_seconds",
			"# HELP rnp_http_request_seconds Time from the request line to the reply.\n"
			"# TYPE rnp_http_request_seconds histogram\n" },
	};

	for (size_t i = 0; i < 2; i++) {
		buf_adds(out, families[i].head);
		for (const char *s = buf_text(lines); *s;) {
			size_t n = strcspn(s, "\n") + 1;

			if (strncmp(s, families[i].prefix, strlen(families[i].prefix)) ==
				0)
				buf_add(out, s, n);
			s += n;
		}
	}
}

void httpd_counters_write(struct buf *out, const struct httpd_counters *c,
	const struct httpd_route *routes)
{
	struct buf lines = BUF_INIT;

	for (int i = 0; routes[i].method && i < HTTPD_ROUTES_MAX; i++)
		write_route(&lines, c, i, routes[i].method, routes[i].path);
	write_route(&lines, c, HTTPD_ROUTES_MAX, "", "other");
	sort_families(out, &lines);
	buf_release(&lines);
	buf_addf(out,
		"# HELP rnp_http_connections Connections that are open.\n"
		"# TYPE rnp_http_connections gauge\nrnp_http_connections %" PRId64 "\n"
		"# HELP rnp_http_limited_total Requests refused by the rate limit.\n"
		"# TYPE rnp_http_limited_total counter\nrnp_http_limited_total %" PRIu64
		"\n"
		"# HELP rnp_http_slow_closed_total Connections closed for being too slow.\n"
		"# TYPE rnp_http_slow_closed_total counter\nrnp_http_slow_closed_total %" PRIu64
		"\n"
		"# HELP rnp_http_bytes_total Bytes of all sockets, TLS and headers included.\n"
		"# TYPE rnp_http_bytes_total counter\n"
		"rnp_http_bytes_total{direction=\"received\"} %" PRIu64 "\n"
		"rnp_http_bytes_total{direction=\"sent\"} %" PRIu64 "\n"
		"# HELP rnp_http_log_dropped_total Lines of the request log that were dropped.\n"
		"# TYPE rnp_http_log_dropped_total counter\nrnp_http_log_dropped_total %" PRIu64
		"\n",
		c->connections, c->limited, c->slow_closed, c->received, c->sent,
		c->log_dropped);
}

int httpd_log_open(struct httpd_log *l, const struct httpd_config *config)
{
	pthread_mutex_init(&l->lock, NULL);
	l->fd = -1;
	if (config->log_off)
		return 0;
	if (!config->log_file) {
		l->fd = STDERR_FILENO;
		l->for_people = isatty(l->fd);
		return 0;
	}
	l->fd = open(config->log_file, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0640);
	if (l->fd < 0)
		return err_sys(errno == ENOENT ? EX_CANTCREAT : 0,
			"cannot open log file '%s'", config->log_file);
	return 0;
}

static void add_json(struct buf *out, const struct httpd_request *q, const char *method,
	const char *at, int status, size_t bytes, int64_t ns)
{
	buf_addf(out, "{\"at\":\"%s\",\"client\":\"%s\",\"method\":", at, q->client);
	canon_string(out, method, strlen(method));
	buf_adds(out, ",\"path\":");
	canon_string(out, q->path, strlen(q->path));
	buf_addf(out, ",\"status\":%d,\"bytes\":%zu,\"us\":%" PRId64 "}\n", status, bytes,
		ns / 1000);
}

/* "14:03:22Z 127.0.0.1 GET /v1/nodes 200, 4511 bytes, 1.3 ms" */
static void add_for_people(struct buf *out, const struct httpd_request *q,
	const char *method, const char *at, int status, size_t bytes, int64_t ns)
{
	const char *time = strchr(at, 'T');
	char path[200];

	snprintf(path, sizeof path, "%s", q->path);
	utf8_clean_line(path);
	buf_addf(out, "%.8sZ %s %s %s %d, %zu bytes, %.1f ms\n", time ? time + 1 : at,
		q->client, method, path, status, bytes, (double)ns / 1e6);
}

void httpd_log_add(struct httpd_log *l, struct httpd_counters *c,
	const struct httpd_request *q, int status, size_t bytes, int64_t ns)
{
	const char *method = q->method;
	char at[CLOCK_TEXT_MAX];

	if (!method || strspn(method, "ABCDEFGHIJKLMNOPQRSTUVWXYZ-_") != strlen(method))
		method = "?"; /* whatever bytes a client sent there */
	if (l->fd < 0)
		return;
	clock_format(at, clock_now_ms());
	pthread_mutex_lock(&l->lock);
	if (l->lines.len < LOG_BYTES_MAX) {
		(l->for_people ? add_for_people : add_json)(&l->lines, q, method, at,
			status, bytes, ns);
	} else {
		c->log_dropped++;
	}
	pthread_mutex_unlock(&l->lock);
}

void httpd_log_flush(struct httpd_log *l)
{
	struct buf swap;

	if (l->fd < 0)
		return;
	pthread_mutex_lock(&l->lock);
	swap = l->writing;
	l->writing = l->lines;
	l->lines = swap;
	pthread_mutex_unlock(&l->lock);
	/* a log that cannot be written must not stop the server */
	if (l->writing.len && io_write_all(l->fd, l->writing.data, l->writing.len) < 0)
		errno = 0;
	buf_reset(&l->writing);
}

void httpd_log_close(struct httpd_log *l)
{
	httpd_log_flush(l);
	if (l->fd > STDERR_FILENO)
		close(l->fd);
	buf_release(&l->lines);
	buf_release(&l->writing);
	pthread_mutex_destroy(&l->lock);
}
