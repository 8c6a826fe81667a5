/* bytes.c - counts what the sockets of a server have carried, those that are in use, too. */
#include "common/httpd/core.h"

void httpd_bytes_count(struct httpd_conn *c)
{
	struct httpd_counters *all = &c->loop->h->counters;
	struct net_bytes now;

	net_bytes(c->fd, &now);
	if (now.sent < c->counted.sent || now.received < c->counted.received)
		return; /* not known */
	all->sent += now.sent - c->counted.sent;
	all->received += now.received - c->counted.received;
	c->counted = now;
}

void httpd_bytes(struct httpd *h, struct httpd_bytes *out)
{
	for (int i = 0; i < h->nloops; i++) {
		struct httpd_loop *l = &h->loops[i];

		pthread_mutex_lock(&l->lock);
		for (struct httpd_link *at = l->all.next; at != &l->all; at = at->next)
			httpd_bytes_count(HTTPD_OF(at, struct httpd_conn, in_all));
		pthread_mutex_unlock(&l->lock);
	}
	out->sent = h->counters.sent;
	out->received = h->counters.received;
}
