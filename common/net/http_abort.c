/* The switch that ends requests from another thread: an eventfd, which poll(2) sees at once and
 * a signal handler may write. */
#include <sys/eventfd.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/net/http.h"

int http_abort_open(struct http_abort *a)
{
	a->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	return a->fd < 0 ? err_sys(EX_OSERR, "cannot make an eventfd") : 0;
}

void http_abort(const struct http_abort *a)
{
	uint64_t one = 1;

	/* it fails only when it is so far up already that it stays switched on */
	if (write(a->fd, &one, sizeof one) < 0)
		return;
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
