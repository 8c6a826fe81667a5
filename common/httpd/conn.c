/* conn.c - one connection of httpd: bytes in and out, what to do with them next, and how
 * long it may take. long because one state machine is better read in one place */
#include <errno.h>
#include <linux/sockios.h>
#include <linux/tcp.h> /* netinet/tcp.h lacks tcpi_min_rtt */
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/sendfile.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/base/mem.h"
#include "common/httpd/core.h"

#define LINGER_NS INT64_C(2000000000)
/* bytes moved before other connections have their turn */
#define AT_ONCE    ((uint64_t)1 << 20)
#define UNSENT_MAX (512 << 10) /* limit of one connection's unsent bytes in the kernel */
#define TLS_RECORD 16384       /* buffered within OpenSSL, where nobody counts it */
#define AGAIN      (-1L)
#define FAILED     (-2L)

/* --- bytes ------------------------------------------------------------------------------- */

static long receive(struct httpd_conn *c, void *to, size_t cap)
{
	ssize_t n;

	if (c->tls)
		return httpd_tls_recv(c->tls, to, cap);
	do
		n = recv(c->fd, to, cap, 0);
	while (n < 0 && errno == EINTR);
	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? AGAIN : FAILED;
	return n;
}

/* Handles the result of a receive into room bytes. Returns true if bytes came. */
static bool received(struct httpd_conn *c, long n, size_t cap)
{
	if (n > 0) {
		/* a short receive means that there is no more; but TLS returns record by
		 * record, and after the peer's end there will be no other event */
		c->readable = c->tls || c->half_closed || (size_t)n == cap;
		c->moved += (uint64_t)n;
		return true;
	}
	c->readable = false;
	if (n == AGAIN)
		return false;
	c->half_closed = true;
	httpd_conn_close(c); /* the rest of the request cannot come any more */
	return false;
}

/* Moves unused bytes from the shared scratch buffer to one of the connection. */
static void keep(struct httpd_conn *c)
{
	bool inside = c->kept.data && c->at >= c->kept.data &&
		c->at <= c->kept.data + c->kept.len;

	if (!c->left) {
		buf_release(&c->kept);
		c->at = NULL;
	} else if (!inside) {
		buf_reset(&c->kept);
		buf_add(&c->kept, c->at, c->left);
		c->at = c->kept.data;
	} else if (c->at != c->kept.data) {
		memmove(c->kept.data, c->at, c->left);
		c->kept.len = c->left;
		c->at = c->kept.data;
	}
}

/* Receives more bytes after the unused ones. Returns false if there are none at present, or the
 * connection was closed. */
static bool refill(struct httpd_conn *c)
{
	size_t cap = HTTPD_PIECE;
	char *to = c->loop->scratch;
	long n;

	if (!c->readable)
		return false;
	if (c->left) {
		keep(c);
		cap = 4096;
		to = buf_reserve(&c->kept, cap);
		c->at = c->kept.data;
	}
	n = receive(c, to, cap);
	if (!received(c, n, cap))
		return false;
	if (c->left)
		c->kept.len += (size_t)n;
	else
		c->at = to;
	c->left += (size_t)n;
	return true;
}

/* Sends up to two pieces of memory; more says that a file's bytes follow. */
static long send_bytes(struct httpd_conn *c, struct iovec *v, int n, bool more)
{
	struct msghdr m = { .msg_iov = v, .msg_iovlen = (size_t)n };
	ssize_t sent;

	if (c->tls)
		return httpd_tls_send(c->tls, v->iov_base, v->iov_len);
	do
		sent = sendmsg(c->fd, &m, MSG_NOSIGNAL | (more ? MSG_MORE : 0));
	while (sent < 0 && errno == EINTR);
	if (sent < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK ? AGAIN : FAILED;
	return sent;
}

bool httpd_conn_say(struct httpd_conn *c, const char *text)
{
	struct iovec v = { (char *)(uintptr_t)text, strlen(text) };

	return send_bytes(c, &v, 1, false) == (long)strlen(text);
}

/* Sends the head, and the part of the body that is in memory. */
static long send_memory(struct httpd_conn *c, struct httpd_exchange *x)
{
	struct httpd_reply *r = &x->r;
	struct iovec v[2];
	size_t head = x->out.len - x->out_at, body = 0;
	long n;
	int k = 0;

	if (head)
		v[k++] = (struct iovec){ x->out.data + x->out_at, head };
	if (!x->no_content && r->from == HTTPD_FROM_BODY && x->body_at < r->body.len) {
		body = r->body.len - x->body_at;
		v[k++] = (struct iovec){ r->body.data + x->body_at, body };
	} else if (!x->no_content && r->from == HTTPD_FROM_MEMORY && r->bytes) {
		body = (size_t)r->bytes;
		v[k++] = (struct iovec){ (char *)(uintptr_t)r->memory + r->offset, body };
	}
	if (body > AT_ONCE)
		v[k - 1].iov_len = AT_ONCE;
	n = send_bytes(c, v, k,
		!x->no_content && r->from == HTTPD_FROM_FILE && r->bytes > 0);
	if (n <= 0)
		return n;
	if ((size_t)n <= head) {
		x->out_at += (size_t)n;
		return n;
	}
	body = (size_t)n - head;
	x->out_at += head;
	x->sent += body;
	if (r->from == HTTPD_FROM_BODY) {
		x->body_at += body;
	} else {
		r->offset += (int64_t)body;
		r->bytes -= (int64_t)body;
	}
	return n;
}

static long send_file_tls(struct httpd_conn *c, struct httpd_reply *r)
{
	char *piece = c->loop->scratch + HTTPD_PIECE;
	size_t len = r->bytes < 16384 ? (size_t)r->bytes : 16384;
	ssize_t got = pread(r->fd, piece, len, r->offset);

	/* the file was truncated meanwhile: the promised length cannot be sent */
	if (got != (ssize_t)len)
		return FAILED;
	return httpd_tls_send(c->tls, piece, len);
}

static long send_file(struct httpd_conn *c, struct httpd_exchange *x)
{
	struct httpd_reply *r = &x->r;
	off_t at = r->offset;
	long n;

	if (c->tls) {
		n = send_file_tls(c, r);
	} else {
		do
			n = sendfile(c->fd, r->fd, &at,
				r->bytes < (int64_t)AT_ONCE ? (size_t)r->bytes : AT_ONCE);
		while (n < 0 && errno == EINTR);
		if (n <= 0)
			n = n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK) ? AGAIN :
										 FAILED;
	}
	if (n > 0) {
		r->offset += n;
		r->bytes -= n;
		x->sent += (uint64_t)n;
	}
	return n;
}

/* --- steps ------------------------------------------------------------------------------- */

static void stop_waiting(struct httpd_conn *c, enum httpd_conn_state next)
{
	httpd_link_remove(&c->in_idle);
	c->state = next;
	c->since_ns = clock_mono_ns();
}

/* Ends a connection after its last reply so that the client sees a FIN, not a reset. */
static void linger(struct httpd_conn *c)
{
	httpd_tls_close(c->tls, 1);
	c->tls = NULL;
	c->left = 0;
	if (shutdown(c->fd, SHUT_WR) < 0 || (c->half_closed && !c->readable)) {
		httpd_conn_close(c);
		return;
	}
	c->state = HTTPD_CONN_LINGER;
	c->since_ns = clock_mono_ns();
	c->readable = true;
}

static void wait_for_request(struct httpd_conn *c)
{
	c->state = HTTPD_CONN_IDLE;
	c->used = true;
	c->skipped = false;
	c->scanned = 0;
	c->since_ns = clock_mono_ns();
	httpd_link_add(&c->loop->idle, &c->in_idle);
}

static bool step_head(struct httpd_conn *c)
{
	const char *why = NULL, *text;
	long n;

	if (!c->left && !refill(c))
		return false;
	if (c->state == HTTPD_CONN_IDLE)
		stop_waiting(c, HTTPD_CONN_HEAD);
	if (!c->skipped && !c->scanned && c->left >= 2 && memcmp(c->at, "\r\n", 2) == 0) {
		c->skipped = true; /* RFC 9112, 2.2 */
		c->at += 2;
		c->left -= 2;
		return true;
	}
	n = httpd_scan_head(c->at, c->left, &c->scanned, &why);
	if (n == 0 && c->left < HTTPD_HEAD_MAX)
		return refill(c);
	if (n < 0) {
		httpd_exchange_refuse(httpd_exchange_new(c), 400, why);
	} else if (n == 0 || n > HTTPD_HEAD_MAX) {
		httpd_exchange_refuse(httpd_exchange_new(c), 431,
			"the header fields are too large");
	} else {
		text = c->at;
		c->at += n;
		c->left -= (size_t)n;
		httpd_exchange_begin(httpd_exchange_new(c), text, (size_t)n);
	}
	return true;
}

/* While the sink pauses nothing is read, and only a FIN shows that the client has ended: it has
 * left unless the whole body may have arrived before the FIN. With chunks that cannot be known. */
static bool left_in_body(const struct httpd_conn *c)
{
	const struct httpd_exchange *x = c->x;
	int unread = 0;

	if (!c->half_closed)
		return false;
	if (x->head.body == HTTPD_BODY_CHUNKED)
		return true;
	if (ioctl(c->fd, FIONREAD, &unread) < 0)
		unread = 0;
	return x->body_left > c->left + (uint64_t)unread + (c->tls ? TLS_RECORD : 0);
}

static bool step_body(struct httpd_conn *c)
{
	struct httpd_exchange *x = c->x;
	size_t cap;
	char *to;
	long n;

	if (httpd_exchange_take(x))
		return true;
	if (x->paused) {
		if (left_in_body(c))
			httpd_conn_close(c);
		return false;
	}
	to = c->left ? NULL : httpd_exchange_direct(x, &cap);
	if (!to)
		return refill(c);
	if (!c->readable)
		return false;
	n = receive(c, to, cap);
	if (!received(c, n, cap))
		return false;
	httpd_exchange_received(x, (size_t)n);
	return true;
}

static bool reply_sent(struct httpd_conn *c)
{
	struct httpd_exchange *x = c->x;

	x->replied = true;
	c->x = NULL;
	httpd_exchange_end(x);
	if (c->close)
		linger(c);
	else
		wait_for_request(c);
	return true;
}

/* Handles a client that closed its sending half while there is nothing to send to it. It may have
 * left, or still read, which a FIN does not tell. A kernel whose program has left answers bytes
 * with a reset: so it gets some. Before the reply that is an interim response, which HTTP/1.1
 * clients read over (RFC 9110, 15.2); within a stream the program has to say something. Where
 * neither is possible the client has left. */
static bool step_unheard(struct httpd_conn *c)
{
	struct httpd_exchange *x = c->x;

	if (!c->half_closed)
		return false;
	if (c->state == HTTPD_CONN_WAIT && x->head.minor) {
		if (!x->probed && !httpd_conn_say(c, "HTTP/1.1 100 Continue\r\n\r\n"))
			httpd_conn_close(c);
		else
			x->probed = true;
	} else if (c->state == HTTPD_CONN_REPLY && x->streams && x->route->half_closed) {
		httpd_exchange_half_closed(x);
	} else if (x->later || x->streams) {
		httpd_exchange_tell_gone(x);
	} else {
		httpd_conn_close(c);
	}
	return false;
}

static bool step_reply(struct httpd_conn *c)
{
	struct httpd_exchange *x = c->x;
	uint64_t begun = c->moved;

	while (c->moved - begun < AT_ONCE) {
		int what = httpd_exchange_fill(x);
		long n;

		if (what == 0)
			return step_unheard(c);
		if (what == 2)
			return reply_sent(c);
		if (what < 0) {
			httpd_conn_close(c);
			return false;
		}
		if (!c->writable)
			return false;
		n = x->out_at < x->out.len || x->r.from != HTTPD_FROM_FILE ?
			send_memory(c, x) :
			send_file(c, x);
		if (n == AGAIN) {
			c->writable = false;
			return false;
		}
		if (n <= 0) {
			httpd_conn_close(c);
			return false;
		}
		c->moved += (uint64_t)n;
	}
	httpd_link_add(&c->loop->ready, &c->in_ready);
	return false;
}

static bool step_linger(struct httpd_conn *c)
{
	if (!c->readable)
		return false;
	for (int i = 0; i < 16; i++) {
		long n = receive(c, c->loop->scratch, HTTPD_PIECE);

		if (n == AGAIN) {
			c->readable = false;
			return false;
		}
		if (n <= 0) {
			httpd_conn_close(c);
			return false;
		}
	}
	httpd_link_add(&c->loop->ready, &c->in_ready);
	return false;
}

static bool step(struct httpd_conn *c)
{
	switch (c->state) {
	case HTTPD_CONN_IDLE:
	case HTTPD_CONN_HEAD:
		return step_head(c);
	case HTTPD_CONN_BODY:
		return step_body(c);
	case HTTPD_CONN_WAIT:
		return step_unheard(c);
	case HTTPD_CONN_REPLY:
		return step_reply(c);
	case HTTPD_CONN_LINGER:
		return step_linger(c);
	case HTTPD_CONN_DEAD:
		break;
	}
	return false;
}

void httpd_conn_drive(struct httpd_conn *c)
{
	/* pipelined requests take turns with other connections */
	for (int i = 0; i < 64; i++) {
		if (!step(c)) {
			if (c->state != HTTPD_CONN_DEAD)
				keep(c);
			return;
		}
	}
	if (c->state == HTTPD_CONN_DEAD)
		return;
	keep(c);
	httpd_link_add(&c->loop->ready, &c->in_ready);
}

void httpd_conn_event(struct httpd_conn *c, uint32_t events)
{
	if (c->state == HTTPD_CONN_DEAD)
		return;
	if (events & EPOLLRDHUP)
		c->half_closed = true;
	if (events & (EPOLLIN | EPOLLRDHUP) || c->tls)
		c->readable = true;
	if (events & EPOLLOUT || c->tls)
		c->writable = true;
	if (events & (EPOLLHUP | EPOLLERR))
		httpd_conn_close(c);
	else
		httpd_conn_drive(c);
}

/* --- begin and end ----------------------------------------------------------------------- */

static void tune(int fd)
{
	int on = 1, idle_s = 30, interval_s = 10, times = 3, unsent = UNSENT_MAX;

	/* replies are written whole: without this, the last piece of a TLS reply
	 * waits 40 ms for an acknowledgement that the client delays */
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
	/* a peer that vanished is found within a minute */
	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof idle_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s, sizeof interval_s);
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &times, sizeof times);
	setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof unsent);
}

struct httpd_conn *httpd_conn_new(struct httpd *h, int fd, struct httpd_client *client,
	const struct sockaddr *address)
{
	struct httpd_conn *c = xcalloc(1, sizeof *c);

	c->fd = fd;
	c->client = client;
	httpd_link_init(&c->in_all);
	httpd_link_init(&c->in_idle);
	httpd_link_init(&c->in_ready);
	httpd_client_text(address, c->address);
	c->loopback = httpd_is_loopback(address);
	c->trusted = httpd_proxy_trusts(&h->proxy, address);
	tune(fd);
	h->counters.connections++;
	return c;
}

void httpd_conn_start(struct httpd_loop *l, struct httpd_conn *c)
{
	struct epoll_event event = { EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, { c } };

	c->loop = l;
	pthread_mutex_lock(&l->lock);
	httpd_link_add(&l->all, &c->in_all);
	pthread_mutex_unlock(&l->lock);
	wait_for_request(c);
	c->used = false;
	if (l->h->tls) {
		c->tls = httpd_tls_open(l->h->tls, c->fd);
		if (!c->tls) {
			httpd_conn_close(c);
			return;
		}
	}
	if (epoll_ctl(l->epoll_fd, EPOLL_CTL_ADD, c->fd, &event) < 0)
		httpd_conn_close(c);
}

void httpd_conn_close(struct httpd_conn *c)
{
	struct httpd *h = c->loop->h;
	struct httpd_exchange *x = c->x;

	if (c->state == HTTPD_CONN_DEAD)
		return;
	c->state = HTTPD_CONN_DEAD;
	c->x = NULL;
	c->left = 0;
	if (!x || !httpd_exchange_gone(x)) /* otherwise x holds the client's place */
		httpd_clients_leave(&h->clients, c->client);
	c->client = NULL;
	httpd_tls_close(c->tls, 0);
	c->tls = NULL;
	httpd_link_remove(&c->in_idle);
	httpd_link_remove(&c->in_ready);
	pthread_mutex_lock(&c->loop->lock);
	httpd_bytes_count(c);
	close(c->fd); /* removes it from the epoll set, too */
	c->fd = -1;
	/* events of this round may still name it */
	httpd_link_add(&c->loop->dead, &c->in_all);
	pthread_mutex_unlock(&c->loop->lock);
	c->loop->connections--;
	h->counters.connections--;
}

void httpd_conn_free(struct httpd_conn *c)
{
	httpd_link_remove(&c->in_all);
	buf_release(&c->kept);
	free(c);
}

/* --- limits of time ---------------------------------------------------------------------- */

/* Counts the bytes that the client acknowledged; those in the kernel's send buffer do not
 * count. */
static uint64_t progress(const struct httpd_conn *c)
{
	int unsent = 0;

	if (c->state == HTTPD_CONN_REPLY && ioctl(c->fd, SIOCOUTQ, &unsent) < 0)
		unsent = 0;
	return c->moved > (uint64_t)unsent ? c->moved - (uint64_t)unsent : 0;
}

/* Whether the client waits for us, not we for it. */
static bool we_are_waited_for(const struct httpd_conn *c)
{
	const struct httpd_exchange *x = c->x;

	return c->state == HTTPD_CONN_WAIT ||
		(c->state == HTTPD_CONN_BODY && x->paused) ||
		(c->state == HTTPD_CONN_REPLY && x->waiting && x->out_at >= x->out.len);
}

/* Whether the body should be complete by now. */
static bool is_overdue(const struct httpd_conn *c, int64_t now_ns)
{
	int64_t until_ns = c->state == HTTPD_CONN_BODY ? c->x->q.until_ns : 0;

	return until_ns && now_ns > until_ns;
}

/* Whether the connection has been idle for too long, or its client moves too few bytes. */
static bool is_slow(struct httpd_conn *c, int64_t now_ns)
{
	const struct httpd_config *config = &c->loop->h->config;
	int64_t limit_ns = config->request_timeout_s * INT64_C(1000000000);
	int64_t took_ns = now_ns - c->since_ns;

	switch (c->state) {
	case HTTPD_CONN_IDLE:
		return took_ns > (c->used ? limit_ns / 2 : limit_ns);
	case HTTPD_CONN_HEAD:
		return took_ns > limit_ns;
	case HTTPD_CONN_LINGER:
		return took_ns > LINGER_NS;
	default:
		break;
	}
	if (we_are_waited_for(c) || took_ns > limit_ns / 2) {
		uint64_t now = progress(c);
		bool slow = !we_are_waited_for(c) &&
			now < c->moved_then + (uint64_t)config->min_bytes;

		c->since_ns = now_ns;
		c->moved_then = now;
		return slow;
	}
	return false;
}

void httpd_conn_tick(struct httpd_conn *c, int64_t now_ns)
{
	if (c->state == HTTPD_CONN_DEAD ||
		(!is_overdue(c, now_ns) && !is_slow(c, now_ns)))
		return;
	if (c->state != HTTPD_CONN_IDLE && c->state != HTTPD_CONN_LINGER)
		c->loop->h->counters.slow_closed++;
	httpd_conn_close(c);
}

int64_t httpd_roundtrip_ns(const struct httpd_request *q)
{
	const struct httpd_exchange *x = (const struct httpd_exchange *)q;
	struct tcp_info info = { 0 };
	socklen_t len = sizeof info;

	if (!q->finish && x->in_pool)
		return x->roundtrip_ns;
	/* tcpi_min_rtt, since Linux 4.6: the mean would include the queues that the body itself
	 * made */
	if (q->finish || !x->conn ||
		getsockopt(x->conn->fd, IPPROTO_TCP, TCP_INFO, &info, &len) < 0 ||
		len < offsetof(struct tcp_info, tcpi_min_rtt) +
				sizeof info.tcpi_min_rtt ||
		info.tcpi_min_rtt == UINT32_MAX) /* not measured yet */
		return 0;
	return (int64_t)info.tcpi_min_rtt * 1000;
}
