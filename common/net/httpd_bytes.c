/* httpd_bytes.c - counts what the sockets of a server have carried, those that are in use, too. */
#include "common/net/httpd_core.h"

void httpd_bytes_count(struct httpd_conn *c)
{
	struct httpd_counters *all = &c->loop->h->counters;
	struct net_bytes now;

	net_bytes(c->fd, &now);
	if (now.sent < c->counted.sent || now.received < c->counted.received)
		return; /* not known */
	all->sent += now.sent - c->counted.sent;
	all->received += now.received - c->counted.received;
	if (c->apart)
		all->apart += now.sent - c->counted.sent;
	c->counted = now;
}

static void count_all(struct httpd *h, bool join)
{
	for (int i = 0; i < h->nloops; i++) {
		struct httpd_loop *l = &h->loops[i];

		pthread_mutex_lock(&l->lock);
		for (struct httpd_link *at = l->all.next; at != &l->all; at = at->next) {
			struct httpd_conn *c = HTTPD_OF(at, struct httpd_conn, in_all);

			httpd_bytes_count(c);
			c->apart &= !join;
		}
		pthread_mutex_unlock(&l->lock);
	}
}

void httpd_bytes(struct httpd *h, struct httpd_bytes *out)
{
	count_all(h, false);
	out->apart = h->counters.apart; /* first: never more than what was sent */
	out->sent = h->counters.sent;
	out->received = h->counters.received;
}

void httpd_bytes_apart(struct httpd_request *q)
{
	struct httpd_exchange *x = (struct httpd_exchange *)q;

	if (q->finish)
		return;
	pthread_mutex_lock(&x->loop->lock);
	if (x->conn && !x->conn->apart) {
		httpd_bytes_count(x->conn);
		x->conn->apart = true;
	}
	pthread_mutex_unlock(&x->loop->lock);
}

void httpd_bytes_join(struct httpd *h)
{
	count_all(h, true);
	h->counters.apart = 0;
}
