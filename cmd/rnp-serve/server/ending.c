/* ending.c - threads that end the process instead of the one that waits. */
#include "cmd/rnp-serve/server/ending.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

#include "common/base/err.h"
#include "common/cli/prog.h"
#include "common/httpd/parts.h"

enum { LOADING, LOADED, ENDING };

static struct httpd *server;
static _Atomic int stage;

/* Whoever leaves LOADING first decides: the main thread, or this one. */
static bool leave(int to)
{
	int from = LOADING;

	return atomic_compare_exchange_strong(&stage, &from, to);
}

static void *watch(void *unused)
{
	(void)unused;
	while (atomic_load(&stage) == LOADING) {
		if (!httpd_is_signalled())
			continue;
		if (leave(ENDING)) {
			httpd_stop(server);
			/* not exit(): the main thread still uses what that would free */
			_exit(EX_OK);
		}
		kill(getpid(), SIGTERM); /* it was for who waits for it now */
		break;
	}
	return NULL;
}

static void *end_at_last(void *unused)
{
	(void)unused;
	nanosleep(&(struct timespec){ .tv_sec = ENDING_S }, NULL);
	prog_error(
		"a device or a model's file does not answer: ended without waiting for it");
	_exit(EX_OSERR);
}

static int detach(void *(*run)(void *))
{
	pthread_t thread;

	if (pthread_create(&thread, NULL, run, NULL) != 0)
		return err_set(EX_OSERR, "cannot start a thread");
	pthread_detach(thread);
	return 0;
}

int ending_watch(struct httpd *h)
{
	server = h;
	return detach(watch);
}

void ending_loaded(void)
{
	while (!leave(LOADED) && atomic_load(&stage) == ENDING)
		pause(); /* the process is about to end */
}

void ending_limit(void)
{
	/* without it the end is only not bounded */
	(void)detach(end_at_last);
}
