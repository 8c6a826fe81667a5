/* abort.c - the switch that ends requests from another thread: an eventfd, which poll(2)
 * sees at once and a signal handler may write. */
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/http/parts.h"

int http_abort_open(struct http_abort *a)
{
	a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return a->fd < 0 ? err_sys(EX_OSERR, "cannot make an eventfd") : 0;
}

void http_abort(const struct http_abort *a)
{
	uint64_t one = 1;

	/* fails only when the counter is so high already that the switch stays on */
	if (write(a->fd, &one, sizeof one) < 0)
		return;
}

bool http_is_aborted(const struct http_request *q)
{
	struct pollfd p = { q->abort ? q->abort->fd : -1, POLLIN, 0 };

	return q->abort && poll(&p, 1, 0) > 0;
}

void http_abort_reset(const struct http_abort *a)
{
	uint64_t count;
	if (read(a->fd, &count, sizeof count) < 0)
		return; /* it was not switched on */
}

void http_abort_close(struct http_abort *a)
{
	if (a->fd >= 0)
		close(a->fd);
	a->fd = -1;
}
