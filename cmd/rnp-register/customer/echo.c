/* echo.c - a job's lines. */
#include "cmd/rnp-register/customer/echo.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "common/base/clock.h"
#include "common/base/err.h"
#include "common/cli/prog.h"

#define REST_NS INT64_C(10000000000)

/* Lines of several ranks stand beside one another: each is written whole. */
static int print_lines(void *ctx, int rank, const char *text, size_t len)
{
	(void)ctx;
	while (len) {
		const char *end = memchr(text, '\n', len);
		size_t n = end ? (size_t)(end - text) : len;

		fprintf(stderr, "[%d] %.*s\n", rank, (int)n, text);
		text += n + (end != NULL);
		len -= n + (end != NULL);
	}
	return 0;
}

static void *print_all(void *ctx)
{
	struct echo *e = ctx;

	/* what cannot be read now is there later: rnp-register logs */
	if (follow_run(&e->follow, &e->http) < 0)
		err_clear();
	return NULL;
}

void echo_start(struct echo *e, const struct customer *c, const char *cluster)
{
	*e = (struct echo){ .http = HTTP_INIT, .stop = HTTP_ABORT_INIT };
	if (prog_quiet() || http_abort_open(&e->stop) < 0) {
		err_clear();
		return;
	}
	e->follow = (struct follow){ .base = c->registry,
		.ca = c->ca,
		.key = c->key,
		.cluster = cluster,
		.rank = -1,
		.follow = true,
		.abort = &e->stop,
		.lines = print_lines };
	e->runs = pthread_create(&e->thread, NULL, print_all, e) == 0;
}

void echo_end(struct echo *e, bool at_once)
{
	struct timespec until;

	clock_after(&until, CLOCK_REALTIME, REST_NS);
	if (e->runs && (at_once || pthread_timedjoin_np(e->thread, NULL, &until) != 0)) {
		http_abort(&e->stop);
		pthread_join(e->thread, NULL);
	}
	e->runs = false;
	follow_release(&e->follow);
	http_release(&e->http);
	http_abort_close(&e->stop);
}
